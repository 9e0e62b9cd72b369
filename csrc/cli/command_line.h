// The `onnx-native` command, shared by its executable and `python -m onnx_native`.
#pragma once

#include <string>
#include <vector>

namespace onnx_native::cli {

// Runs the command with these arguments, which exclude the program name. Results go to standard
// output; errors, warnings and progress go to standard error. Returns the exit code: 0 on success,
// 1 when the export fails, 2 when the arguments are invalid.
int run(std::vector<std::string> arguments);

}  // namespace onnx_native::cli
