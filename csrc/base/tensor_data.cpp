#include "base/tensor_data.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "base/error.h"
#include "base/packed.h"
#include "base/scalar.h"
#include "base/transpose.h"
#include "base/weight.h"

namespace onnx_native {
namespace {

// A binary floating format of at most 16 bits.
struct SmallFloat {
  int mantissa_bits;
  int bias;
  uint16_t highest;   // bits of the largest finite value
  uint16_t overflow;  // bits for magnitudes out of range (infinity, or NaN without one)
  uint16_t nan;
  uint16_t sign;
  bool negative_zero;  // false: the sign bit alone means NaN
};

constexpr SmallFloat kF16 = {10, 15, 0x7bff, 0x7c00, 0x7e00, 0x8000, true};
constexpr SmallFloat kBf16 = {7, 127, 0x7f7f, 0x7f80, 0x7fc0, 0x8000, true};
constexpr SmallFloat kF8E4M3Fn = {3, 7, 0x7e, 0x7f, 0x7f, 0x80, true};
constexpr SmallFloat kF8E4M3Fnuz = {3, 8, 0x7f, 0x80, 0x80, 0x80, false};
constexpr SmallFloat kF8E5M2 = {2, 15, 0x7b, 0x7c, 0x7f, 0x80, true};
constexpr SmallFloat kF8E5M2Fnuz = {2, 16, 0x7f, 0x80, 0x80, 0x80, false};

uint16_t encode(const SmallFloat& format, double value) {
  if (std::isnan(value)) return format.nan;
  const bool negative = std::signbit(value);
  const double magnitude = std::fabs(value);
  uint64_t bits = 0;
  if (std::isinf(magnitude)) {
    bits = uint64_t{format.highest} + 1;
  } else if (magnitude != 0) {
    const int exponent = std::max(std::ilogb(magnitude), 1 - format.bias);
    // In units in the last place. Scaling is exact; rounding is to nearest even. A carry moves into
    // the exponent by itself, and subnormals need no special case.
    const double units = std::nearbyint(std::scalbn(magnitude, format.mantissa_bits - exponent));
    bits = (static_cast<uint64_t>(exponent + format.bias - 1) << format.mantissa_bits) +
           static_cast<uint64_t>(units);
  }
  if (bits > format.highest) {
    if (format.overflow == format.nan && !format.negative_zero) return format.nan;
    bits = format.overflow;
  }
  if (negative && (bits != 0 || format.negative_zero)) bits |= format.sign;
  return static_cast<uint16_t>(bits);
}

double decode(const SmallFloat& format, uint16_t bits) {
  const bool negative = (bits & format.sign) != 0;
  const uint16_t magnitude = bits & static_cast<uint16_t>(format.sign - 1);
  if (magnitude == 0) {
    if (!negative) return 0.0;
    return format.negative_zero ? -0.0 : std::numeric_limits<double>::quiet_NaN();
  }
  double value;
  if (magnitude > format.highest) {
    value = magnitude == format.overflow && format.overflow != format.nan
                ? std::numeric_limits<double>::infinity()
                : std::numeric_limits<double>::quiet_NaN();
  } else {
    const int mantissa = magnitude & ((1 << format.mantissa_bits) - 1);
    const int exponent = magnitude >> format.mantissa_bits;
    const int significand = exponent == 0 ? mantissa : mantissa + (1 << format.mantissa_bits);
    value = std::scalbn(significand, std::max(exponent, 1) - format.bias - format.mantissa_bits);
  }
  return negative ? -value : value;
}

template <class T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

// Calls `visit` with the element at `at`, converted to a C++ number.
template <class Visit>
auto visit_element(DType dtype, const std::byte* at, Visit&& visit) {
  switch (dtype) {
    case DType::f32:
      return visit(load<float>(at));
    case DType::f64:
      return visit(load<double>(at));
    case DType::f16:
      return visit(decode(kF16, load<uint16_t>(at)));
    case DType::bf16:
      return visit(decode(kBf16, load<uint16_t>(at)));
    case DType::f8e4m3fn:
      return visit(decode(kF8E4M3Fn, load<uint8_t>(at)));
    case DType::f8e4m3fnuz:
      return visit(decode(kF8E4M3Fnuz, load<uint8_t>(at)));
    case DType::f8e5m2:
      return visit(decode(kF8E5M2, load<uint8_t>(at)));
    case DType::f8e5m2fnuz:
      return visit(decode(kF8E5M2Fnuz, load<uint8_t>(at)));
    case DType::u8:
      return visit(load<uint8_t>(at));
    case DType::i8:
      return visit(load<int8_t>(at));
    case DType::u16:
      return visit(load<uint16_t>(at));
    case DType::i16:
      return visit(load<int16_t>(at));
    case DType::i32:
      return visit(load<int32_t>(at));
    case DType::i64:
      return visit(load<int64_t>(at));
    case DType::u32:
      return visit(load<uint32_t>(at));
    case DType::u64:
      return visit(load<uint64_t>(at));
    case DType::boolean:
      return visit(load<uint8_t>(at) != 0);
    default:
      fail(ErrorKind::internal, "elements of dtype ", name(dtype), " are not real numbers");
  }
}

int64_t element_offset(const TensorData& tensor, int64_t index) {
  if (tensor.strides.empty()) return index;
  int64_t offset = 0;
  for (size_t i = tensor.shape.size(); i-- > 0;) {
    offset += index % tensor.shape[i] * tensor.strides[i];
    index /= tensor.shape[i];
  }
  return offset;
}

template <class T>
void store(std::byte* at, T value) {
  std::memcpy(at, &value, sizeof(T));
}

template <class T, class From>
void store_integer(std::byte* at, From value) {
  bool fits = false;
  if constexpr (std::is_floating_point_v<From>) {
    fits = value >= static_cast<double>(std::numeric_limits<T>::lowest()) &&
           value < std::ldexp(1.0, std::numeric_limits<T>::digits);
  } else {
    // The largest uint64 does not fit int64, so uint64 values are passed as their bits.
    fits = std::in_range<T>(value) || std::is_same_v<T, uint64_t>;
  }
  require(fits, "value ", value, " does not fit the constant's integer dtype");
  store(at, static_cast<T>(value));
}

template <class From>
void store_element(DType dtype, std::byte* at, From value) {
  const auto small = [&](const SmallFloat& format) {
    return encode(format, static_cast<double>(value));
  };
  switch (dtype) {
    case DType::f32:
      return store(at, static_cast<float>(value));
    case DType::f64:
      return store(at, static_cast<double>(value));
    case DType::f16:
      return store(at, small(kF16));
    case DType::bf16:
      return store(at, small(kBf16));
    case DType::f8e4m3fn:
      return store(at, static_cast<uint8_t>(small(kF8E4M3Fn)));
    case DType::f8e4m3fnuz:
      return store(at, static_cast<uint8_t>(small(kF8E4M3Fnuz)));
    case DType::f8e5m2:
      return store(at, static_cast<uint8_t>(small(kF8E5M2)));
    case DType::f8e5m2fnuz:
      return store(at, static_cast<uint8_t>(small(kF8E5M2Fnuz)));
    case DType::u8:
      return store_integer<uint8_t>(at, value);
    case DType::i8:
      return store_integer<int8_t>(at, value);
    case DType::u16:
      return store_integer<uint16_t>(at, value);
    case DType::i16:
      return store_integer<int16_t>(at, value);
    case DType::i32:
      return store_integer<int32_t>(at, value);
    case DType::i64:
      return store_integer<int64_t>(at, value);
    case DType::u32:
      return store_integer<uint32_t>(at, value);
    case DType::u64:
      return store_integer<uint64_t>(at, value);
    case DType::boolean:
      return store(at, static_cast<uint8_t>(value != 0));
    case DType::c64:
      store(at, static_cast<float>(value));
      return store(at + 4, 0.0F);
    case DType::c128:
      store(at, static_cast<double>(value));
      return store(at + 8, 0.0);
    default:
      fail(ErrorKind::internal, "cannot make a constant of dtype ", name(dtype), " from numbers");
  }
}

int64_t product(const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  return count;
}

template <class From>
TensorData make_from_numbers(DType dtype, std::vector<int64_t> shape,
                             std::span<const From> values) {
  const int64_t size = item_size(dtype);
  std::vector<std::byte> bytes(values.size() * static_cast<size_t>(size));
  std::byte* at = bytes.data();
  for (const From value : values) {
    store_element(dtype, at, value);
    at += size;
  }
  return make_tensor(dtype, std::move(shape), std::move(bytes));
}

constexpr size_t kBufferBytes = size_t{1} << 16;

// Returns true if the elements of a column, rather than those of a row, are adjacent in memory.
bool is_transposed(const TensorData& tensor) {
  const size_t rank = tensor.shape.size();
  return rank >= 2 && item_size(tensor.dtype) <= 8 && tensor.strides[rank - 2] == 1 &&
         tensor.strides[rank - 1] > 1 && tensor.shape[rank - 2] > 1 && tensor.shape[rank - 1] > 1;
}

// Calls `visit` with the offset of each index of the first `count` dimensions, in row-major order.
template <class Visit>
void for_each_offset(const TensorData& tensor, size_t count, const Visit& visit) {
  std::vector<int64_t> at(count, 0);
  int64_t offset = 0;
  while (true) {
    visit(offset);
    size_t i = count;
    for (; i > 0; --i) {
      offset += tensor.strides[i - 1];
      if (++at[i - 1] < tensor.shape[i - 1]) break;
      offset -= at[i - 1] * tensor.strides[i - 1];
      at[i - 1] = 0;
    }
    if (i == 0) return;
  }
}

}  // namespace

int64_t TensorData::numel() const { return product(shape); }

std::span<const std::byte> TensorData::bytes() const {
  require(is_contiguous(), "cannot take the bytes() of a strided or scaled tensor");
  note_read(*this);
  return {start_of(*this), static_cast<size_t>(stored_bytes(*this))};
}

double TensorData::number(int64_t index) const {
  note_read(*this);
  const std::byte* at = start_of(*this) + element_offset(*this, index) * item_size(dtype);
  const double value = visit_element(dtype, at, [](auto v) { return static_cast<double>(v); });
  return scale ? value * (*scale)[static_cast<size_t>(index / (numel() / shape[0]))] : value;
}

int64_t TensorData::integer(int64_t index) const {
  note_read(*this);
  const std::byte* at = start_of(*this) + element_offset(*this, index) * item_size(dtype);
  return visit_element(dtype, at, [](auto value) {
    if constexpr (std::is_floating_point_v<decltype(value)>)
      return Scalar(static_cast<double>(value)).to_int();
    else
      return static_cast<int64_t>(value);
  });
}

std::vector<int64_t> TensorData::integers() const {
  std::vector<int64_t> values(static_cast<size_t>(numel()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = integer(static_cast<int64_t>(i));
  return values;
}

void TensorData::stream_gathered(void (*sink)(void*, std::span<const std::byte>), void* to) const {
  if (!scale) {
    stream_strided(sink, to);
    return;
  }
  require(dtype == DType::f32 || dtype == DType::f64, "cannot scale a tensor of dtype ",
          name(dtype));
  TensorData slice{.dtype = dtype, .shape = {shape.begin() + 1, shape.end()}};
  if (!strides.empty()) slice.strides.assign(strides.begin() + 1, strides.end());
  const int64_t step = strides.empty() ? slice.numel() : strides[0];
  const std::byte* from = start_of(*this);
  std::vector<std::byte> buffer;
  const auto multiply = [&buffer]<class T>(T*, double factor) {
    for (size_t i = 0; i < buffer.size(); i += sizeof(T)) {
      store(&buffer[i], static_cast<T>(load<T>(&buffer[i]) * factor));
    }
  };
  for (int64_t i = 0; i < shape[0]; ++i) {
    slice.data = from + i * step * item_size(dtype);
    slice.stream([&](std::span<const std::byte> piece) {
      buffer.assign(piece.begin(), piece.end());
      const double factor = (*scale)[static_cast<size_t>(i)];
      if (dtype == DType::f32) {
        multiply(static_cast<float*>(nullptr), factor);
      } else {
        multiply(static_cast<double*>(nullptr), factor);
      }
      sink(to, buffer);
    });
  }
}

void TensorData::stream_strided(void (*sink)(void*, std::span<const std::byte>), void* to) const {
  if (numel() == 0) return;
  const int64_t size = item_size(dtype);
  const std::byte* from = start_of(*this);
  const size_t rank = shape.size();
  if (is_transposed(*this)) {
    for_each_offset(*this, rank - 2, [&](int64_t offset) {
      stream_transposed(from + offset * size, shape[rank - 2], shape[rank - 1], strides[rank - 1],
                        size, [&](std::span<const std::byte> piece) { sink(to, piece); });
    });
    return;
  }
  // Copies dense trailing dimensions as one run.
  size_t outer = rank;
  int64_t run = 1;
  while (outer > 0 && (shape[outer - 1] == 1 || strides[outer - 1] == run)) run *= shape[--outer];
  const auto run_bytes = static_cast<size_t>(run * size);
  std::vector<std::byte> buffer;
  for_each_offset(*this, outer, [&](int64_t offset) {
    const std::span piece(from + offset * size, run_bytes);
    if (run_bytes >= kBufferBytes) return sink(to, piece);
    if (buffer.size() + run_bytes > kBufferBytes) {
      sink(to, buffer);
      buffer.clear();
    }
    buffer.insert(buffer.end(), piece.begin(), piece.end());
  });
  if (!buffer.empty()) sink(to, buffer);
}

TensorData make_tensor(DType dtype, std::vector<int64_t> shape, std::span<const double> values) {
  return make_from_numbers(dtype, std::move(shape), values);
}

TensorData make_tensor(DType dtype, std::vector<int64_t> shape, std::span<const int64_t> values) {
  return make_from_numbers(dtype, std::move(shape), values);
}

TensorData make_tensor(DType dtype, std::vector<int64_t> shape, std::vector<std::byte> bytes) {
  TensorData tensor;
  tensor.dtype = dtype;
  tensor.shape = std::move(shape);
  const auto expected = static_cast<size_t>(stored_bytes(tensor));
  require(bytes.size() == expected, "a constant needs ", expected, " bytes, got ", bytes.size());
  auto owner = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  tensor.data = owner->data();
  tensor.owner = std::move(owner);
  return tensor;
}

uint16_t to_f16_bits(double value) { return encode(kF16, value); }

uint16_t to_bf16_bits(double value) { return encode(kBf16, value); }

double from_f16_bits(uint16_t bits) { return decode(kF16, bits); }

}  // namespace onnx_native
