// Loops: unrolled where the number of steps is known and that is smaller, else ONNX's Loop.
#include <algorithm>
#include <limits>

#include "readers/jit/item_types.h"

namespace onnx_native::readers::jit {
namespace {

using aten::Argument;
using aten::Type;

// A Loop costs about as much as this many calls.
constexpr int64_t kLoopCost = 8;
// Calls that a loop may become whose number of steps shows only as it runs, or which cannot be a
// Loop.
constexpr size_t kMostCalls = 512, kMostUnrolled = 20000;
// Until the types of what a loop carries stay as they are.
constexpr int kMostReadings = 20;

// Calls on tensors in a block, those of functions and methods taken as one.
int64_t count_calls(const torch::jit::Block& block) {
  int64_t count = 0;
  for (const JitNode* node : block.nodes()) {
    for (const torch::jit::Block* inner : node->blocks()) count += count_calls(*inner);
    const std::string_view kind = node->kind().toQualString();
    if (kind == "prim::CallMethod" || kind == "prim::CallFunction") count += kLoopCost;
    if (!node->blocks().empty() || kind.starts_with("prim::")) continue;
    count += std::ranges::any_of(node->outputs(), [](const torch::jit::Value* output) {
      return output->type()->kind() == c10::TypeKind::TensorType;
    });
  }
  return count;
}

// Whether a type's size is a name of the body's own.
using Renamed = std::vector<bool>;

}  // namespace

class Loops {
 public:
  Loops(Interpreter& run, const JitNode& node, const Items& inputs)
      : run_(run),
        recorder_(run.recorder_),
        body_(*node.blocks()[0]),
        steps_(inputs.at(0)),
        condition_(inputs.at(1)),
        initial_(inputs.begin() + 2, inputs.end()) {}

  Items read() {
    const std::optional<int64_t> most = steps_.integer();
    if (most == 0 || condition_.boolean() == false) return initial_;
    const bool counted = most && *most < std::numeric_limits<int64_t>::max();
    if (most && condition_.boolean()) {
      const int64_t calls = count_calls(body_);
      const bool smaller = counted && (calls == 0 || *most <= (calls + kLoopCost) / calls);
      if (smaller || !counted) {
        if (std::optional<Items> results = unrolled(smaller ? kMostUnrolled : kMostCalls))
          return *results;
      }
    }
    const size_t changes = run_.journal_.size();
    Recorder::Mark mark = recorder_.mark();
    try {
      return rolled();
    } catch (const ExportError& error) {
      run_.rewind(changes);
      recorder_.restore(std::move(mark));
      if (!counted || error.kind() == ErrorKind::internal) throw;
      if (std::optional<Items> results = unrolled(kMostUnrolled)) return *results;
      throw;
    }
  }

 private:
  // One tensor or number that the loop may change.
  struct Leaf {
    Item initial;
    bool carried = false;
    Type type = {};
    Renamed renamed = {};
    aten::Value* input = nullptr;
  };
  // What the program carries by name. A list or dict that stays the same one is changed, not
  // carried.
  struct Carried {
    Item initial;
    bool same = false;
    bool grows = false;  // a list, carried as a tensor of its elements
    size_t first_leaf = 0;
    std::optional<Type> element = {};
  };
  // A list, dict or object from before the loop that the loop changes.
  struct Changed {
    enum class Mode {
      elements,  // it keeps its length: its elements are carried
      stacked,   // what is appended is stacked by the Loop
      growing,   // a tensor of its elements is carried
    };
    ContainerPtr container;
    Mode mode = Mode::elements;
    size_t first_leaf = 0;
    Container::Contents before;
    Items places = {};  // for its elements
    std::optional<Type> element = {};
    size_t appended = 0;  // in a step
  };
  using Mode = Changed::Mode;

