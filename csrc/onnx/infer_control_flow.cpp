// Operators with subgraphs. The values in the subgraphs are already typed.
#include "onnx/infer_rules.h"

namespace onnx_native::onnx {
namespace {

// Returns the shape of an output that is one of two values; sizes that differ become unknown.
std::optional<Shape> either(const Inference& i, size_t output, const Value& a, const Value& b) {
  if (!a.shape || !b.shape || a.rank() != b.rank()) return std::nullopt;
  Shape result;
  for (int64_t axis = 0; axis < a.rank(); ++axis) {
    result.push_back(a.dim(axis) == b.dim(axis) ? a.dim(axis) : i.unknown(output, a.rank(), axis));
  }
  return result;
}

void if_else(Inference& i) {
  const Graph& yes = i.subgraph("then_branch");
  const Graph& no = i.subgraph("else_branch");
  if (yes.outputs.size() != no.outputs.size() || yes.outputs.size() != i.num_outputs()) {
    i.fail("the branches have ", yes.outputs.size(), " and ", no.outputs.size(), " results for ",
           i.num_outputs(), " outputs");
  }
  for (size_t k = 0; k < i.num_outputs(); ++k) {
    const Value& a = *yes.outputs[k];
    const Value& b = *no.outputs[k];
    if (a.dtype != b.dtype) {
      i.fail("output ", k, " is ", name(a.dtype), " in one branch and ", name(b.dtype),
             " in the other");
    }
    i.set(k, a.dtype, either(i, k, a, b));
    i.set_kind(k, a.kind);
    if (a.contents && b.contents && *a.contents == *b.contents) i.set_contents(k, *a.contents);
  }
}

// Returns true if a loop's condition is always true, so that the trip count is the given maximum.
bool always_goes_on(const Inference& i, const Graph& body) {
  const auto is_true = [](const Value* value) {
    return value && value->constant && value->constant->numel() == 1 &&
           value->constant->integer(0) != 0;
  };
  if (i.optional(1) && !is_true(i.optional(1))) return false;
  const Value* next = body.outputs[0];
  while (next->producer && next->producer->op_type == "Identity") next = next->producer->inputs[0];
  return is_true(next) || next == body.inputs[1];
}

// M, cond, state... -> state..., scanned...
void loop(Inference& i) {
  const Graph& body = i.subgraph("body");
  const size_t states = i.num_inputs() < 2 ? 0 : i.num_inputs() - 2;
  if (body.outputs.size() != i.num_outputs() + 1 || body.inputs.size() != states + 2) {
    i.fail("the body has ", body.inputs.size(), " inputs and ", body.outputs.size(),
           " outputs for ", states, " loop-carried values and ", i.num_outputs(), " results");
  }
  for (size_t k = 0; k < states; ++k) {
    const Value& after = *body.outputs[k + 1];
    i.set(k, after.dtype, either(i, k, i.in(k + 2), after));
    i.set_kind(k, after.kind);
  }
  const auto* most = i.contents(0);
  const bool counted = most && most->size() == 1 && always_goes_on(i, body);
  std::optional<Dim> steps;
  for (size_t k = states; k < i.num_outputs(); ++k) {
    const Value& element = *body.outputs[k + 1];
    std::optional<Shape> result;
    if (element.shape) {
      const int64_t rank = element.rank() + 1;
      if (!steps) steps = counted ? most->front() : i.unknown(k, rank, 0);
      result = Shape{*steps};
      result->insert(result->end(), element.shape->begin(), element.shape->end());
    }
    i.set(k, element.dtype, std::move(result));
  }
}

// state..., scanned inputs... -> state..., scanned outputs...
void scan(Inference& i) {
  const Graph& body = i.subgraph("body");
  const int64_t scanned = i.attribute("num_scan_inputs", 0);
  const auto states = static_cast<int64_t>(i.num_inputs()) - scanned;
  if (scanned < 1 || states < 0 || body.outputs.size() != i.num_outputs()) {
    i.fail("the body does not match the inputs and outputs");
  }
  const auto input_axes = i.attribute_ints("scan_input_axes");
  std::optional<Dim> steps;
  for (int64_t k = 0; k < scanned; ++k) {
    const auto input = static_cast<size_t>(states + k);
    if (!i.shape(input)) continue;
    const int64_t axis =
        i.axis(input_axes ? (*input_axes)[static_cast<size_t>(k)] : 0, i.in(input).rank());
    const Dim& size = i.in(input).dim(axis);
    steps = steps ? i.unify(*steps, size) : size;
  }
  for (int64_t k = 0; k < states; ++k) {
    const auto output = static_cast<size_t>(k);
    const Value& after = *body.outputs[output];
    i.set(output, after.dtype, either(i, output, i.in(output), after));
  }
  const auto output_axes = i.attribute_ints("scan_output_axes");
  for (auto output = static_cast<size_t>(states); output < i.num_outputs(); ++output) {
    const Value& element = *body.outputs[output];
    std::optional<Shape> result = element.shape;
    if (result) {
      const int64_t rank = element.rank() + 1;
      const size_t index = output - static_cast<size_t>(states);
      const int64_t axis = i.axis(output_axes ? (*output_axes)[index] : 0, rank);
      result->insert(result->begin() + axis, steps ? *steps : i.unknown(output, rank, axis));
    }
    i.set(output, element.dtype, std::move(result));
  }
}

}  // namespace

void add_control_flow_rules(Rules& rules) {
  rules["If"] = if_else;
  rules["Loop"] = loop;
  rules["Scan"] = scan;
}

}  // namespace onnx_native::onnx
