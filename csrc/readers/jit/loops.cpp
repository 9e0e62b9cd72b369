// Loops: unrolled if the trip count is constant and the result is smaller, otherwise lowered to
// Loop.
#include <torch/csrc/jit/ir/ir.h>

#include <algorithm>
#include <limits>

#include "readers/jit/item_types.h"
#include "readers/jit/loop_values.h"

namespace onnx_native::readers::jit {
namespace {

using aten::Argument;
using aten::Type;

// A Loop costs about as much as this many calls.
constexpr int64_t kLoopCost = 8;
// Limits on the calls of an unrolled loop: without a constant trip count, and for loops that are
// smaller unrolled or that Loop cannot express.
constexpr size_t kMostCalls = 512, kMostUnrolled = 20000;
// The limit on readings of a body until the types of loop-carried values are stable.
constexpr int kMostReadings = 20;

// Counts the calls on tensors in a block. A call of a function or method counts as kLoopCost.
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

}  // namespace

class Loops : LoopValues {
 public:
  Loops(Interpreter& run, const JitNode& node, const Items& inputs)
      : LoopValues(run),
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
    const Interpreter::Moment start = run_.begin();
    Recorder::Mark mark = recorder_.mark();
    try {
      Items results = rolled();
      run_.keep(start);
      return results;
    } catch (const ExportError& error) {
      run_.rewind(start);
      recorder_.restore(std::move(mark));
      if (!counted || error.kind() == ErrorKind::internal) throw;
      if (std::optional<Items> results = unrolled(kMostUnrolled)) return *results;
      throw;
    }
  }

