// Calls that compute integers from sizes. Evaluates them from the sizes that the model knows,
// independently of the recorded results.
#pragma once

#include <optional>

#include "aten/graph.h"
#include "base/dim.h"
#include "ops/engine/call.h"

namespace onnx_native::ops {

// Returns the result of integer arithmetic, or the size that a call reads from a tensor, computed
// from the lowered operands. Returns nullopt for other calls and for unknown operands.
std::optional<Dim> computed_size(const aten::Node& node, const Environment& environment);

// Returns true if the recorded result may be wrong: torch merges two floor divisions, (n//2)//-3
// into n//-6, even if the second divisor is negative.
bool may_be_misrecorded(const aten::Node& node, const Environment& environment);

}  // namespace onnx_native::ops
