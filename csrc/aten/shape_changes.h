// In-place shape changes that torch.export does not track.
#pragma once

#include "aten/graph.h"

namespace onnx_native::aten {

// Throws ExportError(unsupported) if a program captured by torch.export uses a tensor after its
// shape changed through an alias. A dropout that is off returns its argument itself, but the
// capture takes the result for a new tensor: the shapes it records afterward differ from eager
// mode's.
void check_shape_changes(const Graph& graph);

}  // namespace onnx_native::aten
