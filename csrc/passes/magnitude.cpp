#include "passes/magnitude.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/scalar.h"
#include "base/weight.h"

namespace onnx_native::passes {
namespace {

using onnx::Node;
using onnx::Value;
using Bound = std::optional<Magnitude>;

constexpr int64_t kMostRead = 1 << 20;  // of a constant that is read

Bound of_elements(const TensorData& data) {
  const int64_t count = data.numel();
  if (can_change(data) || data.dtype == DType::string || count > kMostRead) return std::nullopt;
  double most = 0;
  for (int64_t i = 0; i < count; ++i) {
    const double size = std::abs(data.number(i));
    if (!std::isfinite(size)) return std::nullopt;
    most = std::max(most, size);
  }
  return Magnitude{most};
}

bool moves_elements(const Node& node) {
  return node.is_any({"Abs", "Cast", "Expand", "Flatten", "Identity", "Neg", "Reshape", "Slice",
                      "Squeeze", "Transpose", "Trilu", "Unsqueeze"});
}

Bound of_fill(const Node& node) {
  const auto* value = node.attribute("value");
  if (!value) return Magnitude{0};
  return of_elements(**std::get_if<std::shared_ptr<TensorData>>(value));
}

// Bounds all elements of both.
Magnitude bound_of_both(Magnitude a, const Magnitude& b, double most) {
  a.most = most;
  a.unchecked.insert(a.unchecked.end(), b.unchecked.begin(), b.unchecked.end());
  return a;
}

bool is_small_enough(const TensorData& data) {
  const ReadScope unrecorded(nullptr);
  for (int64_t i = 0, count = data.numel(); i < count; ++i) {
    if (!(std::abs(data.number(i)) <= kMostOfWeights)) return false;
  }
  return true;
}

}  // namespace

const Bound& Magnitudes::of(const Value& value) {
  const auto [found, is_new] = known_.try_emplace(&value);
  if (is_new) {
    Bound bound = compute(value);
    known_[&value] = std::move(bound);
  }
  return known_.at(&value);
}

Bound Magnitudes::compute(const Value& value) {
  if (value.constant) return of_elements(*value.constant);
  if (value.dtype == DType::boolean) return Magnitude{1};
  if (is_integral(value.dtype)) return Magnitude{max_value(value.dtype)};
  Node* node = value.producer;
  if (!node || !node->domain.empty() || !is_floating(value.dtype)) return std::nullopt;
  Bound bound = of_node(*node);
  // A larger number would be rounded to infinity.
  return bound && bound->most <= max_value(value.dtype) ? bound : std::nullopt;
}

Bound Magnitudes::of_node(Node& node) {
  if (node.op_type == "Gather") return of_gather(node);
  if (moves_elements(node)) return of(*node.inputs[0]);
  if (node.op_type == "Where") return of_any(node, 1, 2);
  if (node.op_type == "Concat") return of_any(node, 0, node.inputs.size());
  if (node.op_type == "ConstantOfShape") return of_fill(node);
  if (node.is_any({"Cos", "Sigmoid", "Sin", "Softmax", "Tanh"}) && of(*node.inputs[0])) {
    return Magnitude{1};
  }
  if (!node.is_any({"Add", "Sub", "Mul"})) return std::nullopt;
  const Bound a = of(*node.inputs[0]), b = of(*node.inputs[1]);
  if (!a || !b) return std::nullopt;
  return bound_of_both(*a, *b, node.op_type == "Mul" ? a->most * b->most : a->most + b->most);
}

Bound Magnitudes::of_any(const Node& node, size_t first, size_t count) {
  Magnitude all;
  for (size_t i = first; i < first + count; ++i) {
    const Bound& each = of(*node.inputs[i]);
    if (!each) return std::nullopt;
    all = bound_of_both(all, *each, std::max(all.most, each->most));
  }
  return all;
}

Bound Magnitudes::of_gather(Node& node) {
  const Value& table = *node.inputs[0];
  if (!table.constant || !weight_of(*table.constant)) return of(table);
  if (uses_.of(&table) != 1) return std::nullopt;
  return Magnitude{kMostOfWeights, {&node}};
}

void check_weights(const Magnitude& magnitude) {
  for (Node* gather : magnitude.unchecked) {
    Value* weight = gather->inputs[0];
    if (!weight->constant || !weight_of(*weight->constant)) continue;  // checked already
    TensorData data = *weight->constant;
    const auto check = [name = weight->name](std::span<const TensorData> now) {
      if (!is_small_enough(now[0])) {
        fail(ErrorKind::invalid_argument, "the model needs numbers of at most ", kMostOfWeights,
             " in ", name,
             ", because it adds them to the scores of an attention; disable the passes "
             "\"attention\" and \"row_masks\" for other numbers");
      }
      return std::optional(now[0]);
    };
    derive(data, {{*weight->constant}, check});
    Value* checked = weight->graph->add_initializer(weight->name, std::move(data));
    checked->named = std::exchange(weight->named, false);
    weight->name.clear();
    gather->inputs[0] = checked;
  }
}

}  // namespace onnx_native::passes
