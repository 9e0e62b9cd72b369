// A constant tensor's elements: owned by someone else, never copied.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"

namespace onnx_native {

// A dtype, a shape, a span of bytes and something that keeps the bytes alive. Elements are
// little-endian. `strides` (in elements) is empty for contiguous data; otherwise `data` points at
// the first element and the span covers the memory that the strides reach. `scale` (of floating
// data) holds a factor for each slice of the first axis, multiplied in whenever elements are read.
struct TensorData {
  DType dtype = DType::undefined;
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;
  const std::byte* data = nullptr;
  std::shared_ptr<const void> owner;
  std::shared_ptr<const std::vector<double>> scale;

  int64_t numel() const;
  int64_t nbytes() const { return numel() * item_size(dtype); }
  // Whether the elements lie in memory as they are written.
  bool is_contiguous() const { return strides.empty() && !scale; }
  // The bytes of contiguous data.
  std::span<const std::byte> bytes() const;
  // Calls `sink` with consecutive pieces of the elements in row-major order, gathering
  // other data in small buffers.
  template <class Sink>
  void stream(Sink&& sink) const {
    if (is_contiguous()) {
      sink(bytes());
    } else {
      stream_gathered(
          [](void* to, std::span<const std::byte> piece) {
            (*static_cast<std::remove_reference_t<Sink>*>(to))(piece);
          },
          &sink);
    }
  }

  // Reads elements as numbers (any real dtype or bool); `index` counts in row-major order.
  // Integers of floats are as Scalar::to_int gives them.
  double number(int64_t index) const;
  int64_t integer(int64_t index) const;
  // All elements as integers; for small integer tensors.
  std::vector<int64_t> integers() const;

 private:
  void stream_gathered(void (*sink)(void*, std::span<const std::byte>), void* to) const;
  void stream_strided(void (*sink)(void*, std::span<const std::byte>), void* to) const;
};

// Owning constants. Values are converted to dtype (rounded to nearest even for floats; integers
// must fit).
TensorData make_tensor(DType dtype, std::vector<int64_t> shape, std::span<const double> values);
TensorData make_tensor(DType dtype, std::vector<int64_t> shape, std::span<const int64_t> values);
// Takes a contiguous buffer over.
TensorData make_tensor(DType dtype, std::vector<int64_t> shape, std::vector<std::byte> bytes);

// Conversions of single numbers to the 16-bit formats' bits, rounding to nearest even.
uint16_t to_f16_bits(double value);
uint16_t to_bf16_bits(double value);
double from_f16_bits(uint16_t bits);

}  // namespace onnx_native
