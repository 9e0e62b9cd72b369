// TorchScript modules, as Python hands them over.
#pragma once

#include <torch/csrc/utils/pybind.h>

#include <memory>

#include "aten/graph.h"
#include "onnx_native/export.h"

namespace onnx_native::plugin {

namespace py = pybind11;

// Reads (program, inputs, method): a torch.jit.ScriptModule or ScriptFunction (which has no
// methods), and an onnx_native._jit spec for each argument: (kind, name, ...), with dtype and sizes
// (ints and expressions) of a tensor, the value of a literal, the elements of a container.
std::unique_ptr<aten::Graph> read_script(const py::tuple& source, const ExportOptions& options);

}  // namespace onnx_native::plugin
