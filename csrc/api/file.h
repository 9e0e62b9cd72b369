// Reads programs from files.
#pragma once

#include <filesystem>
#include <memory>

#include "aten/graph.h"
#include "onnx_native/export.h"

namespace onnx_native {

// Reads the program in a file; detects the format from the contents.
std::unique_ptr<aten::Graph> read_file(const std::filesystem::path& path,
                                       const ExportOptions& options);

}  // namespace onnx_native
