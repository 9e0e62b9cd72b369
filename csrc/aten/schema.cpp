#include "aten/schema.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/function_schema.h>
#include <ATen/core/jit_type.h>
#include <c10/core/Layout.h>

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>

#include "aten/functional_schema.h"
#include "aten/graph.h"
#include "aten/torch_literal.h"
#include "aten/torch_types.h"

namespace onnx_native::aten {
namespace {

// The storage of a schema that find_schema returns, with its defaults.
struct StoredSchema : Schema {
  std::vector<Argument> defaults;  // None if the argument has no default
};

void collect_alias_sets(const c10::AliasInfo& info, std::vector<std::string>& sets) {
  for (const c10::Symbol& set : info.beforeSets()) {
    std::string name = set.toUnqualString();
    if (std::find(sets.begin(), sets.end(), name) == sets.end()) sets.push_back(std::move(name));
  }
  for (const c10::AliasInfo& contained : info.containedTypes()) {
    collect_alias_sets(contained, sets);
  }
}

bool writes_anything(const c10::AliasInfo& info) {
  return info.isWrite() ||
         std::any_of(info.containedTypes().begin(), info.containedTypes().end(), writes_anything);
}

TypeKind convert_kind(const c10::Type& type) {
  switch (type.kind()) {
    case c10::TypeKind::TensorType:
      return TypeKind::tensor;
    case c10::TypeKind::IntType:
      return TypeKind::integer;
    case c10::TypeKind::SymIntType:
      return TypeKind::sym_int;
    case c10::TypeKind::FloatType:
      return TypeKind::floating;
    case c10::TypeKind::SymFloatType:
      return TypeKind::sym_float;
    case c10::TypeKind::BoolType:
      return TypeKind::boolean;
    case c10::TypeKind::SymBoolType:
      return TypeKind::sym_bool;
    case c10::TypeKind::NumberType:
      return TypeKind::scalar;
    case c10::TypeKind::StringType:
      return TypeKind::string;
    case c10::TypeKind::ScalarTypeType:
      return TypeKind::dtype;
    case c10::TypeKind::DeviceObjType:
      return TypeKind::device;
    case c10::TypeKind::LayoutType:
      return TypeKind::layout;
    case c10::TypeKind::MemoryFormatType:
      return TypeKind::memory_format;
    case c10::TypeKind::GeneratorType:
      return TypeKind::generator;
    case c10::TypeKind::ComplexType:
      return TypeKind::complex;
    default:
      return TypeKind::other;
  }
}

SchemaType convert_type(const c10::Argument& argument) {
  SchemaType result;
  c10::TypePtr type = argument.real_type();
  result.str = type->str();
  if (const auto optional = type->cast<c10::OptionalType>()) {
    result.optional = true;
    type = optional->getElementType();
  }
  if (const auto list = type->cast<c10::ListType>()) {
    result.list = true;
    result.fixed_size = argument.N().value_or(0);
    type = list->getElementType();
    if (const auto optional = type->cast<c10::OptionalType>()) {
      result.optional_elements = true;
      type = optional->getElementType();
    }
  }
  result.kind = convert_kind(*type);
  return result;
}

SchemaArgument convert(const c10::Argument& argument) {
  SchemaArgument result{.name = argument.name(),
                        .type = convert_type(argument),
                        .kwarg_only = argument.kwarg_only(),
                        .has_default = argument.default_value().has_value(),
                        .is_out = argument.is_out(),
                        .writes = false,
                        .alias_sets = {}};
  if (const c10::AliasInfo* info = argument.alias_info()) {
    result.writes = writes_anything(*info);
    collect_alias_sets(*info, result.alias_sets);
  }
  return result;
}

std::unique_ptr<StoredSchema> convert(const c10::FunctionSchema& source, std::string_view key) {
  auto result = std::make_unique<StoredSchema>();
  result->key = key;
  result->name = source.name();
  result->overload = source.overload_name();
  result->varargs = source.is_vararg();
  for (const c10::Argument& argument : source.arguments()) {
    result->arguments.push_back(convert(argument));
    result->defaults.push_back(
        argument.default_value()
            ? literal_argument(*argument.default_value(), result->arguments.back().type)
            : Argument());
  }
  for (const c10::Argument& value : source.returns()) result->returns.push_back(convert(value));
  return result;
}

}  // namespace

Argument literal_argument(const c10::IValue& value, const SchemaType& type) {
  if (value.isNone()) return {};
  if (value.isList()) {
    Argument::List list;
    SchemaType element = type;
    element.list = false;
    for (const c10::IValue& item : value.toListRef())
      list.push_back(literal_argument(item, element));
    return list;
  }
  if (value.isBool()) return value.toBool();
  if (value.isInt()) {
    const int64_t number = value.toInt();
    if (type.kind == TypeKind::dtype) {
      return to_dtype(static_cast<c10::ScalarType>(number)).value_or(DType::undefined);
    }
    if (type.kind == TypeKind::memory_format) {
      return memory_format_name(static_cast<c10::MemoryFormat>(number));
    }
    if (type.kind == TypeKind::layout) return std::string("strided");
    // `int[2] stride=1` is printed and passed as one number, but a list argument stays a list.
    if (type.list) return Argument::List(std::max(type.fixed_size, 1), Argument(number));
    return number;
  }
  if (value.isDouble()) return value.toDouble();
  if (value.isComplexDouble()) {
    const c10::complex<double> number = value.toComplexDouble();
    return std::complex<double>(number.real(), number.imag());
  }
  if (value.isString()) return value.toStringRef();
  if (value.isDevice()) return value.toDevice().str();
  return {};
}

int Schema::index(std::string_view argument) const {
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].name == argument) return static_cast<int>(i);
  }
  return -1;
}

