// Types of the results of operators whose meta kernels PyTorch has in Python only.
#pragma once

#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <unordered_map>

namespace onnx_native::capture {

using KernelTable = std::unordered_map<c10::OperatorHandle, c10::KernelFunction>;

// Adds a kernel for each such operator. A kernel leaves calls that it does not expect, and those
// that fail, to PyTorch's.
void add_shape_rules(KernelTable& table);

}  // namespace onnx_native::capture
