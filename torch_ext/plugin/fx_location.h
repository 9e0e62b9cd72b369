// Where a node comes from: the user's source line and module, out of node.meta.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"
#include "plugin/fx_objects.h"

namespace onnx_native::plugin {

// Reads the last frame of a stack trace that is not torch's own: `File "/a/model.py", line 42, in
// f` and the next line give "model.py:42" and its code.
void read_stack_trace(std::string_view trace, Location& location);

// The location of a node with this metadata (a dict).
Location read_location(PyObject* meta, std::string_view node_name);

}  // namespace onnx_native::plugin
