#include "plugin/py_lowering.h"

#include <torch/csrc/Dtype.h>
#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "aten/schema.h"
#include "aten/torch_tensor.h"
#include "aten/torch_types.h"
#include "ops/engine/op_table.h"
#include "plugin/py_graph.h"

namespace onnx_native::plugin {
namespace {

// A tensor of the graph under construction; valid during the lowering that received it.
struct PyValue {
  Value value;
  bool number = false;  // a Python number in the program, computed by the model
};

py::object dim_to_python(const Dim& dim) {
  if (const auto number = dim.constant()) return py::int_(*number);
  return py::str(dim.str());
}

DType dtype_of(py::handle object) {
  if (!THPDtype_Check(object.ptr())) throw py::type_error("a dtype must be a torch.dtype");
  const auto dtype = aten::to_dtype(reinterpret_cast<THPDtype*>(object.ptr())->scalar_type);
  if (!dtype) throw py::type_error("ONNX has no element type for this dtype");
  return *dtype;
}

// The builder that a lowering in Python receives; valid during that lowering.
class PyBuilder {
 public:
  explicit PyBuilder(const ops::Call& call) : call_(call) {}

  int64_t opset() const { return builder().opset(); }

  py::object op(const std::string& op_type, const py::args& inputs, const py::kwargs& settings) {
    std::string domain;
    int64_t domain_version = 1;
    size_t outputs = 1;
    std::vector<onnx::Attribute> attributes;
    for (const auto& [key, value] : settings) {
      const std::string name = py::str(key).cast<std::string>();
      if (name == "domain") {
        domain = value.cast<std::string>();
      } else if (name == "domain_version") {
        domain_version = value.cast<int64_t>();
      } else if (name == "outputs") {
        outputs = value.cast<size_t>();
      } else if (!PyCallable_Check(value.ptr()) || THPDtype_Check(value.ptr())) {
        attributes.push_back({name, attribute_value(value)});
      }
    }
    Values values;
    DType dtype = DType::undefined;
    for (const py::handle input : inputs) {
      if (py::isinstance<PyValue>(input) && dtype == DType::undefined) {
        dtype = input.cast<PyValue&>().value->dtype;
      }
    }
    for (const py::handle input : inputs) values.push_back(value_of(input, dtype));
    for (const auto& [key, value] : settings) {
      if (!PyCallable_Check(value.ptr()) || THPDtype_Check(value.ptr())) continue;
      const std::string name = py::str(key).cast<std::string>();
      const auto types = body_inputs(op_type, values, attributes);
      attributes.push_back({name, sub_graph(name, value, types)});
    }
    if (!domain.empty()) {
      int64_t& version = builder().model().domains[domain];
      version = std::max<int64_t>(version, domain_version);
    }
    const Values results =
        builder().ops(op_type, outputs, std::move(values), std::move(attributes), domain);
    for (size_t i = 0; i < results.size(); ++i) complete(results[i], i);
    if (outputs == 1) return py::cast(PyValue{results.at(0)});
    py::tuple tuple(results.size());
    for (size_t i = 0; i < results.size(); ++i) tuple[i] = py::cast(PyValue{results[i]});
    return tuple;
  }

  size_t results() const { return call_.node().outputs.size(); }
  PyValue cast(const PyValue& value, py::handle dtype) {
    return {builder().cast(value.value, dtype_of(dtype))};
  }
  // Adds a constant from a number, a list of integers or a tensor, cast to `dtype` if given.
  PyValue constant(py::handle object, const py::object& dtype) {
    Value value = value_of(object, dtype.is_none() ? DType::undefined : dtype_of(dtype));
    return {dtype.is_none() ? value : builder().cast(value, dtype_of(dtype))};
  }
  // The tensor's shape as a 1-D int64 tensor, and the size of one axis as a 0-D int64 tensor.
  PyValue shape(const PyValue& value) { return {builder().shape_of(value.value)}; }
  PyValue size(const PyValue& value, int64_t axis) { return {builder().size(value.value, axis)}; }

  // Converts the result of a Python lowering, one value or a tuple or list of values. Throws
  // TypeError for None and other objects.
  Values values_of(py::handle result) {
    Values values;
    const auto add = [&](py::handle item) {
      Value value = value_of(item, DType::undefined);
      if (!value) throw py::type_error("a lowering must return a Value or a tuple of them");
      values.push_back(value);
    };
    if (py::isinstance<py::tuple>(result) || py::isinstance<py::list>(result)) {
      for (const py::handle item : result) add(item);
    } else {
      add(result);
    }
    return values;
  }

