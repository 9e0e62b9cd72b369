// Formulas in float64, for which ONNX Runtime has the required kernels: float32 results are then
// accurate to the last bits.
#pragma once

#include <span>

#include "ops/engine/op_table.h"
#include "ops/formulas/fits.h"
#include "ops/formulas/numeric.h"

namespace onnx_native::ops {

// Runs a float64 formula on floating-point tensors of one dtype and casts the result back.
template <class Formula, class... Rest>
Value in_f64(Builder& b, Formula formula, Value x, Rest... rest) {
  return b.cast(formula(b, b.cast(x, DType::f64), b.cast(rest, DType::f64)...), x->dtype);
}

// The polynomial with these coefficients by ascending power, and the ratio of two polynomials.
Value polynomial(Builder& b, Value x, std::span<const double> coefficients);
Value ratio(Builder& b, Value x, std::span<const double> top, std::span<const double> bottom);

// Defines unary operators by a float64 formula.
template <class Formula>
void def_in_f64(OpTable& ops, std::initializer_list<std::string_view> keys, Formula formula) {
  ops.def(keys, Promote::int_to_float,
          [formula](Builder& b, Value self) { return in_f64(b, formula, self); });
}

}  // namespace onnx_native::ops
