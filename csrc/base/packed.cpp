#include "base/packed.h"

#include <utility>

#include "base/error.h"
#include "base/weight.h"

namespace onnx_native {
namespace {

int64_t bytes_of(int64_t count) { return (count + 1) / 2; }

// Returns nullopt if an element does not fit.
std::optional<TensorData> pack(const TensorData& integers, DType dtype) {
  std::vector<std::byte> bytes(static_cast<size_t>(bytes_of(integers.numel())));
  size_t count = 0;
  bool fit = true;
  const bool is_signed = integers.dtype == DType::i8;
  const int lowest = static_cast<int>(lowest_value(dtype));
  const int highest = static_cast<int>(max_value(dtype));
  integers.stream([&](std::span<const std::byte> piece) {
    for (const std::byte each : piece) {
      const int number = is_signed ? static_cast<int8_t>(each) : static_cast<uint8_t>(each);
      fit &= number >= lowest && number <= highest;
      const std::byte half = each & std::byte{0xF};
      bytes[count / 2] |= count % 2 == 0 ? half : half << 4;
      ++count;
    }
  });
  if (!fit) return std::nullopt;
  return make_tensor(dtype, integers.shape, std::move(bytes));
}

}  // namespace

bool is_packed(DType dtype) { return dtype == kInt4 || dtype == kUint4; }

int64_t stored_bytes(const TensorData& data) {
  return is_packed(data.dtype) ? bytes_of(data.numel()) : data.nbytes();
}

TensorData packed(const TensorData& integers, DType dtype) {
  require(is_packed(dtype) && (integers.dtype == DType::i8 || integers.dtype == DType::u8),
          "cannot pack ", name(integers.dtype), " as ", name(dtype));
  return on_demand(dtype, integers.shape, {{integers}, [dtype](std::span<const TensorData> now) {
                                             return pack(now[0], dtype);
                                           }});
}

}  // namespace onnx_native
