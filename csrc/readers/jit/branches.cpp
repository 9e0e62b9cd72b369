// Branches: a constant condition selects one; a data-dependent one becomes higher_order::cond.
#include <torch/csrc/jit/ir/ir.h>

#include <algorithm>
#include <array>

#include "readers/jit/item_types.h"
#include "readers/jit/open_list.h"

namespace onnx_native::readers::jit {
namespace {

using aten::Argument;
using aten::Type;

// Returns true if the block always raises an exception. An exported program assumes inputs for
// which it does not.
bool raises(const torch::jit::Block& block) {
  return std::ranges::any_of(block.nodes(), [](const JitNode* node) {
    const std::string_view kind = node->kind().toQualString();
    if (kind == "prim::RaiseException") return true;
    return kind == "prim::If" && raises(*node->blocks()[0]) && raises(*node->blocks()[1]);
  });
}

// Returns the bool that `flag` negates, or nullptr.
const aten::Value* negated(const aten::Value* flag) {
  const aten::Node* made = flag->producer;
  return made && made->op == "python::sym_not" ? made->arguments[0].as_value() : nullptr;
}

// Returns the number that a condition compares with 0, and the side (0: then, 1: else) where it is
// 0.
std::optional<std::pair<Dim, size_t>> zero_side(const aten::Value* condition) {
  const aten::Node* made = condition->producer;
  if (!made || made->arguments.size() != 2) return std::nullopt;
  const aten::Value* number = made->arguments[0].as_value();
  const auto* other = made->arguments[1].get<int64_t>();
  if (!number || !number->type.dim || !other || *other != 0) return std::nullopt;
  if (made->op == "python::eq") return std::pair(*number->type.dim, size_t{0});
  if (made->op == "python::gt" || made->op == "python::ne")
    return std::pair(*number->type.dim, size_t{1});
  return std::nullopt;
}

// Thrown if the branches for empty and non-empty tensors produce different ranks.
struct RankOfNothing {};

}  // namespace

class Branches {
 public:
  Branches(Interpreter& run, aten::Value* condition, const Interpreter::Side& yes,
           const Interpreter::Side& no)
      : run_(run), recorder_(run.recorder_), condition_(condition), read_{&yes, &no} {}

  Items read() {
    read_sides(false);
    const bool writes = sides_[0].frame.writes || sides_[1].frame.writes;
    const bool views = sides_[0].frame.captures_view || sides_[1].frame.captures_view;
    if (writes && views) read_sides(true);
    call_ = recorder_.add_control_flow("higher_order::cond", run_.location());
    Items results;
    for (size_t i = 0; i < sides_[0].results.size(); ++i)
      results.push_back(merge(sides_[0].results[i], sides_[1].results[i]));
    merge_changes();
    finish();
    return results;
  }

 private:
  struct Side {
    Frame frame;
    Items results;
    std::vector<Interpreter::Change> changes;
  };

  void read_sides(bool views_from_base) {
    for (const size_t i : {0, 1}) {
      Side& side = sides_[i];
      side.frame = recorder_.sub_graph(views_from_base);
      const Interpreter::Moment start = run_.begin();
      {
        const Recorder::Inside inside(recorder_, side.frame);
        const auto assumed = run_.assumed_;
        run_.assumed_[condition_] = i == 0;
        if (const aten::Value* opposite = negated(condition_)) run_.assumed_[opposite] = i == 1;
        try {
          side.results = (*read_[i])();
        } catch (...) {
          run_.assumed_ = assumed;
          run_.rewind(start);
          throw;
        }
        run_.assumed_ = assumed;
      }
      side.changes = run_.rewind(start);
    }
  }

  bool is_outside(const Item& item) const {
    if (const auto* dim = item.get<Dim>()) return recorder_.knows(*dim);
    const aten::Value* value = item.tensor() ? item.tensor() : item.number();
    return !value || recorder_.is_outside(value);
  }

  bool is_known_outside(const Item& item) const {
    const auto* dim = item.get<Dim>();
    return dim ? recorder_.knows(*dim) : is_known(item);
  }

  bool are_outside(const Item& item) const {
    if (const Maybe* maybe = item.maybe())
      return are_outside(maybe->present) && are_outside(maybe->value);
    const Container* container = item.container();
    if (!container) return is_outside(item);
    if (container->kind == Container::Kind::object) return true;
    Items leaves = container->items();
    if (container->contents.open) columns_of(*container->contents.open, leaves);
    return std::ranges::all_of(leaves, [this](const Item& i) { return are_outside(i); });
  }

  // Returns true if that side changed the item or a container in it.
  bool is_changed(size_t side, const Item& item) const {
    if (const Maybe* maybe = item.maybe()) return is_changed(side, maybe->value);
    if (const ContainerPtr object = item.object())
      return &contents_after(side, *object) != &object->contents;
    const Container* container = item.container();
    if (!container || container->kind == Container::Kind::object) return false;
    return &contents_after(side, *container) != &container->contents ||
           std::ranges::any_of(container->items(),
                               [&](const Item& inner) { return is_changed(side, inner); });
  }

