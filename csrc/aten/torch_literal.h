// Conversion of constant IValues to arguments.
#pragma once

#include <ATen/core/ivalue.h>

#include "aten/graph.h"

namespace onnx_native::aten {

// Converts a number, string, device, enumeration, None, or a list of these. Returns None for any
// other value.
Argument literal_argument(const c10::IValue& value, const SchemaType& type);

}  // namespace onnx_native::aten
