// TorchScript modules, as Python hands them over.
#pragma once

#include <torch/csrc/utils/pybind.h>

#include <memory>
#include <string>

#include "aten/graph.h"

namespace onnx_native::plugin {

// `source` is (program, inputs, method): a torch.jit.ScriptModule or ScriptFunction (which has no
// methods) and what onnx_native._jit says of the arguments: (kind, name, ...), with dtype and sizes
// (ints and expressions) of a tensor, the value of a literal, the elements of a container.
std::unique_ptr<aten::Graph> read_script(const py::tuple& source, int64_t opset);

}  // namespace onnx_native::plugin
