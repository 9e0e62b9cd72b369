#include "aten/autocast.h"

#include <algorithm>

namespace onnx_native::aten {
namespace {

bool chooses_dtype(const Schema& schema) {
  return schema.index("dtype") >= 0 || schema.name == "aten::type_as" ||
         schema.name == "aten::copy_" || schema.name == "aten::to" || schema.name == "aten::copy";
}

bool is_float(const Type& type) { return type.is_tensor() && is_floating(type.dtype); }

}  // namespace

void cast_for_autocast(Graph& graph, const Schema& schema, const Type& result,
                       std::vector<Argument>& arguments, const Location* location) {
  if (chooses_dtype(schema) || schema.is_view() || !is_float(result)) return;
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
