// Native capture, driven by Python: see onnx_native.recording._capture.
#pragma once

#include <torch/csrc/utils/pybind.h>

#include <memory>

#include "aten/graph.h"

namespace onnx_native::plugin {

void bind_capture(py::module_& module);
// Returns true if `source` is a finished native capture.
bool is_capture(py::handle source);
// Takes the graph out of a finished capture. Throws ExportError(invalid_argument) if it has none.
std::unique_ptr<aten::Graph> take_graph(py::handle capture);

}  // namespace onnx_native::plugin
