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

aten::Argument literal(const InputSpec::Constant& constant) {
  return std::visit(
      [](const auto& value) -> aten::Argument {
        if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::monostate>) {
          return {};
        } else {
          return value;
        }
      },
      constant);
}

// Numbers come as tensors without sizes where the user writes them, and as numbers in the program.
jit::InputSpec::Kind kind_of(const c10::Type& type) {
  switch (type.kind()) {
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

c10::TypePtr element_type(const c10::TypePtr& type, size_t position) {
  switch (type->kind()) {
    case c10::TypeKind::ListType:
      return type->containedType(0);
    case c10::TypeKind::DictType:
      return type->containedType(1);
    case c10::TypeKind::TupleType:
      if (position < type->containedTypeSize()) return type->containedType(position);
      [[fallthrough]];
    default:  // the reader says that it does not fit
      return c10::TensorType::get();
  }
}

jit::InputSpec convert(const InputSpec& spec, const std::string& name, const c10::TypePtr& type) {
  if (const auto optional = type->cast<c10::OptionalType>())
    return convert(spec, name, optional->getElementType());
  jit::InputSpec result{.name = name, .dtype = spec.dtype, .shape = spec.shape};
  if (spec.constant) {
    result.kind = jit::InputSpec::Kind::literal;
    result.literal = literal(*spec.constant);
  } else if (spec.elements) {
    const bool is_dict = type->kind() == c10::TypeKind::DictType;
    result.kind = is_dict ? jit::InputSpec::Kind::mapping : jit::InputSpec::Kind::sequence;
    for (size_t i = 0; i < spec.elements->size(); ++i) {
      const InputSpec& element = (*spec.elements)[i];
      result.elements.push_back(convert(element,
                                        element.name.empty() ? concat(name, "_", i) : element.name,
                                        element_type(type, i)));
    }
  } else {
    result.kind = kind_of(*type);
  }
  return result;
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
    const c10::Argument& argument = arguments[i + 1];
    const InputSpec& spec = options.inputs[i];
    reading.inputs.push_back(
        convert(spec, spec.name.empty() ? argument.name() : spec.name, argument.type()));
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
  } catch (const std::exception& error) {  // of source text that does not compile, for one
    fail(ErrorKind::invalid_program, path.string(),
         " is not a readable TorchScript file: ", error.what());
  }
  return read_module(module, options);
}

Program export_module(const torch::jit::Module& module, const ExportOptions& options) {
  return entry([&] {
    WeightReads reads;
    std::unique_ptr<aten::Graph> graph;
    {
      const ReadScope recorded(&reads);
      graph = read_module(module, options);
    }
    return export_program(std::move(graph), options, std::move(reads));
  });
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
