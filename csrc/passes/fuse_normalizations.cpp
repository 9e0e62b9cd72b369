#include "onnx/kernels.h"
#include "onnx/providers.h"
#include "passes/last_axis.h"
#include "passes/match.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace onnx_native::passes {
namespace {

using namespace match;  // NOLINT(google-build-using-namespace)

constexpr int64_t kRmsOpset = 23;
// ONNX Runtime's contrib operator for the same computation. It is registered in the domain ai.onnx.
constexpr std::string_view kContribRms = "SimplifiedLayerNormalization";
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

void fuse_rms(Rewrite& rewrite, Uses& uses, Node& node, std::string_view op_type, int64_t opset) {
  Var x, weight, epsilon;
  const auto normal = normalized(uses, pattern(x), epsilon);
  if (!matches(node.outputs[0], mul(weight, maybe_cast(uses, normal)))) return;
  normalize(rewrite, node, op_type, opset, x, weight, to_number(*epsilon));
}

// Returns true if the model may use the contrib operator and the target's provider has a kernel for
// this dtype. The rewrite to an older opset takes standard operators only.
bool has_contrib_rms(const onnx::Model& model, DType dtype) {
  if (!onnx::has_provider(model.target)) return false;
  if (model.final_opset.value_or(model.opset) < model.opset) return false;
  return (dtype == DType::f32 || dtype == DType::f16) &&
         onnx::may_have_kernel(model.target, kContribRms, model.opset, dtype);
}

// Replaces x * (1 / root) by Div(x, root).
void divide_by_root(Rewrite& rewrite, Uses& uses, Node& node) {
  Var x, weight, epsilon, root, normal;
  const auto mean = mean_of_last_axis(squared(pattern(x)));
  const auto divisor = both(root, op("Sqrt", add(mean, constant(epsilon))));
  const auto inverse = any_of(op("Reciprocal", divisor), op("Div", number(1), divisor));
  const auto quotient = any_of(mul(x, once(uses, inverse)), op("Div", x, once(uses, divisor)));
  const auto whole = mul(weight, maybe_cast(uses, both(normal, quotient)));
  if (!matches(node.outputs[0], whole) || x->dtype != DType::f32) return;
  if (!is_vector_of_last_axis(*weight, *x)) return;
  Node& division = *normal->producer;
  if (division.op_type == "Div") return;
  division.op_type = "Div";
  division.inputs = {x, root};
  rewrite.set_changed();
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
  const auto unbiased = both(normal, op("LayerNormalization", x, weight));
  if (!matches(node.outputs[0], add(once(uses, unbiased), bias))) return;
  if (normal->producer->outputs.size() != 1 || !is_vector_of_last_axis(*bias, *normal)) return;
  node.op_type = "LayerNormalization";
  node.attributes = normal->producer->attributes;
  node.inputs = {x, weight, bias};
  rewrite.set_changed();
}

}  // namespace

// weight * x / sqrt(mean(x * x) + epsilon) over the last axis becomes RMSNormalization, from opset
// 23 on. The mean must be computed in float32, as RMSNormalization does; x may be a Cast from the
// result's dtype, and the quotient a Cast back to it. Before opset 23 it becomes
// SimplifiedLayerNormalization for ONNX Runtime's providers (on the CPU 0.7 of the time in float16,
// 0.3 if graph optimizations are off: benchmarks/fused_operators.py). For other targets it becomes
// Pow (by means_of_squares), ReduceMean, Add, Sqrt, Div and Mul, the only form that ONNX Runtime
// fuses.
int64_t fuse_rms_normalization(onnx::Model& model) {
  Uses uses(model);
  return sweep(model, [&](Rewrite& rewrite, onnx::Graph&, Node& node) {
    if (!node.is("Mul")) return;
    if (model.opset >= kRmsOpset) {
      fuse_rms(rewrite, uses, node, "RMSNormalization", kRmsOpset);
    } else if (has_contrib_rms(model, node.outputs[0]->dtype)) {
      model.undefined_operators.emplace(kContribRms);
      fuse_rms(rewrite, uses, node, kContribRms, model.opset);
    } else {
      divide_by_root(rewrite, uses, node);
    }
  });
}

// weight * (x - mean(x)) / sqrt(mean((x - mean(x))^2) + epsilon) over the last axis becomes
// LayerNormalization, from opset 17 on, under the same conditions. An added bias becomes its input.
int64_t fuse_layer_normalization(onnx::Model& model) {
  if (model.final_opset.value_or(model.opset) < kLayerOpset) return 0;
  Uses uses(model);
  return sweep(model, [&uses](Rewrite& rewrite, onnx::Graph&, Node& node) {
    if (node.is("Mul")) fuse_layer(rewrite, uses, node);
    if (node.is("Add")) absorb_bias(rewrite, uses, node);
  });
}

}  // namespace onnx_native::passes
