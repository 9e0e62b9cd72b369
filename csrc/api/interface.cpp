#include "api/interface.h"

#include "api/adapters.h"
#include "aten/default_dtype.h"
#include "aten/visit.h"
#include "onnx/typing.h"

namespace onnx_native {
namespace {

// Lowers a result of the program. A float that is not a tensor gets the default dtype, as in
// torch.as_tensor.
Value output_value(Builder& builder, ops::Lowerer& lowerer, const aten::Argument& output) {
  const ops::Lowered lowered = lowerer.lowered(output);
  if (!lowered.value) return builder.dim_value(*lowered.dim);
  const aten::Value* value = output.as_value();
  const bool is_number = value && value->type.kind == aten::Type::Kind::sym_float;
  return is_number ? builder.cast(lowered.value, aten::default_dtype()) : lowered.value;
}

// Returns the values that outputs need.
std::unordered_set<const aten::Value*> used_values(const aten::Graph& graph) {
  std::unordered_set<const aten::Value*> used;
  const auto use = [&used](const aten::Value* value) { used.insert(value); };
  for (const auto& output : graph.outputs) aten::for_each_value(output, use);
  for (const aten::Node* node : ops::live_nodes(graph)) {
    for (const auto& argument : node->arguments) aten::for_each_value(argument, use);
  }
  return used;
}

}  // namespace

void add_inputs(Builder& builder, ops::Environment& environment, const aten::Graph& graph,
                const ExportOptions& options) {
  onnx::Graph& main = builder.graph();
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    const aten::Value* input = graph.inputs[i];
    std::string_view name = i < options.input_names.size() ? options.input_names[i] : input->name;
    const aten::Type type = ops::lowered_type(input->type);
    Value value = nullptr;
    switch (type.kind) {
      case aten::Type::Kind::sym_int:
        value = main.add_input(name, DType::i64, Shape{});
        break;
      case aten::Type::Kind::sym_float:
        value = main.add_input(name, DType::f32, Shape{});
        break;
      case aten::Type::Kind::sym_bool:
        value = main.add_input(name, DType::boolean, Shape{});
        break;
      default:
        if (type.dtype == DType::undefined)
          fail(ErrorKind::invalid_program, "ONNX does not support the dtype of the input ", name);
        value = main.add_input(name, type.dtype, type.shape);
    }
    value->named = true;
    if (type.kind == aten::Type::Kind::sym_int) {
      onnx::Typing::set_contents(*value, Shape{*type.dim});
      builder.bind(*type.dim, value);
      environment[input] = *type.dim;
    } else {
      environment[input] = value;
    }
  }
  // Bind tensor sizes last: if a symbol is an input itself, its value comes from that input.
  for (Value input : main.inputs) builder.bind_sizes(input);
}

void add_constants(Builder& builder, ops::Environment& environment, const aten::Graph& graph,
                   const std::vector<std::string>& adapters) {
  const std::unordered_set<const aten::Value*> used = used_values(graph);
  for (const aten::Constant& constant : graph.constants) {
    if (environment.contains(constant.value) || !used.contains(constant.value)) continue;
    const TensorData& data = constant.data;
    const std::string& name = constant.value->name;
    Value value = is_adapter(constant, adapters)
                      ? builder.graph().add_input(name, data.dtype,
                                                  Shape(data.shape.begin(), data.shape.end()))
                      : builder.graph().add_initializer(name, ops::lowered_data(data));
    value->named = true;
    environment[constant.value] = value;
  }
}

void Outputs::add(ops::Lowerer& lowerer, const aten::Argument& result) {
  if (result.is_none() || result.get<std::string>()) return;
  const aten::Value* value = result.as_value();
  const size_t index = builder_.graph().outputs.size();
  const std::string_view own = value ? std::string_view(value->name) : "output";
  add_named(output_value(builder_, lowerer, result),
            index < names_.size() ? std::string_view(names_[index]) : own);
}

void Outputs::add_named(Value value, std::string_view name) {
  if (!value->producer || !used_.insert(value).second) {
    value = builder_.Identity(value);
    used_.insert(value);
  }
  value->name = name;
  value->named = true;
  builder_.graph().outputs.push_back(value);
}

}  // namespace onnx_native