  bool are_same(const Item& a, const Item& b) const {
    if (a.container() && a.container() == b.container()) return true;
    if (a.object() && a.object() == b.object()) return true;
    // Two lists with equal elements are distinct objects: a write to one does not change the other.
    return are_equal(a, b) && are_outside(a) && !is_changed(0, a) && !is_changed(1, b) &&
           share_containers(a, b);
  }

  // Returns true if the lists and dicts in two equal items are the same objects.
  static bool share_containers(const Item& a, const Item& b) {
    if (a.maybe()) return share_containers(a.maybe()->value, b.maybe()->value);
    const Container* container = a.container();
    if (!container || container == b.container()) return true;
    return container->kind == Container::Kind::tuple &&
           std::ranges::equal(container->items(), b.container()->items(), share_containers);
  }

  // Merges the values that an item has at the end of the two sides.
  Item merge(const Item& a, const Item& b) {
    if (a.is_uninitialized() && b.is_uninitialized()) return {};
    if (are_same(a, b)) return a;
    if (a.is_uninitialized() && is_known_outside(b)) return b;
    if (b.is_uninitialized() && is_known_outside(a)) return a;
    if (a.maybe() || b.maybe() || a.is_none() != b.is_none())
      return maybe(merge(presence(a), presence(b)), merge(present_value(a), present_value(b)));
    const Container* x = a.container();
    const Container* y = b.container();
    if ((x && y) || (x && b.is_uninitialized()) || (y && a.is_uninitialized()))
      return merge_containers(a, b);
    if (a.boolean() && b.boolean()) {
      if (*a.boolean()) return Item::Number{condition_};
      return run_.record_number("python::sym_not", {condition_});
    }
    Item merged =
        output(Interpreter::after(sides_[0].changes, a), Interpreter::after(sides_[1].changes, b));
    for (const Item* item : {&a, &b}) may_be(*item, merged);
    return merged;
  }

  // Records that the result may alias a tensor that existed before the branch.
  void may_be(const Item& one, const Item& result) {
    const ContainerPtr of = one.object();
    if (of && result.object() && of->born <= made_before_)
      run_.aliases_.push_back({of, result.object()});
  }

  Item merge_containers(const Item& a, const Item& b) {
    if (a.is_uninitialized() || b.is_uninitialized()) {
      const Item known = a.is_uninitialized() ? Interpreter::after(sides_[1].changes, b)
                                              : Interpreter::after(sides_[0].changes, a);
      Items leaves;
      flatten(known, leaves);
      for (Item& leaf : leaves)
        leaf = a.is_uninitialized() ? merge(Item(), leaf) : merge(leaf, Item());
      size_t next = 0;
      return rebuilt(known, leaves, next);
    }
    const Container& x = *a.container();
    const Container& y = *b.container();
    if (x.kind != y.kind || x.kind == Container::Kind::object)
      run_.unsupported(
          "the branches produce different objects, so which object is used is data-dependent; use "
          "the same object in both branches");
    ContainerPtr result = make_container(x.kind, {}, x.type);
    result->contents = merge_contents(x, contents_after(0, x), contents_after(1, y));
    for (const Item* item : {&a, &b}) {
      const ContainerPtr& one = *item->get<ContainerPtr>();
      if (one->born > made_before_) continue;
      run_.aliases_.push_back({one, result});
    }
    return result;
  }

  Container::Contents merge_contents(const Container& container, const Container::Contents& a,
                                     const Container::Contents& b) {
    Container::Contents result;
    if (container.kind == Container::Kind::list &&
        (a.open || b.open || a.items.size() != b.items.size())) {
      return merge_lengths(container, a, b);
    }
    if (a.items.size() != b.items.size() || !std::ranges::equal(a.keys, b.keys, are_equal))
      run_.unsupported(
          "the branches produce containers with different elements; use the same number of "
          "elements and the same keys in both branches");
    result.keys = a.keys;
    for (size_t i = 0; i < a.items.size(); ++i) {
      // An attribute that one side did not read keeps its value.
      const auto read = [&](const Item& item) {
        return container.object && item.is_uninitialized() ? container.items()[i] : item;
      };
      result.items.push_back(merge(read(a.items[i]), read(b.items[i])));
    }
    return result;
  }

  // A list whose length differs between the sides becomes an open list.
  Container::Contents merge_lengths(const Container& list, const Container::Contents& a,
                                    const Container::Contents& b) {
    const std::optional<OpenList> format =
        list.accumulates ? std::nullopt : common_format(run_, a, b);
    if (!format)
      run_.unsupported(
          "the branches produce lists of different lengths; append the same number of elements in "
          "both branches");
    const Container::Contents* const contents[] = {&a, &b};
    std::array<OpenListPtr, 2> lists;
    std::array<Items, 2> columns;
    for (const size_t i : {0, 1}) {
      const Recorder::Inside inside(recorder_, sides_[i].frame);
      lists[i] = opened(run_, *contents[i], *format);
      columns_of(*lists[i], columns[i]);
    }
    require(same_columns(*lists[0], *lists[1]), "the lists of the branches have different columns");
    Items merged;
    for (size_t i = 0; i < columns[0].size(); ++i)
      merged.push_back(output(columns[0][i], columns[1][i]));
    size_t next = 0;
    return {.keys = {}, .items = {}, .open = with_columns(*lists[0], merged, next)};
  }

