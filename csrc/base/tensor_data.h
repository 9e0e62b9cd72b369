// The elements of a constant tensor: shared with an owner, never copied.
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

// A dtype, a shape, the address of the first element and an owner that keeps the memory alive.
// Elements are little-endian. `strides` (in elements) is empty for contiguous data. `scale`
// (floating data only) holds one factor per index of the first axis; number() and stream() multiply
// by it.
struct TensorData {
  DType dtype = DType::undefined;
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;
  const std::byte* data = nullptr;
  std::shared_ptr<const void> owner;
  std::shared_ptr<const std::vector<double>> scale;

  int64_t numel() const;
  int64_t nbytes() const { return numel() * item_size(dtype); }
  // Returns true if the memory holds the elements in row-major order, unscaled.
  bool is_contiguous() const { return strides.empty() && !scale; }
  // Returns the bytes; throws ExportError(internal) if the data is not contiguous.
  std::span<const std::byte> bytes() const;
  // Calls `sink` with consecutive pieces of the elements in row-major order. Gathers data that is
  // not contiguous in small buffers.
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

  // Read one element as a number (any real dtype or bool); `index` counts in row-major order.
  // integer() converts floats like Scalar::to_int.
  double number(int64_t index) const;
  int64_t integer(int64_t index) const;
  // Returns all elements as integers; for small integer tensors.
  std::vector<int64_t> integers() const;

 private:
  void stream_gathered(void (*sink)(void*, std::span<const std::byte>), void* to) const;
  void stream_strided(void (*sink)(void*, std::span<const std::byte>), void* to) const;
};

// Make constants that own their memory. Values are converted to dtype (floats round to nearest
// even; throws ExportError(internal) if an integer does not fit).
TensorData make_tensor(DType dtype, std::vector<int64_t> shape, std::span<const double> values);
TensorData make_tensor(DType dtype, std::vector<int64_t> shape, std::span<const int64_t> values);
// Takes ownership of a contiguous buffer.
TensorData make_tensor(DType dtype, std::vector<int64_t> shape, std::vector<std::byte> bytes);

// Convert between numbers and the bits of the 16-bit formats, rounding to nearest even.
uint16_t to_f16_bits(double value);
uint16_t to_bf16_bits(double value);
double from_f16_bits(uint16_t bits);

}  // namespace onnx_native
