// Memory that a program must not write to, because its capture is wrong if it does.
#pragma once

#include <string_view>

namespace onnx_native::aten {

// A call that marks such memory. Its arguments are a tensor and the reason, which completes the
// sentence "the program writes to ...". It computes nothing; functionalize drops it.
inline constexpr std::string_view kUnwritable = "onnx_native::unwritable";

}  // namespace onnx_native::aten
