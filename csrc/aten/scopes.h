// The modules and regions around a call, as recorded by torch.export.
#pragma once

#include <string_view>

#include "base/error.h"

namespace onnx_native::aten {

// Adds the next inner scope from an entry of nn_module_stack. `key` ends with "@n" from the second
// call of a module on.
void add_scope(Location& location, std::string_view key, std::string_view path,
               std::string_view class_name);
// Sets module_path from the last entries of module_names and class_names.
void set_module_path(Location& location);

// Returns the location of a call of a subgraph that becomes a function (invoke_subgraph): `call`
// with the subgraph as the innermost scope.
Location in_region(const Location& call, std::string_view subgraph);
// Returns the location of a subgraph's node in the call `region`. The node's own location records
// the modules around the first call of the subgraph.
Location within(const Location& region, Location inner);

}  // namespace onnx_native::aten
