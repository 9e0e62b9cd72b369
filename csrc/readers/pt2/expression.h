// Symbolic sizes as `.pt2` archives hold them: sympy's constructor calls,
// "Add(Symbol('s77', positive=True, integer=True), Integer(1))".
#pragma once

#include <optional>
#include <string_view>

#include "base/dim.h"

namespace onnx_native::readers::pt2 {

// nullopt when the text is no integer expression of known functions, or is nested too deeply.
std::optional<Dim> parse_expression(std::string_view text);

}  // namespace onnx_native::readers::pt2
