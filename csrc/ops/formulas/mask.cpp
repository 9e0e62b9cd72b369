#include "ops/formulas/mask.h"

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <limits>

#include "base/weight.h"
#include "ops/formulas/numeric.h"

namespace onnx_native::ops {
namespace {

using onnx::Node;
using Predicate = std::function<bool(double)>;

// Larger constants are not read.
constexpr int64_t kMostElements = 1 << 20;

bool all_elements(const TensorData& data, const Predicate& holds) {
  const int64_t count = data.numel();
  if (count > kMostElements || !has_elements(&data)) return false;
  for (int64_t i = 0; i < count; ++i)
    if (!holds(data.number(i))) return false;
  return true;
}

bool some_of_each_row(const TensorData& data, const Predicate& holds) {
  const int64_t count = data.numel();
  const int64_t row = data.shape.empty() ? 1 : data.shape.back();
  if (count > kMostElements || !has_elements(&data)) return false;
  for (int64_t begin = 0; begin < count; begin += row) {
    int64_t i = begin;
    while (i < begin + row && !holds(data.number(i))) ++i;
    if (i == begin + row) return false;
  }
  return true;
}

// Returns true if the result has only elements of the first input.
bool moves_elements(const Node& node) {
  return node.is_any(
      {"Expand", "Gather", "Identity", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze"});
}

// Returns the producer if it is a standard operator.
const Node* standard_producer(const onnx::Value* v) {
  return v->producer && v->producer->domain.empty() ? v->producer : nullptr;
}

// Returns the input of a node that only repeats rows or moves the leading axes; nullptr otherwise.
const onnx::Value* same_rows(const Node& node) {
  if (!node.is_any({"Expand", "Identity", "Reshape", "Unsqueeze"})) return nullptr;
  const onnx::Value* input = node.inputs[0];
  if (node.op_type == "Identity") return input;
  if (input->rank_or(0) == 0 || node.outputs[0]->rank_or(0) == 0) return nullptr;
  const bool widens = node.op_type == "Expand" && input->dim(-1).equals(1);
  return widens || input->dim(-1) == node.outputs[0]->dim(-1) ? input : nullptr;
}

const onnx::Value* without_cast(const onnx::Value* v) {
  const Node* node = standard_producer(v);
  return node && node->op_type == "Cast" && is_integral(v->dtype) ? node->inputs[0] : v;
}

// Returns a constant start of Range(start, end, 1).
std::optional<int64_t> start_of_range(const Node& node) {
  if (node.op_type != "Range") return std::nullopt;
  const auto number = [&node](size_t i) -> std::optional<int64_t> {
    const auto& contents = node.inputs[i]->contents;
    return contents && contents->size() == 1 ? contents->front().constant() : std::nullopt;
  };
  return number(2) == 1 ? number(0) : std::nullopt;
}

// Returns true if every row begins with 0.
bool counts_columns(const onnx::Value* v) {
  v = without_cast(v);
  const Node* node = standard_producer(v);
  if (!node) return false;
  if (const onnx::Value* rows = same_rows(*node)) return counts_columns(rows);
  return start_of_range(*node) == 0;
}

bool never_negative(const onnx::Value* v) {
  v = without_cast(v);
  if (v->constant) return all_elements(*v->constant, [](double x) { return x >= 0; });
  const Node* node = standard_producer(v);
  if (!node) return false;
  if (node->is_any({"Expand", "Identity", "Reshape", "Unsqueeze"}))
    return never_negative(node->inputs[0]);
  if (node->op_type == "Add")
    return never_negative(node->inputs[0]) && never_negative(node->inputs[1]);
  return start_of_range(*node).value_or(-1) >= 0;
}

// Returns true if all elements of a constant or of a filled tensor have the property.
bool filled_with(const onnx::Value* v, const Predicate& holds) {
  if (v->constant) return all_elements(*v->constant, holds);
  const Node* node = standard_producer(v);
  if (!node) return false;
  if (moves_elements(*node)) return filled_with(node->inputs[0], holds);
  const onnx::AttributeValue* value =
      node->op_type == "ConstantOfShape" ? node->attribute("value") : nullptr;
  const auto* data = value ? std::get_if<std::shared_ptr<TensorData>>(value) : nullptr;
  return data && all_elements(**data, holds);
}

bool never_zero(const onnx::Value* v) {
  const Node* node = standard_producer(v);
  if (node && node->op_type == "Cast") return never_zero(node->inputs[0]);
  return filled_with(v, [](double x) { return x != 0; });
}

// Returns true if the first element of every row is kept (`kept`) or becomes 0.
bool first_of_row(const Node& trilu, bool kept) {
  const onnx::Value* k = trilu.input(1);
  const bool known = !k || (k->constant && k->constant->numel() == 1);
  const int64_t diagonal = k && known ? k->constant->integer(0) : 0;
  const bool upper = trilu.attribute_int("upper", 1) != 0;
  return known && (kept ? !upper && diagonal >= 0 : upper && diagonal >= 1);
}

// Returns true if comparing column numbers from 0 with non-negative row numbers gives `truth` in
// the first element of every row.
bool first_column_compares(const Node& node, bool truth) {
  const bool or_equal = node.is_any({"LessOrEqual", "GreaterOrEqual"});
  if (or_equal != truth || !(or_equal || node.is_any({"Less", "Greater"}))) return false;
  const bool columns_first = node.is_any({"LessOrEqual", "Greater"});
  return counts_columns(node.inputs[columns_first ? 0 : 1]) &&
         never_negative(node.inputs[columns_first ? 1 : 0]);
}

// Returns true if comparing non-negative positions with zeros or negative numbers gives true.
bool compares_with_zero(const Node& node) {
  const bool positions_first = node.op_type == "GreaterOrEqual";
  if (!positions_first && node.op_type != "LessOrEqual") return false;
  return never_negative(node.inputs[positions_first ? 0 : 1]) &&
         filled_with(node.inputs[positions_first ? 1 : 0], [](double x) { return x <= 0; });
}

bool all_true(const onnx::Value* v) {
  if (never_zero(v)) return true;
  const Node* node = standard_producer(v);
  if (!node) return false;
  if (node->is_any({"Cast", "Expand", "Identity", "Reshape", "Unsqueeze"}))
    return all_true(node->inputs[0]);
  if (node->op_type == "And") return all_true(node->inputs[0]) && all_true(node->inputs[1]);
  if (node->op_type == "Or") return all_true(node->inputs[0]) || all_true(node->inputs[1]);
  return compares_with_zero(*node);
}

// Returns true if every row of a tensor, read as bools, holds an element that is `truth`.
bool rows_hold(const onnx::Value* v, bool truth) {
  if (v->constant)
    return some_of_each_row(*v->constant, [truth](double x) { return (x != 0) == truth; });
  const Node* node = standard_producer(v);
  if (!node) return false;
  if (node->op_type == "Cast") return rows_hold(node->inputs[0], truth);
  if (const onnx::Value* rows = same_rows(*node)) return rows_hold(rows, truth);
  if (node->op_type == "Not") return rows_hold(node->inputs[0], !truth);
  if (node->op_type == (truth ? "Or" : "And"))
    return rows_hold(node->inputs[0], truth) || rows_hold(node->inputs[1], truth);
  if (node->op_type == "And") {
    const onnx::Value *a = node->inputs[0], *b = node->inputs[1];
    return (all_true(a) && rows_hold(b, true)) || (all_true(b) && rows_hold(a, true));
  }
  if (node->op_type == "Trilu")
    return first_of_row(*node, truth) && (!truth || never_zero(node->inputs[0]));
  return first_column_compares(*node, truth);
}

// Returns true if every row of a tensor, cast to a dtype with this lowest number, holds an element
// above -inf.
bool float_rows_open(const onnx::Value* v, double lowest) {
  const auto is_open = [lowest](double x) { return x >= lowest; };
  if (v->constant) return some_of_each_row(*v->constant, is_open);
  const Node* node = standard_producer(v);
  if (!node) return false;
  if (node->op_type == "Cast") {
    const onnx::Value* from = node->inputs[0];
    if (from->dtype == DType::boolean) return true;
    const double lowest_before = lowest_value(from->dtype);
    if (!is_floating(from->dtype)) return lowest_before >= lowest;
    return float_rows_open(from, std::max(lowest, lowest_before));
  }
  if (const onnx::Value* rows = same_rows(*node)) return float_rows_open(rows, lowest);
  if (node->op_type != "Where") return false;
  const bool one = filled_with(node->inputs[1], is_open);
  const bool other = filled_with(node->inputs[2], is_open);
  return (one && other) || (one && rows_hold(node->inputs[0], true)) ||
         (other && rows_hold(node->inputs[0], false));
}

// ReduceMax would do, but ONNX Runtime's symbolic shape inference loses its rank at opset 18. A
// Cast would do, but onnxconverter_common's conversion to float16 does not follow one.
Value count_open(Builder& b, Value mask) {
  const Value ones = b.where(mask, b.scalar(DType::f32, 1), b.scalar(DType::f32, 0));
  return b.reduce("ReduceSum", ones, {-1}, true);
}

}  // namespace

bool never_masks(const onnx::Value* mask) {
  return mask->dtype == DType::boolean && all_true(mask);
}

bool every_row_open(const onnx::Value* mask) {
  return mask->dtype == DType::boolean ? rows_hold(mask, true)
                                       : float_rows_open(mask, lowest_value(mask->dtype));
}

bool never_lowest(const onnx::Value* mask) {
  const double lowest = lowest_value(DType::f32);
  if (filled_with(mask, [=](double x) { return x != lowest; })) return true;
  const Node* node = standard_producer(mask);
  if (!node) return false;
  if (node->op_type == "Cast") return node->inputs[0]->dtype != DType::f64;
  if (node->op_type == "Where")
    return never_lowest(node->inputs[1]) && never_lowest(node->inputs[2]);
  return moves_elements(*node) && never_lowest(node->inputs[0]);
}

Value open_rows(Builder& b, Value mask) {
  if (mask->dtype != DType::boolean) mask = b.Greater(mask, b.like(mask, -kInfinity));
  return b.cast(count_open(b, mask), DType::boolean);
}

Value open_rows_as(Builder& b, Value mask, DType dtype) {
  return b.cast(b.op("Sign", {count_open(b, mask)}), dtype);
}

}  // namespace onnx_native::ops