  // As often as the numbers say; nullopt where they do not, or where it would be too much.
  std::optional<Items> unrolled(size_t limit) {
    const size_t changes = run_.journal_.size();
    Recorder::Mark mark = recorder_.mark();
    const auto give_up = [&]() -> std::optional<Items> {
      run_.rewind(changes);
      recorder_.restore(std::move(mark));
      return std::nullopt;
    };
    const int64_t most = *steps_.integer();
    Items carried = initial_;
    std::optional<bool> again = condition_.boolean();
    for (int64_t i = 0; again && *again && i < most; ++i) {
      if (recorder_.graph().nodes.size() - mark.nodes > limit || i > 1000000) return give_up();
      Items arguments{Dim(i)};
      arguments.insert(arguments.end(), carried.begin(), carried.end());
      Items results = run_.run(body_, arguments);
      again = results.at(0).boolean();
      carried.assign(results.begin() + 1, results.end());
    }
    if (!again) return give_up();
    return carried;
  }

  Items rolled() {
    for (const Item& item : initial_) {
      const Container* container = item.container();
      Carried& carried = carried_.emplace_back(Carried{.initial = item});
      carried.same = container && container->kind != Container::Kind::tuple;
      if (!carried.same) add_leaves(carried);
    }
    bool from_base = false;
    for (int reading = 0; reading < kMostReadings; ++reading) {
      read_body(from_base);
      if (!settle()) continue;
      if (frame_.writes && frame_.captures_view && !from_base) {
        from_base = true;
        continue;
      }
      return finish();
    }
    run_.unsupported("a loop whose values keep changing their types");
  }

  // Reads the body for what is known of the loop's values so far.
  void read_body(bool from_base) {
    frame_ = recorder_.sub_graph(from_base);
    const size_t mark = run_.journal_.size();
    const Recorder::Inside inside(recorder_, frame_);
    try {
      const Dim step = Dim::fresh("step");
      recorder_.add_input("step", Type::sym_int(step));
      Items entries;
      for (Leaf& leaf : leaves_) entries.push_back(enter(leaf));
      Items arguments{step};
      for (const Carried& carried : carried_) arguments.push_back(of_leaves(carried, entries));
      for (Changed& changed : changed_) enter(changed, entries);
      results_ = run_.run(body_, arguments);
    } catch (const ExportError&) {
      run_.rewind(mark);
      for (Changed& changed : changed_) changed.container->accumulates = false;
      // A loop that looks at what it appends to carries it.
      if (!std::ranges::any_of(changed_, [](const Changed& c) { return c.mode == Mode::stacked; }))
        throw;
      for (Changed& changed : changed_) {
        if (changed.mode == Mode::stacked) grow(changed);
      }
      failed_ = true;
      return;
    }
    failed_ = false;
    for (Changed& changed : changed_) changed.container->accumulates = false;
    changes_ = run_.rewind(mark);
  }

  void add_leaves(Carried& carried) {
    carried.first_leaf = leaves_.size();
    Items leaves;
    if (carried.grows) {
      leaves.emplace_back(
          Item::Tensor{stacked(run_, carried.initial.container()->contents, *carried.element)});
    } else {
      flatten(carried.initial, leaves);
    }
    for (const Item& leaf : leaves) leaves_.push_back({.initial = leaf});
  }

  void add_leaves(Changed& changed) {
    changed.first_leaf = leaves_.size();
    for (const Item& leaf : leaves_of(changed, changed.places))
      leaves_.push_back({.initial = leaf});
  }

  // A carried item over these leaves.
  Item of_leaves(const Carried& carried, const Items& leaves) const {
    if (carried.same) return carried.initial;
    if (carried.grows) {
      ContainerPtr list =
          make_container(Container::Kind::list, {}, carried.initial.container()->type);
      list->contents.stacked = leaves.at(carried.first_leaf).tensor();
      return list;
    }
    size_t next = carried.first_leaf;
    return rebuilt(carried.initial, leaves, next);
  }