 private:
  // Unrolls the loop. Returns nullopt if its condition is data-dependent or if it exceeds the
  // limit.
  std::optional<Items> unrolled(size_t limit) {
    const Interpreter::Moment start = run_.begin();
    Recorder::Mark mark = recorder_.mark();
    const auto give_up = [&]() -> std::optional<Items> {
      run_.rewind(start);
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
    run_.keep(start);
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
    run_.unsupported(
        "the types of the loop-carried values keep changing; keep them the same in all iterations");
  }

  // Reads the body with the current types of the loop-carried values.
  void read_body(bool from_base) {
    frame_ = recorder_.sub_graph(from_base);
    frame_.is_loop = true;
    const Interpreter::Moment start = run_.begin();
    const Recorder::Inside inside(recorder_, frame_);
    try {
      const Dim step = Dim::fresh(DimRange::size(), "step");
      recorder_.add_input("step", Type::sym_int(step));
      Items entries;
      for (Leaf& leaf : leaves_) entries.push_back(enter(leaf));
      Items arguments{step};
      for (const Carried& carried : carried_) arguments.push_back(of_leaves(carried, entries));
      for (size_t i = 0; i < carried_.size(); ++i) {
        may_be(initial_[i], arguments[i + 1]);
        if (i + 1 < ends_.size()) may_be(ends_[i + 1], arguments[i + 1]);
      }
      for (Changed& changed : changed_) enter(changed, entries);
      results_ = run_.run(body_, arguments);
      ends_ = results_;
      for (size_t i = 0; i < carried_.size(); ++i) {
        if (!is_same(i) && accumulates(results_[i + 1]))
          run_.unsupported("the list that the loop appends to is aliased; append to a copy");
      }
    } catch (const ExportError&) {
      run_.rewind(start);
      for (Changed& changed : changed_) changed.container->accumulates = false;
      // If a loop reads a list that it appends to, the list must be carried.
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
    changes_ = run_.rewind(start);
    for (size_t i = 0; i < carried_.size(); ++i) {
      if (!is_same(i)) results_[i + 1] = Interpreter::after(changes_, results_[i + 1]);
    }
  }

  // Returns true if an iteration ends with the same object that the loop began with.
  bool is_same(size_t i) const {
    const Carried& carried = carried_[i];
    if (const ContainerPtr object = carried.initial.object())
      return object == results_[i + 1].object() && !leaves_[carried.first_leaf].carried;
    return carried.same && carried.initial.container() == results_[i + 1].container();
  }

  static bool accumulates(const Item& item) {
    const Container* container = item.container();
    if (!container || container->kind == Container::Kind::object) return false;
    return container->accumulates || std::ranges::any_of(container->items(), accumulates);
  }

  // Returns the leaf's type with fresh symbols for the sizes that change.
  Type renamed(const Leaf& leaf) {
    Type type = leaf.type;
    size_t at = 0;
    const auto rename = [&](Dim& dim) {
      if (leaf.renamed.at(at++))
        dim = Dim::fresh(type.dim ? DimRange::integer() : DimRange::size());
    };
    if (type.dim) {
      rename(*type.dim);
    } else if (type.shape) {
      for (Dim& dim : *type.shape) rename(dim);
    }
    return type;
  }

  Item enter(Leaf& leaf) {
    if (!leaf.carried) return leaf.initial;
    const Type type = renamed(leaf);
    leaf.input = recorder_.add_input("state", type);
    if (leaf.contiguous) recorder_.layouts().set_contiguous(leaf.input);
    if (leaf.initial.tensor()) frame_.states.emplace_back(leaf.initial.tensor(), leaf.input);
    Item state = result_item(leaf.input);
    may_be(leaf, state);
    return state;
  }

  // The carried value may alias the initial one, in the first iteration and after zero iterations.
  void may_be(const Leaf& leaf, const Item& state) {
    if (leaf.initial.object() && state.object())
      run_.aliases_.push_back({leaf.initial.object(), state.object()});
  }

  // Records that a carried list or dict may alias one from before the loop.
  void may_be(const Item& before, const Item& state) {
    const auto* one = before.get<ContainerPtr>();
    const auto* other = state.get<ContainerPtr>();
    if (!one || !other || *one == *other) return;
    const Container::Kind kind = (*one)->kind;
    if (kind == Container::Kind::object || kind != (*other)->kind) return;
    if (kind != Container::Kind::tuple && (*one)->born <= made_before_)
      run_.aliases_.push_back({*one, *other});
    for (size_t i = 0; i < std::min((*one)->items().size(), (*other)->items().size()); ++i)
      may_be((*one)->items()[i], (*other)->items()[i]);
  }

  void enter(Changed& changed, const Items& entries) {
    Container::Contents& contents = run_.record_change(changed.container);
    switch (changed.mode) {
      case Mode::elements: {
        size_t next = changed.first_leaf;
        contents.items = rebuilt_all(changed.places, entries, next);
        break;
      }
      case Mode::growing:
        contents = list_of_leaves(changed, entries);
        break;
      default:
        contents = {};
        changed.container->accumulates = true;
    }
  }

  Container::Contents list_of_leaves(const Changed& changed, const Items& leaves) const {
    size_t next = changed.first_leaf;
    return rebuilt(changed.places.at(0), leaves, next).container()->contents;
  }

  // --- The call

  Items finish() {
    std::vector<const Leaf*> states;
    for (const Leaf& leaf : leaves_) {
      if (leaf.carried) states.push_back(&leaf);
    }
    Items after = leaves_after();
    Argument again;
    std::vector<aten::Value*> scanned;
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
        for (aten::Value* value : appended_in_a_step(changed)) {
          scanned.push_back(recorder_.lift(value));
          outputs.emplace_back(scanned.back());
        }
        recorder_.hold({}, scanned);
      }
    }
    // Compute the operands before adding results, so that no size is read from a result.
    Argument::List initial, captured;
    for (const Leaf* leaf : states) initial.push_back(operand(run_, leaf->initial, leaf->type));
    for (const auto& [outer, inner] : frame_.captures) captured.emplace_back(outer);
    Argument steps = steps_.integer() == std::numeric_limits<int64_t>::max()
                         ? Argument()
                         : run_.argument(steps_);
    Argument condition = run_.argument(condition_);
    recorder_.lift(steps);
    recorder_.lift(condition);
    aten::Node* call = recorder_.add_control_flow("higher_order::for_loop", run_.location());
    Items results;
    for (const Leaf& leaf : leaves_)
      results.push_back(leaf.carried ? result(call, leaf) : leaf.initial);
    std::vector<aten::Value*> stacks;
    stacks.reserve(scanned.size());
    for (const aten::Value* value : scanned) stacks.push_back(stack_result(call, value));
    recorder_.finish(call,
                     {std::move(steps), std::move(condition), frame_.graph, std::move(initial),
                      std::move(captured)},
                     {&frame_});
    apply(results, stacks);
    Items carried;
    carried.reserve(carried_.size());
    for (const Carried& item : carried_) carried.push_back(of_leaves(item, results));
    for (size_t i = 0; i < carried.size(); ++i) {
      may_be(initial_[i], carried[i]);
      may_be(ends_[i + 1], carried[i]);
    }
    return carried;
  }

