#include "api/module.h"

#include <ATen/core/Tensor.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/serialization/import.h>

#include <algorithm>
#include <new>
#include <utility>

#include "api/entry.h"
#include "api/program_contents.h"
#include "api/type_inference.h"
#include "aten/torch_types.h"
#include "onnx_native/jit.h"
#include "readers/jit/reader.h"

namespace onnx_native {
namespace {

template <class Code>
std::unique_ptr<aten::Graph> read(const Code& code, const ExportOptions& options) {
  LoweringTypes types(ops::Lowerings(ops::op_table()), std::max(options.opset, kMinLoweringOpset));
  return readers::jit::read(code, {.inputs = options.inputs, .method = options.method}, types);
}

}  // namespace

std::unique_ptr<aten::Graph> read_module(const torch::jit::Module& module,
                                         const ExportOptions& options) {
  return read(module, options);
}

std::unique_ptr<aten::Graph> read_function(const torch::jit::Function& function,
                                           const ExportOptions& options) {
  return read(function, options);
}

std::unique_ptr<aten::Graph> read_module_file(const std::filesystem::path& path,
                                              const ExportOptions& options) {
  torch::jit::Module module;
  try {
    module = torch::jit::load(path.string());
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const c10::Error& error) {
    check_memory(error);
    fail(ErrorKind::invalid_program, path.string(),
         " is not a readable TorchScript file: ", error.what_without_backtrace());
  } catch (const std::exception& error) {  // for example, source that does not compile
    fail(ErrorKind::invalid_program, path.string(),
         " is not a readable TorchScript file: ", error.what());
  }
  return read_module(module, options);
}

Program export_module(const torch::jit::Module& module, const ExportOptions& options) {
  return entry(
      [&] { return export_program([&] { return read_module(module, options); }, options); });
}

std::vector<InputSpec> inputs_like(const std::vector<at::Tensor>& examples) {
  return entry([&] {
    std::vector<InputSpec> specs;
    specs.reserve(examples.size());
    for (const at::Tensor& example : examples) {
      const std::optional<DType> dtype = aten::to_dtype(example.scalar_type());
      if (!dtype)
        fail(ErrorKind::unsupported, "ONNX has no dtype ", c10::toString(example.scalar_type()));
      specs.push_back({.name = {},
                       .dtype = *dtype,
                       .shape = Shape(example.sizes().begin(), example.sizes().end())});
    }
    return specs;
  });
}

}  // namespace onnx_native
