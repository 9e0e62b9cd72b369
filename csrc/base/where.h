// Where in the user's program something is, for messages.
#pragma once

#include <string>

#include "base/error.h"

namespace onnx_native {

// The user's source line and module, each on a line of its own that starts with a line break; empty
// where nothing is known (nullptr too).
std::string where(const Location* location);

}  // namespace onnx_native
