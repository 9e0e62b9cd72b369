// The modules and regions around a call, as recorded by torch.export.
#pragma once

#include <cstddef>
#include <string_view>

#include "base/error.h"

namespace onnx_native::aten {

// The most scopes that a location lists, the outermost ones. The names of a scope have the names of
// those around it, so that complete lists grow with the cube of the depth.
inline constexpr size_t kMostScopes = 32;

// Adds the next inner scope from an entry of nn_module_stack, and sets module_path. `key` ends with
// "@n" from the second call of a module on.
void add_scope(Location& location, std::string_view key, std::string_view path,
               std::string_view class_name);

// Returns the location of a call of a subgraph that becomes a function (invoke_subgraph): `call`
// with the subgraph as the innermost scope.
Location in_region(const Location& call, std::string_view subgraph);
// Returns the location of a subgraph's node in the call `region`. The node's own location records
// the modules around the first call of the subgraph.
Location within(const Location& region, Location inner);

}  // namespace onnx_native::aten
