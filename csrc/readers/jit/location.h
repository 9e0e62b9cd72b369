// Source locations in TorchScript code.
#pragma once

#include <ATen/core/jit_type_base.h>

#include <string>

namespace torch::jit {
struct Node;
}

namespace onnx_native::readers::jit {

// Appends a node's source location to a Python stack trace, if the node has one.
void append_frame(std::string& trace, const torch::jit::Node& node);
// Returns a class name as Python prints it: without "__torch__." and "___torch_mangle_3.".
std::string class_name(const c10::Type& type);

}  // namespace onnx_native::readers::jit
