// onnx's own checker, in C++.
#pragma once

#include <filesystem>

namespace onnx_native {

// Checks an ONNX file, its external data and shape inference included, as onnx.checker does with
// full_check. Throws ExportError: invalid_program with what the checker says, unsupported when this
// build has no checker.
void check_file(const std::filesystem::path& path);

}  // namespace onnx_native
