// Tensors that stand for weights without elements: of a module on the meta device or in fake mode.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>

namespace onnx_native::aten {

// Returns true for tensors on the meta device and FakeTensors.
bool lacks_elements(const at::Tensor& tensor);
// Returns a CPU tensor with the dtype, sizes and strides of another, and no memory. PyTorch raises
// an error where its elements are accessed.
at::Tensor make_placeholder(const at::Tensor& like);
// Returns the address that the first element of a placeholder would have; no other tensor has
// elements there. nullptr for other tensors.
const std::byte* placeholder_address(const at::Tensor& tensor);

}  // namespace onnx_native::aten
