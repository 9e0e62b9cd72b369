#include "ops/formulas/series.h"

namespace onnx_native::ops {

Value polynomial(Builder& b, Value x, std::span<const double> coefficients) {
  Value sum = f64(b, coefficients.back());
  for (size_t i = coefficients.size() - 1; i-- > 0;) {
    sum = b.Add(b.Mul(sum, x), f64(b, coefficients[i]));
  }
  return sum;
}

Value ratio(Builder& b, Value x, std::span<const double> top, std::span<const double> bottom) {
  return b.Div(polynomial(b, x, top), polynomial(b, x, bottom));
}

}  // namespace onnx_native::ops
