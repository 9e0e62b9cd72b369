// Names of the nodes of a recorded program.
#pragma once

#include <string>
#include <string_view>

#include "aten/graph.h"

namespace onnx_native::capture {

// Returns the name of an operator without its namespace and overload: "add" of "aten::add.Tensor".
std::string plain_name(std::string_view op);
// Names each node as torch.export does: by its result, or by its operator if it has several.
void name_nodes(aten::Graph& graph);

}  // namespace onnx_native::capture
