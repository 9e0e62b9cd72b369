#include "plugin/jit_program.h"

#include <torch/csrc/Dtype.h>
#include <torch/csrc/jit/api/compilation_unit.h>
#include <torch/csrc/jit/python/module_python.h>

#include <algorithm>

#include "api/export.h"
#include "api/type_inference.h"
#include "aten/torch_types.h"
#include "ops/engine/op_table.h"
#include "readers/jit/reader.h"

namespace onnx_native::plugin {
namespace {

using readers::jit::InputSpec;

aten::Argument literal(py::handle value) {
  if (value.is_none()) return {};
  if (py::isinstance<py::bool_>(value)) return value.cast<bool>();
  if (py::isinstance<py::int_>(value)) return value.cast<int64_t>();
  if (py::isinstance<py::float_>(value)) return value.cast<double>();
  return value.cast<std::string>();
}

DType dtype_of(py::handle object) {
  const auto type = reinterpret_cast<THPDtype*>(object.ptr())->scalar_type;
  const std::optional<DType> dtype = aten::to_dtype(type);
  if (!dtype) fail(ErrorKind::unsupported, "ONNX has no element type for ", c10::toString(type));
  return *dtype;
}

Dim dim_of(py::handle size) {
  if (py::isinstance<py::int_>(size)) return size.cast<int64_t>();
  const auto text = size.cast<std::string>();
  const auto named = [](std::string_view name) {
    return Dim::symbol(name, DimRange::input_size());
  };
  const std::optional<Dim> dim = parse_dim(text, named);
  return dim ? *dim : named(text);
}

InputSpec spec_of(py::handle object) {
  const auto fields = object.cast<py::tuple>();
  const auto kind = fields[0].cast<std::string>();
  InputSpec spec;
  spec.name = fields[1].cast<std::string>();
  if (kind == "tensor") {
    spec.dtype = dtype_of(fields[2]);
    spec.shape.emplace();
    for (const py::handle size : fields[3]) spec.shape->push_back(dim_of(size));
  } else if (kind == "literal") {
    spec.kind = InputSpec::Kind::literal;
    spec.literal = literal(fields[2]);
  } else if (kind == "int") {
    spec.kind = InputSpec::Kind::integer;
  } else if (kind == "float") {
    spec.kind = InputSpec::Kind::floating;
  } else if (kind == "bool") {
    spec.kind = InputSpec::Kind::boolean;
  } else {
    spec.kind = kind == "mapping" ? InputSpec::Kind::mapping : InputSpec::Kind::sequence;
    for (const py::handle element : fields[2]) spec.elements.push_back(spec_of(element));
  }
  return spec;
}

}  // namespace

std::unique_ptr<aten::Graph> read_script(const py::tuple& source, int64_t opset) {
  readers::jit::ReadOptions options;
  for (const py::handle input : source[1]) options.inputs.push_back(spec_of(input));
  options.method = source[2].cast<std::string>();
  LoweringTypes types(ops::Lowerings(ops::op_table()), std::max(opset, kMinLoweringOpset));
  const py::object program = source[0];
  if (py::isinstance<torch::jit::StrongFunctionPtr>(program)) {
    const auto function = program.cast<torch::jit::StrongFunctionPtr>();
    return readers::jit::read(*function.function_, options, types);
  }
  const std::optional<torch::jit::Module> module = torch::jit::as_module(program);
  if (!module) fail(ErrorKind::invalid_argument, "not a TorchScript module or function");
  return readers::jit::read(*module, options, types);
}

}  // namespace onnx_native::plugin
