#include "aten/functional_schema.h"

#include <torch/library.h>

#include <algorithm>
#include <numeric>
#include <string>

#include "aten/fault.h"
#include "aten/op_facts.h"
#include "aten/result_type.h"
#include "aten/visit.h"

// Functional forms that ATen lacks.
TORCH_LIBRARY_FRAGMENT(onnx_native, library) {
  library.def("fill_diagonal(Tensor self, Scalar fill_value, bool wrap=False) -> Tensor");
}

namespace onnx_native::aten {
namespace {

// Maps aten::add_ to aten::add and aten::__ior__ to aten::__or__; returns other names unchanged.
std::string functional_name(const Schema& mutates) {
  std::string name = mutates.name;
  const size_t at = name.rfind(':') + 1;
  if (const auto functional = facts_of(mutates).functional; !functional.empty())
    return std::string(functional);
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
  // Its mask comes after the result.
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

bool is_integral_or_bool(DType dtype) { return !is_floating(dtype) && !is_complex(dtype); }

// Returns true if an operand is an integer, not a tensor.
bool takes_integer(const Node& node) {
  for (size_t i = 0; i < node.arguments.size(); ++i) {
    const Argument& argument = node.arguments[i];
    const Value* value = argument.as_value();
    const bool is_integer =
        argument.get<int64_t>() || (value && value->type.kind == Type::Kind::sym_int);
    if (is_integer && node.schema->arguments[i].name == "other") return true;
  }
  return false;
}

// Returns true if the functional operator computes in a given dtype: that of the written tensor.
bool takes_dtype(const FunctionalSchema& functional, const Type& target) {
  return target.dtype != DType::undefined && functional.written.size() == 1 &&
         functional.schema->name.starts_with("aten::") && functional.schema->index("dtype") >= 0;
}

}  // namespace

FunctionalSchema find_functional(const Schema& mutates) {
  FunctionalSchema result;
  for (size_t i = 0; i < mutates.arguments.size(); ++i) {
    if (mutates.arguments[i].writes) result.written.push_back(static_cast<int>(i));
  }
  if (facts_of(mutates).functional == kNoFunctional) return result;
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

void check_writes_nothing(const Node& node, const FunctionalSchema& functional) {
  for (const int index : functional.written) {
    if (!node.arguments[static_cast<size_t>(index)].get<Argument::List>())
      fail_unsupported(node, node.op + " writes to an argument that is not a tensor");
  }
}

bool copies_whole(const Node& node) {
  if (node.schema->name != "aten::copy_") return false;
  const Value* to = node.arguments[0].as_value();
  const Value* from = node.arguments[1].as_value();
  return to && from && to->type.is_tensor() && from->type.is_tensor() && to->type.shape &&
         to->type.dtype != DType::undefined && to->type.dtype == from->type.dtype &&
         from->type.shape && *to->type.shape == *from->type.shape;
}

std::optional<DType> unconverted_dtype(const Node& mutates, const FunctionalSchema& functional,
                                       const Type& target, size_t i) {
  if (target.dtype == DType::undefined) return std::nullopt;
  const OpFacts& facts = facts_of(*functional.schema);
  const ResultDtype rule = facts.dtype;
  const bool is_real = (facts.real_results >> i & 1) != 0;
  if (rule == ResultDtype::boolean) {
    return target.dtype == DType::boolean ? std::nullopt : std::optional(DType::boolean);
  }
  const bool has_out = mutates.schema->arguments.back().is_out;
  if (takes_dtype(functional, target) || (!has_out && rule == ResultDtype::of_self))
    return std::nullopt;
  if (rule == ResultDtype::of_self) {
    const Value* self = mutates.arguments[0].as_value();
    if (!self) return std::nullopt;
    const DType dtype = is_real ? real_dtype(self->type.dtype) : self->type.dtype;
    return dtype == target.dtype ? std::nullopt : std::optional(dtype);
  }
  ResultType promoted;
  // For example, sums of integers are int64.
  bool differs = is_integral_or_bool(target.dtype);
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
    promoted.add_tensor(type.dtype, !type.shape->empty());
  }
  const bool maybe_float = rule == ResultDtype::promoted_or_float;
  DType result = promoted.get();
  if (facts.complex_result == ComplexResult::made && is_floating(result))
    result = complex_dtype(result);
  // An undefined dtype stands for a real one: complex tensors have lowerings of their own.
  const bool is_of_complex =
      is_complex(result) && (is_complex(target.dtype) || (is_real && is_floating(target.dtype)));
  if (is_real) result = real_dtype(result);
  if (rule != ResultDtype::promoted && !maybe_float && !is_of_complex)
    return differs ? std::optional(DType::undefined) : std::nullopt;
  if (result == DType::undefined) return std::nullopt;
  const bool stays_bool = result == DType::boolean && !has_float && !takes_integer(mutates);
  if (target.dtype == DType::boolean && !stays_bool)
    fail_unsupported(mutates,
                     "cannot write a result that is not bool to a bool tensor (eager rejects this "
                     "too); convert the tensor first");
  if (is_integral_or_bool(result) && (has_float || maybe_float)) return DType::undefined;
  return result == target.dtype ? std::nullopt : std::optional(result);
}

void make_functional(Node& node, const FunctionalSchema& functional, const Type& target) {
  std::vector<Argument> arguments;
  for (size_t i = 0; i < functional.sources.size(); ++i) {
    const int source = functional.sources[i];
    arguments.push_back(source < 0 ? default_arguments(*functional.schema)[i]
                                   : node.arguments[static_cast<size_t>(source)]);
  }
  node.arguments = std::move(arguments);
  node.op = functional.schema->key;
  node.schema = functional.schema;
  if (!takes_dtype(functional, target)) return;
  Argument& dtype = node.arguments[static_cast<size_t>(node.schema->index("dtype"))];
  if (dtype.is_none()) dtype = target.dtype;
}

}  // namespace onnx_native::aten
