// What ONNX Runtime's CPU provider can run: dtypes by operator and opset (kernels.inc, from
// generate_kernels.py). The table holds what all ONNX Runtime versions have that it was made from.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "base/dtype.h"
#include "onnx/graph.h"
#include "onnx/schema.h"

namespace onnx_native::onnx {

// Whether there is a kernel for the operator; also true for operators that the table does not have,
// and false in opsets that the operator is not in.
bool has_kernel(std::string_view op_type, DType dtype, int64_t opset);

// The dtype in which to compute an operator so that there is a kernel for it: the dtype itself, or
// one to which and from which casts are exact (bfloat16 in float32, small integers in wider ones).
// The dtype itself where there is no such dtype.
DType kernel_dtype(std::string_view op_type, DType dtype, int64_t opset);

// The type parameter of an operator's i-th input or output; the last one may stand for several.
std::string_view type_parameter(std::span<const SchemaParameter> formal, size_t i);
// The input whose dtype decides on the kernel: the first of the type parameter "T", else the first
// one. None where there is no such input, or the operator is unknown.
std::optional<size_t> typed_input(std::string_view op_type, std::span<Value* const> inputs,
                                  int64_t opset);

// The nodes that ONNX Runtime has no kernel for, as text: operator, dtype and source line. One per
// operator and dtype.
std::vector<std::string> missing_kernels(Model& model);

}  // namespace onnx_native::onnx
