// Reads a torch.export.ExportedProgram, undecomposed, into an aten::Graph.
#pragma once

#include <memory>

#include "aten/graph.h"
#include "fx/graph_reader.h"

namespace onnx_native::fx {

// Walks the program's FX graph with the GIL held.
// wrap_with_set_grad_enabled, wrap_with_autocast and kin are inlined (an autocast region's casts
// become `aten::to.dtype` nodes); assertions about metadata and sizes are dropped. Throws
// ExportError(unsupported or invalid_program) with the user's source line.
std::unique_ptr<aten::Graph> read_exported_program(py::handle exported_program,
                                                   ProgramReader& reader);

}  // namespace onnx_native::fx
