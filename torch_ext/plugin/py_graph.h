// Graphs as Python objects.
#pragma once

#include <torch/csrc/utils/pybind.h>

#include <functional>

#include "aten/graph.h"

namespace onnx_native::plugin {

// Returns the torch.dtype.
py::object to_python(DType dtype);

// How the values and sub-graphs among arguments look in Python.
struct PyOperands {
  std::function<py::object(const aten::Value*)> value;
  std::function<py::object(const aten::Graph&)> graph;
};
// Converts an argument of a call: literals become numbers, text, dtypes and lists of them.
py::object to_python(const aten::Argument& argument, const PyOperands& operands);

// Makes a program of the graph with an onnx_native.replay._recorded_program.Builder; returns what
// the builder makes. The program's constants share the memory of the graph's.
py::object build_program(const aten::Graph& graph, const py::object& builder,
                         bool with_shapes = false);

}  // namespace onnx_native::plugin
