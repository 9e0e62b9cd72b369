#include "ops/formulas/bits.h"

#include <cmath>
#include <limits>
#include <numbers>

#include "onnx/schema.h"
#include "ops/formulas/numeric.h"
#include "ops/formulas/view.h"

namespace onnx_native::ops {
namespace {

// An IEEE format: a sign, an exponent with a bias, and a mantissa without its leading 1.
struct Format {
  int mantissa, bias;
};

std::optional<Format> format_of(DType dtype) {
  switch (dtype) {
    case DType::f16:
      return Format{10, 15};
    case DType::bf16:
      return Format{7, 127};
    case DType::f32:
      return Format{23, 127};
    case DType::f64:
      return Format{52, 1023};
    default:
      return std::nullopt;
  }
}

DType signed_integer(int64_t size) {
  return size == 1 ? DType::i8 : size == 2 ? DType::i16 : size == 4 ? DType::i32 : DType::i64;
}

DType unsigned_integer(int64_t size) {
  return size == 1 ? DType::u8 : size == 2 ? DType::u16 : size == 4 ? DType::u32 : DType::u64;
}

// The lowest integer of this size: the bit of the sign.
int64_t sign_bit_of_size(int64_t size) {
  return size == 8 ? std::numeric_limits<int64_t>::min() : -(int64_t{1} << (8 * size - 1));
}

bool has_bit_cast(const Builder& b) { return onnx::find_schema("BitCast", b.opset()) != nullptr; }

// Returns the bits of floats as signed integers. Every step is exact: the logarithm guesses the
// exponent, which is corrected by one.
Value bits_of(Builder& b, Value self) {
  const DType dtype = self->dtype;
  const auto [digits, bias] = *format_of(dtype);
  const auto real = [&](double value) { return b.scalar(DType::f64, value); };
  const auto integer = [&](int64_t value) { return b.i64(value); };
  const Value x = b.cast(self, DType::f64);
  const Value size = b.Abs(x);
  const Value regular = b.And(b.Greater(size, real(0)), b.Less(size, real(kInfinity)));
  Value scaled = b.where(regular, size, real(1));
  Value shift = real(0);
  if (dtype == DType::f64) {  // the power of a subnormal number's exponent is infinite
    const Value tiny = b.Less(scaled, real(0x1p-1000));
    scaled = b.where(tiny, b.Mul(scaled, real(0x1p100)), scaled);
    shift = b.where(tiny, real(-100), real(0));
  }
  const Value guess = b.Floor(b.Mul(b.Log(scaled), real(1 / std::numbers::ln2)));
  const Value near = b.Mul(scaled, b.Pow(real(2), b.Neg(guess)));
  const Value over = b.GreaterOrEqual(near, real(2));
  const Value under = b.Less(near, real(1));
  const auto corrected = [&](double if_over, double if_under, double otherwise) {
    return b.where(over, real(if_over), b.where(under, real(if_under), real(otherwise)));
  };
  const Value mantissa = b.Mul(near, corrected(0.5, 2, 1));  // from 1 to 2
  const Value exponent = b.Add(b.Add(guess, corrected(1, -1, 0)), shift);
  const Value stored = b.Max(exponent, real(1 - bias));  // that of subnormal numbers
  const Value fraction =
      b.Mul(mantissa, b.Pow(real(2), b.Sub(real(digits), b.Sub(stored, exponent))));
  // The leading 1 of the mantissa adds 1 to the exponent.
  Value bits =
      b.Add(b.Mul(b.cast(b.Add(stored, real(bias - 1)), DType::i64), integer(int64_t{1} << digits)),
            b.cast(fraction, DType::i64));
  const int64_t infinity = int64_t{2 * bias + 1} << digits;
  const int64_t nan = infinity + (int64_t{1} << (digits - 1));
  const Value irregular =
      b.where(b.Equal(size, real(0)), integer(0),
              b.where(b.Equal(size, real(kInfinity)), integer(infinity), integer(nan)));
  bits = b.where(regular, bits, irregular);
  // The reciprocal tells -0 from 0.
  const Value negative = b.Or(b.Less(x, real(0)), b.Less(b.Div(real(1), x), real(0)));
  const int64_t bytes = item_size(dtype);
  bits = b.where(negative, b.Add(bits, integer(sign_bit_of_size(bytes))), bits);
  return b.cast(bits, signed_integer(bytes));
}

// Returns the floats that have these bits, which are signed integers of the same size.
Value from_bits(Builder& b, Value bits, DType dtype) {
  const auto [digits, bias] = *format_of(dtype);
  const auto real = [&](double value) { return b.scalar(DType::f64, value); };
  const auto integer = [&](int64_t value) { return b.i64(value); };
  bits = b.cast(bits, DType::i64);
  const Value negative = b.Less(bits, integer(0));
  bits = b.where(negative, b.Sub(bits, integer(sign_bit_of_size(item_size(dtype)))), bits);
  const Value unit = integer(int64_t{1} << digits);
  const Value exponent = b.Div(bits, unit);
  const Value fraction = b.Sub(bits, b.Mul(exponent, unit));
  const Value leading = b.where(b.Greater(exponent, integer(0)), unit, integer(0));
  const Value power = b.Sub(b.cast(b.Max(exponent, integer(1)), DType::f64), real(bias + digits));
  const Value finite = b.Mul(b.cast(b.Add(fraction, leading), DType::f64), b.Pow(real(2), power));
  const Value infinite =
      b.where(b.Equal(fraction, integer(0)), real(kInfinity), real(std::nan("")));
  const Value size = b.where(b.Equal(exponent, integer(2 * bias + 1)), infinite, finite);
  return b.cast(b.where(negative, b.Neg(size), size), dtype);
}

// Cuts integers into smaller ones, the lowest first, along the last dimension.
Value cut(Builder& b, Value self, int64_t size) {
  const int64_t count = item_size(self->dtype) / size;
  const Value unit = b.i64(int64_t{1} << (8 * size));
  Value rest = b.cast(self, DType::i64);
  Values parts;
  for (int64_t i = 0; i < count; ++i) {
    const Value low = b.op("Mod", {rest, unit});
    parts.push_back(b.unsqueeze(b.cast(low, unsigned_integer(size)), {-1}));
    if (i + 1 < count) rest = b.Div(b.Sub(rest, low), unit);
  }
  return b.flatten(b.concat(std::move(parts), -1), -2, -1);
}

// Joins neighbors of the last dimension to larger integers, the lowest first.
Value joined(Builder& b, Value self, int64_t size) {
  const int64_t part = item_size(self->dtype);
  const int64_t count = size / part;
  const std::optional<int64_t> last = self->dim(-1).constant();
  b.check(!last || *last % count == 0, "the last dimension, ", last.value_or(0),
          ", must be a multiple of ", count);
  Shape shape = self->known_shape();
  shape.back() = Dim::floor_div(shape.back(), count);
  shape.emplace_back(count);
  const Value parts = b.reshape(b.cast(self, signed_integer(part)), shape);
  Value sum = nullptr;
  for (int64_t i = 0; i < count; ++i) {
    Value next = b.cast(b.select(parts, -1, i), DType::i64);
    // The highest part has the sign.
    if (i + 1 < count) next = b.op("Mod", {next, b.i64(int64_t{1} << (8 * part))});
    next = b.Mul(next, b.i64(int64_t{1} << (8 * part * i)));
    sum = sum ? b.Add(sum, next) : next;
  }
  return b.cast(sum, signed_integer(size));
}

// Returns a constant with the same bytes; nullptr if its bytes are no elements of the dtype.
Value constant_with_bytes(Builder& b, Value self, DType dtype) {
  if (!self->is_constant() || !self->constant->is_contiguous() || dtype == DType::boolean)
    return nullptr;
  TensorData data = *self->constant;
  const int64_t from = item_size(data.dtype), to = item_size(dtype);
  if (from != to) {
    if (data.shape.empty() || data.shape.back() * from % to != 0) return nullptr;
    data.shape.back() = data.shape.back() * from / to;
  }
  data.dtype = dtype;
  return b.tensor(std::move(data));
}

}  // namespace

Value reinterpreted(Builder& b, Value self, DType dtype) {
  const DType from = self->dtype;
  if (from == dtype) return self;
  b.check(!is_complex(dtype), "cannot view ", name(from), " as ", name(dtype),
          ": only complex numbers have such parts");
  const int64_t size = item_size(dtype);
  const bool same_size = size == item_size(from);
  b.check(same_size || self->rank() > 0, "cannot view a 0-D ", name(from), " as ", name(dtype));
  if (const Value constant = constant_with_bytes(b, self, dtype)) return constant;
  const bool floats = is_floating(from) || is_floating(dtype);
  if (floats && same_size && from != DType::boolean && dtype != DType::boolean && has_bit_cast(b))
    return b.op("BitCast", {self}, {{"to", dtype}});
  for (const DType format : {from, dtype})
    b.check(!is_floating(format) || format_of(format) || has_bit_cast(b), "viewing ", name(from),
            " as ", name(dtype), " requires opset 26");
  // A cast between integers of one size keeps the bits; a bool is a byte of 0 or 1.
  const auto with_bits = [&](Value value, DType to) {
    if (has_bit_cast(b)) return b.op("BitCast", {value}, {{"to", to}});
    return is_floating(to) ? from_bits(b, value, to) : bits_of(b, value);
  };
  Value bits = self;
  if (is_floating(from)) bits = with_bits(self, signed_integer(item_size(from)));
  if (from == DType::boolean) bits = b.cast(self, DType::u8);
  if (item_size(bits->dtype) > size) bits = cut(b, bits, size);
  if (item_size(bits->dtype) < size) bits = joined(b, bits, size);
  if (!is_floating(dtype)) return b.cast(bits, dtype);
  return with_bits(b.cast(bits, signed_integer(size)), dtype);
}

}  // namespace onnx_native::ops
