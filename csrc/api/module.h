// TorchScript programs: modules in memory and in files.
#pragma once

#include <filesystem>
#include <memory>

#include "aten/graph.h"
#include "onnx_native/export.h"

namespace onnx_native {

// The program in a file of torch.jit.save.
std::unique_ptr<aten::Graph> read_module_file(const std::filesystem::path& path,
                                              const ExportOptions& options);

}  // namespace onnx_native
