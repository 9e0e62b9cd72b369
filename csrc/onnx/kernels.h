// The kernels of ONNX Runtime's CPU provider: dtypes by operator and opset (kernels.inc, written by
// generate_kernels.py). The table holds the kernels that all measured ONNX Runtime versions have.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "base/dtype.h"
#include "onnx/graph.h"
#include "onnx/schema.h"

namespace onnx_native::onnx {

// Returns true if there is a kernel. Also true for operators and dtypes outside the table; false
// for opsets older than the operator.
bool has_kernel(std::string_view op_type, DType dtype, int64_t opset);

// Returns the dtype in which to compute an operator so that a kernel exists: the dtype itself, or
// one that represents all its values (float32 for bfloat16 and float16, wider integers for small
// ones, int64 for uint64 if the bits agree). Returns the dtype itself if there is none.
DType kernel_dtype(std::string_view op_type, DType dtype, int64_t opset);

// Returns the type parameter of an operator's i-th input or output; the last formal parameter may
// be variadic.
std::string_view type_parameter(std::span<const SchemaParameter> formal, size_t i);
// Returns the index of the input whose dtype selects the kernel: the first with type parameter "T",
// else the first input. nullopt if that input is absent or the operator is unknown.
std::optional<size_t> typed_input(std::string_view op_type, std::span<Value* const> inputs,
                                  int64_t opset);

// Returns the dtype of a node for which there is no kernel; nullopt if there is one.
std::optional<DType> unsupported_dtype(const Node& node, int64_t opset);
// Returns the nodes without an ONNX Runtime kernel as text: operator, dtype and source line. One
// entry per operator and dtype.
std::vector<std::string> missing_kernels(Model& model);

}  // namespace onnx_native::onnx
