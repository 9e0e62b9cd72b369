#include "ops/formulas/resample.h"

#include <numbers>

#include "onnx/builder.h"
#include "ops/formulas/arithmetic.h"

namespace onnx_native::ops {
namespace {

Value column(Builder& b, Value v) { return b.unsqueeze(v, {1}); }
Value row(Builder& b, Value v) { return b.unsqueeze(v, {0}); }

// Returns the number of input elements per output element.
Value step(Builder& b, const Resampling& r, DType dtype) {
  const auto number = [&](const Dim& dim) { return b.cast(b.dim_value(dim), dtype); };
  if (r.align_corners) {
    if (r.out.equals(1)) return b.scalar(dtype, 0.0);
    const Value step = b.Div(number(r.in - 1), number(Dim::max(r.out - 1, 1)));
    // 0 if there is one element.
    return r.out.is_constant() ? step : b.Mul(step, number(Dim::min(r.out - 1, 1)));
  }
  if (r.scale) return b.scalar(dtype, 1.0 / *r.scale);
  return b.Div(number(r.in), number(r.out));
}

Value output_positions(Builder& b, const Resampling& r, DType dtype) {
  return b.cast(b.range(r.out), dtype);
}

// Keys' cubic kernel for distances x >= 0.
Value cubic_kernel(Builder& b, Value x, double a) {
  const Value squared = b.Mul(x, x);
  const Value near = plus(b, b.Mul(plus(b, times(b, x, a + 2), -(a + 3)), squared), 1.0);
  const Value far = times(b, plus(b, b.Mul(plus(b, b.Mul(plus(b, x, -5.0), x), 8.0), x), -4.0), a);
  const Value outside = b.where(b.Less(x, b.like(x, 2.0)), far, b.like(x, 0.0));
  return b.where(b.LessOrEqual(x, b.like(x, 1.0)), near, outside);
}

Value sinc(Builder& b, Value x) {
  const Value angle = times(b, x, std::numbers::pi);
  const Value zero = b.Equal(x, b.like(x, 0.0));
  const Value one = b.like(x, 1.0);
  return b.where(zero, one, b.Div(b.Sin(angle), b.where(zero, one, angle)));
}

Value filtered(Builder& b, Value x, Filter filter) {
  const Value distance = b.Abs(x);
  switch (filter) {
    case Filter::triangle:
      return b.Max(b.Sub(b.like(x, 1.0), distance), b.like(x, 0.0));
    case Filter::cubic:
      return cubic_kernel(b, distance, -0.5);
    case Filter::lanczos:
      return b.where(b.Less(distance, b.like(x, 3.0)),
                     b.Mul(sinc(b, distance), sinc(b, times(b, distance, 1.0 / 3))),
                     b.like(x, 0.0));
  }
  return nullptr;
}

double support_of(Filter filter) {
  return filter == Filter::triangle ? 1.0 : filter == Filter::cubic ? 2.0 : 3.0;
}

}  // namespace

Value nearest_positions(Builder& b, const Resampling& r, bool exact) {
  const Value last = b.dim_value(r.in - 1);
  if (r.scale) {
    Value at = output_positions(b, r, DType::f32);
    if (exact) at = plus(b, at, 0.5);
    at = b.Floor(b.Mul(at, step(b, r, DType::f32)));
    return b.Min(b.cast(at, DType::i64), last);
  }
  const Value i = b.range(r.out);
  const Value in = b.dim_value(r.in), out = b.dim_value(r.out);
  if (!exact) return b.Min(b.Div(b.Mul(i, in), out), last);
  const Value twice = b.Add(b.Mul(i, b.i64(2)), b.i64(1));
  return b.Min(b.Div(b.Mul(twice, in), b.Mul(out, b.i64(2))), last);
}

Value interpolation_matrix(Builder& b, const Resampling& r, bool cubic, DType dtype) {
  const Value i = output_positions(b, r, dtype), scale = step(b, r, dtype);
  const Value last = b.cast(b.dim_value(r.in - 1), dtype), zero = b.scalar(dtype, 0.0);
  Value at = r.align_corners ? b.Mul(i, scale) : plus(b, b.Mul(plus(b, i, 0.5), scale), -0.5);
  const Value j = b.cast(b.range(r.in), dtype);
  if (!cubic) {
    at = b.Min(b.Max(at, zero), last);
    return filtered(b, b.Sub(row(b, j), column(b, at)), Filter::triangle);
  }
  const Value base = b.Floor(at);
  Value sum = nullptr;
  for (double tap = -1; tap <= 2; ++tap) {
    const Value place = plus(b, base, tap);
    const Value weight = cubic_kernel(b, b.Abs(b.Sub(at, place)), -0.75);
    const Value clamped = b.Min(b.Max(place, zero), last);
    const Value here = b.cast(b.Equal(column(b, clamped), row(b, j)), dtype);
    const Value term = b.Mul(column(b, weight), here);
    sum = sum ? b.Add(sum, term) : term;
  }
  return sum;
}

Value antialiasing_matrix(Builder& b, const Resampling& r, Filter filter, DType dtype) {
  const Value scale = step(b, r, dtype);
  const Value widening = b.Max(scale, b.scalar(dtype, 1.0));
  const Value support = times(b, widening, support_of(filter));
  const Value center = b.Mul(plus(b, output_positions(b, r, dtype), 0.5), scale);
  // ATen truncates toward zero; Floor differs only for negative positions, which are clamped
  // anyway.
  const Value first = b.Floor(plus(b, b.Sub(center, support), 0.5));
  const Value end = b.Floor(plus(b, b.Add(center, support), 0.5));
  const Value j = row(b, b.cast(b.range(r.in), dtype));
  const Value distance = b.Sub(plus(b, j, 0.5), column(b, center));
  const Value inside = b.And(b.GreaterOrEqual(j, column(b, first)), b.Less(j, column(b, end)));
  const Value weights =
      b.where(inside, filtered(b, b.Div(distance, widening), filter), b.scalar(dtype, 0.0));
  return b.Div(weights, b.reduce("ReduceSum", weights, {1}, true));
}

Value resample(Builder& b, Value x, Value matrix, int64_t axis) {
  axis = normalize_axis(axis, x->rank());
  if (axis == x->rank() - 2) return b.matmul(matrix, x);
  const Value transposed = b.transpose(matrix, {1, 0});
  if (axis == x->rank() - 1) return b.matmul(x, transposed);
  return b.swap_axes(b.matmul(b.swap_axes(x, axis, -1), transposed), axis, -1);
}

}  // namespace onnx_native::ops
