// Calls that compute integers from sizes: what the model knows of them, beside what the program
// records.
#pragma once

#include <optional>

#include "aten/graph.h"
#include "base/dim.h"
#include "ops/engine/call.h"

namespace onnx_native::ops {

// The integer that arithmetic gives, or the size that a call asks a tensor for, computed from what
// became of its operands; nullopt for other calls, and where an operand is not known.
std::optional<Dim> computed_size(const aten::Node& node, const Environment& environment);

// The program may record a wrong result: torch joins two floor divisions into one, (n//2)//-3 into
// n//-6, also where the second divisor is negative.
bool may_be_misrecorded(const aten::Node& node, const Environment& environment);

}  // namespace onnx_native::ops
