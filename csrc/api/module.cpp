#include "api/module.h"

#include <ATen/core/Tensor.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/serialization/import.h>

#include <algorithm>
#include <utility>

#include "api/entry.h"
#include "api/program_contents.h"
#include "api/type_inference.h"
#include "aten/torch_types.h"
#include "onnx_native/jit.h"
#include "readers/jit/reader.h"

namespace onnx_native {
namespace {

namespace jit = readers::jit;

// Numbers come as tensors without sizes where the user writes them, and as numbers in the program.
jit::InputSpec::Kind kind_of(const c10::Argument& argument) {
  switch (argument.type()->kind()) {
    case c10::TypeKind::IntType:
      return jit::InputSpec::Kind::integer;
    case c10::TypeKind::FloatType:
      return jit::InputSpec::Kind::floating;
    case c10::TypeKind::BoolType:
      return jit::InputSpec::Kind::boolean;
    default:
      return jit::InputSpec::Kind::tensor;
  }
}

std::unique_ptr<aten::Graph> read_module(const torch::jit::Module& module,
                                         const ExportOptions& options) {
  const auto method = module.find_method(options.method);
  if (!method) fail(ErrorKind::invalid_argument, "the module has no method ", options.method);
  const std::vector<c10::Argument>& arguments = method->function().getSchema().arguments();
  if (options.inputs.size() + 1 > arguments.size())
    fail(ErrorKind::invalid_argument, options.method, " takes ", arguments.size() - 1,
         " inputs, not ", options.inputs.size());
  jit::ReadOptions reading{.inputs = {}, .method = options.method};
  for (size_t i = 0; i < options.inputs.size(); ++i) {
    const InputSpec& spec = options.inputs[i];
    reading.inputs.push_back({.name = spec.name.empty() ? arguments[i + 1].name() : spec.name,
                              .dtype = spec.dtype,
                              .shape = spec.shape,
                              .kind = kind_of(arguments[i + 1])});
  }
  LoweringTypes types(ops::Lowerings(ops::op_table()), std::max(options.opset, kMinLoweringOpset));
  return jit::read(module, reading, types);
}

}  // namespace

std::unique_ptr<aten::Graph> read_module_file(const std::filesystem::path& path,
                                              const ExportOptions& options) {
  torch::jit::Module module;
  try {
    module = torch::jit::load(path.string());
  } catch (const c10::Error& error) {
    fail(ErrorKind::invalid_program, path.string(),
         " is not a readable TorchScript file: ", error.what_without_backtrace());
  }
  return read_module(module, options);
}

Program export_module(const torch::jit::Module& module, const ExportOptions& options) {
  return entry([&] { return export_program(read_module(module, options), options); });
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
