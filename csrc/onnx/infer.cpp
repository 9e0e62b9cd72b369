#include "onnx/infer.h"

#include "base/scalar.h"
#include "onnx/infer_rules.h"
#include "onnx/typing.h"

namespace onnx_native::onnx {
namespace {

const Rules& rules() {
  static const Rules table = [] {
    Rules rules;
    add_elementwise_rules(rules);
    add_shape_rules(rules);
    add_slicing_rules(rules);
    add_indexing_rules(rules);
    add_generator_rules(rules);
    add_reduction_rules(rules);
    add_linear_rules(rules);
    add_window_rules(rules);
    add_image_rules(rules);
    add_network_rules(rules);
    add_signal_rules(rules);
    add_quantization_rules(rules);
    add_control_flow_rules(rules);
    add_sequence_rules(rules);
    return rules;
  }();
  return table;
}

Dim broadcast_size(const Dim& a, const Dim& b) {
  const auto x = a.constant();
  const auto y = b.constant();
  if (x && y && *x != *y && *x != 1 && *y != 1) {
    fail(ErrorKind::internal, "sizes ", *x, " and ", *y, " do not broadcast");
  }
  return Dim::broadcast(a, b);
}

}  // namespace

void infer(Node& node, int64_t opset) {
  if (!node.domain.empty()) return;
  const auto rule = rules().find(node.op_type);
  Inference inference(node, opset);
  if (rule != rules().end()) rule->second(inference);
  for (const Value* output : node.outputs) {
    if (output && output->dtype == DType::undefined)
      inference.fail("the dtype of an output is unknown");
  }
}

Shape broadcast(const Shape& a, const Shape& b) {
  const Shape& longer = a.size() >= b.size() ? a : b;
  const Shape& shorter = a.size() >= b.size() ? b : a;
  Shape result = longer;
  const size_t offset = longer.size() - shorter.size();
  for (size_t i = 0; i < shorter.size(); ++i) {
    result[offset + i] =
        broadcast_size(a[a.size() - shorter.size() + i], b[b.size() - shorter.size() + i]);
  }
  return result;
}

const Shape* Inference::contents(size_t i) const {
  const Value* value = optional(i);
  return value && value->contents ? &*value->contents : nullptr;
}

std::optional<std::vector<int64_t>> Inference::numbers(size_t i) const {
  const auto* known = contents(i);
  return known ? constant_shape(*known) : std::nullopt;
}

const TensorData* Inference::constant(size_t i) const {
  const Value* value = optional(i);
  if (!value) return nullptr;
  if (value->constant) return value->constant;
  if (!value->producer || value->producer->op_type != "Constant") return nullptr;
  const AttributeValue* attribute = value->producer->attribute("value");
  const auto* data = attribute ? std::get_if<std::shared_ptr<TensorData>>(attribute) : nullptr;
  return data ? data->get() : nullptr;
}

DType Inference::attribute_dtype(std::string_view name, DType otherwise) const {
  return static_cast<DType>(attribute(name, static_cast<int64_t>(otherwise)));
}

const Graph& Inference::subgraph(std::string_view name) const {
  const AttributeValue* attribute = node_.attribute(name);
  const auto* graph = attribute ? std::get_if<std::shared_ptr<Graph>>(attribute) : nullptr;
  if (!graph || !*graph) fail("the graph attribute ", name, " is missing");
  return **graph;
}

void Inference::set(size_t output, DType dtype, std::optional<Shape> shape) {
  if (output >= node_.outputs.size() || !node_.outputs[output]) return;
  Value& value = *node_.outputs[output];
  Typing::set_dtype(value, dtype);
  if (shape) Typing::set_shape(value, std::move(shape));
}

void Inference::set_contents(size_t output, Shape contents) {
  if (output >= node_.outputs.size() || !node_.outputs[output]) return;
  if (contents.size() > static_cast<size_t>(kLargestContents)) return;
  Value& value = *node_.outputs[output];
  for (Dim& element : contents) {
    const auto number = element.constant();
    if (number) element = wrapped(*number, value.dtype);
    // A Dim does not wrap at run time and cannot hold the upper half of uint64.
    const bool fits = number ? value.dtype != DType::u64 || *number >= 0
                             : item_size(value.dtype) >= 4 && value.dtype != DType::boolean;
    if (!fits) return;
  }
  Typing::set_contents(value, std::move(contents));
}

void Inference::set_kind(size_t output, ValueKind kind) {
  if (output < node_.outputs.size() && node_.outputs[output]) node_.outputs[output]->kind = kind;
}

Dim Inference::unknown(size_t output, int64_t rank, int64_t axis) const {
  const Value* value = output < node_.outputs.size() ? node_.outputs[output] : nullptr;
  return value && value->rank_or(-1) == rank ? value->dim(axis) : Dim::fresh();
}

Shape Inference::unknown_shape(size_t output, int64_t rank) const {
  Shape shape;
  shape.reserve(static_cast<size_t>(rank));
  for (int64_t axis = 0; axis < rank; ++axis) shape.push_back(unknown(output, rank, axis));
  return shape;
}

std::optional<int64_t> Inference::small_integers(size_t output) const {
  const Value* value = output < node_.outputs.size() ? node_.outputs[output] : nullptr;
  if (!value || !is_integral(value->dtype) || !value->shape || value->rank() > 1) {
    return std::nullopt;
  }
  const auto count = value->rank() == 0 ? std::optional<int64_t>(1) : value->dim(0).constant();
  return count && *count <= kLargestContents ? count : std::nullopt;
}

void same_as_first(Inference& i) { i.set(0, i.dtype(0), i.in(0).shape); }

std::optional<Shape> broadcast_inputs(const Inference& i, size_t first, size_t last) {
  if (!i.shape(first)) return std::nullopt;
  Shape shape = *i.shape(first);
  for (size_t input = first + 1; input < last; ++input) {
    if (!i.shape(input)) return std::nullopt;
    shape = broadcast(shape, *i.shape(input));
  }
  return shape;
}

}  // namespace onnx_native::onnx
