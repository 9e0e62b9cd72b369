// Powers and exponentials of square matrices.
#include <cmath>

#include "ops/families.h"
#include "ops/formulas/linalg.h"
#include "ops/formulas/view.h"

namespace onnx_native::ops {
namespace {

Value matrix_power(Builder& b, Value self, int64_t n) {
  if (n == 0) {
    return b.expand(identity(b, self->dim(-1), self->dim(-1), self->dtype), self->known_shape());
  }
  Value square = self;
  if (n < 0) square = b.cast(inverse(b, wide(b, self), /*with_info=*/false).x, self->dtype);
  Value product = nullptr;
  for (auto left = static_cast<uint64_t>(std::abs(n)); left > 0; left /= 2) {
    if (left % 2 == 1) product = product ? b.matmul(product, square) : square;
    if (left > 1) square = b.matmul(square, square);
  }
  return product;
}

// Returns the sum of x^i / i! for i up to 15, in four groups of four terms. The norm of x is at
// most 1/2, so that the remainder is below 1e-18.
Value taylor(Builder& b, Value x) {
  const Dim& n = x->dim(-1);
  const Value unit = identity(b, n, n);
  const Value x2 = b.matmul(x, x);
  const Value x3 = b.matmul(x2, x);
  const Value x4 = b.matmul(x2, x2);
  const auto term = [&](Value power, int i) {
    return b.Mul(power, b.like(power, 1 / std::tgamma(i + 1)));
  };
  Value sum = nullptr;
  for (int i = 12; i >= 0; i -= 4) {
    const Value group =
        b.Add(b.Add(term(unit, i), term(x, i + 1)), b.Add(term(x2, i + 2), term(x3, i + 3)));
    sum = sum ? b.Add(b.matmul(sum, x4), group) : group;
  }
  return sum;
}

// Scaling and squaring (GVL 9.3.1): the norm decides how often each matrix is halved.
Value matrix_exp(Builder& b, Value self) {
  const Dim n = self->dim(-1);
  if (n.equals(0)) return b.Identity(self);
  const Value x = wide(b, self);
  const Value zero = b.like(x, 0), two = b.like(x, 2);
  const Value sums = b.reduce("ReduceL1", x, {-2}, /*keepdims=*/true);
  const Value norm = b.reduce("ReduceMax", sums, {-1}, /*keepdims=*/true);
  const Value doublings = b.Ceil(b.Div(b.Log(b.Mul(norm, two)), b.like(x, std::log(2.0))));
  // 1100 halvings take even the greatest float64 below 1.
  const Value halvings = b.Min(b.Max(doublings, zero), b.like(x, 1100));
  const Value scaled = b.Mul(x, b.Pow(two, b.Neg(halvings)));
  const Value most = b.cast(greatest(b, halvings), DType::i64);
  const Dim steps = b.dim_of(most, DimRange::size());
  const Value result = iterate(b, steps, {taylor(b, scaled)}, [&](Value k, const Values& carried) {
    const Value needed = b.Less(b.cast(k, DType::f64), halvings);
    return Values{b.where(needed, b.matmul(carried[0], carried[0]), carried[0])};
  })[0];
  return b.cast(result, self->dtype);
}

}  // namespace

void register_matrix_function(OpTable& ops) {
  ops.def({"aten::linalg_matrix_power", "aten::matrix_power"}, matrix_power);
  ops.def({"aten::linalg_matrix_exp", "aten::matrix_exp"}, matrix_exp);
}

}  // namespace onnx_native::ops
