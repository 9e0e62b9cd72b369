// torch's tensors as constants.
#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>

#include "base/tensor_data.h"

namespace onnx_native::aten {

// A constant over the tensor's own storage, which it keeps alive. Throws ExportError(unsupported)
// for tensors without plain memory, and invalid_program where sizes and strides leave the memory.
TensorData tensor_data(const at::Tensor& tensor, std::string_view name);

}  // namespace onnx_native::aten
