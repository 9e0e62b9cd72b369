#include "passes/precision_roles.h"

#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "onnx/providers.h"

namespace onnx_native::passes {
namespace {

using Role = PrecisionRole;

// docs/precision.md shows this table.
const std::unordered_map<std::string_view, Role>& role_table() {
  static const auto* table = [] {
    auto* all = new std::unordered_map<std::string_view, Role>;
    const auto add = [&](Role role, std::initializer_list<std::string_view> operators) {
      for (const std::string_view op_type : operators) all->emplace(op_type, role);
    };
    add(Role::product, {"Attention", "Conv", "ConvTranspose", "DeformConv", "Einsum", "GRU", "Gemm",
                        "LSTM", "MatMul", "RNN"});
    add(Role::elementwise, {"Abs",
                            "Add",
                            "Ceil",
                            "Celu",
                            "CenterCropPad",
                            "Clip",
                            "Col2Im",
                            "Compress",
                            "Concat",
                            "ConstantOfShape",
                            "DepthToSpace",
                            "DequantizeLinear",
                            "Div",
                            "Dropout",
                            "Elu",
                            "Equal",
                            "Expand",
                            "Flatten",
                            "Floor",
                            "Gather",
                            "GatherElements",
                            "GatherND",
                            "Gelu",
                            "GlobalMaxPool",
                            "Greater",
                            "GreaterOrEqual",
                            "GridSample",
                            "HardSwish",
                            "Identity",
                            "LeakyRelu",
                            "Less",
                            "LessOrEqual",
                            "Max",
                            "MaxPool",
                            "MaxUnpool",
                            "Min",
                            "Mul",
                            "Neg",
                            "OneHot",
                            "PRelu",
                            "Pad",
                            "ReduceMax",
                            "ReduceMin",
                            "Relu",
                            "Reshape",
                            "Resize",
                            "ReverseSequence",
                            "RotaryEmbedding",
                            "Round",
                            "ScatterElements",
                            "ScatterND",
                            "Selu",
                            "Shrink",
                            "Sign",
                            "Slice",
                            "SpaceToDepth",
                            "Split",
                            "Sqrt",
                            "Squeeze",
                            "Sub",
                            "Swish",
                            "TensorScatter",
                            "ThresholdedRelu",
                            "Tile",
                            "TopK",
                            "Transpose",
                            "Trilu",
                            "Unique",
                            "Unsqueeze",
                            "Where"});
    add(Role::bounded, {"Erf", "HardSigmoid", "Sigmoid", "Softsign", "Tanh"});
    add(Role::range_kept, {"AveragePool", "GlobalAveragePool", "Mean", "Mish", "ReduceLogSumExp",
                           "ReduceMean", "RoiAlign", "Softplus"});
    add(Role::normalized,
        {"Acos", "Asin", "Atan", "BatchNormalization", "Cos", "GroupNormalization",
         "InstanceNormalization", "LRN", "LayerNormalization", "LogSoftmax", "LpNormalization",
         "MeanVarianceNormalization", "NegativeLogLikelihoodLoss", "RMSNormalization", "Sin",
         "Softmax", "SoftmaxCrossEntropyLoss"});
    add(Role::grows, {"Acosh",        "Asinh",
                      "Atanh",        "BitCast",
                      "Cosh",         "CumProd",
                      "CumSum",       "DFT",
                      "Det",          "Exp",
                      "GlobalLpPool", "Log",
                      "LpPool",       "MelWeightMatrix",
                      "Mod",          "Pow",
                      "Range",        "Reciprocal",
                      "ReduceL1",     "ReduceL2",
                      "ReduceProd",   "ReduceSum",
                      "ReduceLogSum", "ReduceSumSquare",
                      "STFT",         "Sinh",
                      "Sum",          "Tan"});
    add(Role::indifferent,
        {"ArgMax", "ArgMin", "Cast", "IsInf", "IsNaN", "NonZero", "Shape", "Size"});
    add(Role::control_flow, {"If", "Loop", "Scan"});
    return all;
  }();
  return *table;
}

}  // namespace

PrecisionRole precision_role(const onnx::Node& node) {
  if (node.domain == onnx::kRuntimeDomain) {
    if (node.op_type == "GroupQueryAttention") return Role::product;
    if (node.op_type == "RotaryEmbedding") return Role::elementwise;
  }
  if (!node.domain.empty()) return Role::range_kept;
  const auto found = role_table().find(node.op_type);
  if (found == role_table().end()) return Role::range_kept;
  // A scatter that adds has sums of any number of elements.
  const bool scatters = node.is_any({"ScatterElements", "ScatterND"});
  if (scatters && node.attribute_string("reduction", "none") != "none") return Role::grows;
  return found->second;
}

bool keeps_float32(const onnx::Node& node, size_t input) {
  return input > 0 && node.is_any({"Dropout", "GridSample", "Resize"});
}

}  // namespace onnx_native::passes
