// flex_attention: plain attention, with the per-score functions evaluated on whole grids.
#include "ops/nn/flex_attention.h"

#include <algorithm>
#include <numbers>
#include <unordered_map>

#include "ops/engine/lower.h"
#include "ops/formulas/numeric.h"
#include "ops/formulas/positions.h"

namespace onnx_native::ops {
namespace {

// A copy of a function of 0-d tensors that computes on (batch, head, query, key) grids. A value
// that depends on grids has their broadcast shape.
class OverGrid {
 public:
  OverGrid(Builder& b, const aten::Graph& body, const std::vector<Shape>& inputs) : b_(b) {
    for (size_t i = 0; i < body.inputs.size(); ++i) {
      aten::Type type = body.inputs[i]->type;
      const bool is_grid = is_scalar(type) && i < inputs.size();
      if (is_grid) type.shape = inputs[i];
      aten::Value* input = graph_.add_input(body.inputs[i]->name, std::move(type));
      copies_[body.inputs[i]] = input;
      if (is_grid) grids_[input] = inputs[i];
    }
    for (const auto& constant : body.constants)
      copies_[constant.value] =
          graph_.add_constant(constant.value->name, constant.data, constant.kind);
    for (const aten::Node* node : body.nodes) copy(*node);
    for (const auto& output : body.outputs) graph_.outputs.push_back(copy(output));
  }

  const aten::Graph& graph() const { return graph_; }

 private:
  static bool is_scalar(const aten::Type& type) {
    return type.is_tensor() && type.shape && type.shape->empty();
  }

  aten::Argument copy(const aten::Argument& argument) {
    if (aten::Value* value = argument.as_value()) {
      b_.check(!rows_.contains(value),
               "score_mod and mask_mod cannot read a whole row of a table; index a single element");
      return copies_.at(value);
    }
    if (const auto* list = argument.get<aten::Argument::List>()) {
      aten::Argument::List copies;
      for (const auto& element : *list) copies.push_back(copy(element));
      return copies;
    }
    b_.check(!argument.get<std::shared_ptr<aten::Graph>>(),
             "score_mod and mask_mod cannot contain control flow; use torch.where");
    return argument;
  }

  void join_grids(const aten::Argument& argument, std::optional<Shape>& joined) const {
    if (const auto* list = argument.get<aten::Argument::List>())
      for (const auto& element : *list) join_grids(element, joined);
    const auto grid = grids_.find(argument.as_value());
    if (grid == grids_.end()) return;
    if (!joined) joined = Shape(grid->second.size(), Dim(1));
    for (size_t axis = 0; axis < joined->size(); ++axis)
      if ((*joined)[axis].equals(1)) (*joined)[axis] = grid->second[axis];
  }

  // Returns the indexing arguments; in `table[i][j]`, the indices of `table[i]` come first.
  std::vector<aten::Argument> index_arguments(const aten::Node& node) const {
    const auto row = rows_.find(node.arguments[0].as_value());
    if (row == rows_.end()) return node.arguments;
    std::vector<aten::Argument> joined = index_arguments(*row->second);
    auto& indices = std::get<aten::Argument::List>(joined[1].value);
    const auto* more = node.arguments[1].get<aten::Argument::List>();
    indices.insert(indices.end(), more->begin(), more->end());
    return joined;
  }

  void copy(const aten::Node& node) {
    const bool is_index = node.op == "aten::index.Tensor";
    if (is_index && !is_scalar(node.outputs[0]->type) &&
        std::ranges::none_of(*node.arguments[1].get<aten::Argument::List>(),
                             &aten::Argument::is_none)) {
      rows_[node.outputs[0]] = &node;
      return;
    }
    std::vector<aten::Argument> arguments;
    std::optional<Shape> grid;
    for (const auto& argument : is_index ? index_arguments(node) : node.arguments) {
      arguments.push_back(copy(argument));
      join_grids(arguments.back(), grid);
    }
    if (node.op.starts_with("aten::new_")) grid.reset();  // uses only the dtype
    if (grid && node.schema)
      b_.check(node.schema->index("dim") < 0 && node.schema->index("dims") < 0, node.op,
               " takes a dimension; score_mod and mask_mod compute on single elements");
    aten::Node* made = graph_.add_node(node.op, std::move(arguments), node.location);
    for (const aten::Value* output : node.outputs) {
      aten::Type type = output->type;
      if (grid) {
        b_.check(
            is_scalar(type), node.op,
            " returns more than one element; score_mod and mask_mod compute on single elements");
        type.shape = grid;
      }
      // Its name is not the program's, which may have the same one outside of the function.
      aten::Value* result = graph_.add_output(made, output->name + "_grid", std::move(type));
      copies_[output] = result;
      if (grid) grids_[result] = *grid;
    }
  }

