#include "passes/quantized_weights.h"

#include <algorithm>

#include "base/packed.h"
#include "onnx/providers.h"
#include "passes/rewrite.h"

namespace onnx_native::passes {
namespace {

using onnx::Graph;
using onnx::Node;
using onnx::Value;

constexpr int64_t kAxisOpset = 13;
constexpr int64_t kFloat8Opset = 19;

int64_t opset_of(const onnx::Model& model) {
  return std::min(model.opset, model.final_opset.value_or(model.opset));
}

// Returns the quantized matrix that a Cast makes floats of, perhaps transposed; nullptr if the
// value is no such matrix.
Value* quantized_matrix(const onnx::Model& model, const Value* value) {
  const Node* cast = value->producer;
  if (!cast || !cast->is("Cast") || value->dtype != DType::f32) return nullptr;
  Value* matrix = cast->inputs[0];
  const Node* turn = matrix->producer;
  const Value* weight = turn && turn->is("Transpose") ? turn->inputs[0] : matrix;
  if (!weight->is_constant() || matrix->rank_or(-1) != 2) return nullptr;
  if (matrix->dtype == DType::i8 || matrix->dtype == DType::u8) return matrix;
  const bool is_float8 = is_floating(matrix->dtype) && item_size(matrix->dtype) == 1;
  // ONNX Runtime's providers have no product with 8-bit floats: they would dequantize in every run,
  // while it folds a Cast and a Mul when it loads the model.
  if (is_float8 && onnx::has_provider(model.target)) return nullptr;
  return is_float8 && opset_of(model) >= kFloat8Opset ? matrix : nullptr;
}

// The scales of a DequantizeLinear.
struct Scales {
  Value* values = nullptr;  // 0-d, or one per index of the axis
  std::optional<int64_t> axis = std::nullopt;
};

// Returns the scales that a constant holds if it broadcasts along one axis of a matrix of this
// shape, or is one number. A constant with leading axes of size 1 may have any rank.
std::optional<Scales> scales_of(const onnx::Model& model, const Node& at, Value* value,
                                const Shape& matrix) {
  const bool is_scale = value->dtype == DType::f32 && value->is_constant() && value->rank() > 0;
  if (!is_scale) {
    const bool is_number = value->dtype == DType::f32 && value->is_constant();
    return is_number ? std::optional(Scales{value}) : std::nullopt;
  }
  const Shape& shape = value->known_shape();
  const auto reshaped = [&](std::vector<int64_t> sizes) {
    return insert_before(model, at, "Reshape",
                         {value, model.graph->add_integers(std::move(sizes))});
  };
  const int64_t count = value->constant->numel();
  if (count == 1) return Scales{reshaped({})};
  for (size_t axis = 0; axis < matrix.size(); ++axis) {
    const size_t from_end = matrix.size() - axis;
    if (shape.size() < from_end) continue;
    const Dim& size = shape[shape.size() - from_end];
    if (!size.equals(count) || size != matrix[axis]) continue;
    Value* values = shape.size() == 1 ? value : reshaped({count});
    return Scales{values, static_cast<int64_t>(axis)};
  }
  return std::nullopt;
}

Value* dequantized(const onnx::Model& model, const Node& at, Value* matrix, const Scales& scales) {
  std::vector<onnx::Attribute> attributes;
  if (scales.axis) attributes.push_back({"axis", *scales.axis});
  return insert_before(model, at, "DequantizeLinear", {matrix, scales.values},
                       std::move(attributes));
}

// Mul(Cast(matrix), scale) becomes DequantizeLinear(matrix, scale).
bool fuse_weight(Rewrite& rewrite, const onnx::Model& model, Node& node) {
  for (const size_t index : {0, 1}) {
    Value* matrix = quantized_matrix(model, node.inputs[index]);
    if (!matrix || node.outputs[0]->known_shape() != matrix->known_shape()) continue;
    const auto scales = scales_of(model, node, node.inputs[1 - index], matrix->known_shape());
    if (!scales) continue;
    return rewrite.replace(node.outputs[0], dequantized(model, node, matrix, *scales));
  }
  return false;
}

// Mul(MatMul(x, Cast(matrix)), scale) becomes MatMul(x, DequantizeLinear(matrix, scale)).
bool fuse_product(Rewrite& rewrite, const onnx::Model& model,
                  const std::unordered_map<const Value*, int64_t>& uses, Node& node) {
  for (const size_t index : {0, 1}) {
    const Value* product = node.inputs[index];
    const Node* multiply = product->producer;
    if (!multiply || !multiply->is("MatMul")) continue;
    const auto used = uses.find(product);
    if (used == uses.end() || used->second != 1) continue;
    Value* matrix = quantized_matrix(model, multiply->inputs[1]);
    if (!matrix || node.outputs[0]->known_shape() != product->known_shape()) continue;
    const auto scales = scales_of(model, node, node.inputs[1 - index], matrix->known_shape());
    if (!scales || scales->axis == 0) continue;
    Value* weight = dequantized(model, node, matrix, *scales);
    return rewrite.replace(node.outputs[0],
                           insert_before(model, node, "MatMul", {multiply->inputs[0], weight}));
  }
  return false;
}

// Returns true if a DequantizeLinear makes the value of a constant, perhaps cast before.
bool is_dequantized_weight(const Value* value) {
  const Node* node = value->producer;
  if (!node || !node->is("DequantizeLinear")) return false;
  const Value* quantized = node->inputs[0];
  const Node* cast = quantized->producer;
  return (cast && cast->is("Cast") ? cast->inputs[0] : quantized)->is_constant();
}

bool is_dequantized(const Value* value) {
  return value->producer && value->producer->is("DequantizeLinear");
}

// Gemm(x, DequantizeLinear(w), c) becomes Add(MatMul(x, DequantizeLinear(w)), c).
bool spell_gemm(Rewrite& rewrite, const onnx::Model& model, Node& node) {
  const bool is_plain = node.attribute_int("transA", 0) == 0 &&
                        node.attribute_float("alpha", 1) == 1 &&
                        node.attribute_float("beta", 1) == 1;
  // Of quantized activations, runtimes make a product of integers with a bias.
  if (!is_plain || !is_dequantized_weight(node.inputs[1]) || is_dequantized(node.inputs[0]))
    return false;
  Value* weight = node.inputs[1];
  if (node.attribute_int("transB", 0) != 0) {
    weight =
        insert_before(model, node, "Transpose", {weight}, {{"perm", std::vector<int64_t>{1, 0}}});
  }
  Value* result = insert_before(model, node, "MatMul", {node.inputs[0], weight});
  if (Value* bias = node.input(2)) result = insert_before(model, node, "Add", {result, bias});
  rewrite.replace_all(node, node.outputs[0], result);
  return true;
}

}  // namespace

// A matrix of integers or 8-bit floats that is cast and scaled, before its product or after it, is
// dequantized by one DequantizeLinear, which runtimes fuse with the product if it is a MatMul.
int64_t fuse_quantized_weights(onnx::Model& model) {
  const auto uses = onnx::count_uses(*model.graph);
  return sweep(model, [&](Rewrite& rewrite, Graph&, Node& node) {
    if (node.is("Gemm")) spell_gemm(rewrite, model, node);
    if (!node.is("Mul") || opset_of(model) < kAxisOpset) return;
    if (!node.inputs[0]->shape || !node.inputs[1]->shape) return;
    if (!fuse_weight(rewrite, model, node)) fuse_product(rewrite, model, uses, node);
  });
}

// Integers of 8 bits that are cast to 4 bits are stored with 4 bits.
int64_t pack_weights(onnx::Model& model) {
  const auto uses = onnx::count_uses(*model.graph);
  return sweep(model, [&uses](Rewrite& rewrite, Graph& graph, Node& node) {
    if (!node.is("Cast") || !is_packed(node.outputs[0]->dtype)) return;
    Value* wide = node.inputs[0];
    const bool is_byte = wide->dtype == DType::i8 || wide->dtype == DType::u8;
    if (!wide->is_constant() || !is_byte || rewrite.is_result(node.outputs[0])) return;
    const bool takes_name = uses.at(wide) == 1;
    Value* narrow = graph.add_initializer(takes_name ? wide->name : "",
                                          packed(*wide->constant, node.outputs[0]->dtype));
    narrow->named = takes_name && wide->named;
    if (takes_name) {
      wide->named = false;
      wide->name.clear();
    }
    rewrite.replace(node.outputs[0], narrow);
  });
}

}  // namespace onnx_native::passes
