// Regions of automatic mixed precision: the casts happen below the level at which a program is
// captured.
#pragma once

#include <vector>

#include "aten/graph.h"

namespace onnx_native::aten {

// Adds the casts that such a region makes before a call: floating tensors become of the dtype that
// was recorded for the call's (first) `result`. None of float64, before views, before calls that
// write or that choose a dtype themselves.
void cast_for_autocast(Graph& graph, const Schema& schema, const Type& result,
                       std::vector<Argument>& arguments, const Location* location);

}  // namespace onnx_native::aten
