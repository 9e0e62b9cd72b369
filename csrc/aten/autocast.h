// Autocast regions. The casts of automatic mixed precision happen below the level at which a
// program is captured.
#pragma once

#include <string_view>
#include <vector>

#include "aten/graph.h"

namespace onnx_native::aten {

// Returns true if autocast runs the operator in half precision (matrix products, for example).
bool runs_in_half(const Schema& schema);

// Returns true if only autocast explains the call: a half-precision operator on float32 tensors
// whose recorded result is in half precision. A program captured inside torch.autocast has no node
// for the region.
bool shows_autocast(const Schema& schema, const Type& result,
                    const std::vector<Argument>& arguments);

// Adds the casts that autocast inserts before a call: floating-point tensors are cast to the
// recorded dtype of the call's first `result`. Does not cast float64 tensors, or the inputs of
// views, of mutable calls and of calls that choose a dtype themselves. An optional dtype that was
// not given is set to the result's.
void cast_for_autocast(Graph& graph, const Schema& schema, const Type& result,
                       std::vector<Argument>& arguments, const Location* location);

// Throws if a region that torch.autocast covers records a dtype that autocast does not give.
// torch.export's strict mode records the dtypes that the region's operators have outside of it.
// `device`: the type of the region's device and of its tensors, such as "cpu".
void check_autocast(const Schema& schema, const Type& result,
                    const std::vector<Argument>& arguments, std::string_view device);

}  // namespace onnx_native::aten
