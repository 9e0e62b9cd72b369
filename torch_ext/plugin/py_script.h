// Reads TorchScript programs that Python passes as objects.
#pragma once

#include <torch/csrc/utils/pybind.h>

#include <memory>

#include "aten/graph.h"
#include "onnx_native/export.h"

namespace onnx_native::plugin {

namespace py = pybind11;

// Reads `source`, a tuple (program, inputs, method). The program is a torch.jit.ScriptModule, or a
// ScriptFunction, for which `method` is ignored. `inputs` has an onnx_native.request._jit spec per
// argument: (kind, name, ...), followed by the dtype and sizes (ints and expressions) of a tensor,
// the value of a literal, or the elements of a container. Throws ExportError like export_module.
std::unique_ptr<aten::Graph> read_script(const py::tuple& source, const ExportOptions& options);

}  // namespace onnx_native::plugin
