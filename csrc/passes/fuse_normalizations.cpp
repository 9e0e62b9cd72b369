#include "onnx/kernels.h"
#include "passes/last_axis.h"
#include "passes/match.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace onnx_native::passes {
namespace {

using namespace match;  // NOLINT(google-build-using-namespace)

constexpr int64_t kRmsOpset = 23;
constexpr int64_t kLayerOpset = 17;

template <class P>
auto squared(const P& inner) {
  return any_of(op("Mul", inner, inner), op("Pow", inner, number(2)));
}

// numerator / sqrt(mean(numerator * numerator) + epsilon), over the last axis.
template <class P>
auto normalized(Uses& uses, const P& numerator, Var& epsilon) {
  const auto shifted = add(mean_of_last_axis(squared(numerator)), constant(epsilon));
  const auto root = any_of(op("Sqrt", shifted), op("Pow", shifted, number(0.5)));
  const auto inverse =
      any_of(op("Reciprocal", root), op("Div", number(1), root), op("Pow", shifted, number(-0.5)));
  return any_of(mul(numerator, once(uses, inverse)), op("Div", numerator, once(uses, root)));
}

// Returns the value that a Cast converted to float32, if it had this dtype; `x` itself if it has
// this dtype; nullptr otherwise.
Value* before_cast(Value* x, DType dtype) {
  Var source;
  if (x->dtype == dtype) return x;
  if (!matches(x, cast(source)) || source->dtype != dtype) return nullptr;
  return source;
}

// Replaces the node by a normalization of x if its mean is computed in float32, as the operator
// does, and the weight has one element for each index of the last axis.
void normalize(Rewrite& rewrite, Node& node, std::string_view op_type, int64_t opset, Value* x,
               Value* weight, double epsilon) {
  const DType dtype = node.outputs[0]->dtype;
  Value* input = before_cast(x, dtype);
  if (x->dtype != DType::f32 || !input || !onnx::has_kernel(op_type, dtype, opset)) return;
  if (!is_vector_of_last_axis(*weight, *x)) return;
  node.op_type = op_type;
  node.inputs = {input, weight};
  node.attributes = {{"axis", int64_t{-1}}, {"epsilon", epsilon}};
  rewrite.set_changed();
}

void fuse_rms(Rewrite& rewrite, Uses& uses, Node& node) {
  Var x, weight, epsilon;
  const auto normal = normalized(uses, pattern(x), epsilon);
  if (!matches(node.outputs[0], mul(weight, maybe_cast(uses, normal)))) return;
  normalize(rewrite, node, "RMSNormalization", kRmsOpset, x, weight, to_number(*epsilon));
}

void fuse_layer(Rewrite& rewrite, Uses& uses, Node& node) {
  Var x, weight, epsilon;
  const auto centered = op("Sub", x, mean_of_last_axis(x));
  const auto normal = normalized(uses, centered, epsilon);
  if (!matches(node.outputs[0], mul(weight, maybe_cast(uses, normal)))) return;
  normalize(rewrite, node, "LayerNormalization", kLayerOpset, x, weight, to_number(*epsilon));
}

// A bias after a LayerNormalization without one becomes its third input.
void absorb_bias(Rewrite& rewrite, Uses& uses, Node& node) {
  Var x, weight, bias, normal;
  const auto unbiased = where(normal, [](const Value& value) {
    Var any_x, any_weight;
    return matches(const_cast<Value*>(&value), op("LayerNormalization", any_x, any_weight));
  });
  if (!matches(node.outputs[0], add(once(uses, unbiased), bias))) return;
  if (normal->producer->outputs.size() != 1 || !is_vector_of_last_axis(*bias, *normal)) return;
  const Node& without = *normal->producer;
  node.op_type = "LayerNormalization";
  node.inputs = {without.inputs[0], without.inputs[1], bias};
  node.attributes = without.attributes;
  rewrite.set_changed();
}

}  // namespace

// weight * x / sqrt(mean(x * x) + epsilon) over the last axis becomes RMSNormalization, from opset
// 23 on. The mean must be computed in float32, as RMSNormalization does; x may be a Cast from the
// result's dtype, and the quotient a Cast back to it.
int64_t fuse_rms_normalization(onnx::Model& model) {
  if (model.opset < kRmsOpset) return 0;
  Uses uses(model);
  return sweep(model, [&uses](Rewrite& rewrite, onnx::Graph&, Node& node) {
    if (node.op_type == "Mul" && node.domain.empty()) fuse_rms(rewrite, uses, node);
  });
}

// weight * (x - mean(x)) / sqrt(mean((x - mean(x))^2) + epsilon) over the last axis becomes
// LayerNormalization, from opset 17 on, under the same conditions. An added bias becomes its input.
int64_t fuse_layer_normalization(onnx::Model& model) {
  if (model.final_opset.value_or(model.opset) < kLayerOpset) return 0;
  Uses uses(model);
  return sweep(model, [&uses](Rewrite& rewrite, onnx::Graph&, Node& node) {
    if (node.op_type == "Mul" && node.domain.empty()) fuse_layer(rewrite, uses, node);
    if (node.op_type == "Add" && node.domain.empty()) absorb_bias(rewrite, uses, node);
  });
}

}  // namespace onnx_native::passes
