#include "ops/formulas/distance.h"

#include <algorithm>
#include <cmath>

#include "onnx/builder.h"
#include "ops/formulas/index.h"
#include "ops/formulas/numeric.h"
#include "ops/formulas/view.h"

namespace onnx_native::ops {

Value norm_of_computed_order(Builder& b, Value x, const Number& p, const Ints& axes, bool keepdim) {
  const auto is = [&](double number) { return b.Equal(b.like(x, p), b.like(x, number)); };
  const auto over = [&](std::string_view reduction, Value v) {
    return axes.empty() ? v : b.reduce(reduction, v, axes, keepdim);
  };
  const Value size = b.Abs(x);
  // Sum of powers for finite nonzero orders; the other orders use 1 as a placeholder.
  const Value none = is(0);
  const Value highest = is(kInfinity), lowest = is(-kInfinity);
  const Value order = b.where(b.Or(none, b.Or(highest, lowest)), b.like(x, 1), b.like(x, p));
  Value norm = b.Pow(over("ReduceSum", b.Pow(size, order)), b.Reciprocal(order));
  norm = b.where(none, over("ReduceSum", b.cast(b.cast(x, DType::boolean), x->dtype)), norm);
  const bool empty =
      std::ranges::any_of(axes, [&](int64_t axis) { return x->dim(axis).equals(0); });
  if (empty) return norm;
  norm = b.where(highest, over("ReduceMax", size), norm);
  return b.where(lowest, over("ReduceMin", size), norm);
}

Value p_norm(Builder& b, Value x, const Number& order, int64_t axis, bool keepdim) {
  if (!order.is_constant()) return norm_of_computed_order(b, x, order, {axis}, keepdim);
  const double p = order.to_double();
  if (p == 0) {
    const Value nonzero = b.cast(b.cast(x, DType::boolean), x->dtype);
    return b.reduce("ReduceSum", nonzero, {axis}, keepdim);
  }
  const Value size = b.Abs(x);
  if (std::isinf(p)) {
    if (x->dim(axis).equals(0)) return b.reduce("ReduceSum", size, {axis}, keepdim);
    return b.reduce(p > 0 ? "ReduceMax" : "ReduceMin", size, {axis}, keepdim);
  }
  if (p == 1) return b.reduce("ReduceSum", size, {axis}, keepdim);
  if (p == 2) return b.Sqrt(b.reduce("ReduceSum", b.Mul(x, x), {axis}, keepdim));
  const Value sum = b.reduce("ReduceSum", b.Pow(size, b.like(x, p)), {axis}, keepdim);
  return b.Pow(sum, b.like(x, 1.0 / p));
}

// Integers are subtracted before the cast to floating point.
Value pairwise_distance(Builder& b, Value x1, Value x2, const Number& p, const Number& eps,
                        bool keepdim) {
  const Value difference = b.Sub(x1, x2);
  const Value x = b.cast(difference, float_dtype(difference->dtype));
  return p_norm(b, b.Add(x, b.like(x, eps)), p, -1, keepdim);
}

Value cosine_similarity(Builder& b, Value x1, Value x2, int64_t dim, const Number& eps) {
  // ATen takes the norms after broadcasting.
  const Values both = broadcast_all(b, {x1, x2});
  const int64_t rank = both[0]->rank();
  const int64_t axis = normalize_axis(dim, rank) - rank;
  const auto unit = [&](Value v) {
    return b.Div(v, b.Max(p_norm(b, v, 2, axis, true), b.like(v, eps)));
  };
  return b.reduce("ReduceSum", b.Mul(unit(both[0]), unit(both[1])), {axis}, false);
}

}  // namespace onnx_native::ops
