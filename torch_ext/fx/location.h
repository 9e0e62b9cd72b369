// Reads the user's source line and modules from node.meta.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"
#include "fx/objects.h"

namespace onnx_native::fx {

// Returns the location that the dict `meta` records. Fields without metadata are empty.
Location read_location(PyObject* meta, std::string_view node_name);

}  // namespace onnx_native::fx
