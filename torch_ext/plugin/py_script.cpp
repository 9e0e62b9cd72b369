#include "plugin/py_script.h"

#include <torch/csrc/Dtype.h>
#include <torch/csrc/jit/api/compilation_unit.h>
#include <torch/csrc/jit/python/module_python.h>

#include <utility>
#include <variant>

#include "api/module.h"
#include "aten/element_types.h"
#include "aten/torch_types.h"

namespace onnx_native::plugin {
namespace {

InputSpec::Constant constant(py::handle value) {
  if (value.is_none()) return std::monostate();
  if (py::isinstance<py::bool_>(value)) return value.cast<bool>();
  if (py::isinstance<py::int_>(value)) return value.cast<int64_t>();
  if (py::isinstance<py::float_>(value)) return value.cast<double>();
  return value.cast<std::string>();
}

DType dtype_of(py::handle object) {
  const auto type = reinterpret_cast<THPDtype*>(object.ptr())->scalar_type;
  const std::optional<DType> dtype = aten::to_dtype(type);
  if (!dtype) fail(ErrorKind::unsupported, aten::no_element_type(type));
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

InputSpec number(std::string name, DType dtype) {
  return {.name = std::move(name), .dtype = dtype, .shape = Shape()};
}

InputSpec spec_of(py::handle object) {
  const auto fields = object.cast<py::tuple>();
  const auto kind = fields[0].cast<std::string>();
  InputSpec spec{.name = fields[1].cast<std::string>()};
  if (kind == "int") return number(spec.name, DType::i64);
  if (kind == "float") return number(spec.name, DType::f32);
  if (kind == "bool") return number(spec.name, DType::boolean);
  if (kind == "tensor") {
    spec.dtype = dtype_of(fields[2]);
    spec.shape.emplace();
    for (const py::handle size : fields[3]) spec.shape->push_back(dim_of(size));
  } else if (kind == "literal") {
    spec.constant = constant(fields[2]);
  } else {
    spec.elements.emplace();
    for (const py::handle element : fields[2]) {
      spec.elements->push_back(spec_of(element));
      if (kind == "sequence") spec.elements->back().name.clear();  // only a dict has keys
    }
  }
  return spec;
}

}  // namespace

std::unique_ptr<aten::Graph> read_script(const py::tuple& source, const ExportOptions& options) {
  ExportOptions reading = options;
  for (const py::handle input : source[1]) reading.inputs.push_back(spec_of(input));
  reading.method = source[2].cast<std::string>();
  const py::object program = source[0];
  if (py::isinstance<torch::jit::StrongFunctionPtr>(program)) {
    const auto function = program.cast<torch::jit::StrongFunctionPtr>();
    return read_function(*function.function_, reading);
  }
  const std::optional<torch::jit::Module> module = torch::jit::as_module(program);
  if (!module) fail(ErrorKind::invalid_argument, "expected a TorchScript module or function");
  return read_module(*module, reading);
}

}  // namespace onnx_native::plugin
