// Weights that ATen packs for its product with integers of 4 bits.
#pragma once

#include <cstdint>

#include "base/tensor_data.h"

namespace onnx_native::aten {

// Returns the integers (0 to 15) of a weight that _convert_weight_to_int4pack_for_cpu packed, as
// bytes of the shape (inputs, outputs). They are unpacked whenever they are written. The packed
// layout depends on the processor, so that ATen's own product unpacks it.
TensorData unpacked_int4(const TensorData& packed, int64_t inputs, int64_t outputs);

}  // namespace onnx_native::aten
