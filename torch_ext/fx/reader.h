// Reads a torch.export.ExportedProgram, undecomposed, into an aten::Graph.
#pragma once

#include <memory>

#include "aten/graph.h"
#include "fx/graph_reader.h"

namespace onnx_native::fx {

// Reads the program's FX graph; the caller holds the GIL. Inlines the bodies of
// wrap_with_set_grad_enabled, wrap_with_autocast and similar operators; the casts of an autocast
// region become `aten::to.dtype` nodes. Drops assertions about metadata and sizes. Throws
// ExportError (unsupported, invalid_program) with the user's source line.
std::unique_ptr<aten::Graph> read_exported_program(py::handle exported_program,
                                                   ProgramReader& reader);

}  // namespace onnx_native::fx
