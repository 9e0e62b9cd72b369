#include "plugin/py_script.h"

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

DType element_type(at::ScalarType type) {
  const std::optional<DType> dtype = aten::to_dtype(type);
  if (!dtype) fail(ErrorKind::unsupported, aten::no_element_type(type));
  return *dtype;
}

Dim dim_of(const ScriptInput::Size& size) {
  if (const auto* number = std::get_if<int64_t>(&size)) return *number;
  const auto& text = std::get<std::string>(size);
  const auto named = [](std::string_view name) {
    return Dim::symbol(name, DimRange::input_size());
  };
  const std::optional<Dim> dim = parse_dim(text, named);
  return dim ? *dim : named(text);
}

InputSpec spec_of(const ScriptInput& input) {
  InputSpec spec{.name = input.name, .constant = input.constant};
  if (input.sizes) {
    spec.dtype = element_type(input.dtype);
    spec.shape.emplace();
    for (const ScriptInput::Size& size : *input.sizes) spec.shape->push_back(dim_of(size));
  }
  if (input.elements) {
    spec.elements.emplace();
    for (const ScriptInput& element : *input.elements) {
      spec.elements->push_back(spec_of(element));
      if (!input.has_keys) spec.elements->back().name.clear();
    }
  }
  return spec;
}

torch::jit::Module module_of(const py::object& program) {
  std::optional<torch::jit::Module> module = torch::jit::as_module(program);
  if (!module) fail(ErrorKind::invalid_argument, "expected a TorchScript module or function");
  return *std::move(module);
}

}  // namespace

std::unique_ptr<aten::Graph> read_script(const ScriptSource& source, const ExportOptions& options) {
  ExportOptions reading = options;
  for (const ScriptInput& input : source.inputs) reading.inputs.push_back(spec_of(input));
  reading.method = source.method;
  const py::object& program = source.program;
  if (py::isinstance<torch::jit::StrongFunctionPtr>(program)) {
    const auto function = program.cast<torch::jit::StrongFunctionPtr>();
    return read_function(*function.function_, reading);
  }
  return read_module(module_of(program), reading);
}

ScriptState::ScriptState(const py::object& module) {
  c10::IValue::HashAliasedIValues values;
  c10::IValue(module_of(module)._ivalue()).getSubValues(values);
  c10::IValue::HashIdentityIValueMap copies;  // of lists and dicts only
  for (const c10::IValue& value : values) {
    if (value.isTensor() || value.isObject()) copies.emplace(value, value);
    if (value.isObject()) saved_.push_back({.owner = value.toObject()});
  }
  for (Attributes& attributes : saved_) {
    for (const c10::IValue& value : attributes.owner->slots())
      attributes.values.push_back(value.deepcopy(copies));
  }
}

void ScriptState::restore() const {
  for (const Attributes& attributes : saved_) {
    for (size_t i = 0; i < attributes.values.size(); ++i)
      attributes.owner->setSlot(i, attributes.values[i]);
  }
}

void bind_scripts(py::module_& module) {
  py::class_<ScriptInput>(module, "ScriptInput", "An argument of a TorchScript program.")
      .def_static(
          "tensor",
          [](std::string name, at::ScalarType dtype, std::vector<ScriptInput::Size> sizes) {
            return ScriptInput{.name = std::move(name), .sizes = std::move(sizes), .dtype = dtype};
          },
          py::arg("name"), py::arg("dtype"), py::arg("sizes"),
          "A tensor, or a number that is an input: one without sizes.")
      .def_static(
          "fixed",
          [](std::string name, py::handle value) {
            return ScriptInput{.name = std::move(name), .constant = constant(value)};
          },
          py::arg("name"), py::arg("value"), "A value that is not an input.")
      .def_static(
          "sequence",
          [](std::string name, std::vector<ScriptInput> elements) {
            return ScriptInput{.name = std::move(name), .elements = std::move(elements)};
          },
          py::arg("name"), py::arg("elements"))
      .def_static(
          "mapping",
          [](std::string name, std::vector<ScriptInput> elements) {
            return ScriptInput{
                .name = std::move(name), .elements = std::move(elements), .has_keys = true};
          },
          py::arg("name"), py::arg("elements"), "A dict, whose keys are the elements' names.")
      .def_property_readonly("sizes",
                             [](const ScriptInput& input) {
                               return input.sizes.value_or(std::vector<ScriptInput::Size>());
                             })
      .def_property_readonly("is_fixed",
                             [](const ScriptInput& input) { return input.constant.has_value(); })
      .def_readonly("elements", &ScriptInput::elements);
  py::class_<ScriptSource>(module, "ScriptSource",
                           "A TorchScript program and what it is exported for.")
      .def(py::init<py::object, std::vector<ScriptInput>, std::string>(), py::arg("program"),
           py::arg("inputs"), py::arg("method") = "forward");
  py::class_<ScriptState>(module, "ScriptState", "The attributes of a TorchScript module.")
      .def(py::init<const py::object&>(), py::arg("module"))
      .def("restore", &ScriptState::restore, "Gives the attributes their values back.");
}

}  // namespace onnx_native::plugin
