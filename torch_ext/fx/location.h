// Where a node comes from: the user's source line and module, out of node.meta.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"
#include "fx/objects.h"

namespace onnx_native::fx {

// The location of a node with this metadata (a dict).
Location read_location(PyObject* meta, std::string_view node_name);

}  // namespace onnx_native::fx
