// TorchScript programs: modules in memory and in files.
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

// The program in `options.method` of a module, for inputs such as `options.inputs`.
std::unique_ptr<aten::Graph> read_module(const torch::jit::Module& module,
                                         const ExportOptions& options);
// The same of a function that is no method.
std::unique_ptr<aten::Graph> read_function(const torch::jit::Function& function,
                                           const ExportOptions& options);
// The program in a file of torch.jit.save.
std::unique_ptr<aten::Graph> read_module_file(const std::filesystem::path& path,
                                              const ExportOptions& options);

}  // namespace onnx_native
