// Floats that follow from sizes: n / 4 + 1.
#pragma once

#include <optional>

#include "base/dim.h"
#include "onnx/graph.h"

namespace onnx_native::onnx {

// Returns the integer that a float tensor with one element has after a conversion, which rounds
// toward zero; nullopt if it does not follow from sizes. The nodes before it compute sums, products
// and quotients of sizes and numbers with few binary digits, with one rounding at most, so that
// float32 gives the exact integer for sizes below 2**22.
std::optional<Dim> integer_of_fraction(const Value& value);

}  // namespace onnx_native::onnx
