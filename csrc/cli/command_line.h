// The command `onnx-native`, for its executable and for `python -m onnx_native`.
#pragma once

#include <string>
#include <vector>

namespace onnx_native::cli {

// Does what the arguments (without the command's name) say. Results go to standard output, errors,
// warnings and progress to standard error. The exit code: 0; 1 when the export failed; 2 when the
// arguments are wrong.
int run(std::vector<std::string> arguments);

}  // namespace onnx_native::cli
