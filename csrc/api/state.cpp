#include "api/state.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace onnx_native {
namespace {

void check_shape(const aten::Mutation& mutation, const aten::Constant& constant) {
  const std::optional<Shape>& now = mutation.value->type.shape;
  const std::vector<int64_t>& before = constant.data.shape;
  if (now && *now != Shape(before.begin(), before.end()))
    fail(ErrorKind::unsupported, "the program changes the shape of the buffer ", mutation.target,
         " from ", str(Shape(before.begin(), before.end())), " to ", str(*now),
         "; a state tensor must keep its shape");
}

// Adds a buffer as an input of the model.
StateTensor buffer_input(Builder& builder, ops::Environment& environment,
                         const aten::Constant& constant) {
  const std::string& name = constant.value->name;
  StateTensor tensor{.target = name,
                     .initial = ops::lowered_data(constant.data),
                     .input = builder.graph().inputs.size()};
  const TensorData& data = *tensor.initial;
  Value input =
      builder.graph().add_input(name, data.dtype, Shape(data.shape.begin(), data.shape.end()));
  input->named = true;
  environment[constant.value] = input;
  return tensor;
}

size_t input_index(const aten::Graph& graph, const std::string& name) {
  const auto input = std::ranges::find(graph.inputs, name, &aten::Value::name);
  if (input == graph.inputs.end())
    fail(ErrorKind::invalid_program, "the program updates ", name,
         ", which is not one of its inputs");
  return static_cast<size_t>(input - graph.inputs.begin());
}

}  // namespace

void keep_written_elements(aten::Graph& graph) {
  std::unordered_set<std::string_view> written;
  for (const aten::Mutation& mutation : graph.mutations)
    if (mutation.is_buffer) written.insert(mutation.target);
  if (written.empty()) return;
  for (aten::Constant& constant : graph.constants) {
    const bool has_elements = constant.data.data != nullptr;
    if (!has_elements || !written.contains(constant.value->name)) continue;
    std::vector<std::byte> bytes;
    bytes.reserve(static_cast<size_t>(constant.data.nbytes()));
    constant.data.stream([&](std::span<const std::byte> piece) {
      bytes.insert(bytes.end(), piece.begin(), piece.end());
    });
    constant.data = make_tensor(constant.data.dtype, constant.data.shape, std::move(bytes));
  }
}

State::State(const aten::Graph& graph, const StateOptions& options) {
  std::unordered_set<std::string_view> wanted(options.names.begin(), options.names.end());
  for (const aten::Mutation& mutation : graph.mutations) {
    const bool named = wanted.erase(mutation.target) > 0;
    (options.all || named ? kept_ : dropped_).push_back(&mutation);
  }
  if (wanted.empty()) return;
  std::string known;
  for (const aten::Mutation& mutation : graph.mutations)
    known += (known.empty() ? "" : ", ") + mutation.target;
  fail(ErrorKind::invalid_argument, "the program does not update ", *wanted.begin(),
       ", so it cannot be state; ",
       known.empty() ? "the program updates nothing" : "the program updates ", known);
}

void State::add_inputs(Builder& builder, ops::Environment& environment, const aten::Graph& graph) {
  if (kept_.empty()) return;
  std::unordered_map<std::string_view, const aten::Constant*> constants;
  for (const aten::Constant& constant : graph.constants)
    constants.emplace(constant.value->name, &constant);
  for (const aten::Mutation* mutation : kept_) {
    if (mutation->is_buffer) {
      const auto found = constants.find(mutation->target);
      if (found == constants.end())
        fail(ErrorKind::internal, "the buffer ", mutation->target, " has no value");
      check_shape(*mutation, *found->second);
      tensors_.push_back(buffer_input(builder, environment, *found->second));
    } else {
      tensors_.push_back({.target = mutation->target,
                          .initial = {},
                          .input = input_index(graph, mutation->target)});
    }
  }
}

void State::add_outputs(Builder& builder, ops::Lowerer& lowerer, Outputs& outputs) {
  for (size_t i = 0; i < kept_.size(); ++i) {
    tensors_[i].output = builder.graph().outputs.size();
    const ops::Lowered value = lowerer.lowered(kept_[i]->value);
    const std::string& name = builder.graph().inputs[tensors_[i].input]->name;
    outputs.add_named(value.value, name + "_out");
  }
}

}  // namespace onnx_native
