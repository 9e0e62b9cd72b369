#include "onnx/typing.h"
#include "passes/match.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace onnx_native::passes {

// ReduceMean(Mul(x, x)) becomes ReduceMean(Pow(x, 2)) if the product has no other use. ONNX Runtime
// and its tools look for an RMS normalization in this spelling, and their Pow is as fast as Mul.
// Not for doubles, whose normalization ONNX Runtime then computes in float32.
int64_t spell_means_of_squares(onnx::Model& model) {
  match::Uses uses(model);
  return sweep(model, [&uses](Rewrite& rewrite, onnx::Graph& graph, onnx::Node& node) {
    if (!node.is("ReduceMean")) return;
    if (node.inputs[0]->dtype != DType::f32) return;
    match::Var x;
    if (!match::matches(node.inputs[0], match::once(uses, match::op("Mul", x, x)))) return;
    constexpr double kTwo = 2;
    onnx::Value* exponent =
        graph.add_initializer("", make_tensor(DType::f32, {}, std::span<const double>(&kTwo, 1)));
    onnx::Node* square = graph.insert_node(node.position, "Pow", {x, exponent}, 1);
    square->location = node.inputs[0]->producer->location;
    onnx::Typing::copy(*node.inputs[0], *square->outputs[0]);
    node.inputs[0] = square->outputs[0];
    rewrite.set_changed();
  });
}

}  // namespace onnx_native::passes