  // Returns the leaves at the end of an iteration.
  Items leaves_after() const {
    Items after(leaves_.size());
    for (size_t i = 0; i < carried_.size(); ++i) {
      std::ranges::copy(leaves_of(carried_[i], results_[i + 1]),
                        after.begin() + static_cast<std::ptrdiff_t>(carried_[i].first_leaf));
    }
    for (const Changed& changed : changed_) {
      const Container::Contents contents = contents_after(changed);
      if (changed.mode == Mode::growing) {
        Items columns;
        columns_of(*contents.open, columns);
        std::ranges::copy(columns, after.begin() + static_cast<std::ptrdiff_t>(changed.first_leaf));
      }
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

  // Returns a tensor per column: the appended element, or a stack if an iteration appends several.
  std::vector<aten::Value*> appended_in_a_step(const Changed& changed) {
    const Container::Contents contents = contents_after(changed);
    if (changed.appended == 1) return row(run_, *changed.format, contents.items[0]);
    std::vector<aten::Value*> values;
    const OpenListPtr list = opened(run_, contents, *changed.format);
    for (const OpenList::Column& column : list->columns) values.push_back(column.values);
    return values;
  }

  Item result(aten::Node* call, const Leaf& leaf) {
    aten::Value* value = recorder_.add_result(call, "loop", renamed(leaf));
    if (leaf.contiguous) recorder_.layouts().set_contiguous(value);
    Item state = result_item(value);
    may_be(leaf, state);
    return state;
  }

  // Adds a scan output. Its length is the trip count if no condition can end the loop early.
  aten::Value* stack_result(aten::Node* call, const aten::Value* element) {
    Type type = element->type;
    const auto* steps = steps_.get<Dim>();
    const bool all = steps && condition_.boolean() && results_[0].boolean();
    // A negative trip count means zero iterations.
    type.shape->insert(type.shape->begin(), all ? Dim::max(*steps, 0) : Dim::fresh());
    return recorder_.add_result(call, "stacked", std::move(type));
  }

  void apply(const Items& results, const std::vector<aten::Value*>& stacks) {
    size_t stack = 0;
    for (const Changed& changed : changed_) {
      if (changed.mode == Mode::stacked) {
        OpenList list = *changed.format;
        for (OpenList::Column& column : list.columns) {
          column.values = stacks.at(stack++);
          if (changed.appended > 1)
            column.values =
                run_.record_one("aten::flatten.using_ints", {column.values, int64_t{0}, int64_t{1}})
                    .tensor();
        }
        const Container::Contents more{
            .keys = {}, .items = {}, .open = std::make_shared<const OpenList>(std::move(list))};
        Container::Contents all = joined(run_, changed.before, more);
        run_.record_change(changed.container) = std::move(all);
        continue;
      }
      Container::Contents& contents = run_.record_change(changed.container);
      size_t next = changed.first_leaf;
      if (changed.mode == Mode::growing) {
        contents = list_of_leaves(changed, results);
      } else {
        contents.items = rebuilt_all(changed.places, results, next);
      }
    }
  }

  const torch::jit::Block& body_;
  const Item steps_;
  const Item condition_;
  const Items initial_;
  Items ends_;  // of the last iteration that was read
  const uint64_t made_before_ = containers_made();
};

Items Interpreter::loop(const JitNode& node, const Items& inputs) {
  return Loops(*this, node, inputs).read();
}

}  // namespace onnx_native::readers::jit