  // The leaf's type, with new symbols for the sizes that change.
  Type renamed(const Leaf& leaf) {
    Type type = leaf.type;
    size_t at = 0;
    const auto rename = [&](Dim& dim) {
      if (leaf.renamed.at(at++)) dim = Dim::fresh();
    };
    if (type.dim) {
      rename(*type.dim);
      if (leaf.renamed[0]) run_.note_integer(*type.dim);
    } else if (type.shape) {
      for (Dim& dim : *type.shape) rename(dim);
    }
    return type;
  }

  Item enter(Leaf& leaf) {
    if (!leaf.carried) return leaf.initial;
    const Type type = renamed(leaf);
    leaf.input = recorder_.add_input("state", type);
    return result_item(leaf.input);
  }

  void enter(Changed& changed, const Items& entries) {
    Container::Contents& contents = run_.change(changed.container);
    switch (changed.mode) {
      case Mode::elements: {
        size_t next = changed.first_leaf;
        contents.items = rebuilt_all(changed.places, entries, next);
        break;
      }
      case Mode::growing:
        contents = {.keys = {}, .items = {}, .stacked = entries[changed.first_leaf].tensor()};
        break;
      default:
        contents = {};
        changed.container->accumulates = true;
    }
  }

  // The element type of a list that grows, and a tensor of its elements to start from.
  void grow(Changed& changed) {
    if (!changed.element) run_.unsupported("a list that a loop makes longer, not of tensors");
    changed.mode = Mode::growing;
    changed.first_leaf = leaves_.size();
    Type type = *changed.element;
    const Recorder::Inside outside(recorder_, *frame_.parent);
    for (Dim& dim : *type.shape) {
      if (!recorder_.knows(dim)) run_.unsupported("a list of tensors whose sizes differ");
    }
    aten::Value* start = stacked(run_, changed.before, type);
    leaves_.push_back({.initial = Item::Tensor{start}});
  }

  // Looks at what the body did; false when it has to be read again.
  bool settle() {
    if (failed_) return false;
    const Recorder::Inside outside(recorder_, *frame_.parent);
    bool settled = true;
    for (size_t i = 0; i < carried_.size(); ++i)
      settled = settle(carried_[i], results_[i + 1]) && settled;
    for (const Interpreter::Change& change : changes_) settled = settle(change) && settled;
    return settled;
  }

  bool settle(Carried& carried, const Item& after) {
    if (carried.same && carried.initial.container() == after.container()) return true;
    Item wider = carried.initial;
    if (!carried.same && !carried.grows && jit::widen(wider, after)) {
      forget_leaves(carried.first_leaf, width(carried));
      carried.initial = wider;
      add_leaves(carried);
      return false;
    }
    const Items now = leaves_of(carried, after);
    if (carried.same || now.size() != width(carried)) {
      if (!carried.same && carried.grows)
        run_.unsupported("a list that a loop replaces by something else");
      carry(carried, after);
      return false;
    }
    bool settled = true;
    for (size_t i = 0; i < now.size(); ++i)
      settled = settle(leaves_[carried.first_leaf + i], now[i]) && settled;
    return settled;
  }

  // The item's leaves, as the carried one has them; a list that grows is joined in finish().
  Items leaves_of(const Carried& carried, const Item& item) const {
    Items leaves;
    if (carried.grows) {
      const Container* list = item.container();
      if (list && list->contents.stacked) leaves.emplace_back(Item::Tensor{list->contents.stacked});
    } else if (!carried.same) {
      flatten_like(carried.initial, item, leaves);
    }
    return leaves;
  }

  static Items rebuilt_all(const Items& places, const Items& leaves, size_t& next) {
    Items items;
    for (const Item& place : places) items.push_back(rebuilt(place, leaves, next));
    return items;
  }

  static Items leaves_of(const Changed& changed, const Items& items) {
    Items leaves;
    for (size_t i = 0; i < items.size(); ++i) flatten_like(changed.places.at(i), items[i], leaves);
    return leaves;
  }

