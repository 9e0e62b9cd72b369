#include "base/weight.h"
#include "onnx/typing.h"
#include "passes/evaluate.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace onnx_native::passes {
namespace {

using onnx::Graph;
using onnx::Node;
using onnx::Value;

constexpr int64_t kLargestFolded = 1024;  // elements

// Returns the contents that shape inference found, if all are constants.
std::optional<TensorData> known_contents(const Value& value) {
  if (!value.contents || !is_integral(value.dtype) || !value.shape) return std::nullopt;
  const auto numbers = constant_shape(*value.contents);
  const auto shape = constant_shape(*value.shape);
  if (!numbers || !shape || shape->size() > 1) return std::nullopt;
  if (static_cast<int64_t>(numbers->size()) != (shape->empty() ? 1 : shape->front())) {
    return std::nullopt;
  }
  return make_tensor(value.dtype, *shape, *numbers);
}

std::optional<TensorData> constant_operator(const Node& node) {
  const auto* value = node.attribute("value");
  if (node.op_type != "Constant" || !node.domain.empty() || !value) return std::nullopt;
  return **std::get_if<std::shared_ptr<TensorData>>(value);
}

std::optional<TensorData> evaluated(const Node& node,
                                    const std::vector<const TensorData*>& inputs) {
  return evaluate(node, inputs, kLargestFolded);
}

// A copy of a node that recomputes a constant from the current weights.
class Computation {
 public:
  explicit Computation(const Node& node) {
    std::vector<Value*> inputs;
    for (const Value* input : node.inputs) {
      inputs.push_back(input ? graph_.add_value(input->dtype, input->shape) : nullptr);
    }
    node_ = graph_.add_node(node.op_type, std::move(inputs), 1, node.attributes, node.domain);
    onnx::Typing::set(*node_->outputs[0], node.outputs[0]->dtype, node.outputs[0]->shape);
  }

  std::optional<TensorData> run(std::span<const TensorData> inputs) const {
    std::vector<const TensorData*> present;
    for (const TensorData& input : inputs) {
      present.push_back(input.dtype == DType::undefined ? nullptr : &input);
    }
    return evaluated(*node_, present);
  }

 private:
  Graph graph_;
  Node* node_;
};

std::optional<TensorData> derived(const Node& node, const std::vector<const TensorData*>& inputs) {
  const ReadScope unrecorded(nullptr);
  std::optional<TensorData> data = evaluated(node, inputs);
  if (!data) return std::nullopt;
  Derivation derivation;
  for (const TensorData* input : inputs) {
    derivation.sources.push_back(input ? *input : TensorData());
  }
  derivation.compute = [computation = std::make_shared<const Computation>(node)](
                           std::span<const TensorData> sources) {
    return computation->run(sources);
  };
  derive(*data, std::move(derivation));
  return data;
}

std::optional<TensorData> evaluated(const Node& node) {
  std::vector<const TensorData*> inputs;
  int64_t elements = 0;
  bool changes = false;
  for (const Value* input : node.inputs) {
    if (input && !input->is_constant()) return std::nullopt;
    inputs.push_back(input ? input->constant : nullptr);
    if (!input) continue;
    changes |= can_change(*input->constant);
    elements += input->constant->numel();
    if (elements > kLargestFolded) return std::nullopt;
  }
  return changes ? derived(node, inputs) : evaluated(node, inputs);
}

}  // namespace

// Replaces a result with an initializer if it depends only on constants, or if inference knows its
// contents. Keeps graph outputs, and computations with more than 1024 elements in their inputs or
// result. Results that depend on live weights are recomputed when the model is written.
int64_t fold_constants(onnx::Model& model) {
  return sweep(model, [](Rewrite& rewrite, Graph& graph, Node& node) {
    if (node.outputs.size() != 1 || !node.outputs[0]) return;
    Value* output = node.outputs[0];
    std::optional<TensorData> data = known_contents(*output);
    if (!data) data = constant_operator(node);
    if (!data) data = evaluated(node);
    if (!data || data->dtype != output->dtype || rewrite.is_result(output)) return;
    const Shape shape(data->shape.begin(), data->shape.end());
    if (output->shape && constant_shape(*output->shape) && *output->shape != shape) return;
    rewrite.replace(output, graph.add_initializer("", std::move(*data)));
  });
}

}  // namespace onnx_native::passes
