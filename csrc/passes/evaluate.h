// Constant evaluation of ONNX nodes, with ONNX semantics.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/tensor_data.h"
#include "onnx/graph.h"

namespace onnx_native::passes {

// Returns a result of the node, which has several only if it is a Split, given its inputs' elements
// (nullptr: an absent input). Returns nullopt if the result would have more than `limit` elements,
// if a dtype is not a float, a signed integer, u8 or bool, or if the operator is not one of the
// elementwise, shape, indexing, reducing and multiplying operators that compute shapes, masks,
// tables, positions and normalized weights.
std::optional<TensorData> evaluate(const onnx::Node& node,
                                   std::span<const TensorData* const> inputs, int64_t limit,
                                   size_t output = 0);
// Returns true if evaluate() knows the operator and the dtypes. It may still return nullopt.
bool can_evaluate(const onnx::Node& node);

// A copy of nodes, which computes a constant from others after the model has changed.
class Expression {
 public:
  // `nodes` are in topological order; all their inputs are `leaves` or results of earlier ones.
  Expression(std::span<onnx::Node* const> nodes, std::span<onnx::Value* const> leaves);

  // Returns the result of the last node for these elements of the leaves. Frees every other result
  // after its last use.
  std::optional<TensorData> run(std::span<const TensorData> sources, int64_t limit) const;

 private:
  std::unique_ptr<onnx::Graph> graph_;
  std::vector<const onnx::Value*> leaves_;
  std::unordered_map<const onnx::Value*, const onnx::Node*> last_use_;
};

}  // namespace onnx_native::passes
