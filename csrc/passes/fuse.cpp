#include <algorithm>

#include "passes/passes.h"
#include "passes/rewrite.h"

namespace onnx_native::passes {
namespace {

using onnx::Node;
using onnx::UseCounts;
using onnx::Value;

bool is_matrix(const Value* value) { return value && value->rank_or(-1) == 2; }

bool has_gemm_kernel(DType dtype) {
  return dtype == DType::f16 || dtype == DType::f32 || dtype == DType::f64;
}

// Returns the matrix that the value is the transpose of, or nullptr.
Value* transposed_matrix(const Value* value) {
  const Node* node = value->producer;
  if (!node || !node->is("Transpose")) return nullptr;
  if (!is_matrix(node->inputs[0])) return nullptr;
  const auto order = node->attribute_ints("perm");
  if (order && *order != std::vector<int64_t>{1, 0}) return nullptr;
  return node->inputs[0];
}

// Returns true if Gemm accepts the value as its input C for results of this shape.
bool fits_as_bias(const Value& bias, const Shape& result) {
  if (!bias.shape || bias.shape->size() > result.size()) return false;
  const size_t lead = result.size() - bias.shape->size();
  for (size_t i = 0; i < bias.shape->size(); ++i) {
    const Dim& size = (*bias.shape)[i];
    if (!size.equals(1) && size != result[lead + i]) return false;
  }
  return true;
}

// Replaces transposed operands of a Gemm by the matrices, and sets transA or transB.
void absorb_transposes(Rewrite& rewrite, Node& gemm) {
  for (const size_t index : {0, 1}) {
    Value* matrix = transposed_matrix(gemm.inputs[index]);
    if (!matrix) continue;
    const std::string name = index == 0 ? "transA" : "transB";
    const int64_t flipped = gemm.attribute_int(name, 0) == 0 ? 1 : 0;
    std::erase_if(gemm.attributes, [&name](const auto& each) { return each.name == name; });
    if (flipped != 0) gemm.attributes.push_back({name, flipped});
    gemm.inputs[index] = matrix;
    rewrite.set_changed();
  }
}

// Returns true if the product's weight is dequantized, which runtimes fuse with a MatMul only, or a
// matrix of a stack, like an expert of a mixture: MatMulNBitsQuantizer takes a MatMul only.
bool stays_matmul(const Node& product) {
  const Node* node = product.inputs[1]->producer;
  if (node && node->is("Transpose")) node = node->inputs[0]->producer;
  if (node && node->is("Squeeze")) node = node->inputs[0]->producer;
  return node &&
         (node->is("DequantizeLinear") || (node->is("Split") && node->inputs[0]->rank_or(-1) == 3));
}

bool is_plain_matmul(const Node* node) {
  return node && node->is("MatMul") && is_matrix(node->inputs[0]) && is_matrix(node->inputs[1]) &&
         has_gemm_kernel(node->inputs[0]->dtype) && !stays_matmul(*node);
}

// Returns true for a Gemm without bias, alpha and beta.
bool is_plain_gemm(const Node* node) {
  return node && node->is("Gemm") && !node->input(2) &&
         std::ranges::all_of(node->attributes, [](const auto& attribute) {
           return attribute.name == "transA" || attribute.name == "transB";
         });
}

// Fuses Add(MatMul(a, b), c) if the product has no other use.
void fuse_bias(Rewrite& rewrite, Node& add, const UseCounts& uses) {
  for (const size_t side : {0, 1}) {
    const Value* product = add.inputs[side];
    Value* bias = add.inputs[1 - side];
    const Node* node = product->producer;
    if (!is_plain_matmul(node) && !is_plain_gemm(node)) continue;
    if (uses.at(product) != 1 || product->graph != add.outputs[0]->graph) continue;
    if (!product->shape || product->shape != add.outputs[0]->shape) continue;
    if (!fits_as_bias(*bias, *product->shape)) continue;
    add.op_type = "Gemm";
    add.attributes = node->attributes;
    add.inputs = {node->inputs[0], node->inputs[1], bias};
    rewrite.set_changed();
    return;
  }
}

}  // namespace

// A MatMul of matrices plus a bias becomes Gemm. A transposed operand of a Gemm, or of a MatMul of
// matrices, becomes transA or transB. Weights do not change.
int64_t fuse(onnx::Model& model) {
  if (model.opset < 11) return 0;  // Gemm requires C
  const UseCounts uses = onnx::count_uses(*model.graph);
  return sweep(model, [&uses](Rewrite& rewrite, onnx::Graph&, Node& node) {
    if (!node.domain.empty()) return;
    if (node.op_type == "Add") fuse_bias(rewrite, node, uses);
    if (is_plain_matmul(&node) &&
        (transposed_matrix(node.inputs[0]) || transposed_matrix(node.inputs[1]))) {
      node.op_type = "Gemm";
    }
    if (node.op_type == "Gemm") absorb_transposes(rewrite, node);
  });
}

}  // namespace onnx_native::passes
