#include "plugin/py_graph.h"

#include <torch/csrc/DynamicTypes.h>

#include <string>
#include <unordered_map>

#include "aten/held_copies.h"
#include "aten/torch_tensor.h"
#include "aten/torch_types.h"
#include "aten/unwritable.h"
#include "capture/decisions.h"

namespace onnx_native::plugin {

py::object to_python(DType dtype) {
  return py::reinterpret_borrow<py::object>(
      reinterpret_cast<PyObject*>(torch::getTHPDtype(aten::to_scalar_type(dtype))));
}

py::object to_python(const aten::Argument& argument, const PyOperands& operands) {
  if (argument.is_none()) return py::none();
  if (const aten::Value* value = argument.as_value()) return operands.value(value);
  if (const auto* list = argument.get<aten::Argument::List>()) {
    py::list result;
    for (const aten::Argument& item : *list) result.append(to_python(item, operands));
    return result;
  }
  if (const auto* v = argument.get<int64_t>()) return py::int_(*v);
  if (const auto* v = argument.get<double>()) return py::float_(*v);
  if (const auto* v = argument.get<bool>()) return py::bool_(*v);
  if (const auto* v = argument.get<std::string>()) return py::str(*v);
  if (const auto* v = argument.get<std::complex<double>>()) return py::cast(*v);
  if (const auto* v = argument.get<DType>()) return to_python(*v);
  return operands.graph(**argument.get<std::shared_ptr<aten::Graph>>());
}

namespace {

// Returns each size as an expression of symbols and a number, which are added; None for a value
// that is no tensor of a known shape.
py::object shape_of(const aten::Value& value) {
  if (!value.type.shape) return py::none();
  py::list sizes;
  for (const Dim& size : *value.type.shape) {
    const auto [rest, number] = capture::split(size);
    sizes.append(py::make_tuple(rest.str(), number));
  }
  return sizes;
}

}  // namespace

py::object build_program(const aten::Graph& graph, const py::object& builder, bool with_shapes) {
  static const Location nowhere;
  std::unordered_map<const aten::Value*, py::object> built;
  const PyOperands operands{
      .value = [&](const aten::Value* value) { return built.at(value); },
      .graph =
          [&](const aten::Graph& body) {
            return build_program(body, builder.attr("body")(), with_shapes);
          },
  };
  for (const aten::Value* input : graph.inputs)
    built[input] = builder.attr("add_input")(input->name);
  for (const aten::Constant& constant : graph.constants) {
    built[constant.value] =
        builder.attr("add_constant")(constant.value->name, aten::to_tensor(constant.data),
                                     constant.kind == aten::ConstantKind::parameter);
  }
  for (const aten::Node* node : graph.nodes) {
    if (node->op == aten::kHoldsCopies || node->op == aten::kUnwritable) continue;
    py::list arguments;
    for (const aten::Argument& argument : node->arguments)
      arguments.append(to_python(argument, operands));
    py::list names;
    py::list shapes;
    for (const aten::Value* output : node->outputs) {
      names.append(output->name);
      if (with_shapes) shapes.append(shape_of(*output));
    }
    const Location& location = node->location ? *node->location : nowhere;
    const py::list results = builder.attr("add_call")(node->op, arguments, names, location, shapes);
    for (size_t i = 0; i < node->outputs.size(); ++i) built[node->outputs[i]] = results[i];
  }
  py::list outputs;
  for (const aten::Argument& output : graph.outputs) outputs.append(to_python(output, operands));
  return builder.attr("program")(outputs);
}

}  // namespace onnx_native::plugin
