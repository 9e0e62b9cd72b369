// Finds the user's source line in a Python stack trace.
#pragma once

#include <string_view>

#include "base/error.h"

namespace onnx_native::aten {

// Sets source and code to those of the innermost frame outside PyTorch, or else of the innermost
// frame. PyTorch's files are those in `torch_folder`; if that is empty, those in any torch package.
void read_stack_trace(std::string_view trace, Location& location,
                      std::string_view torch_folder = {});

}  // namespace onnx_native::aten
