#include "aten/functional_schema.h"

#include <torch/library.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <string_view>
#include <unordered_set>

#include "aten/visit.h"

// What ATen writes but does not return.
TORCH_LIBRARY_FRAGMENT(onnx_native, library) {
  library.def("fill_diagonal(Tensor self, Scalar fill_value, bool wrap=False) -> Tensor");
}

namespace onnx_native::aten {
namespace {

// aten::add_ -> aten::add, aten::__ior__ -> aten::__or__; the name itself where it marks nothing.
std::string functional_name(const Schema& mutates) {
  std::string name = mutates.name;
  const size_t at = name.rfind(':') + 1;
  if (name == "aten::normal_") return "aten::normal_functional";
  if (name == "aten::fill_diagonal_") return "onnx_native::fill_diagonal";
  if (name == "aten::fused_moving_avg_obs_fake_quant")
    return "aten::_fused_moving_avg_obs_fq_helper_functional";
  if (name.ends_with("__")) {
    if (name.compare(at, 3, "__i") == 0) name.erase(at + 2, 1);
  } else if (name.ends_with("_")) {
    name.pop_back();
  }
  return name;
}

bool match(const Schema& mutates, const Schema& candidate, FunctionalSchema& result) {
  if (candidate.is_mutable()) return false;
  std::vector<int> sources;
  for (const SchemaArgument& argument : candidate.arguments) {
    int index = mutates.index(argument.name);
    // dropout_ writes to `self`, dropout reads `input`.
    if (index < 0 && sources.empty() && !mutates.arguments.empty() &&
        candidate.index(mutates.arguments[0].name) < 0) {
      index = 0;
    }
    if (index < 0 ? !argument.has_default
                  : !(mutates.arguments[static_cast<size_t>(index)].type == argument.type)) {
      return false;
    }
    sources.push_back(index);
  }
  for (size_t i = 0; i < mutates.arguments.size(); ++i) {
    const bool used =
        std::find(sources.begin(), sources.end(), static_cast<int>(i)) != sources.end();
    if (!used && !mutates.arguments[i].is_out) return false;
  }
  const auto fresh =
      std::count_if(mutates.returns.begin(), mutates.returns.end(),
                    [](const SchemaArgument& value) { return value.alias_sets.empty(); });
  const size_t returns = static_cast<size_t>(fresh) + result.written.size();
  // A mask comes after the result.
  const bool helper = candidate.name == "aten::_fused_moving_avg_obs_fq_helper_functional";
  if (candidate.returns.size() != returns && !(helper && candidate.returns.size() == returns + 1)) {
    return false;
  }
  result.schema = &candidate;
  result.sources = std::move(sources);
  return true;
}

bool writes_single_tensors(const Schema& mutates) {
  return std::ranges::all_of(mutates.arguments, [](const SchemaArgument& argument) {
    return !argument.writes || (argument.type.kind == TypeKind::tensor && !argument.type.list &&
                                !argument.type.optional);
  });
}

// Operators whose result has the promoted dtype of their tensors, or bool, not that of `self`.
bool promotes(std::string_view name) {
  static const std::unordered_set<std::string_view> names{
      "aten::add",          "aten::sub",         "aten::subtract",  "aten::mul",
      "aten::multiply",     "aten::div",         "aten::divide",    "aten::true_divide",
      "aten::pow",          "aten::float_power", "aten::remainder", "aten::fmod",
      "aten::floor_divide", "aten::atan2",       "aten::arctan2",   "aten::bitwise_and",
      "aten::bitwise_or",   "aten::bitwise_xor", "aten::hypot",     "aten::copysign",
      "aten::xlogy",        "aten::clamp",       "aten::clamp_min", "aten::clamp_max",
      "aten::clip",         "aten::addcmul",     "aten::addcdiv",   "aten::heaviside",
      "aten::__and__",      "aten::__or__",      "aten::__xor__",   "aten::cat",
      "aten::concat",       "aten::concatenate", "aten::stack",     "aten::hstack",
      "aten::vstack",       "aten::dstack"};
  return names.contains(name);
}

bool returns_bool(std::string_view name) {
  static const std::unordered_set<std::string_view> names{"aten::eq",
                                                          "aten::ne",
                                                          "aten::lt",
                                                          "aten::le",
                                                          "aten::gt",
                                                          "aten::ge",
                                                          "aten::not_equal",
                                                          "aten::less",
                                                          "aten::less_equal",
                                                          "aten::greater",
                                                          "aten::greater_equal",
                                                          "aten::logical_and",
                                                          "aten::logical_or",
                                                          "aten::logical_xor",
                                                          "aten::logical_not"};
  return names.contains(name);
}

// Operators whose result has the dtype of `self`, whatever their other tensors have.
bool keeps_dtype(std::string_view name) {
  static const std::unordered_set<std::string_view> names{"aten::abs",
                                                          "aten::absolute",
                                                          "aten::bitwise_not",
                                                          "aten::clone",
                                                          "aten::copy",
                                                          "aten::fill",
                                                          "aten::fill_diagonal",
                                                          "aten::index_add",
                                                          "aten::index_copy",
                                                          "aten::index_fill",
                                                          "aten::index_put",
                                                          "aten::index_reduce",
                                                          "aten::masked_fill",
                                                          "aten::masked_scatter",
                                                          "aten::neg",
                                                          "aten::negative",
                                                          "aten::put",
                                                          "aten::relu",
                                                          "aten::scatter",
                                                          "aten::scatter_add",
                                                          "aten::scatter_reduce",
                                                          "aten::sgn",
                                                          "aten::sign",
                                                          "aten::square",
                                                          "aten::tril",
                                                          "aten::triu",
                                                          "aten::zero",
                                                          "onnx_native::fill_diagonal"};
  return names.contains(name);
}

// Arithmetic of integers that gives integers.
bool stays_integral(std::string_view name) {
  static const std::unordered_set<std::string_view> others{
      "aten::div",     "aten::divide", "aten::true_divide", "aten::float_power", "aten::atan2",
      "aten::arctan2", "aten::hypot",  "aten::copysign",    "aten::xlogy",       "aten::addcdiv"};
  return !others.contains(name);
}

int category(DType dtype) {
  return is_complex(dtype) ? 3 : is_floating(dtype) ? 2 : is_integral(dtype) ? 1 : 0;
}

// The functional operator computes in the dtype that it is told: that of the written tensor.
bool takes_dtype(const FunctionalSchema& functional, const Type& target) {
  return target.dtype != DType::undefined && functional.written.size() == 1 &&
         functional.schema->name.starts_with("aten::") && functional.schema->index("dtype") >= 0;
}

}  // namespace

bool changes_geometry(const Schema& schema) {
  if (!schema.is_mutable()) return false;
  const auto found = c10::Dispatcher::singleton().findSchema({schema.name, schema.overload});
  return found && found->hasTag(at::Tag::inplace_view);
}

FunctionalSchema find_functional(const Schema& mutates) {
  FunctionalSchema result;
  for (size_t i = 0; i < mutates.arguments.size(); ++i) {
    if (mutates.arguments[i].writes) result.written.push_back(static_cast<int>(i));
  }
  static const std::unordered_set<std::string_view> impossible{"aten::set_", "aten::set_data",
                                                               "aten::rename_"};
  if (impossible.contains(mutates.name)) return result;
  const std::string name = functional_name(mutates);
  if (name != mutates.name) {
    const std::string key = mutates.overload.empty() ? name : name + "." + mutates.overload;
    const Schema* candidate = find_schema(key);
    if (candidate && match(mutates, *candidate, result)) return result;
  }
  for (const std::string& family : {name, name + "_functional"}) {
    for (const Schema* candidate : find_overloads(family)) {
      if (match(mutates, *candidate, result)) return result;
    }
  }
  if (!mutates.name.starts_with("aten::") && writes_single_tensors(mutates)) {
    result.schema = returning_writes(mutates);
    result.sources.resize(mutates.arguments.size());
    std::iota(result.sources.begin(), result.sources.end(), 0);
  }
  return result;
}

std::optional<DType> unconverted_dtype(const Node& mutates, const FunctionalSchema& functional,
                                       const Type& target) {
  if (target.dtype == DType::undefined) return std::nullopt;
  const std::string& name = functional.schema->name;
  if (returns_bool(name)) {
    return target.dtype == DType::boolean ? std::nullopt : std::optional(DType::boolean);
  }
  const bool has_out = mutates.schema->arguments.back().is_out;
  if (takes_dtype(functional, target) || (!has_out && keeps_dtype(name))) return std::nullopt;
  DType with_dims = DType::undefined;
  DType without_dims = DType::undefined;
  // Sums of integers are int64, and the like.
  bool differs = !is_floating(target.dtype) && !is_complex(target.dtype);
  bool has_float = false;
  std::vector<const Value*> operands;
  for (const int source : functional.sources) {
    if (source < 0) continue;
    const Argument& argument = mutates.arguments[static_cast<size_t>(source)];
    has_float = has_float || argument.get<double>();
    for_each_value(argument, [&](const Value* value) { operands.push_back(value); });
  }
  for (const Value* value : operands) {
    const Type& type = value->type;
    if (!type.is_tensor()) continue;
    if (type.dtype == DType::undefined || !type.shape) return DType::undefined;
    differs = differs || type.dtype != target.dtype;
    DType& group = type.shape->empty() ? without_dims : with_dims;
    group = group == DType::undefined ? type.dtype : promote_types(group, type.dtype);
  }
  if (!promotes(name)) return differs ? std::optional(DType::undefined) : std::nullopt;
  DType result = with_dims;
  if (result == DType::undefined) {
    result = without_dims;
  } else if (without_dims != DType::undefined && category(without_dims) > category(result)) {
    result = promote_types(result, without_dims);
  }
  if (result == DType::undefined) return std::nullopt;
  if (category(result) < 2 && (has_float || !stays_integral(name))) return DType::undefined;
  return result == target.dtype ? std::nullopt : std::optional(result);
}

void make_functional(Node& node, const FunctionalSchema& functional, const Type& target) {
  std::vector<Argument> arguments;
  for (size_t i = 0; i < functional.sources.size(); ++i) {
    const int source = functional.sources[i];
    arguments.push_back(source < 0 ? default_arguments(*functional.schema)[i]
                                   : std::move(node.arguments[static_cast<size_t>(source)]));
  }
  node.arguments = std::move(arguments);
  node.op = functional.schema->key;
  node.schema = functional.schema;
  if (!takes_dtype(functional, target)) return;
  Argument& dtype = node.arguments[static_cast<size_t>(node.schema->index("dtype"))];
  if (dtype.is_none()) dtype = target.dtype;
}

}  // namespace onnx_native::aten
