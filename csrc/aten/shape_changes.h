// In-place changes of shape that torch.export does not follow.
#pragma once

#include "aten/graph.h"

namespace onnx_native::aten {

// Throws ExportError(unsupported) where a program that torch.export captured uses a tensor after
// its shape changed under another name. A dropout that is off returns its argument itself, which
// the capture takes for a new tensor: the shapes it records from there on are not eager's.
void check_shape_changes(const Graph& graph);

}  // namespace onnx_native::aten
