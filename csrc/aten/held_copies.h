// Lists whose length is not known are tables that hold copies of their tensors. To the program a
// copy and its original are one object.
#pragma once

#include <string_view>

namespace onnx_native::aten {

// A call that records such copies: (copies, originals, whether the copies may hold one original
// more than once, whether this is the body of a loop, originals that each step of that loop is
// given). It computes nothing; functionalize drops it.
inline constexpr std::string_view kHoldsCopies = "onnx_native::holds_copies";

}  // namespace onnx_native::aten
