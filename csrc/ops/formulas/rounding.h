// Operators that ATen computes in float32 for 16-bit floats, with one rounding at the end.
#pragma once

#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>

#include "ops/engine/binder.h"
#include "ops/formulas/numeric.h"

namespace onnx_native::ops {
namespace rounding {

// Casts a 16-bit floating-point tensor to float32; returns other arguments unchanged.
template <class T>
T widened([[maybe_unused]] Builder& b, T argument) {
  if constexpr (std::is_same_v<T, Value>) {
    return b.cast(argument, accumulation_dtype(argument->dtype));
  } else if constexpr (std::is_same_v<T, std::optional<Value>>) {
    return argument ? T(widened(b, *argument)) : argument;
  } else {
    return argument;
  }
}

template <class F, class First, class... Rest>
auto wrap(F formula, std::type_identity<std::tuple<First, Rest...>>) {
  return [formula](Builder& b, First first, Rest... rest) {
    const DType dtype = first->dtype;
    if (accumulation_dtype(dtype) == dtype) return formula(b, first, rest...);
    auto result = formula(b, widened(b, first), widened(b, rest)...);
    if constexpr (std::is_same_v<decltype(result), Value>) {
      result = b.cast(result, dtype);
    } else {
      for (Value& each : result) each = b.cast(each, dtype);
    }
    return result;
  };
}

}  // namespace rounding

// Runs the formula with 16-bit floating-point tensors in float32; the result has the first tensor's
// dtype. Rounding at every step would lose digits where terms cancel.
template <class F>
auto rounded_once(F formula) {
  using Parameters = typename binder::Signature<F>::Parameters;
  return rounding::wrap(std::move(formula), std::type_identity<Parameters>());
}

}  // namespace onnx_native::ops
