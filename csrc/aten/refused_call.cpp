#include "aten/refused_call.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>

#include <exception>
#include <string_view>
#include <utility>
#include <vector>

#include "aten/torch_types.h"

namespace onnx_native::aten {
namespace {

constexpr int64_t kSize = 64;  // of a dynamic dimension

struct Unknown {};

int64_t number_of(const Dim& dim) {
  const auto number =
      dim.evaluate([](std::string_view /*symbol*/) { return std::optional(kSize); });
  if (!number) throw Unknown();
  return *number;
}

at::Tensor tensor_of(const Type& type) {
  if (!type.is_tensor() || !type.shape || type.dtype == DType::undefined || type.quantized)
    throw Unknown();
  std::vector<int64_t> sizes;
  for (const Dim& dim : *type.shape) sizes.push_back(number_of(dim));
  return at::empty(sizes, at::TensorOptions().dtype(to_scalar_type(type.dtype)).device(c10::kMeta));
}

c10::IValue enumerated(std::string_view name) {
  if (name == "strided") return c10::Layout::Strided;
  for (const auto format : {c10::MemoryFormat::Contiguous, c10::MemoryFormat::ChannelsLast,
                            c10::MemoryFormat::ChannelsLast3d, c10::MemoryFormat::Preserve}) {
    if (memory_format_name(format) == name) return format;
  }
  throw Unknown();
}

c10::IValue value_of(const Argument& argument, const SchemaType& type);

template <class Item>
c10::IValue list_of(const Argument::List& items, SchemaType type) {
  type.list = type.optional = false;
  c10::List<Item> list;
  for (const Argument& item : items) list.push_back(value_of(item, type).to<Item>());
  return list;
}

c10::IValue value_of(const Argument& argument, const SchemaType& type) {
  if (type.kind == TypeKind::device) return c10::Device(c10::kMeta);
  if (argument.is_none()) return {};
  if (const auto* items = argument.get<Argument::List>()) {
    switch (type.kind) {
      case TypeKind::tensor:
        return type.optional_elements ? list_of<std::optional<at::Tensor>>(*items, type)
                                      : list_of<at::Tensor>(*items, type);
      case TypeKind::integer:
      case TypeKind::sym_int:
        return list_of<int64_t>(*items, type);
      case TypeKind::floating:
        return list_of<double>(*items, type);
      case TypeKind::boolean:
        return list_of<bool>(*items, type);
      default:
        throw Unknown();
    }
  }
  if (const Value* value = argument.as_value()) {
    if (type.kind == TypeKind::tensor) return tensor_of(value->type);
    if (value->type.dim) return number_of(*value->type.dim);
    throw Unknown();
  }
  if (type.kind == TypeKind::tensor) throw Unknown();  // a number in the place of a tensor
  if (const auto* number = argument.get<int64_t>())
    return type.kind == TypeKind::floating ? c10::IValue(static_cast<double>(*number))
                                           : c10::IValue(*number);
  if (const auto* number = argument.get<double>()) return *number;
  if (const auto* flag = argument.get<bool>()) return *flag;
  if (const auto* dtype = argument.get<DType>()) return to_scalar_type(*dtype);
  if (const auto* text = argument.get<std::string>())
    return type.kind == TypeKind::string ? c10::IValue(*text) : enumerated(*text);
  throw Unknown();
}

std::string first_line(std::string_view text) {
  return std::string(text.substr(0, text.find('\n')));
}

}  // namespace

std::optional<std::string> refusal(const Node& call) {
  if (!call.schema || call.schema->arguments.size() != call.arguments.size()) return std::nullopt;
  const auto op =
      c10::Dispatcher::singleton().findSchema({call.schema->name, call.schema->overload});
  if (!op) return std::nullopt;
  const at::NoGradGuard no_grad;
  try {
    torch::jit::Stack stack;
    for (size_t i = 0; i < call.arguments.size(); ++i)
      stack.push_back(value_of(call.arguments[i], call.schema->arguments[i].type));
    op->callBoxed(stack);
  } catch (const c10::NotImplementedError&) {
    return std::nullopt;
  } catch (const c10::Error& error) {
    return first_line(error.what_without_backtrace());
  } catch (const std::exception& error) {  // of a kernel in Python
    if (std::string_view(error.what()).find("NotImplementedError") != std::string_view::npos)
      return std::nullopt;
    return first_line(error.what());
  } catch (const Unknown&) {
    return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace onnx_native::aten
