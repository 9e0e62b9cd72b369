#include "aten/autocast.h"

#include <ATen/core/dispatch/Dispatcher.h>

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

bool is_half(DType dtype) { return dtype == DType::f16 || dtype == DType::bf16; }

// Returns true if autocast changes the dtypes of an operator's tensors on a device.
bool has_autocast_kernel(const Schema& schema, std::string_view device) {
  c10::DispatchKey key = c10::DispatchKey::AutocastCPU;
  if (device == "cuda") {
    key = c10::DispatchKey::AutocastCUDA;
  } else if (device != "cpu") {
    return false;
  }
  const auto found = c10::Dispatcher::singleton().findSchema({schema.name, schema.overload});
  return found && found->hasKernelForDispatchKey(key);
}

// Returns true if autocast gives tensors of different dtypes the widest of them; tensors of one
// dtype keep it.
bool widens(const Schema& schema, std::string_view device) {
  const Widens widens = facts_of(schema).widens;
  return widens == Widens::always || (widens == Widens::on_cuda && device == "cuda");
}

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

void check_autocast(const Schema& schema, const Type& result,
                    const std::vector<Argument>& arguments, std::string_view device) {
  if (schema.is_mutable() || !is_float(result) || !has_autocast_kernel(schema, device)) return;
  const bool chooses = std::ranges::any_of(
      arguments, [](const Argument& argument) { return argument.get<DType>() != nullptr; });
  bool wide = chooses, single = false, half = false;
  const auto look = [&](const Value* value) {
    if (!is_float(value->type)) return;
    wide |= value->type.dtype == DType::f64;
    single |= value->type.dtype == DType::f32;
    half |= is_half(value->type.dtype);
  };
  for (const Argument& argument : arguments) for_each_value(argument, look);
  if (wide) return;
  const bool lost_half = runs_in_half(schema) && single && result.dtype == DType::f32;
  const bool lost_single =
      !runs_in_half(schema) && !widens(schema, device) && half && !single && is_half(result.dtype);
  if (!lost_half && !lost_single) return;
  fail(ErrorKind::unsupported, "torch.export recorded that ", schema.name, " gives ",
       name(result.dtype), " inside torch.autocast, but autocast computes it in ",
       lost_half ? "half precision" : "float32",
       "; capture the program with strict=False, or pass program.run_decompositions({})");
}

}  // namespace onnx_native::aten