  Value value_of(py::handle object, DType dtype) {
    if (object.is_none()) return nullptr;
    if (py::isinstance<PyValue>(object)) return object.cast<PyValue&>().value;
    if (THPVariable_Check(object.ptr())) {
      const at::Tensor& tensor = THPVariable_Unpack(object.ptr());
      return builder().tensor(aten::literal_data(tensor, "a lowering's constant"));
    }
    if (py::isinstance<py::bool_>(object)) return number(object.cast<bool>(), dtype);
    if (py::isinstance<py::int_>(object)) return number(object.cast<int64_t>(), dtype);
    if (py::isinstance<py::float_>(object)) return number(object.cast<double>(), dtype);
    if (py::isinstance<py::sequence>(object) && !py::isinstance<py::str>(object)) {
      return builder().i64s(object.cast<std::vector<int64_t>>());
    }
    throw py::type_error(
        "an input must be a Value, a torch.Tensor, a number, a list of integers or None");
  }

 private:
  Builder& builder() const { return call_.builder(); }
  Value number(const Scalar& value, DType dtype) {
    return builder().scalar(dtype == DType::undefined ? value.kind_dtype() : dtype, value);
  }

  using TensorType = std::pair<DType, std::optional<Shape>>;

  // Returns the types of the inputs of a sub-graph: for a Loop the iteration number, the condition
  // and the loop-carried values; for a Scan the states and the scanned slices; else none.
  static std::vector<TensorType> body_inputs(const std::string& op_type, const Values& inputs,
                                             const std::vector<onnx::Attribute>& attributes) {
    std::vector<TensorType> types;
    if (op_type == "Loop") {
      types = {{DType::i64, Shape{}}, {DType::boolean, Shape{}}};
      for (size_t i = 2; i < inputs.size(); ++i) types.emplace_back(inputs[i]->dtype, std::nullopt);
    } else if (op_type == "Scan") {
      size_t scanned = 0;
      std::vector<int64_t> axes;
      for (const onnx::Attribute& attribute : attributes) {
        if (attribute.name == "num_scan_inputs")
          scanned = static_cast<size_t>(std::get<int64_t>(attribute.value));
        if (attribute.name == "scan_input_axes")
          axes = std::get<std::vector<int64_t>>(attribute.value);
      }
      const size_t states = inputs.size() - scanned;
      for (size_t i = 0; i < inputs.size(); ++i) {
        std::optional<Shape> shape = inputs[i]->shape;
        if (i >= states && shape) {
          const int64_t axis = i - states < axes.size() ? axes[i - states] : 0;
          shape->erase(shape->begin() + normalize_axis(axis, static_cast<int64_t>(shape->size())));
        }
        types.emplace_back(inputs[i]->dtype, std::move(shape));
      }
    }
    return types;
  }

  std::shared_ptr<onnx::Graph> sub_graph(const std::string& name, py::handle function,
                                         const std::vector<TensorType>& types) {
    return builder().subgraph(name, [&] {
      py::tuple arguments(types.size());
      for (size_t i = 0; i < types.size(); ++i) {
        arguments[i] =
            py::cast(PyValue{builder().graph().add_input("", types[i].first, types[i].second)});
      }
      return values_of(function(*arguments));
    });
  }

  // Gives a result without an inferred dtype the type that the capture recorded for the call.
  void complete(Value value, size_t i) const {
    if (!value || i >= call_.node().outputs.size()) return;
    const aten::Type& recorded = call_.result_type(i);
    if (value->dtype == DType::undefined && recorded.is_tensor()) {
      builder().declare(value, recorded.dtype, recorded.shape);
    }
  }

  static onnx::AttributeValue attribute_value(py::handle object) {
    if (py::isinstance<py::bool_>(object)) return int64_t{object.cast<bool>()};
    if (py::isinstance<py::int_>(object)) return object.cast<int64_t>();
    if (py::isinstance<py::float_>(object)) return object.cast<double>();
    if (py::isinstance<py::str>(object)) return object.cast<std::string>();
    if (THPDtype_Check(object.ptr())) return dtype_of(object);
    if (THPVariable_Check(object.ptr())) {
      return std::make_shared<TensorData>(
          aten::tensor_data(THPVariable_Unpack(object.ptr()), "an attribute"));
    }
    if (py::isinstance<py::sequence>(object)) {
      const auto sequence = py::reinterpret_borrow<py::sequence>(object);
      if (!sequence.empty() && py::isinstance<py::str>(sequence[0])) {
        return object.cast<std::vector<std::string>>();
      }
      for (const py::handle item : sequence) {
        if (py::isinstance<py::float_>(item)) return object.cast<std::vector<double>>();
      }
      return object.cast<std::vector<int64_t>>();
    }
    throw py::type_error(
        "an attribute must be an int, float, str, a list of these, a torch.dtype or a "
        "torch.Tensor");
  }

