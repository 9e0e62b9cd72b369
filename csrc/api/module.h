// Reads TorchScript modules, in memory or from files.
#pragma once

#include <filesystem>
#include <memory>

#include "aten/graph.h"
#include "onnx_native/export.h"

namespace torch::jit {
struct Function;
struct Module;
}  // namespace torch::jit

namespace onnx_native {

// Reads the program in `options.method` of a module, for inputs described by `options.inputs`.
std::unique_ptr<aten::Graph> read_module(const torch::jit::Module& module,
                                         const ExportOptions& options);
// The same for a function that is not a method.
std::unique_ptr<aten::Graph> read_function(const torch::jit::Function& function,
                                           const ExportOptions& options);
// Reads the program in a file that torch.jit.save wrote.
std::unique_ptr<aten::Graph> read_module_file(const std::filesystem::path& path,
                                              const ExportOptions& options);

}  // namespace onnx_native
