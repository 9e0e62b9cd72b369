// Runs onnx's own checker on a model file.
#pragma once

#include <filesystem>

namespace onnx_native {

// Checks the ONNX model file at `path`, including its external data and shape inference; equivalent
// to onnx.checker with full_check. Throws ExportError: invalid_program with the checker's message
// when the check fails, unsupported when this build has no checker.
void check_file(const std::filesystem::path& path);

}  // namespace onnx_native
