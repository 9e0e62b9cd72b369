// The versions of onnx_native and of the PyTorch that it was built for.
#pragma once

#include <string_view>

namespace onnx_native {

std::string_view version();        // "0.1.0"
std::string_view torch_version();  // major.minor of the PyTorch at build time: "2.13"

}  // namespace onnx_native
