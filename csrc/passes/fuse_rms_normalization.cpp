#include "onnx/kernels.h"
#include "passes/match.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace onnx_native::passes {
namespace {

using namespace match;  // NOLINT(google-build-using-namespace)

constexpr int64_t kOpset = 23;

// Returns the value that a Cast converted to float32, if it had this dtype; `x` itself if it has
// this dtype; nullptr otherwise.
Value* before_cast(Value* x, DType dtype) {
  Var source;
  if (x->dtype == dtype) return x;
  if (!matches(x, cast(source)) || source->dtype != dtype) return nullptr;
  return source;
}

void fuse_node(Rewrite& rewrite, Uses& uses, Node& node) {
  Var x, weight, epsilon;
  const auto square = any_of(op("Mul", x, x), op("Pow", x, number(2)));
  const auto shifted = add(mean_of_last_axis(square), constant(epsilon));
  const auto root = any_of(op("Sqrt", shifted), op("Pow", shifted, number(0.5)));
  const auto inverse =
      any_of(op("Reciprocal", root), op("Div", number(1), root), op("Pow", shifted, number(-0.5)));
  const auto normal = any_of(mul(x, once(uses, inverse)), op("Div", x, once(uses, root)));
  if (!matches(node.outputs[0], mul(weight, maybe_cast(uses, normal)))) return;

  const DType dtype = node.outputs[0]->dtype;
  Value* input = before_cast(x, dtype);
  if (x->dtype != DType::f32 || !input) return;
  if (!onnx::has_kernel("RMSNormalization", dtype, kOpset)) return;
  if (!is_vector_of_last_axis(*weight, *x)) return;
  node.op_type = "RMSNormalization";
  node.inputs = {input, weight};
  node.attributes = {{"axis", int64_t{-1}}, {"epsilon", to_number(*epsilon)}};
  rewrite.set_changed();
}

}  // namespace

// weight * x / sqrt(mean(x * x) + epsilon) over the last axis becomes RMSNormalization, from opset
// 23 on. The mean must be computed in float32, as RMSNormalization does; x may be a Cast from the
// result's dtype, and the quotient a Cast back to it.
int64_t fuse_rms_normalization(onnx::Model& model) {
  if (model.opset < kOpset) return 0;
  Uses uses(model);
  return sweep(model, [&uses](Rewrite& rewrite, onnx::Graph&, Node& node) {
    if (node.op_type == "Mul" && node.domain.empty()) fuse_node(rewrite, uses, node);
  });
}

}  // namespace onnx_native::passes
