// Which modules nodes belong to.
#pragma once

#include <cstddef>

#include "onnx/graph.h"

namespace onnx_native::passes {

// How many scopes, from the outside in, are the same calls of the same modules.
size_t common_scopes(const Location& a, const Location& b);
// `a`, without the scopes that `b` is not in; the model owns what is new. No location is in no
// scope.
const Location* common_location(onnx::Model& model, const Location* a, const Location* b);
// The `count` outermost scopes of `location` alone.
Location outer_scopes(const Location& location, size_t count);
// The scopes of `location` inside the `count` outermost ones, named from there.
Location inner_scopes(const Location& location, size_t count);

}  // namespace onnx_native::passes
