#include "ops/engine/binder.h"

#include <algorithm>

namespace onnx_native::ops {
namespace {

bool takes_part(std::string_view kind) { return kind == "Value" || kind == "Value?"; }

// Returns true if the argument only affects device placement or memory layout.
bool is_placement(const aten::SchemaArgument& argument) {
  switch (argument.type.kind) {
    case aten::TypeKind::device:
    case aten::TypeKind::layout:
    case aten::TypeKind::memory_format:
    case aten::TypeKind::generator:
      return true;
    default:
      return argument.name == "pin_memory" || argument.name == "non_blocking" ||
             argument.name == "copy";
  }
}

// Returns true if an argument that the lowering does not read has a value without effect.
bool asks_for_nothing(const aten::Argument& argument) {
  if (argument.is_none()) return true;
  if (const auto* flag = argument.get<bool>()) return !*flag;
  if (const auto* list = argument.get<aten::Argument::List>()) return list->empty();
  return false;
}

}  // namespace

Promoted::Promoted(const Call& call, Promote rule,
                   const std::vector<std::string_view>& parameters) {
  std::vector<size_t> members;
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (takes_part(parameters[i]) && !call.is_none(i)) members.push_back(i);
  }
  if (members.empty()) return;
  DType dtype =
      rule == Promote::first ? call.tensor(members[0])->dtype : call.result_type_of(members);
  if (rule == Promote::int_to_float) dtype = float_dtype(dtype);
  if (rule == Promote::integer && dtype == DType::boolean) dtype = DType::i64;
  values_.resize(members.back() + 1);
  for (size_t i : members) values_[i] = call.builder().cast(call.tensor(i, dtype), dtype);
}

void check_unread_arguments(const Call& call, size_t parameters) {
  const aten::Schema* schema = call.node().schema;
  if (!schema) return;
  for (size_t i = parameters; i < std::min(call.size(), schema->arguments.size()); ++i) {
    const aten::SchemaArgument& argument = schema->arguments[i];
    if (is_placement(argument) || asks_for_nothing(call.argument(i))) continue;
    call.builder().unsupported("argument `", argument.name,
                               "` is only supported with its default value");
  }
}

}  // namespace onnx_native::ops
