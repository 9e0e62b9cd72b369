// Finds the names of a program's symbols.
#pragma once

#include <set>
#include <string>

#include "readers/pt2/json.h"

namespace onnx_native::readers::pt2 {

// Returns the identifiers of all expressions in a program: symbols, and functions of sizes.
std::set<std::string> symbols_of(const Json& program);

}  // namespace onnx_native::readers::pt2
