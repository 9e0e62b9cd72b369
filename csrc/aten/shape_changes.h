// Aliases that torch.export does not track.
#pragma once

#include "aten/graph.h"

namespace onnx_native::aten {

// Throws ExportError(unsupported) if a program captured by torch.export uses a tensor after its
// shape changed through an alias. A dropout that is off returns its argument itself, but the
// capture takes the result for a new tensor: the shapes it records afterward differ from eager
// mode's. So does aten::lift. For aten::native_dropout it is the other way around.
void check_shape_changes(const Graph& graph);

// Makes functionalize reject writes to the result of an aten::native_dropout that is off: it is a
// copy in eager mode, but the argument itself in what torch.export captures.
void mark_false_aliases(Graph& graph);

}  // namespace onnx_native::aten
