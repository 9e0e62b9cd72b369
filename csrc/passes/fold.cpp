#include <algorithm>
#include <array>
#include <unordered_map>

#include "base/packed.h"
#include "base/weight.h"
#include "passes/evaluate.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace onnx_native::passes {
namespace {

using onnx::Graph;
using onnx::Node;
using onnx::Value;

constexpr int64_t kSmall = 1024;       // elements of inputs or results that may always be folded
constexpr int64_t kLargest = 1 << 18;  // elements of a result
constexpr int64_t kLargestWeight = 1 << 14;
constexpr int64_t kLargestGrowth = 64;  // elements of a result per element of the inputs
constexpr int64_t kShareOfWeights =
    8;  // large results together take an eighth of the weights' memory

// Returns the contents that shape inference found, if all are constants.
std::optional<TensorData> known_contents(const Value& value) {
  if (!is_integral(value.dtype) || !value.shape) return std::nullopt;
  const auto numbers = value.known_integers();
  const auto shape = constant_shape(*value.shape);
  if (!numbers || !shape || shape->size() > 1) return std::nullopt;
  if (static_cast<int64_t>(numbers->size()) != (shape->empty() ? 1 : shape->front())) {
    return std::nullopt;
  }
  return make_tensor(value.dtype, *shape, *numbers);
}

// Returns the tensor if its shape says that it has no elements.
std::optional<TensorData> empty_contents(const Value& value) {
  if (value.kind != onnx::ValueKind::tensor || !value.shape) return std::nullopt;
  const auto shape = constant_shape(*value.shape);
  if (!shape || std::ranges::find(*shape, 0) == shape->end()) return std::nullopt;
  return make_tensor(value.dtype, *shape, std::vector<std::byte>());
}

std::optional<TensorData> constant_operator(const Node& node) {
  const auto* value = node.attribute("value");
  if (!node.is("Constant") || !value) return std::nullopt;
  return **std::get_if<std::shared_ptr<TensorData>>(value);
}

std::optional<TensorData> derived_result(const Node& node,
                                         const std::vector<const TensorData*>& inputs,
                                         int64_t limit) {
  const ReadScope unrecorded(nullptr);
  if (!std::ranges::all_of(inputs, [](auto* input) { return !input || has_elements(input); }))
    return std::nullopt;
  std::optional<TensorData> data = evaluate(node, inputs, limit);
  if (!data) return std::nullopt;
  std::vector<Value*> leaves;
  Derivation derivation;
  for (Value* input : node.inputs) {
    if (!input || std::ranges::find(leaves, input) != leaves.end()) continue;
    leaves.push_back(input);
    derivation.sources.push_back(*input->constant);
  }
  const std::array nodes{node.outputs[0]->producer};
  derivation.compute = [computation = std::make_shared<const Expression>(nodes, leaves)](
                           std::span<const TensorData> now) {
    return computation->run(now, kLargest);
  };
  derive(*data, std::move(derivation));
  return data;
}

// Returns true for operators whose large results runtimes make faster than they load them.
bool repeats(const Node& node) {
  constexpr std::array kOperators{"ConstantOfShape", "Expand", "OneHot", "Range", "Tile"};
  return std::ranges::find(kOperators, node.op_type) != kOperators.end();
}

// Returns true for a Cast that would store a quantized matrix as floats.
bool is_dequantization(const Node& node) {
  const Value* input = node.input(0);
  return node.is("Cast") && input && input->named && input->rank_or(0) >= 2 &&
         input->dtype != DType::boolean && item_size(input->dtype) == 1 &&
         is_floating(node.outputs[0]->dtype);
}

bool is_large(const Value& value) { return value.constant->numel() > kSmall; }

// The memory that large results may take.
class Memory {
 public:
  explicit Memory(onnx::Model& model) : uses_(onnx::count_uses(*model.graph)) {
    onnx::for_each_graph(*model.graph, [this](const Graph& graph) {
      for (const Value* value : graph.initializers) {
        const int64_t bytes = value->constant->nbytes();
        if (value->named) bytes_ += bytes / kShareOfWeights;
        if (!value->named && is_large(*value)) bytes_ -= bytes;
      }
    });
  }

