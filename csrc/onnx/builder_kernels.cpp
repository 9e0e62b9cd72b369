// Replaces operators that ONNX Runtime cannot compute, or not exactly, in the dtype of their
// inputs.
#include <algorithm>
#include <array>

#include "base/weight.h"
#include "onnx/builder.h"
#include "onnx/kernels.h"
#include "onnx/schema.h"

namespace onnx_native {
namespace {

// Returns true if a float attribute loses digits in a float64 operator, because it is stored as
// float32.
bool loses_digits(const std::vector<onnx::Attribute>& attributes) {
  const auto inexact = [](double number) {
    return number == number && static_cast<double>(static_cast<float>(number)) != number;
  };
  return std::ranges::any_of(attributes, [&](const onnx::Attribute& attribute) {
    const auto* number = std::get_if<double>(&attribute.value);
    const auto* numbers = std::get_if<std::vector<double>>(&attribute.value);
    return (number && inexact(*number)) || (numbers && std::ranges::any_of(*numbers, inexact));
  });
}

// Returns true if ONNX Runtime computes the operator in float64, or compares the halves of int64
// incorrectly.
bool is_inexact(std::string_view op_type, DType dtype) {
  constexpr std::array<std::string_view, 2> kSums = {"ReduceProd", "ReduceSum"};
  constexpr std::array<std::string_view, 7> kWide = {"Clip",      "Max",       "Min", "Mod",
                                                     "ReduceMax", "ReduceMin", "Sign"};
  const bool wide = dtype == DType::i64;
  if (std::ranges::find(kSums, op_type) != kSums.end()) return wide || dtype == DType::i32;
  return wide && std::ranges::find(kWide, op_type) != kWide.end();
}

bool is_integer_division(std::string_view op_type, const Values& inputs) {
  return (op_type == "Div" || op_type == "Mod") && !is_floating(inputs[0]->dtype);
}

bool may_be_zero(Value divisor) {
  if (has_elements(divisor->constant)) {
    for (int64_t i = 0; i < divisor->constant->numel(); ++i) {
      if (divisor->constant->integer(i) == 0) return true;
    }
    return false;
  }
  return !divisor->contents || !std::ranges::all_of(*divisor->contents, [](const Dim& number) {
    return number.known_positive(false);
  });
}

// Returns true if the dividend may be empty along an axis along which the divisor has elements.
bool may_divide_nothing(const Shape& dividend, const Shape& divisor) {
  for (size_t i = 0; i < dividend.size(); ++i) {
    const Dim& size = dividend[dividend.size() - 1 - i];
    if (size.known_positive(false)) continue;
    if (i >= divisor.size() || divisor[divisor.size() - 1 - i] != size) return true;
  }
  return false;
}

// ONNX Runtime refuses all divisors that have a 0, although eager divides empty tensors by 0.
std::optional<Values> empty_division(Builder& b, std::string_view op_type, const Values& inputs,
                                     const std::vector<onnx::Attribute>& attributes) {
  const Value dividend = inputs[0];
  const Value divisor = inputs[1];
  if (!dividend->shape || !divisor->shape) return std::nullopt;
  // Any operator on no elements has the result's shape and dtype.
  if (is_empty(*dividend->shape)) return Values{b.Add(dividend, divisor)};
  if (!may_be_zero(divisor)) return std::nullopt;
  if (!divisor->is_constant() && !may_divide_nothing(*dividend->shape, *divisor->shape))
    return std::nullopt;
  const Value expanded = b.op("Expand", {divisor, b.op("Shape", {dividend})});
  if (expanded->is_constant() || *expanded->shape == *divisor->shape) return std::nullopt;
  return b.ops(op_type, 1, {dividend, expanded}, attributes);
}

}  // namespace

std::optional<Values> Builder::without_kernel(std::string_view op_type, size_t outputs,
                                              const Values& inputs,
                                              const std::vector<onnx::Attribute>& attributes) {
  const std::optional<size_t> typed = onnx::typed_input(op_type, inputs, opset());
  if (!typed) return std::nullopt;
  const DType dtype = inputs[*typed]->dtype;
  if (is_integer_division(op_type, inputs)) {
    if (std::optional<Values> results = empty_division(*this, op_type, inputs, attributes))
      return results;
  }
  const DType compute = onnx::kernel_dtype(op_type, dtype, kernel_opset());
  if (compute != dtype) return cast_around(op_type, outputs, inputs, attributes, *typed, compute);
  if (is_inexact(op_type, dtype)) return composed(op_type, outputs, inputs, attributes);
  // Narrower floats are computed in float32, which has all kernels.
  if (dtype != DType::f64) return std::nullopt;
  // ONNX Runtime's float64 Sigmoid returns 0 below -36. LayerNormalization computes its moments in
  // float32.
  const bool narrow = loses_digits(attributes) || op_type == "Sigmoid" ||
                      (op_type == "LayerNormalization" && outputs > 1);
  if (onnx::has_kernel(op_type, dtype, kernel_opset()) && !narrow) return std::nullopt;
  return composed(op_type, outputs, inputs, attributes);
}

std::optional<Values> Builder::composed(std::string_view op_type, size_t outputs,
                                        const Values& inputs,
                                        const std::vector<onnx::Attribute>& attributes) {
  if (!compositions_) return std::nullopt;
  const auto rule = compositions_->find(op_type);
  if (rule == compositions_->end()) return std::nullopt;
  onnx::Node node;
  node.op_type = op_type;
  node.inputs.assign(inputs.begin(), inputs.end());
  node.outputs.resize(outputs);
  node.attributes = attributes;
  Values results = rule->second(*this, node);
  if (results.empty()) return std::nullopt;
  return results;
}

Values Builder::cast_around(std::string_view op_type, size_t outputs, const Values& inputs,
                            const std::vector<onnx::Attribute>& attributes, size_t typed,
                            DType compute) {
  const onnx::OpSchema& schema = *onnx::find_schema(op_type, opset());
  const DType dtype = inputs[typed]->dtype;
  const std::string_view type = onnx::type_parameter(schema.inputs, typed);
  Values wide = inputs;
  std::vector<std::string_view> types{type};
  for (size_t i = 0; i < wide.size(); ++i) {
    if (!wide[i] || wide[i]->dtype != dtype) continue;
    const std::string_view parameter = onnx::type_parameter(schema.inputs, i);
    if (parameter != type && !is_floating(dtype)) continue;
    types.push_back(parameter);
    wide[i] = cast(wide[i], compute);
  }
  Values results = ops(op_type, outputs, std::move(wide), attributes);
  for (size_t i = 0; i < results.size(); ++i) {
    if (results[i] &&
        std::ranges::find(types, onnx::type_parameter(schema.outputs, i)) != types.end())
      results[i] = cast(results[i], dtype);
  }
  return results;
}

}  // namespace onnx_native
