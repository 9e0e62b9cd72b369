// What ONNX Runtime's CPU provider can run: dtypes by operator (kernels.inc, from
// generate_kernels.py).
#pragma once

#include <string_view>

#include "base/dtype.h"

namespace onnx_native::onnx {

// The dtype in which to compute an operator so that ONNX Runtime's CPU provider has a kernel for
// it: the dtype itself, or one to which and from which casts are exact (bfloat16 in float32, small
// integers in wider ones). The dtype itself where there is no such dtype.
DType kernel_dtype(std::string_view op_type, DType dtype);

}  // namespace onnx_native::onnx
