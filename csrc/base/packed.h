// Integers of 4 bits. A byte holds two elements, the first of them in its low half.
#pragma once

#include "base/tensor_data.h"

namespace onnx_native {

inline constexpr DType kUint4 = DType{21};
inline constexpr DType kInt4 = DType{22};

// Returns true for the integers of 4 bits.
bool is_packed(DType dtype);
// Returns the bytes that the elements of a constant take, in memory and in a file.
int64_t stored_bytes(const TensorData& data);
// Returns 8-bit integers as elements of a packed dtype, which are packed whenever they are written.
// Writing them throws ExportError(invalid_argument) if an element does not fit.
TensorData packed(const TensorData& integers, DType dtype);

}  // namespace onnx_native
