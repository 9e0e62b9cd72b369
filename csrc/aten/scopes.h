// The modules and regions around a call, as torch.export records them.
#pragma once

#include <string_view>

#include "base/error.h"

namespace onnx_native::aten {

// Adds the next inner scope from an entry of nn_module_stack: `key` ends with "@n" from the second
// call of a module on.
void add_scope(Location& location, std::string_view key, std::string_view path,
               std::string_view class_name);
// Sets module_path from the last of module_names and class_names.
void set_module_path(Location& location);

// The place of a call of a sub-graph that becomes a function of its own (invoke_subgraph): `call`
// with the sub-graph as the innermost scope.
Location in_region(const Location& call, std::string_view subgraph);
// The place of a node of a sub-graph, which records the modules around the sub-graph's first call,
// in the call `region`.
Location within(const Location& region, Location inner);

}  // namespace onnx_native::aten