  Item output(const Item& a, const Item& b) {
    const Item* const items[] = {&a, &b};
    const Type known = type_of(a.is_uninitialized() ? b : a);
    if (known.kind == Type::Kind::unknown)
      run_.unsupported(concat("one branch produces ", describe(a), " and the other ", describe(b),
                              "; produce the same type in both branches"));
    const Type other = b.is_uninitialized() ? known : type_of(b);
    if (known.shape && other.shape && known.shape->size() != other.shape->size()) {
      const auto zero = zero_side(condition_);
      if (zero && zero->first.known_non_negative() &&
          std::ranges::count(*(zero->second == 0 ? known : other).shape, zero->first) > 0)
        throw RankOfNothing();
    }
    const Type type = joined(recorder_, known, other);
    for (const size_t i : {0, 1}) {
      const Recorder::Inside inside(recorder_, sides_[i].frame);
      sides_[i].frame.graph->outputs.push_back(operand(run_, *items[i], type));
    }
    aten::Value* value = recorder_.add_result(call_, "cond", type);
    if (is_contiguous(a) && is_contiguous(b)) recorder_.layouts().set_contiguous(value);
    return result_item(value);
  }

  bool is_contiguous(const Item& item) const {
    const aten::Value* tensor = item.tensor();
    return item.is_uninitialized() || (tensor && recorder_.layouts().is_contiguous(tensor));
  }

  void merge_changes() {
    std::vector<ContainerPtr> changed;
    for (const Side& side : sides_) {
      for (const Interpreter::Change& change : side.changes) {
        if (std::ranges::find(changed, change.container) == changed.end())
          changed.push_back(change.container);
      }
    }
    for (const ContainerPtr& container : changed) {
      const Container::Contents a = contents_after(0, *container);
      const Container::Contents b = contents_after(1, *container);
      Container::Contents merged = merge_contents(*container, a, b);
      run_.record_change(container) = std::move(merged);
    }
  }

  const Container::Contents& contents_after(size_t side, const Container& container) const {
    return Interpreter::contents_after(sides_[side].changes, container);
  }

  // Both branches take the same operands.
  void finish() {
    std::vector<aten::Value*> operands;
    for (Side& side : sides_) {
      for (const auto& [outer, inner] : side.frame.captures) {
        if (std::ranges::find(operands, outer) == operands.end()) operands.push_back(outer);
      }
    }
    Argument::List given(operands.begin(), operands.end());
    for (Side& side : sides_) {
      const Recorder::Inside inside(recorder_, side.frame);
      std::vector<aten::Value*> inputs;
      inputs.reserve(operands.size());
      for (aten::Value* value : operands) inputs.push_back(recorder_.lift(value));
      side.frame.graph->inputs = std::move(inputs);
    }
    recorder_.finish(call_,
                     {recorder_.lift(condition_), sides_[0].frame.graph, sides_[1].frame.graph,
                      std::move(given)},
                     {&sides_[0].frame, &sides_[1].frame});
  }

  Interpreter& run_;
  Recorder& recorder_;
  aten::Value* condition_;
  std::array<const Interpreter::Side*, 2> read_;
  std::array<Side, 2> sides_;
  aten::Node* call_ = nullptr;
  const uint64_t made_before_ = containers_made();
};

Items Interpreter::branch(const JitNode& node, const Item& condition) {
  const torch::jit::Block& yes = *node.blocks()[0];
  const torch::jit::Block& no = *node.blocks()[1];
  if (const std::optional<bool> known = assumed(condition)) return run(*known ? yes : no, {});
  if (raises(yes) != raises(no)) return run(raises(yes) ? no : yes, {});
  return branch(
      condition, [&] { return run(yes, {}); }, [&] { return run(no, {}); });
}

Items Interpreter::branch(const Item& condition, const Side& yes, const Side& no) {
  if (const std::optional<bool> known = assumed(condition)) return *known ? yes() : no();
  if (!condition.number()) unsupported("cannot branch on " + describe(condition));
  Recorder::Mark mark = recorder_.mark();
  try {
    return Branches(*this, condition.number(), yes, no).read();
  } catch (const RankOfNothing&) {
    // The branch for an empty tensor computes no elements, so the other branch covers both cases.
    recorder_.restore(std::move(mark));
    return zero_side(condition.number())->second == 0 ? no() : yes();
  }
}

std::optional<bool> Interpreter::assumed(const Item& condition) const {
  const aten::Value* flag = condition.number();
  if (!flag) return condition.boolean();
  if (const auto at = assumed_.find(flag); at != assumed_.end()) return at->second;
  const auto at = assumed_.find(negated(flag));
  return at == assumed_.end() ? std::nullopt : std::optional(!at->second);
}

}  // namespace onnx_native::readers::jit
