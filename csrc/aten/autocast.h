// Regions of automatic mixed precision: the casts happen below the level at which a program is
// captured.
#pragma once

#include <vector>

#include "aten/graph.h"

namespace onnx_native::aten {

// Whether such a region runs the operator in half precision: products of matrices, for one.
bool runs_in_half(const Schema& schema);

// Whether only such a region explains the call: a product of float32 tensors whose recorded result
// is in half precision. A program captured inside torch.autocast has no node for its region.
bool shows_autocast(const Schema& schema, const Type& result,
                    const std::vector<Argument>& arguments);

// Adds the casts that such a region makes before a call: floating tensors become of the dtype that
// was recorded for the call's (first) `result`. None of float64, before views, before calls that
// write or that choose a dtype themselves; an optional dtype that was not given becomes the
// result's.
void cast_for_autocast(Graph& graph, const Schema& schema, const Type& result,
                       std::vector<Argument>& arguments, const Location* location);

}  // namespace onnx_native::aten
