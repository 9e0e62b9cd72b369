// Compares two expressions as far as ranges prove an order. Correct near the limits of int64 too,
// where the difference of the expressions wraps.
#pragma once

#include "base/dim.h"

namespace onnx_native {

// Returns true if the order is proved. Assumes that input sizes are at least 1 if
// `inputs_positive`.
bool known_at_least(const Dim& a, const Dim& b, bool inputs_positive = false);
bool known_greater(const Dim& a, const Dim& b, bool inputs_positive = false);

}  // namespace onnx_native
