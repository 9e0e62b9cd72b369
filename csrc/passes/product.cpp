#include "passes/product.h"

#include <algorithm>

#include "base/weight.h"

namespace onnx_native::passes {
namespace {

using onnx::Node;
using onnx::UseCounts;
using onnx::Value;
using Ints = std::vector<int64_t>;

constexpr int kLongestChain = 8;  // of layout operators after a product

bool is_used_once(const Value* value, const UseCounts& uses) {
  const auto found = uses.find(value);
  return found != uses.end() && found->second == 1;
}

// Returns true for a constant that can be scaled along this axis.
bool is_scalable(const Value* value, size_t axis, const UseCounts& uses) {
  return value->is_constant() && is_used_once(value, uses) && value->rank_or(0) > 1 &&
         axis < value->constant->shape.size() && value->constant->numel() > 0;
}

// Returns true if the bias has one element, or one for each channel along its last axis.
bool is_bias(const Value* bias, int64_t channels, const Value& result) {
  if (!is_readable(bias, result.dtype) || bias->rank() > result.rank_or(-1)) return false;
  const Ints& shape = bias->constant->shape;
  const int64_t count = bias->constant->numel();
  return count == 1 || (count == channels && shape.back() == channels);
}

bool is_plain_transpose(const Node* node) {
  if (!node || !node->is("Transpose") || node->inputs[0]->rank_or(0) != 2) return false;
  return node->attribute_ints("perm").value_or(Ints{1, 0}) == Ints{1, 0};
}

std::optional<Product> with_bias(Product product, const Value& result) {
  const Value* bias = product.bias();
  if (bias && !is_bias(bias, product.channels(), result)) return std::nullopt;
  return product;
}

std::optional<Product> convolution(Value* value, const UseCounts& uses) {
  Node* node = value->producer;
  const bool transposed = node->is("ConvTranspose");
  if (transposed && node->attribute_int("group", 1) != 1) return std::nullopt;
  const size_t axis = transposed ? 1 : 0;
  if (!is_scalable(node->inputs[1], axis, uses)) return std::nullopt;
  return with_bias({value, node, 1, axis, node, 2, 1}, *value);
}

std::optional<Product> gemm(Value* value, const UseCounts& uses) {
  Node* node = value->producer;
  const size_t axis = node->attribute_int("transB", 0) != 0 ? 0 : 1;
  if (!is_scalable(node->inputs[1], axis, uses)) return std::nullopt;
  return with_bias({value, node, 1, axis, node, 2, 1}, *value);
}

std::optional<Product> matmul(Value* value, const UseCounts& uses) {
  Node* node = value->producer;
  Value* weight = node->inputs[1];
  const int64_t last = value->rank_or(0) - 1;
  if (last < 0 || weight->rank_or(0) != 2) return std::nullopt;
  if (is_scalable(weight, 1, uses)) return Product{value, node, 1, 1, nullptr, 2, last};
  Node* transpose = weight->producer;
  if (!is_plain_transpose(transpose) || !is_used_once(weight, uses)) return std::nullopt;
  if (!is_scalable(transpose->inputs[0], 0, uses)) return std::nullopt;
  return Product{value, transpose, 0, 0, nullptr, 2, last};
}

// Finds a MatMul plus its bias.
std::optional<Product> biased(Value* value, const UseCounts& uses) {
  Node* add = value->producer;
  for (const size_t side : {0, 1}) {
    Value* inner = add->inputs[side];
    if (!inner->producer || !inner->producer->is("MatMul")) continue;
    if (!is_used_once(inner, uses) || inner->graph != value->graph) continue;
    auto product = matmul(inner, uses);
    if (!product || inner->shape != value->shape) continue;
    product->bias_user = add;
    product->bias_index = 1 - side;
    product->result = value;
    return with_bias(*product, *value);
  }
  return std::nullopt;
}

std::optional<Product> plain_product(Value* value, const UseCounts& uses) {
  const Node* node = value->producer;
  if (node->is_any({"Conv", "ConvTranspose"})) return convolution(value, uses);
  if (node->is("Gemm")) return gemm(value, uses);
  if (node->is("MatMul")) return matmul(value, uses);
  return node->is("Add") ? biased(value, uses) : std::nullopt;
}

bool only_moves_elements(const Node& node) {
  return node.is_any({"Transpose", "Reshape", "Squeeze", "Unsqueeze", "Flatten"});
}

// Returns the axis of a Transpose's result that an axis of its input becomes.
std::optional<int64_t> moved_axis(const Node& node, std::optional<int64_t> axis) {
  const auto order = node.attribute_ints("perm");
  if (!axis || !node.is("Transpose") || !order) return std::nullopt;
  return std::ranges::find(*order, *axis) - order->begin();
}

std::optional<Product> find(Value* value, const UseCounts& uses, int depth) {
  const bool scales = value->dtype == DType::f32 || value->dtype == DType::f64;
  if (!value->producer || !value->shape || !scales || !is_used_once(value, uses)) {
    return std::nullopt;
  }
  const Node& node = *value->producer;
  if (!only_moves_elements(node)) return plain_product(value, uses);
  if (depth == kLongestChain || node.inputs[0]->graph != value->graph) return std::nullopt;
  auto product = find(node.inputs[0], uses, depth + 1);
  if (!product) return std::nullopt;
  product->axis = moved_axis(node, product->axis);
  product->result = value;
  return product;
}

}  // namespace

UseCounts count_uses_of_elements(onnx::Graph& graph) {
  UseCounts uses = onnx::count_uses(graph);
  onnx::for_each_graph(graph, [&uses](const onnx::Graph& each) {
    for (const Node* node : each.nodes) {
      if (node->is("Shape")) --uses[node->inputs[0]];
    }
  });
  return uses;
}

std::optional<Product> find_product(Value* value, const UseCounts& uses) {
  return find(value, uses, 0);
}

bool is_readable(const Value* value, DType dtype) {
  return value && value->is_constant() && value->dtype == dtype && value->shape &&
         !is_on_demand(*value->constant);
}

}  // namespace onnx_native::passes
