// The user's place in TorchScript code.
#pragma once

#include <torch/csrc/jit/ir/ir.h>

#include <string>

namespace onnx_native::readers::jit {

// Appends a node's place to a Python stack trace, if it has one.
void append_frame(std::string& trace, const torch::jit::Node& node);
// "__torch__.torchvision.models.resnet.___torch_mangle_3.ResNet" -> as Python prints it.
std::string class_name(const c10::Type& type);

}  // namespace onnx_native::readers::jit