  // Returns the number of elements that a result of a node may have, whose inputs are constants
  // with this many elements; 0 if the node stays.
  int64_t limit(const Node& node, const Value& output, int64_t elements) const {
    if (is_dequantization(node)) return 0;
    const auto& shape = output.shape;
    const auto sizes = shape ? constant_shape(*shape) : std::nullopt;
    int64_t result = sizes ? 1 : 0;
    for (const int64_t size : sizes.value_or(std::vector<int64_t>())) {
      if (__builtin_mul_overflow(result, size, &result)) return 0;
    }
    if (elements <= kSmall && result <= kSmall) return kSmall;
    if (!sizes || elements > kLargest || result > kLargest) return 0;
    if (result / kLargestGrowth > elements || repeats(node) || has_large_weight(node)) return 0;
    return result * item_size(output.dtype) <= bytes_ ? kLargest : 0;
  }

  // Notes that a constant replaces a result.
  void note(const Value& output, const Value& constant) {
    const auto uses = uses_.find(&output);
    const int64_t count = uses == uses_.end() ? 0 : uses->second;
    uses_[&constant] = count;
    if (is_large(constant)) bytes_ -= constant.constant->nbytes();
  }
  // Notes that constants replace all results of the node.
  void note_unused(const Node& node) {
    for (const Value* input : node.inputs) {
      if (input && --uses_[input] == 0 && !input->named && input->is_constant() &&
          is_large(*input)) {
        bytes_ += input->constant->nbytes();
      }
    }
  }

 private:
  static bool has_large_weight(const Node& node) {
    const bool copies =
        node.op_type == "Transpose" || node.op_type == "Cast" || node.op_type == "Identity";
    return std::ranges::any_of(node.inputs, [copies](const Value* input) {
      return input && input->named && input->constant->numel() > (copies ? kSmall : kLargestWeight);
    });
  }

  std::unordered_map<const Value*, int64_t> uses_;
  int64_t bytes_ = 0;
};

std::optional<TensorData> evaluated(const Node& node, size_t output, const Memory& memory) {
  std::vector<const TensorData*> inputs;
  int64_t elements = 0;
  bool changes = false;
  for (const Value* input : node.inputs) {
    if (input && (!input->is_constant() || is_on_demand(*input->constant))) return std::nullopt;
    inputs.push_back(input ? input->constant : nullptr);
    if (!input) continue;
    changes |= can_change(*input->constant);
    elements += input->constant->numel();
  }
  const int64_t limit = memory.limit(node, *node.outputs[output], elements);
  if (limit == 0) return std::nullopt;
  if (!changes) return evaluate(node, inputs, limit, output);
  // New values of a weight may not change a shape.
  const auto& shape = node.outputs[output]->shape;
  if (node.outputs.size() != 1 || !shape || !constant_shape(*shape)) return std::nullopt;
  return derived_result(node, inputs, limit);
}

// Replaces a result of the node, if it can be computed and is not an output of its graph.
bool fold(Rewrite& rewrite, Graph& graph, const Node& node, size_t index, Memory& memory) {
  Value* output = node.outputs[index];
  if (!output) return true;
  if (rewrite.is_result(output) || is_packed(output->dtype)) return false;
  std::optional<TensorData> data = known_contents(*output);
  if (!data) data = empty_contents(*output);
  if (!data) data = constant_operator(node);
  if (!data) data = evaluated(node, index, memory);
  if (!data || data->dtype != output->dtype) return false;
  const Shape shape(data->shape.begin(), data->shape.end());
  if (output->shape && constant_shape(*output->shape) && *output->shape != shape) return false;
  Value* constant = graph.add_initializer("", std::move(*data));
  if (!rewrite.replace(output, constant)) return false;
  memory.note(*output, *constant);
  return true;
}

}  // namespace

// Replaces a result with an initializer if it depends only on constants, if inference knows its
// contents, or if it has no elements (ONNX Runtime's fusions fail on some such tensors). Keeps
// graph outputs. Folds computations with up to 1024 elements in their inputs and
// result always; larger ones if they do not copy a large weight and if the memory of all such
// results stays below an eighth of the weights'. Results that depend on live weights are recomputed
// when the model is written.
int64_t fold_constants(onnx::Model& model) {
  Memory memory(model);
  return sweep(model, [&memory](Rewrite& rewrite, Graph& graph, Node& node) {
    if (node.outputs.size() != 1 && !node.is("Split")) return;
    bool all = true;
    for (size_t i = 0; i < node.outputs.size(); ++i) all &= fold(rewrite, graph, node, i, memory);
    if (all) memory.note_unused(node);
  });
}

}  // namespace onnx_native::passes
