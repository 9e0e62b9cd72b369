#include "passes/elementwise.h"

namespace onnx_native::passes {

using onnx::Node;

bool is_elementwise(const Node& node) {
  return node.is_any({"Abs",  "Add",  "Cast",    "Clip",        "Div",       "Elu",
                      "Erf",  "Exp",  "Gelu",    "HardSigmoid", "HardSwish", "LeakyRelu",
                      "Log",  "Mish", "Mul",     "Neg",         "Pow",       "Reciprocal",
                      "Relu", "Selu", "Sigmoid", "Softplus",    "Softsign",  "Sqrt",
                      "Sub",  "Tanh", "Where"});
}

bool normalizes_last_axis(const Node& node, int64_t rank) {
  if (!node.is_any({"LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization"}))
    return false;
  const int64_t axis = node.attribute_int("axis", -1);
  return axis == -1 || axis == rank - 1;
}

}  // namespace onnx_native::passes
