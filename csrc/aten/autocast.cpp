#include "aten/autocast.h"

#include <algorithm>

#include "aten/op_facts.h"
#include "aten/visit.h"

namespace onnx_native::aten {
namespace {

bool chooses_dtype(const Schema& schema) {
  return kind_of(schema) == ViewKind::to || schema.name == "aten::copy_" ||
         schema.name == "aten::copy";
}

bool is_float(const Type& type) { return type.is_tensor() && is_floating(type.dtype); }

}  // namespace

bool runs_in_half(const Schema& schema) { return facts_of(schema).half_in_autocast; }

bool shows_autocast(const Schema& schema, const Type& result,
                    const std::vector<Argument>& arguments) {
  if (!runs_in_half(schema)) return false;
  if (!result.is_tensor() || (result.dtype != DType::f16 && result.dtype != DType::bf16))
    return false;
  bool all_f32 = true;
  const auto look = [&all_f32](const Value* value) {
    if (is_float(value->type)) all_f32 &= value->type.dtype == DType::f32;
  };
  for (const Argument& argument : arguments) for_each_value(argument, look);
  return all_f32;
}

void cast_for_autocast(Graph& graph, const Schema& schema, const Type& result,
                       std::vector<Argument>& arguments, const Location* location) {
  if (chooses_dtype(schema) || schema.is_view() || !is_float(result)) return;
  if (const int index = schema.index("dtype"); index >= 0) {
    Argument& dtype = arguments[static_cast<size_t>(index)];
    const Value* tensor = arguments[0].as_value();
    if (dtype.is_none() && tensor && is_float(tensor->type) && tensor->type.dtype != result.dtype)
      dtype = result.dtype;
    return;
  }
  const auto cast = [&](Argument& argument) {
    const Value* tensor = argument.as_value();
    if (!tensor || !is_float(tensor->type) || tensor->type.dtype == DType::f64 ||
        tensor->type.dtype == result.dtype) {
      return;
    }
    Type type = tensor->type;
    type.dtype = result.dtype;
    Node* node = graph.add_node("aten::to.dtype", {argument, Argument(result.dtype)}, location);
    argument = graph.add_output(node, tensor->name, std::move(type));
  };
  for (size_t i = 0; i < std::min(arguments.size(), schema.arguments.size()); ++i) {
    if (schema.arguments[i].type.kind != TypeKind::tensor) continue;
    if (schema.arguments[i].writes) return;
    if (auto* list = std::get_if<Argument::List>(&arguments[i].value)) {
      std::ranges::for_each(*list, cast);
    } else {
      cast(arguments[i]);
    }
  }
}

}  // namespace onnx_native::aten
