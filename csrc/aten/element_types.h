// Errors for dtypes that ONNX tensors do not have.
#pragma once

#include <c10/core/ScalarType.h>

#include <string>

namespace onnx_native::aten {

// Says that ONNX has no element type for this dtype of PyTorch, and what to do if there is a way.
std::string no_element_type(c10::ScalarType type);

}  // namespace onnx_native::aten
