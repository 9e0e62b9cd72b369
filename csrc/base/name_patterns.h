// Patterns of the names of modules and weights.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace onnx_native {

// Returns true if the pattern is that of the name, or of a module that contains it: "encoder" for
// "encoder.fc.weight". "*" stands for any characters, "?" for one.
bool matches_name(std::string_view pattern, std::string_view name);
// Throws ExportError(invalid_argument) for a pattern that matches none of the names. `what` says
// whose pattern it is. The error lists names that are like it.
void check_patterns(std::string_view what, const std::vector<std::string>& patterns,
                    const std::set<std::string>& names);

}  // namespace onnx_native
