#include "base/half.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/device_weight.h"
#include "base/error.h"
#include "base/weight.h"

namespace onnx_native {
namespace {

constexpr int64_t kSmallConstant = 1024;    // elements of constants that are converted at once
constexpr double kSmallChange = 1.0 / 128;  // of a number that is rounded

constexpr uint32_t kInfinity = 0x7f800000;   // the bits of a float
constexpr uint32_t kMagnitude = 0x7fffffff;  // all bits but the sign

// Returns the smallest magnitude that rounds to infinity.
float overflow_of(DType half) {
  return half == DType::f16 ? 65520.0F : std::bit_cast<float>(uint32_t{0x7f7f8000});
}

// Converts floats to 16 bits each, and appends them. Returns false if a finite one overflows.
template <class Convert>
bool convert_to(std::span<const std::byte> floats, float overflow, Convert convert,
                std::vector<std::byte>& to) {
  const size_t count = floats.size() / sizeof(float);
  const size_t start = to.size();
  to.resize(start + count * sizeof(uint16_t));
  bool fits = true;
  for (size_t i = 0; i < count; ++i) {
    float value;
    std::memcpy(&value, &floats[i * sizeof(float)], sizeof value);
    const float magnitude = std::fabs(value);
    fits &= !(magnitude >= overflow && magnitude <= std::numeric_limits<float>::max());
    const uint16_t bits = convert(value);
    std::memcpy(&to[start + i * sizeof bits], &bits, sizeof bits);
  }
  return fits;
}

bool convert_floats(std::span<const std::byte> floats, DType half, std::vector<std::byte>& to) {
  return half == DType::f16 ? convert_to(floats, overflow_of(half), float_to_f16, to)
                            : convert_to(floats, overflow_of(half), float_to_bf16, to);
}

[[noreturn]] void fail_overflow(const std::string& weight, DType half) {
  fail(ErrorKind::invalid_argument, weight.empty() ? "a constant" : weight,
       " now has elements outside of the range of ", half == DType::f16 ? "float16" : "bfloat16",
       "; export again, so that they stay float32");
}

// Calls `visit` with every element, in any order.
template <class Visit>
void for_each_float(const TensorData& data, const Visit& visit) {
  if (data.dtype != DType::f32 || !has_elements(&data)) return;
  const ReadScope unrecorded(nullptr);
  TensorData flat = data;
  // The memory of a transposed matrix has the same elements without gaps.
  int64_t last = 0;
  for (size_t axis = 0; axis < data.strides.size(); ++axis)
    last += (data.shape[axis] - 1) * data.strides[axis];
  if (last + 1 == data.numel() && !data.scale) flat.strides.clear();
  stream_current(flat, [&visit](std::span<const std::byte> piece) {
    for (size_t i = 0; i < piece.size(); i += sizeof(float)) {
      float value;
      std::memcpy(&value, &piece[i], sizeof value);
      visit(value);
    }
  });
}

double rounded(float value, DType half) {
  return half == DType::f16 ? f16_to_float(float_to_f16(value))
                            : bf16_to_float(float_to_bf16(value));
}

}  // namespace

uint16_t float_to_f16(float value) {
  constexpr uint32_t kSmallestOverflow = 0x47800000;  // 65536
  constexpr uint32_t kSmallestNormal = 0x38800000;    // 2^-14
  constexpr float kAligned = 0.5F;  // the sum with it has units of 2^-24 in the last place
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = bits >> 16 & 0x8000;
  uint32_t magnitude = bits & kMagnitude;
  if (magnitude >= kSmallestOverflow) {
    magnitude = magnitude > kInfinity ? 0x7e00 : 0x7c00;
  } else if (magnitude < kSmallestNormal) {
    magnitude = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + kAligned) -
                std::bit_cast<uint32_t>(kAligned);
  } else {
    const uint32_t is_odd = magnitude >> 13 & 1;
    magnitude = (magnitude - (uint32_t{112} << 23) + 0xfff + is_odd) >> 13;
  }
  return static_cast<uint16_t>(sign | magnitude);
}

uint16_t float_to_bf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if ((bits & kMagnitude) > kInfinity) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

float f16_to_float(uint16_t bits) {
  constexpr uint32_t kHighest = 0x0f800000;  // the bits of 31, the exponent of infinity
  uint32_t magnitude = static_cast<uint32_t>(bits & 0x7fff) << 13;
  // Scaling is exact, also for subnormals.
  magnitude = magnitude >= kHighest
                  ? magnitude | kInfinity
                  : std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) * 0x1p112F);
  return std::bit_cast<float>(magnitude | static_cast<uint32_t>(bits & 0x8000) << 16);
}

float bf16_to_float(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

Fit fit_of(const TensorData& data, DType half) {
  const float overflow = overflow_of(half);
  constexpr float kUncounted = 0x1p24;  // beyond it, all floats are whole
  bool fits = true, is_whole = data.numel() > 1;
  for_each_float(data, [&](float value) {
    const float magnitude = std::fabs(value);
    fits &= !(magnitude >= overflow && magnitude <= std::numeric_limits<float>::max());
    is_whole =
        is_whole && value == std::trunc(value) && (magnitude < kUncounted || std::isinf(magnitude));
  });
  if (!fits) return Fit::overflows;
  if (data.numel() != 1 && !is_whole) return Fit::good;
  const double allowed = is_whole ? 0 : kSmallChange;
  for_each_float(data, [&](float value) {
    if (!std::isfinite(value)) return;
    fits &= std::fabs(rounded(value, half) - value) <= std::fabs(value) * allowed;
  });
  return fits ? Fit::good : Fit::imprecise;
}

bool is_normal_in(const TensorData& data, DType half) {
  const float smallest = half == DType::f16 ? 0x1p-14F : std::numeric_limits<float>::min();
  bool is_normal = true;
  for_each_float(data,
                 [&](float value) { is_normal &= value == 0 || std::fabs(value) >= smallest; });
  return is_normal;
}

TensorData in_half(const TensorData& data, DType half) {
  const Weight* weight = weight_of(data);
  const std::string name = weight ? weight->name() : "";
  Derivation derivation{.sources = {data}, .is_conversion = true};
  derivation.compute = [half, name](std::span<const TensorData> now) -> std::optional<TensorData> {
    const ReadScope unrecorded(nullptr);
    std::vector<std::byte> elements;
    elements.reserve(static_cast<size_t>(now[0].numel()) * sizeof(uint16_t));
    bool fits = true;
    now[0].stream(
        [&](std::span<const std::byte> piece) { fits &= convert_floats(piece, half, elements); });
    if (!fits) fail_overflow(name, half);
    return make_tensor(half, now[0].shape, std::move(elements));
  };
  if (data.numel() <= kSmallConstant && !is_on_demand(data))
    return derived(half, data.shape, std::move(derivation));
  derivation.stream = [half, name](const TensorData& source, const Derivation::Sink& sink) {
    std::vector<std::byte> elements;
    stream_current(source, [&](std::span<const std::byte> piece) {
      elements.clear();
      if (!convert_floats(piece, half, elements)) fail_overflow(name, half);
      sink(elements);
    });
  };
  return on_demand(half, data.shape, std::move(derivation));
}

}  // namespace onnx_native