  // Of an item that was seen to need more room.
  void forget_leaves(size_t first, size_t count) {
    for (size_t i = first; i < first + count; ++i) leaves_[i] = {};
  }

  size_t width(const Carried& carried) const {
    if (carried.grows) return 1;
    return leaves_of(carried, of_leaves(carried, Items(leaves_.size()))).size();
  }

  // Carries what another object takes the place of.
  void carry(Carried& carried, const Item& after) {
    const Container* before = carried.initial.container();
    const Container* now = after.container();
    if (!before || !now || before->kind != now->kind)
      run_.unsupported("a tuple, list or dict that a loop replaces by something else");
    if (before->kind == Container::Kind::list &&
        (before->contents.stacked || now->contents.stacked ||
         before->items().size() != now->items().size())) {
      carried.element = element_type(
          before->items().empty() && !before->contents.stacked ? now->contents : before->contents);
      if (!carried.element) run_.unsupported("a list that a loop makes longer, not of tensors");
      carried.grows = true;
    } else if (!carried.same) {
      run_.unsupported("a tuple or dict that a loop replaces by one of other elements");
    }
    carried.same = false;
    add_leaves(carried);
  }

  bool settle(Leaf& leaf, const Item& after) {
    if (!leaf.carried) {
      if (are_equal(leaf.initial, after) && !has_inner(after)) return true;
      if (after.is_uninitialized()) return true;
      const Type now = type_of(after);
      const Type initial = leaf.initial.is_uninitialized() ? now : type_of(leaf.initial);
      if (now.kind == Type::Kind::unknown || initial.kind == Type::Kind::unknown)
        run_.unsupported(
            concat("a loop that makes ", describe(after), " of ", describe(leaf.initial)));
      leaf.carried = true;
      leaf.type = joined(recorder_, initial, now, &leaf.renamed);
      return false;
    }
    if (after.is_uninitialized()) return true;
    return widen(leaf, type_of(after));
  }

  // Lets a carried value be of this type too; false when it was not yet.
  bool widen(Leaf& leaf, const Type& now) {
    Renamed renamed;
    const Type entered = leaf.input->type;
    const Type both = joined(recorder_, entered, now, &renamed);
    if (!both.shape != !entered.shape) {
      leaf.type = both;
      leaf.renamed = renamed;
      return false;
    }
    bool settled = true;
    // A name of the body's own stands for anything.
    for (size_t i = 0; i < renamed.size(); ++i) {
      if (!renamed[i] || leaf.renamed[i]) continue;
      leaf.renamed[i] = true;
      settled = false;
    }
    return settled;
  }

  bool has_inner(const Item& item) const {
    if (const auto* dim = item.get<Dim>()) return !recorder_.knows(*dim);
    const aten::Value* value = item.tensor() ? item.tensor() : item.number();
    return value && !recorder_.is_outside(value);
  }

  bool settle(const Interpreter::Change& change) {
    if (change.container->born > made_before_) return true;
    const auto known = std::ranges::find(changed_, change.container, &Changed::container);
    if (known == changed_.end()) {
      add(change);
      return false;
    }
    Changed& changed = *known;
    const Container::Contents& now = change.contents;
    if (changed.mode == Mode::stacked) {
      if (changed.appended == now.items.size() && !now.stacked) return true;
      grow(changed);
      return false;
    }
    if (changed.mode == Mode::growing)
      return settle(leaves_[changed.first_leaf], Item::Tensor{now.stacked});
    if (now.items.size() != changed.places.size())
      run_.unsupported("a container to which a loop adds elements");
    Items wider = changed.places;
    bool widened = false;
    for (size_t i = 0; i < wider.size(); ++i)
      widened = jit::widen(wider[i], now.items[i]) || widened;
    if (widened) {
      forget_leaves(changed.first_leaf, leaves_of(changed, changed.places).size());
      changed.places = std::move(wider);
      add_leaves(changed);
      return false;
    }
    const Items after = leaves_of(changed, now.items);
    bool settled = true;
    for (size_t i = 0; i < after.size(); ++i)
      settled = settle(leaves_[changed.first_leaf + i], after[i]) && settled;
    return settled;
  }

