#include <unordered_set>

#include "base/weight.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace onnx_native::passes {
namespace {

using onnx::Node;
using onnx::Value;

// Returns rows [start, start + count) of a tensor, as a view.
TensorData rows_of(const TensorData& data, int64_t start, int64_t count) {
  int64_t row = data.strides.empty() ? 1 : data.strides[0];
  for (size_t i = 1; data.strides.empty() && i < data.shape.size(); ++i) row *= data.shape[i];
  TensorData part = data;
  part.data += start * row * item_size(data.dtype);
  part.shape[0] = count;
  return part;
}

Value* add_part(const Value& weight, int64_t start, int64_t count) {
  TensorData part = rows_of(*weight.constant, start, count);
  if (!weight_of(part)) {
    derive(part,
           {{*weight.constant}, [=](std::span<const TensorData> now) -> std::optional<TensorData> {
              return rows_of(now[0], start, count);
            }});
  }
  const std::string name =
      weight.name.empty() ? "" : concat(weight.name, "[", start, ":", start + count, "]");
  Value* added = weight.graph->add_initializer(name, std::move(part));
  added->named = weight.named;
  return added;
}

bool is_split_of_weight(const Node& node) {
  if (!node.is("Split")) return false;
  const Value& weight = *node.inputs[0];
  return weight.is_constant() && is_floating(weight.dtype) && weight.rank() >= 1 &&
         !weight.constant->scale && node.attribute_int("axis", 0) == 0;
}

// Returns the values that something else than products and what leads to them uses. The gates of a
// recurrent network, for example, are put together again.
std::unordered_set<const Value*> used_otherwise(onnx::Graph& main) {
  std::unordered_set<const Value*> values;
  onnx::for_each_graph(main, [&values](const onnx::Graph& graph) {
    for (const Node* node : graph.nodes) {
      if (node->is_any({"Add", "Cast", "Gemm", "MatMul", "Transpose"})) continue;
      values.insert(node->inputs.begin(), node->inputs.end());
    }
    values.insert(graph.outputs.begin(), graph.outputs.end());
  });
  return values;
}

}  // namespace

// A Split of the first axis of a weight that nothing else uses, into parts for products, like the
// packed projections of an attention, becomes these parts: views of the same memory, named
// "<name>[start:end]".
int64_t split_weights(onnx::Model& model) {
  if (model.weights == WeightLayout::module) return 0;
  const auto uses = onnx::count_uses(*model.graph);
  const auto others = used_otherwise(*model.graph);
  int64_t changes = 0;
  sweep(model, [&](Rewrite& rewrite, onnx::Graph&, Node& node) {
    if (!is_split_of_weight(node) || uses.at(node.inputs[0]) != 1) return;
    std::vector<int64_t> sizes;
    for (const Value* output : node.outputs) {
      if (!output || others.contains(output) || output->rank_or(0) == 0) return;
      const auto size = output->dim(0).constant();
      if (!size || *size == 0) return;
      sizes.push_back(*size);
    }
    int64_t start = 0;
    for (size_t i = 0; i < sizes.size(); ++i) {
      rewrite.replace(node.outputs[i], add_part(*node.inputs[0], start, sizes[i]));
      start += sizes[i];
    }
    ++changes;
  });
  return changes;
}

}  // namespace onnx_native::passes
