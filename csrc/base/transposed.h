// Transposes of constants.
#pragma once

#include "base/tensor_data.h"

namespace onnx_native {

// Returns a view of the same elements with the last two axes swapped.
TensorData transposed_view(const TensorData& data);
// Returns a constant with the last two axes swapped: a view if its elements are in memory or are
// converted from such a view; otherwise it is computed whenever it is written.
TensorData transposed_constant(const TensorData& data);

}  // namespace onnx_native
