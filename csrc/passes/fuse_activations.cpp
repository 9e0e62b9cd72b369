#include <cmath>
#include <numbers>
#include <string>

#include "onnx/kernels.h"
#include "passes/match.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace onnx_native::passes {
namespace {

using namespace match;  // NOLINT(google-build-using-namespace)

using Rule = void (*)(Rewrite& rewrite, Uses& uses, Node& node);

// Runs the rule on operators from this opset on.
int64_t fuse_from(onnx::Model& model, int64_t opset, Rule rule) {
  if (model.final_opset.value_or(model.opset) < opset) return 0;
  Uses uses(model);
  return sweep(model, [&](Rewrite& rewrite, onnx::Graph&, Node& node) {
    const bool can_be_last = node.op_type == "Mul" || node.op_type == "Div";
    if (can_be_last && node.domain.empty()) rule(rewrite, uses, node);
  });
}

void activate(Rewrite& rewrite, Node& node, std::string_view op_type, int64_t opset, Value* x,
              std::vector<onnx::Attribute> attributes = {}) {
  if (!onnx::has_kernel(op_type, x->dtype, opset)) return;
  node.op_type = op_type;
  node.inputs = {x};
  node.attributes = std::move(attributes);
  rewrite.set_changed();
}

// 0.5 * x * (1 + erf(x / sqrt(2))) and
// 0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))).
void fuse_gelu_node(Rewrite& rewrite, Uses& uses, Node& node) {
  constexpr double kFactor = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
  Var x;
  const auto scaled =
      any_of(op("Div", x, number(std::numbers::sqrt2)), mul(x, number(1 / std::numbers::sqrt2)));
  const auto cube =
      any_of(op("Pow", x, number(3)), mul(x, op("Mul", x, x)), mul(x, op("Pow", x, number(2))));
  const auto square = any_of(op("Mul", x, x), op("Pow", x, number(2)));
  const auto bent =
      any_of(mul(number(kFactor), add(x, mul(number(0.044715), cube))),
             product(x, number(kFactor), add(number(1), mul(number(0.044715), square))),
             product(x, number(kFactor), add(number(1), mul(x, mul(number(0.044715), x)))));
  const auto gated = [&](const auto& gate) {
    return product(number(0.5), x, once(uses, add(number(1), once(uses, gate))));
  };
  Value* y = node.outputs[0];
  if (matches(y, gated(op("Erf", scaled)))) {
    activate(rewrite, node, "Gelu", 20, x, {{"approximate", std::string("none")}});
  } else if (matches(y, gated(op("Tanh", bent)))) {
    activate(rewrite, node, "Gelu", 20, x, {{"approximate", std::string("tanh")}});
  }
}

// Returns true for HardSigmoid's parameters in HardSwish.
bool is_clipped_sixth(const Value& value) {
  const Node* node = value.producer;
  return node && std::abs(node->attribute_float("alpha", 0.2) - 1.0 / 6) < 1e-6 &&
         node->attribute_float("beta", 0.5) == 0.5;
}

// x * clip(x + 3, 0, 6) / 6.
void fuse_hard_swish_node(Rewrite& rewrite, Uses& uses, Node& node) {
  Var x;
  const auto clipped = once(uses, op("Clip", add(x, number(3)), number(0), number(6)));
  const auto spelled =
      any_of(op("Div", once(uses, mul(x, clipped)), number(6)),
             mul(x, op("Div", clipped, number(6))), product(x, clipped, number(1.0 / 6)),
             mul(x, once(uses, where(op("HardSigmoid", x), is_clipped_sixth))));
  if (matches(node.outputs[0], spelled)) activate(rewrite, node, "HardSwish", 14, x);
}

// x * tanh(softplus(x)).
void fuse_mish_node(Rewrite& rewrite, Uses& uses, Node& node) {
  Var x;
  const auto soft = any_of(op("Softplus", x), op("Log", add(number(1), op("Exp", x))));
  if (!matches(node.outputs[0], mul(x, once(uses, op("Tanh", once(uses, soft)))))) return;
  activate(rewrite, node, "Mish", 18, x);
}

}  // namespace

// Gelu spelled out, with erf or with tanh, becomes Gelu, from opset 20 on.
int64_t fuse_gelu(onnx::Model& model) { return fuse_from(model, 20, fuse_gelu_node); }
// HardSwish spelled out, with Clip or HardSigmoid, becomes HardSwish, from opset 14 on.
int64_t fuse_hard_swish(onnx::Model& model) { return fuse_from(model, 14, fuse_hard_swish_node); }
// Mish spelled out becomes Mish, from opset 18 on.
int64_t fuse_mish(onnx::Model& model) { return fuse_from(model, 18, fuse_mish_node); }

}  // namespace onnx_native::passes
