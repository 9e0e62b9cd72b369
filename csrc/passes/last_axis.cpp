#include "passes/last_axis.h"

#include <algorithm>

namespace onnx_native::passes::match {
namespace {

bool is_last(int64_t axis, const Value& value) {
  return axis == -1 || axis == value.rank_or(0) - 1;
}

// Returns the only element of an integer tensor, if it is known.
std::optional<int64_t> only_integer(const Value* value) {
  if (!value || !value->contents || value->contents->size() != 1) return std::nullopt;
  return value->contents->front().constant();
}

std::optional<Part> part_of_slice(const Node& node, int64_t size) {
  const auto start = only_integer(node.input(1)), end = only_integer(node.input(2));
  const auto axis = node.input(3) ? only_integer(node.inputs[3])
                                  : std::optional<int64_t>(node.inputs[0]->rank() == 1 ? 0 : -2);
  const auto step = node.input(4) ? only_integer(node.inputs[4]) : std::optional<int64_t>(1);
  if (!start || !end || !axis || !step || *step < 1 || !is_last(*axis, *node.inputs[0])) {
    return std::nullopt;
  }
  const auto clamped = [size](int64_t at) {
    return std::clamp<int64_t>(at < 0 ? at + size : at, 0, size);
  };
  return Part{node.inputs[0], size, clamped(*start), clamped(*end), *step};
}

std::optional<Part> part_of_split(const Node& node, const Value& output, int64_t size) {
  if (!is_last(node.attribute_int("axis", 0), *node.inputs[0])) return std::nullopt;
  int64_t start = 0;
  for (const Value* each : node.outputs) {
    const auto length =
        each && each->rank_or(0) > 0 ? each->dim(-1).constant() : std::optional<int64_t>();
    if (!length) return std::nullopt;
    if (each == &output) return Part{node.inputs[0], size, start, start + *length, 1};
    start += *length;
  }
  return std::nullopt;
}

}  // namespace

std::optional<Part> part_of(const Value& value) {
  const Node* node = value.producer;
  if (!node || !node->domain.empty() || !node->input(0)) return std::nullopt;
  if (node->inputs[0]->rank_or(0) == 0) return std::nullopt;
  const auto size = node->inputs[0]->dim(-1).constant();
  if (!size) return std::nullopt;
  if (node->op_type == "Slice") return part_of_slice(*node, *size);
  if (node->op_type == "Split") return part_of_split(*node, value, *size);
  return std::nullopt;
}

bool has_last_axis(const Value& value) {
  const auto axis = value.producer ? only_integer(value.producer->input(1)) : std::nullopt;
  return axis && is_last(*axis, value);
}

bool gathers_last_axis(const Value& value) {
  const Node* node = value.producer;
  return node && node->is("Gather") && is_last(node->attribute_int("axis", 0), *node->inputs[0]);
}

bool joins_last_axis(const Node& node) {
  return node.is("Concat") && node.outputs[0]->rank_or(0) > 0 &&
         is_last(node.attribute_int("axis", 0), *node.outputs[0]);
}

}  // namespace onnx_native::passes::match
