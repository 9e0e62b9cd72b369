// Programs in files.
#pragma once

#include <filesystem>
#include <memory>

#include "aten/graph.h"
#include "onnx_native/export.h"

namespace onnx_native {

// The program in a file; what kind of file it is, its content tells.
std::unique_ptr<aten::Graph> read_file(const std::filesystem::path& path,
                                       const ExportOptions& options);

}  // namespace onnx_native