  const ops::Call& call_;
};

// Converts an argument of the call to a Python object; throws ExportError(unsupported) for a
// sub-graph.
py::object argument_to_python(const ops::Call& call, const aten::Argument& argument) {
  const PyOperands operands{
      .value =
          [&](const aten::Value* value) {
            const ops::Lowered& lowered = call.lowered(value);
            if (lowered.value) return py::cast(PyValue{lowered.value, !value->type.is_tensor()});
            if (lowered.dim->constant()) return dim_to_python(*lowered.dim);
            return py::cast(PyValue{call.builder().dim_value(*lowered.dim), true});
          },
      .graph = [](const aten::Graph&) -> py::object {
        fail(ErrorKind::unsupported, "a lowering written in Python cannot take a sub-graph");
      },
  };
  return to_python(argument, operands);
}

ops::Results run(const py::function& function, const ops::Call& call) {
  const py::gil_scoped_acquire acquired;
  py::list positional;
  py::dict keywords;
  PyBuilder builder(call);
  positional.append(py::cast(&builder, py::return_value_policy::reference));
  for (size_t i = 0; i < call.size(); ++i) {
    py::object value = argument_to_python(call, call.argument(i));
    const aten::Schema* schema = call.node().schema;
    if (schema && schema->arguments[i].kwarg_only) {
      keywords[py::str(schema->arguments[i].name)] = value;
    } else {
      positional.append(value);
    }
  }
  const Values values = builder.values_of(function(*py::tuple(positional), **keywords));
  return {values.begin(), values.end()};
}

void register_lowering(const std::string& op, const py::function& function) {
  // Leaks the reference: the interpreter may be finalized before the op table is destroyed.
  auto* kept = new py::function(function);
  ops::op_table().override_def(
      op, {.run = [kept](const ops::Call& call) { return run(*kept, call); }, .parameters = {}});
}

// Returns the (args, kwargs) that torch's dispatcher passes to Python: it omits trailing positional
// arguments and keyword arguments that equal their defaults.
std::pair<py::list, py::dict> python_arguments(const ops::Call& call) {
  const aten::Schema* schema = call.node().schema;
  std::vector<py::object> given;
  for (size_t i = 0; i < call.size(); ++i)
    given.push_back(argument_to_python(call, call.argument(i)));
  if (!schema) return {py::cast(given), py::dict()};
  const std::vector<aten::Argument>& defaults = aten::default_arguments(*schema);
  const auto is_default = [&](size_t i) {
    return schema->arguments[i].has_default && !call.argument(i).as_value() &&
           given[i].equal(argument_to_python(call, defaults[i]));
  };
  size_t positional = 0;
  for (size_t i = 0; i < given.size(); ++i) {
    const aten::SchemaArgument& argument = schema->arguments[i];
    const bool torch_name = argument.type.kind == aten::TypeKind::layout ||
                            argument.type.kind == aten::TypeKind::memory_format;
    if (!argument.kwarg_only && !is_default(i)) positional = i + 1;
    if (torch_name && !given[i].is_none()) given[i] = py::str("torch.") + given[i];
  }
  py::list ordered;
  py::dict keywords;
  for (size_t i = 0; i < given.size(); ++i) {
    const aten::SchemaArgument& argument = schema->arguments[i];
    if (argument.is_out) continue;
    if (i < positional && !argument.kwarg_only) {
      ordered.append(given[i]);
    } else if (argument.kwarg_only && !is_default(i)) {
      keywords[py::str(argument.name)] = given[i];
    }
  }
  return {ordered, keywords};
}

}  // namespace

ops::Results run_on_arguments(const py::function& function, const ops::Call& call) {
  const py::gil_scoped_acquire acquired;
  PyBuilder builder(call);
  const auto [arguments, keywords] = python_arguments(call);
  const Values values = builder.values_of(
      function(py::cast(&builder, py::return_value_policy::reference), arguments, keywords));
  ops::Results results{values.begin(), values.end()};
  results.resize(std::max(results.size(), call.node().outputs.size()));
  return results;
}

void bind_lowerings(py::module_& module) {
  py::class_<PyValue>(module, "Value")
      .def_property_readonly("dtype", [](const PyValue& v) { return to_python(v.value->dtype); })
      .def_property_readonly("is_number", [](const PyValue& v) { return v.number; })
      .def_property_readonly("rank",
                             [](const PyValue& v) -> py::object {
                               if (!v.value->shape) return py::none();
                               return py::int_(v.value->rank());
                             })
      .def_property_readonly("shape", [](const PyValue& v) -> py::object {
        if (!v.value->shape) return py::none();
        py::list sizes;
        for (const Dim& dim : *v.value->shape) sizes.append(dim_to_python(dim));
        return py::tuple(sizes);
      });
  py::class_<PyBuilder>(module, "Builder")
      .def_property_readonly("opset", &PyBuilder::opset)
      .def_property_readonly("results", &PyBuilder::results)
      .def("op", &PyBuilder::op, py::arg("op_type"))
      .def("cast", &PyBuilder::cast, py::arg("value"), py::arg("dtype"))
      .def("constant", &PyBuilder::constant, py::arg("value"), py::arg("dtype") = py::none())
      .def("shape", &PyBuilder::shape, py::arg("value"))
      .def("size", &PyBuilder::size, py::arg("value"), py::arg("axis"));
  module.def("register_lowering", &register_lowering, py::arg("op"), py::arg("lowering"));
  module.def(
      "remove_lowering", [](const std::string& op) { ops::op_table().remove_override(op); },
      py::arg("op"));
}

}  // namespace onnx_native::plugin
