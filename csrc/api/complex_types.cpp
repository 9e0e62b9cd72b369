#include "api/complex_types.h"

#include <optional>
#include <vector>

#include "aten/op_facts.h"
#include "aten/result_type.h"
#include "aten/visit.h"
#include "ops/engine/call.h"
#include "ops/engine/lower.h"

namespace onnx_native {
namespace {

bool makes_complex(const aten::Node& node) {
  if (aten::facts_of(*node.schema).complex_result != aten::ComplexResult::none) return true;
  const int at = node.schema->index("return_complex");
  if (at < 0 || static_cast<size_t>(at) >= node.arguments.size()) return false;
  const auto* asked = node.arguments[static_cast<size_t>(at)].get<bool>();
  return asked && *asked;
}

// Returns true if the results have the dtype of the first tensor, such as those of `expand_as`.
bool keeps_dtype(const aten::OpFacts& facts) {
  using aten::ViewKind;
  if (facts.dtype == aten::ResultDtype::of_self) return true;
  return facts.view != ViewKind::none && facts.view != ViewKind::several &&
         facts.view != ViewKind::einsum && facts.view != ViewKind::to;
}

// Returns the dtype that `aten::to.other` and similar calls convert to.
std::optional<DType> dtype_of_other(const aten::Node& node) {
  const int at = node.schema->index("other");
  if (at < 0 || aten::kind_of(*node.schema) != aten::ViewKind::to) return std::nullopt;
  const aten::Value* other = node.arguments[static_cast<size_t>(at)].as_value();
  return other ? std::optional(other->type.dtype) : std::nullopt;
}

// Returns the promoted dtype of the float and complex tensors; the default dtype if there are none.
DType common_dtype(const std::vector<const aten::Value*>& tensors) {
  aten::ResultType common;
  for (const aten::Value* tensor : tensors) {
    const aten::Type& type = tensor->type;
    if (is_floating(type.dtype) || is_complex(type.dtype))
      common.add_tensor(type.dtype, !type.shape || !type.shape->empty());
  }
  return ops::float_dtype(common.get());
}

}  // namespace

DType recorded_dtype(const aten::Node& node, size_t result) {
  if (!node.schema) return DType::undefined;
  const aten::OpFacts& facts = aten::facts_of(*node.schema);
  const bool of_complex = ops::key_of(node) == ops::Key::complex;
  const bool is_real = (facts.real_results >> result & 1) != 0;
  std::vector<const aten::Value*> tensors;
  for (const aten::Argument& argument : node.arguments) {
    if (const auto* dtype = argument.get<DType>()) {
      if (!of_complex && !is_complex(*dtype)) return DType::undefined;
      return is_real ? real_dtype(*dtype) : *dtype;
    }
    aten::for_each_value(argument, [&](const aten::Value* value) {
      if (value->type.is_tensor()) tensors.push_back(value);
    });
  }
  if (of_complex && facts.view == aten::ViewKind::several)
    return result < tensors.size() ? tensors[result]->type.dtype : DType::undefined;
  if (facts.complex_result == aten::ComplexResult::half) return DType::c32;
  if (makes_complex(node)) return complex_dtype(common_dtype(tensors));
  if (!of_complex && facts.dtype != aten::ResultDtype::floating) return DType::undefined;
  if (const auto dtype = dtype_of_other(node)) return *dtype;
  if (of_complex && !is_real && keeps_dtype(facts) && !tensors.empty())
    return tensors.front()->type.dtype;
  const DType common = common_dtype(tensors);
  return is_real || !of_complex ? real_dtype(common) : complex_dtype(common);
}

}  // namespace onnx_native
