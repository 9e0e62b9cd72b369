#include <algorithm>
#include <cmath>

#include "base/weight.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace onnx_native::passes {
namespace {

using onnx::Node;
using onnx::UseCounts;
using onnx::Value;

constexpr int64_t kMostElements = 64;

bool is_any_of(const Node& node, std::initializer_list<std::string_view> op_types) {
  return std::ranges::find(op_types, node.op_type) != op_types.end();
}

// Returns the constant of which a value has the elements, once or several times; or nullptr.
const TensorData* repeated_constant(const Value* value) {
  while (value && value->producer && value->producer->domain.empty() &&
         is_any_of(*value->producer, {"Expand", "Reshape", "Squeeze", "Transpose", "Unsqueeze"}))
    value = value->producer->input(0);
  if (value && value->producer && value->producer->is("ConstantOfShape")) {
    const auto* fill = value->producer->attribute("value");
    const auto* data = fill ? std::get_if<std::shared_ptr<TensorData>>(fill) : nullptr;
    return data ? data->get() : nullptr;
  }
  if (!value || !value->is_constant() || can_change(*value->constant)) return nullptr;
  return value->constant;
}

// Returns true if the elements are those of a small constant and satisfy a condition.
template <class Condition>
bool all_elements(const Value* value, const Condition& condition) {
  const TensorData* constant = repeated_constant(value);
  if (!constant) return false;
  const TensorData& data = *constant;
  const int64_t size = data.numel();
  if (size == 0 || size > kMostElements || data.dtype == DType::string) return false;
  for (int64_t i = 0; i < size; ++i) {
    const double element =
        is_floating(data.dtype) ? data.number(i) : static_cast<double>(data.integer(i));
    if (!condition(element)) return false;
  }
  return true;
}

// Returns true if all elements are this number. A -0.0 is not 0.0.
bool consists_of(const Value* value, double number) {
  return all_elements(value, [number](double element) {
    return element == number && std::signbit(element) == std::signbit(number);
  });
}

// Returns true if the operand has no effect at this side of the node.
bool is_neutral(const Node& node, size_t side) {
  const Value* operand = node.input(side);
  const bool right = side == 1;
  if (is_any_of(node, {"Mul"})) return consists_of(operand, 1);
  if (is_any_of(node, {"Div", "Pow"})) return right && consists_of(operand, 1);
  if (is_any_of(node, {"Sub"})) return right && consists_of(operand, 0);
  // -0.0 + 0.0 is 0.0.
  if (is_any_of(node, {"Add"})) {
    return consists_of(operand, is_floating(operand->dtype) ? -0.0 : 0);
  }
  // The bounds of narrow integers.
  if (is_any_of(node, {"Max", "Min"})) {
    const DType dtype = operand->dtype;
    const bool is_narrow = is_integral(dtype) && item_size(dtype) <= 2;
    return is_narrow &&
           consists_of(operand, node.is("Max") ? lowest_value(dtype) : max_value(dtype));
  }
  if (is_any_of(node, {"And"})) return consists_of(operand, 1);
  return is_any_of(node, {"Or", "Xor"}) && consists_of(operand, 0);
}

// Returns the operand that the node's result equals, or nullptr.
Value* passed_operand(const Node& node) {
  if (is_any_of(node, {"Where"})) {
    const Value* condition = node.input(0);
    const bool negated = condition && condition->producer && condition->producer->is("Not");
    if (negated) condition = condition->producer->input(0);
    if (consists_of(condition, negated ? 0 : 1)) return node.inputs[1];
    return consists_of(condition, negated ? 1 : 0) ? node.inputs[2] : nullptr;
  }
  if (node.inputs.size() != 2) return nullptr;
  for (const size_t side : {1, 0}) {
    if (is_neutral(node, side)) return node.inputs[1 - side];
  }
  return nullptr;
}

// Mul(x, Reciprocal(y)) becomes Div(x, y).
void divide(Rewrite& rewrite, Node& node, const UseCounts& uses) {
  const DType dtype = node.outputs[0]->dtype;
  if (!uses.contains(node.outputs[0]) || (dtype != DType::f32 && dtype != DType::f64)) return;
  for (const size_t side : {1, 0}) {
    const Value* factor = node.inputs[side];
    const Node* reciprocal = factor->producer;
    if (!reciprocal || !reciprocal->is("Reciprocal")) continue;
    if (factor->graph != node.outputs[0]->graph || uses.at(factor) != 1) continue;
    node.op_type = "Div";
    node.inputs = {node.inputs[1 - side], reciprocal->inputs[0]};
    rewrite.set_changed();
    return;
  }
}

// Where(Not(c), a, b) becomes Where(c, b, a), unless b may be -0.0, of which ONNX Runtime's Where
// makes 0.0 if it comes first.
void take_not(Rewrite& rewrite, Node& where) {
  const Node* negation = where.inputs[0]->producer;
  if (!negation || !negation->is("Not")) return;
  const Value* other = where.inputs[2];
  const auto is_no_negative_zero = [](double e) { return e != 0 || !std::signbit(e); };
  if (is_floating(other->dtype) && !all_elements(other, is_no_negative_zero)) return;
  where.inputs = {negation->inputs[0], where.inputs[2], where.inputs[1]};
  rewrite.set_changed();
}

}  // namespace

// Removes arithmetic that has no effect: x * 1, x / 1, x ** 1, x + 0, x - 0, And(x, true),
// Or(x, false), Xor(x, false) and Where with a constant condition, if the result has the shape of
// x. Keeps x + 0.0, which changes -0.0. Replaces x * Reciprocal(y) by x / y, and Where(Not(c), a,
// 1) by Where(c, 1, a).
int64_t remove_neutral_arithmetic(onnx::Model& model) {
  const UseCounts uses = onnx::count_uses(*model.graph);
  return sweep(model, [&uses](Rewrite& rewrite, onnx::Graph&, Node& node) {
    if (!node.domain.empty()) return;
    Value* operand = passed_operand(node);
    const Value& result = operand ? *node.outputs[0] : Value();
    if (operand && result.shape && operand->shape == result.shape &&
        rewrite.replace(node.outputs[0], operand)) {
      return;
    }
    if (node.op_type == "Mul") divide(rewrite, node, uses);
    if (node.op_type == "Where") take_not(rewrite, node);
  });
}

}  // namespace onnx_native::passes