bool Schema::is_mutable() const {
  return std::any_of(arguments.begin(), arguments.end(),
                     [](const SchemaArgument& argument) { return argument.writes; });
}

bool Schema::is_view() const {
  return !is_mutable() &&
         std::any_of(returns.begin(), returns.end(),
                     [](const SchemaArgument& value) { return !value.alias_sets.empty(); });
}

const Schema* find_schema(std::string_view key) {
  static std::shared_mutex mutex;
  static auto& known = *new std::map<std::string, std::unique_ptr<StoredSchema>, std::less<>>();
  {
    const std::shared_lock lock(mutex);
    if (const auto at = known.find(key); at != known.end()) return at->second.get();
  }
  const size_t dot = key.find('.');
  const std::string name(key.substr(0, dot));
  const std::string overload(dot == std::string_view::npos ? std::string_view()
                                                           : key.substr(dot + 1));
  const auto found = c10::Dispatcher::singleton().findSchema({name, overload});
  if (!found) return nullptr;  // not cached: it may still be registered
  auto schema = convert(found->schema(), key);
  const std::unique_lock lock(mutex);
  return known.try_emplace(std::string(key), std::move(schema)).first->second.get();
}

std::vector<const Schema*> find_overloads(std::string_view name) {
  std::vector<const Schema*> result;
  for (const c10::OperatorName& known : c10::Dispatcher::singleton().getAllOpNames()) {
    if (known.name != name) continue;
    if (const Schema* schema = find_schema(key_of(known))) result.push_back(schema);
  }
  std::sort(result.begin(), result.end(),
            [](const Schema* a, const Schema* b) { return a->key < b->key; });
  return result;
}

const Schema* returning_writes(const Schema& mutates) {
  static std::mutex mutex;
  static auto& made = *new std::map<const Schema*, std::unique_ptr<StoredSchema>>();
  const std::lock_guard lock(mutex);
  std::unique_ptr<StoredSchema>& schema = made[&mutates];
  if (schema) return schema.get();
  schema = std::make_unique<StoredSchema>(static_cast<const StoredSchema&>(mutates));
  std::erase_if(schema->returns, [](const SchemaArgument& r) { return !r.alias_sets.empty(); });
  for (SchemaArgument& argument : schema->arguments) {
    if (!argument.writes) continue;
    schema->returns.push_back({.name = argument.name, .type = argument.type, .alias_sets = {}});
    argument.writes = false;
    argument.alias_sets.clear();
  }
  return schema.get();
}

const std::vector<Argument>& default_arguments(const Schema& schema) {
  return static_cast<const StoredSchema&>(schema).defaults;
}

}  // namespace onnx_native::aten
