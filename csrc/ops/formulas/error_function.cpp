#include "ops/formulas/error_function.h"

#include "ops/formulas/series.h"

namespace onnx_native::ops {

Value scaled_upper(Builder& b, Value x) {
  const Value v = b.Div(f64(b, 3), b.Add(x, f64(b, 3)));
  return b.Mul(v, ratio(b, v, fits::kErfcxTop, fits::kErfcxBottom));
}

Value reflected(Builder& b, Value x, Value below, Value above) {
  return b.where(b.Less(x, f64(b, 0)), below, above);
}

Value erfc(Builder& b, Value x) {
  const Value upper = b.Mul(scaled_upper(b, b.Abs(x)), b.Exp(b.Neg(b.Mul(x, x))));
  return reflected(b, x, b.Sub(f64(b, 2), upper), upper);
}

Value erf(Builder& b, Value x) {
  const Value near = b.Mul(x, polynomial(b, b.Mul(x, x), fits::kErf));
  return b.where(b.Less(b.Abs(x), f64(b, 1)), near, b.Sub(f64(b, 1), erfc(b, x)));
}

}  // namespace onnx_native::ops