  Builder& b_;
  aten::Graph graph_;
  std::unordered_map<const aten::Value*, aten::Value*> copies_;
  std::unordered_map<const aten::Value*, Shape> grids_;
  std::unordered_map<const aten::Value*, const aten::Node*> rows_;  // partial indices of a table
};

// Returns true for the mask function that torch uses if there is no mask: true for every score.
bool is_no_mask(const aten::Graph& mask_mod) {
  const aten::Value* output = mask_mod.outputs.at(0).as_value();
  return output && output->producer && output->producer->op == "aten::new_ones";
}

bool is_identity(const aten::Graph& score_mod) {
  return score_mod.outputs.at(0).as_value() == score_mod.inputs.at(0);
}

Value evaluate(const Call& call, const aten::Graph& function, Values grids, const Results& others) {
  Builder& b = call.builder();
  std::vector<Shape> shapes;
  Results arguments;
  for (Value grid : grids) {
    shapes.push_back(grid->known_shape());
    arguments.emplace_back(grid);
  }
  for (Lowered other : others) {
    // A captured 0-d tensor must promote dtypes as a grid does, so it gets rank 4.
    if (other.value && other.value->rank() == 0) other.value = b.reshape(other.value, {1, 1, 1, 1});
    if (other.value)
      shapes.push_back(other.value->known_shape());
    else
      shapes.emplace_back();
    arguments.push_back(std::move(other));
  }
  const OverGrid over_grid(b, function, shapes);
  return call.inline_body(over_grid.graph(), arguments).at(0).value;
}

// Returns 0, 1, 2, ... along one axis of the grid.
Value axis_positions(Builder& b, const Dim& size, size_t axis) {
  Shape shape(4, Dim(1));
  shape[axis] = size;
  return b.cast(b.reshape(b.range(size), shape), DType::i32);
}

// Repeats each key head for the query heads that share it.
Value repeated_heads(Builder& b, Value tensor, const Dim& heads) {
  const Dim own = tensor->dim(1);
  if (own == heads) return tensor;
  const Shape shape = tensor->known_shape();
  const Dim group = Dim::floor_div(heads, own);
  const Value grouped =
      b.expand(b.unsqueeze(tensor, {2}), {shape[0], own, group, shape[2], shape[3]});
  return b.reshape(grouped, {shape[0], heads, shape[2], shape[3]});
}

Results flex_attention(Builder& b, Value query, Value key, Value value,
                       const aten::Graph& score_mod, Ignored, const Number& scale, Ignored, Ignored,
                       Ignored, const Call& call) {
  const auto* block_mask = call.argument(4).get<aten::Argument::List>();
  const auto* mask_mod = block_mask && !block_mask->empty()
                             ? block_mask->back().get<std::shared_ptr<aten::Graph>>()
                             : nullptr;
  b.check(mask_mod, "the block mask has no mask_mod; create it with create_block_mask");
  const DType working = query->dtype == DType::f64 ? DType::f64 : DType::f32;
  const Dim heads = query->dim(1);
  key = repeated_heads(b, key, heads);
  value = repeated_heads(b, value, heads);
  Value scores = b.matmul(b.cast(query, working), b.swap_axes(b.cast(key, working), -2, -1));
  scores = b.Mul(scores, b.like(scores, scale));
  const Values indices{axis_positions(b, scores->dim(0), 0), axis_positions(b, heads, 1),
                       axis_positions(b, scores->dim(2), 2), axis_positions(b, scores->dim(3), 3)};

  const bool is_masked = !is_no_mask(**mask_mod);
  const Value kept = is_masked ? evaluate(call, **mask_mod, indices, call.elements(8)) : nullptr;
  const bool is_plain = is_identity(score_mod) && !is_masked;
  if (!is_identity(score_mod)) {
    Values grids{scores};
    grids.insert(grids.end(), indices.begin(), indices.end());
    const Shape shape = scores->known_shape();
    scores = b.expand(evaluate(call, score_mod, grids, call.elements(7)), shape);
    scores = b.cast(scores, working);
  }
  const Value nothing = b.like(scores, -kInfinity);
  if (kept) scores = b.where(kept, scores, nothing);

  Value weights = b.softmax(scores, -1);
  Value log_sum = b.reduce("ReduceLogSumExp", scores, {-1}, false);
  if (!is_plain) {
    // Matches eager: rows that are entirely masked out give zeros.
    const Value seen =
        b.reduce("ReduceMax", b.cast(b.Not(b.Equal(scores, nothing)), DType::i32), {-1}, true);
    const Value open = b.cast(seen, DType::boolean);
    weights = b.where(open, weights, b.like(weights, 0.0));
    log_sum = b.where(b.squeeze(open, {-1}), log_sum, nothing);
  }
  const Value ln2 = b.like(scores, std::numbers::ln2);
  // torch.export records float32 statistics even for float64 scores.
  const auto as_recorded = [&](size_t i, Value statistic) {
    const aten::Type& recorded = call.result_type(i);
    const bool known = recorded.kind == aten::Type::Kind::tensor && is_floating(recorded.dtype);
    return known ? b.cast(statistic, recorded.dtype) : statistic;
  };
  const Value greatest = b.Div(b.reduce("ReduceMax", scores, {-1}, false), ln2);
  return {b.matmul(b.cast(weights, query->dtype), b.cast(value, query->dtype)),
          as_recorded(1, b.Div(log_sum, ln2)), as_recorded(2, greatest)};
}

}  // namespace

void def_flex_attention(OpTable& ops) { ops.def("higher_order::flex_attention", flex_attention); }

}  // namespace onnx_native::ops
