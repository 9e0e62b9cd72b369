// The user's place in a Python stack trace.
#pragma once

#include <string_view>

#include "base/error.h"

namespace onnx_native::aten {

// Sets source and code to those of the innermost frame that is not PyTorch's own, or else of the
// innermost one. PyTorch's files are those in `torch_folder`, or in any torch package.
void read_stack_trace(std::string_view trace, Location& location,
                      std::string_view torch_folder = {});

}  // namespace onnx_native::aten
