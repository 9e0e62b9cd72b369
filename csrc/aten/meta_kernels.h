// PyTorch's meta kernels in C++.
#pragma once

#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <unordered_map>

namespace onnx_native::aten {

using KernelTable = std::unordered_map<c10::OperatorHandle, c10::KernelFunction>;

// Returns the kernels for meta tensors. When PyTorch is imported in Python, it replaces most of
// them by functions in Python, which take up to a hundred times longer, give the same types, and
// import TorchDynamo at the first call.
const KernelTable& meta_kernels();
// Adds those of pads whose CPU kernels resize their results to another memory format.
void add_meta_kernels_of_padded_volumes(KernelTable& table);

}  // namespace onnx_native::aten
