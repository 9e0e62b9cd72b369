// torch.hash_tensor: the XOR of the elements' bits.
#include <limits>
#include <numbers>
#include <numeric>

#include "ops/families.h"
#include "ops/formulas/axes.h"
#include "ops/formulas/numeric.h"

namespace onnx_native::ops {
namespace {

constexpr int64_t kExponentBias = 1023;
constexpr int64_t kMantissaBits = 52;

// Returns the bits of float64 numbers (IEEE 754) as int64. ONNX Runtime has no BitCast.
Value bits_of(Builder& b, Value x) {
  const Value length = b.Abs(x);
  const Value one = b.like(x, 1);
  const Value two = b.like(x, 2);
  const double infinity = std::numeric_limits<double>::infinity();
  const Value infinite = b.Equal(length, b.like(x, infinity));
  const Value plain = b.where(b.Or(infinite, is_nan(b, x)), one, length);
  Value exponent = b.Floor(b.Mul(b.Log(plain), b.like(x, std::numbers::log2e)));
  // The logarithm may be off by one near powers of two.
  exponent = b.Sub(exponent, b.where(b.Less(plain, b.Pow(two, exponent)), one, b.like(x, 0)));
  const Value next = b.Add(exponent, one);
  exponent = b.where(b.GreaterOrEqual(plain, b.Pow(two, next)), next, exponent);
  exponent = b.Max(exponent, b.like(x, static_cast<double>(1 - kExponentBias)));
  // The mantissa includes its leading one, which adds one to the exponent field of a normal number.
  const Value mantissa =
      b.Mul(b.Div(plain, b.Pow(two, exponent)), b.like(x, std::ldexp(1.0, kMantissaBits)));
  const Value shifted = b.Mul(b.cast(exponent, DType::i64), b.i64(int64_t{1} << kMantissaBits));
  const Value bias = b.i64((kExponentBias - 1) << kMantissaBits);
  Value bits = b.Add(b.Add(shifted, bias), b.cast(mantissa, DType::i64));
  bits = b.where(infinite, b.i64(0x7ff0000000000000), bits);
  bits = b.where(is_nan(b, x), b.i64(0x7ff8000000000000), bits);
  const Value sign = b.where(sign_bit(b, x), b.i64(std::numeric_limits<int64_t>::min()), b.i64(0));
  return b.Add(bits, sign);
}

// Packs the 64 bits on the last axis, lowest first, into words. ONNX Runtime adds int64 numbers in
// float64, so each half is summed separately.
Value word_of(Builder& b, Value bits) {
  constexpr int64_t kHalf = 32;
  Ints weights(kHalf);
  for (int64_t i = 0; i < kHalf; ++i) weights[i] = int64_t{1} << i;
  Shape halves = bits->known_shape();
  halves.back() = 2;
  halves.emplace_back(kHalf);
  const Value weighted = b.Mul(b.reshape(bits, halves), b.i64s(weights));
  const Value sums = b.reduce("ReduceSum", weighted, {-1}, /*keepdims=*/false);
  const int64_t last = sums->rank() - 1;
  const Value high = b.Mul(b.select(sums, last, 1), b.i64(int64_t{1} << kHalf));
  return b.cast(b.Add(high, b.select(sums, last, 0)), DType::u64);
}

// Each of the 64 bits is the parity of the number of elements that have it set.
Value hash(Builder& b, Value self, Ints dim, bool keepdim, int64_t mode) {
  b.check(mode == 0, "mode must be 0, got ", mode);
  constexpr int64_t kBits = 64;
  const Value words = is_floating(self->dtype) ? bits_of(b, b.cast(self, DType::f64)) : self;
  Ints numbers(kBits);
  std::iota(numbers.begin(), numbers.end(), 0);
  const Value spread =
      b.op("BitShift",
           {b.unsqueeze(b.cast(words, DType::u64), {-1}), b.cast(b.i64s(numbers), DType::u64)},
           {{"direction", std::string("RIGHT")}});
  const Value bits = b.cast(b.op("BitwiseAnd", {spread, b.scalar(DType::u64, 1)}), DType::i64);
  const Ints axes = axes_of(self, dim);
  const Value counts = axes.empty() ? bits : b.reduce("ReduceSum", bits, axes, keepdim);
  return word_of(b, b.op("Mod", {counts, b.i64(2)}));
}

}  // namespace

void register_hash(OpTable& ops) { ops.def("aten::hash_tensor", hash); }

}  // namespace onnx_native::ops