  // A container that the body is seen to change for the first time.
  void add(const Interpreter::Change& change) {
    Changed changed{.container = change.container, .before = change.container->contents};
    const Container::Contents& before = changed.before;
    const Container::Contents& now = change.contents;
    const bool list = change.container->kind == Container::Kind::list;
    if (list && (before.stacked || now.stacked || now.items.size() != before.items.size())) {
      changed.element = element_type(now.items.empty() ? before : now);
      const bool appended =
          !now.stacked && now.items.size() > before.items.size() &&
          std::equal(before.items.begin(), before.items.end(), now.items.begin(), are_equal);
      if (appended) {
        changed.mode = Mode::stacked;
        changed.appended = now.items.size() - before.items.size();
        changed.element = element_type(
            {.keys = {},
             .items = Items(now.items.begin() + static_cast<std::ptrdiff_t>(before.items.size()),
                            now.items.end())});
        if (!changed.element)
          run_.unsupported("a list that a loop appends to, of other things than tensors");
      } else {
        grow(changed);
      }
    } else {
      if (now.items.size() != before.items.size() ||
          !std::ranges::equal(now.keys, before.keys, are_equal))
        run_.unsupported("a container to which a loop adds elements");
      changed.places = before.items;
      add_leaves(changed);
    }
    changed_.push_back(std::move(changed));
  }

  // --- The call

  Items finish() {
    std::vector<const Leaf*> states;
    for (const Leaf& leaf : leaves_) {
      if (leaf.carried) states.push_back(&leaf);
    }
    Items after = leaves_after();
    Argument again;
    std::vector<std::pair<const Changed*, aten::Value*>> scanned;
    {
      const Recorder::Inside inside(recorder_, frame_);
      std::vector<Argument>& outputs = frame_.graph->outputs;
      again = run_.argument(results_[0]);
      recorder_.lift(again);
      outputs.push_back(again);
      for (size_t i = 0; i < leaves_.size(); ++i) {
        if (leaves_[i].carried) outputs.push_back(operand(run_, after[i], leaves_[i].type));
      }
      for (const Changed& changed : changed_) {
        if (changed.mode != Mode::stacked) continue;
        Container::Contents contents = contents_after(changed);
        aten::Value* element = changed.appended == 1 ? contents.items[0].tensor()
                                                     : stacked(run_, contents, *changed.element);
        scanned.emplace_back(&changed, recorder_.lift(element));
        outputs.emplace_back(scanned.back().second);
      }
    }
    aten::Node* call = recorder_.add_control_flow("higher_order::for_loop", run_.location());
    Items results;
    for (const Leaf& leaf : leaves_)
      results.push_back(leaf.carried ? result(call, leaf) : leaf.initial);
    std::vector<aten::Value*> stacks;
    for (const auto& [changed, element] : scanned) stacks.push_back(stack_result(call, element));
    Argument::List initial, captured;
    for (const Leaf* leaf : states) initial.push_back(operand(run_, leaf->initial, leaf->type));
    for (const auto& [outer, inner] : frame_.captures) captured.emplace_back(outer);
    Argument steps = steps_.integer() == std::numeric_limits<int64_t>::max()
                         ? Argument()
                         : run_.argument(steps_);
    Argument condition = run_.argument(condition_);
    recorder_.lift(steps);
    recorder_.lift(condition);
    recorder_.finish(call,
                     {std::move(steps), std::move(condition), frame_.graph, std::move(initial),
                      std::move(captured)},
                     {&frame_});
    apply(results, scanned, stacks);
    Items carried;
    carried.reserve(carried_.size());
    for (const Carried& item : carried_) carried.push_back(of_leaves(item, results));
    return carried;
  }

