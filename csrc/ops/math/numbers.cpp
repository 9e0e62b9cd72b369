// Common divisors of integers; parts and neighbors of floating-point numbers.
#include <array>
#include <numbers>

#include "ops/families.h"
#include "ops/formulas/loop.h"
#include "ops/formulas/numeric.h"
#include "ops/formulas/view.h"

namespace onnx_native::ops {
namespace {

// C++ promotes narrow integers to int.
DType arithmetic_dtype(DType dtype) { return dtype == DType::i64 ? dtype : DType::i32; }

// Euclid's algorithm; runs as many steps as the slowest element needs.
Value gcd(Builder& b, Value self, Value other) {
  const Values both = broadcast_all(b, {b.Abs(self), b.Abs(other)});
  const Value zero = b.like(self, 0);
  const Value one = b.like(self, 1);
  const auto step = [&](Value, const Values& states) {
    const Value done = b.Equal(states[1], zero);
    const Value rest = b.op("Mod", {states[0], b.where(done, one, states[1])});
    return Values{any_true(b, not_equal(b, rest, zero)), b.where(done, states[0], states[1]), rest};
  };
  // Fibonacci numbers need the most steps; 92 of them fit in int64.
  return loop_while(b, b.i64(96), both, step)[0];
}

Value lcm(Builder& b, Value self, Value other) {
  const Value divisor = gcd(b, self, other);
  const Value zero = b.Equal(divisor, b.like(self, 0));
  const Value quotient = b.Div(self, b.where(zero, b.like(self, 1), divisor));
  return b.where(zero, b.like(self, 0), b.Abs(b.Mul(quotient, other)));
}

template <class Formula>
auto of_integers(Formula formula) {
  return [formula](Builder& b, Value self, Value other) {
    const DType dtype = self->dtype;
    const DType wide = arithmetic_dtype(dtype);
    return b.cast(formula(b, b.cast(self, wide), b.cast(other, wide)), dtype);
  };
}

// x = mantissa 2^exponent with 0.5 <= |mantissa| < 1; 0, infinity and NaN give themselves and 0.
// The exponent from the logarithm may be off by one, so it is corrected.
std::array<Value, 2> frexp(Builder& b, Value self) {
  const Value x = b.cast(self, DType::f64);
  const auto number = [&](double value) { return b.scalar(DType::f64, value); };
  const Value size = b.Abs(x);
  const Value regular = b.And(b.Greater(size, number(0)), b.Less(size, number(kInfinity)));
  // Scales subnormal numbers up first.
  Value scaled = b.where(regular, x, number(1));
  Value shift = number(0);
  if (self->dtype == DType::f64) {
    const Value tiny = b.Less(b.Abs(scaled), number(0x1p-1000));
    scaled = b.where(tiny, b.Mul(scaled, number(0x1p100)), scaled);
    shift = b.where(tiny, number(-100), number(0));
  }
  const Value logarithm = b.Mul(b.Log(b.Abs(scaled)), number(1 / std::numbers::ln2));
  const Value guess = b.Add(b.Floor(logarithm), number(1));
  const Value mantissa = b.Mul(scaled, b.Pow(number(2), b.Neg(guess)));
  const Value over = b.GreaterOrEqual(b.Abs(mantissa), number(1));
  const Value under = b.Less(b.Abs(mantissa), number(0.5));
  const Value factor = b.where(over, number(0.5), b.where(under, number(2), number(1)));
  const Value missed = b.where(over, number(1), b.where(under, number(-1), number(0)));
  const Value exponent = b.where(regular, b.Add(b.Add(guess, missed), shift), number(0));
  return {b.cast(b.where(regular, b.Mul(mantissa, factor), x), self->dtype),
          b.cast(exponent, DType::i32)};
}

// Half a unit in the last place of 1, and the smallest positive number.
struct Format {
  double half_unit, smallest;
};

Format format_of(DType dtype) {
  switch (dtype) {
    case DType::f16:
      return {0x1p-11, 0x1p-24};
    case DType::bf16:
      return {0x1p-8, 0x1p-133};
    case DType::f32:
      return {0x1p-24, 0x1p-149};
    default:
      return {0x1p-53, 0x1p-1074};
  }
}

// Returns the neighbor of x in the direction (1 or -1): adds slightly more than half the distance
// and rounds (Rump, Zimmermann, Boldo, Melquiond: Computing predecessor and successor in rounding
// to nearest, BIT 49, 2009). x has a wider dtype than its format; the cast back rounds.
Value neighbor(Builder& b, Value x, Value direction, const Format& format) {
  const double share = format.half_unit * (1 + 2 * format.half_unit);
  const Value distance =
      b.Max(b.Mul(b.Abs(x), b.like(x, share)), b.like(x, 0.75 * format.smallest));
  return b.Add(x, b.Mul(direction, distance));
}

// The same without a wider dtype: exact near the subnormal numbers, scaled not far above them.
Value neighbor_f64(Builder& b, Value x, Value direction) {
  const Format format = format_of(DType::f64);
  const auto number = [&](double value) { return b.like(x, value); };
  const Value size = b.Abs(x);
  const Value scale = b.where(b.Less(size, number(0x1p-900)), number(0x1p100), number(1));
  const Value scaled = b.Mul(x, scale);
  const Value distance =
      b.Mul(b.Abs(scaled), number(format.half_unit * (1 + 2 * format.half_unit)));
  const Value rounded = b.Div(b.Add(scaled, b.Mul(direction, distance)), scale);
  const Value exact = b.Add(x, b.Mul(direction, number(format.smallest)));
  return b.where(b.Less(size, number(0x1p-1021)), exact, rounded);
}

Value nextafter(Builder& b, Value self, Value other) {
  const DType dtype = self->dtype;
  const DType wide = item_size(dtype) == 2 ? DType::f32 : DType::f64;
  const Value x = b.cast(self, wide);
  const Value y = b.cast(other, wide);
  const Value direction = b.where(b.Greater(y, x), b.like(x, 1), b.like(x, -1));
  Value next =
      dtype == wide ? neighbor_f64(b, x, direction) : neighbor(b, x, direction, format_of(dtype));
  // An infinity steps to the greatest finite number.
  const Value infinite = b.Equal(b.Abs(x), b.like(x, kInfinity));
  next = b.where(infinite, b.Mul(b.Sign(x), b.like(x, max_value(dtype))), next);
  next = b.where(b.Equal(x, y), y, next);
  return b.cast(b.where(b.IsNaN(y), y, next), dtype);
}

}  // namespace

void register_numbers(OpTable& ops) {
  ops.def("aten::gcd", Promote::standard, of_integers(gcd));
  ops.def("aten::lcm", Promote::standard, of_integers(lcm));
  ops.def("aten::frexp.Tensor", frexp);
  ops.def("aten::nextafter", Promote::standard, nextafter);
}

}  // namespace onnx_native::ops
