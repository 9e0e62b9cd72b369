// The module scopes of nodes.
#pragma once

#include <cstddef>

#include "onnx/graph.h"

namespace onnx_native::passes {

// Returns the number of outermost scopes that are the same calls of the same modules.
size_t common_scopes(const Location& a, const Location& b);
// Returns `a` without the scopes that do not contain `b`. The model owns a new location. nullptr
// has no scopes.
const Location* common_location(onnx::Model& model, const Location* a, const Location* b);
// Returns only the `count` outermost scopes of `location`.
Location outer_scopes(const Location& location, size_t count);
// Returns `location` without its `count` outermost scopes; module names become relative to them.
Location inner_scopes(const Location& location, size_t count);

}  // namespace onnx_native::passes
