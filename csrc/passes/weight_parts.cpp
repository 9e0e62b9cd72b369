#include <unordered_map>
#include <unordered_set>

#include "base/weight.h"
#include "base/weight_names.h"
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

// Returns the tensor at this index of the first axis, as a view.
TensorData row_of(const TensorData& data, int64_t index) {
  TensorData row = rows_of(data, index, 1);
  row.shape.erase(row.shape.begin());
  if (!row.strides.empty()) row.strides.erase(row.strides.begin());
  return row;
}

template <class View>
Value* add_view(const Value& weight, const RowRange& rows, const View& view) {
  TensorData part = view(*weight.constant);
  if (!weight_of(part)) {
    derive(part,
           {{*weight.constant}, [view](std::span<const TensorData> now) { return view(now[0]); }});
  }
  Value* added = weight.graph->add_initializer(part_name(weight.name, rows), std::move(part));
  added->named = weight.named;
  return added;
}

Value* add_part(const Value& weight, int64_t start, int64_t count) {
  return add_view(weight, {start, start + count},
                  [=](const TensorData& data) { return rows_of(data, start, count); });
}

Value* add_row(const Value& weight, int64_t index) {
  return add_view(weight, {.start = index},
                  [=](const TensorData& data) { return row_of(data, index); });
}

bool is_split_of_weight(const Node& node) {
  if (!node.is("Split")) return false;
  const Value& weight = *node.inputs[0];
  return weight.is_constant() && is_floating(weight.dtype) && weight.rank() >= 1 &&
         !weight.constant->scale && node.attribute_int("axis", 0) == 0;
}

bool drops_first_axis(const Node& node) {
  const Value* axes = node.is("Squeeze") ? node.input(1) : nullptr;
  return axes && axes->is_constant() && axes->constant->integers() == std::vector<int64_t>{0};
}

class WeightParts {
 public:
  explicit WeightParts(onnx::Graph& main) : uses_(onnx::count_uses(main)) {
    onnx::for_each_graph(main, [this](const onnx::Graph& graph) {
      for (const Node* node : graph.nodes) {
        if (drops_first_axis(*node)) {
          rows_[node->inputs[0]] = node->outputs[0];
        } else if (!node->is_any({"Add", "Cast", "Gemm", "MatMul", "Transpose"})) {
          others_.insert(node->inputs.begin(), node->inputs.end());
        }
      }
      others_.insert(graph.outputs.begin(), graph.outputs.end());
    });
  }

  bool replace(Rewrite& rewrite, const Node& node) {
    if (!is_split_of_weight(node) || uses_.at(node.inputs[0]) != 1) return false;
    std::vector<int64_t> sizes;
    for (const Value* output : node.outputs) {
      if (!output || output->rank_or(0) == 0 || !serves_products(output)) return false;
      const auto size = output->dim(0).constant();
      if (!size || *size == 0) return false;
      sizes.push_back(*size);
    }
    const Value& weight = *node.inputs[0];
    int64_t start = 0;
    for (size_t i = 0; i < sizes.size(); ++i) {
      Value* part = node.outputs[i];
      if (Value* row = row_of_part(part)) {
        rewrite.replace(row, add_row(weight, start));
      } else {
        rewrite.replace(part, add_part(weight, start, sizes[i]));
      }
      start += sizes[i];
    }
    return true;
  }

 private:
  // The gates of a recurrent network, for example, are put together again.
  bool serves_products(const Value* part) const {
    const Value* row = row_of_part(part);
    return !others_.contains(row ? row : part) && (row || !rows_.contains(part));
  }

  // Returns what the only use of a part makes of it by dropping its first axis; or nullptr.
  Value* row_of_part(const Value* part) const {
    const auto found = rows_.find(part);
    return found != rows_.end() && uses_.at(part) == 1 ? found->second : nullptr;
  }

  std::unordered_map<const Value*, int64_t> uses_;
  std::unordered_map<const Value*, Value*> rows_;  // by values that lose their first axis
  std::unordered_set<const Value*> others_;        // what nodes use that do not lead to products
};

}  // namespace

// A Split of the first axis of a weight that nothing else uses, into parts for products, like the
// packed projections of an attention, becomes these parts: views of the same memory, named
// "<name>[start:end]", and "<name>[index]" for the matrices of a stack, like the experts of a
// mixture.
int64_t split_weights(onnx::Model& model) {
  if (model.weights == WeightLayout::module) return 0;
  WeightParts parts(*model.graph);
  int64_t changes = 0;
  sweep(model, [&](Rewrite& rewrite, onnx::Graph&, const Node& node) {
    if (parts.replace(rewrite, node)) ++changes;
  });
  return changes;
}

}  // namespace onnx_native::passes