  // What the leaves are at the end of a step.
  Items leaves_after() const {
    Items after(leaves_.size());
    for (size_t i = 0; i < carried_.size(); ++i) {
      std::ranges::copy(leaves_of(carried_[i], results_[i + 1]),
                        after.begin() + static_cast<std::ptrdiff_t>(carried_[i].first_leaf));
    }
    for (const Changed& changed : changed_) {
      const Container::Contents contents = contents_after(changed);
      if (changed.mode == Mode::growing) after[changed.first_leaf] = Item::Tensor{contents.stacked};
      if (changed.mode != Mode::elements) continue;
      std::ranges::copy(leaves_of(changed, contents.items),
                        after.begin() + static_cast<std::ptrdiff_t>(changed.first_leaf));
    }
    return after;
  }

  Container::Contents contents_after(const Changed& changed) const {
    const auto at = std::ranges::find(changes_, changed.container, &Interpreter::Change::container);
    return at == changes_.end() ? changed.before : at->contents;
  }

  Item result(aten::Node* call, const Leaf& leaf) {
    const Type type = renamed(leaf);
    return result_item(recorder_.add_result(call, "loop", std::move(type)));
  }

  // As many as there were steps: all of them, when nothing ends the loop before.
  aten::Value* stack_result(aten::Node* call, const aten::Value* element) {
    Type type = element->type;
    const auto* steps = steps_.get<Dim>();
    const bool all = steps && condition_.boolean() && results_[0].boolean();
    if (!type.shape) run_.unsupported("a list of tensors whose rank is not known");
    for (const Dim& dim : *type.shape) {
      if (!recorder_.knows(dim)) run_.unsupported("a list of tensors whose sizes differ");
    }
    type.shape->insert(type.shape->begin(), all ? *steps : Dim::fresh());
    return recorder_.add_result(call, "stacked", std::move(type));
  }

  void apply(const Items& results,
             const std::vector<std::pair<const Changed*, aten::Value*>>& scanned,
             const std::vector<aten::Value*>& stacks) {
    for (const Changed& changed : changed_) {
      if (changed.mode == Mode::stacked) continue;
      Container::Contents& contents = run_.change(changed.container);
      if (changed.mode == Mode::growing) {
        contents = {.keys = {}, .items = {}, .stacked = results[changed.first_leaf].tensor()};
        continue;
      }
      size_t next = changed.first_leaf;
      contents.items = rebuilt_all(changed.places, results, next);
    }
    for (size_t i = 0; i < scanned.size(); ++i) {
      const Changed& changed = *scanned[i].first;
      aten::Value* all = stacks[i];
      if (changed.appended > 1)
        all = run_.record_one("aten::flatten.using_ints", {all, int64_t{0}, int64_t{1}}).tensor();
      const Container::Contents& before = changed.before;
      if (before.stacked || !before.items.empty()) {
        aten::Value* first = stacked(run_, before, *changed.element);
        all = run_.record_one("aten::cat", {Argument::List{first, all}, int64_t{0}}).tensor();
      }
      run_.change(changed.container) = {.keys = {}, .items = {}, .stacked = all};
    }
  }

  Interpreter& run_;
  Recorder& recorder_;
  const torch::jit::Block& body_;
  const Item steps_;
  const Item condition_;
  const Items initial_;
  std::vector<Carried> carried_;
  std::vector<Leaf> leaves_;
  std::vector<Changed> changed_;
  const uint64_t made_before_ = containers_made();
  // Of the last reading of the body.
  Frame frame_;
  Items results_;
  std::vector<Interpreter::Change> changes_;
  bool failed_ = false;
};

Items Interpreter::loop(const JitNode& node, const Items& inputs) {
  return Loops(*this, node, inputs).read();
}

}  // namespace onnx_native::readers::jit
