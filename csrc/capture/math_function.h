// Functions of symbolic numbers that PyTorch's C++ nodes do not have.
#pragma once

#include <c10/core/SymNodeImpl.h>

#include <string_view>

#include "capture/decisions.h"

namespace onnx_native::capture {

// Returns trunc, round or a function of Python's math module (sqrt, exp, log, log2, log10, sin,
// cos, tanh) of a number of a recording. round() rounds half to even.
c10::SymNode math_function(std::string_view name, c10::SymNode number, Decisions& decisions);

}  // namespace onnx_native::capture
