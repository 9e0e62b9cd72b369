// What torch.export writes down that an exported model does not need.
#pragma once

#include <string_view>

namespace onnx_native::aten {

// Assertions about sizes, values and metadata, by operator name without overload, and messages to
// the console: a program is exported for inputs that satisfy them, and computes.
bool is_check(std::string_view name);
// Higher-order operators that only say how their body is run ("higher_order::wrap"): the body takes
// the call's place.
bool is_transparent(std::string_view op);

}  // namespace onnx_native::aten
