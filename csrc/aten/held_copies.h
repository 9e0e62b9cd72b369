// Copies held by lists. A list of unknown length becomes a table that holds copies of its tensors,
// although in the program a copy and its original are the same object.
#pragma once

#include <string_view>

namespace onnx_native::aten {

// A call that records such copies. Its arguments are the copies, the originals, a flag that the
// copies may hold one original more than once, a flag that this graph is the body of a loop, and
// the originals passed to every iteration of that loop. It computes nothing; functionalize drops
// it.
inline constexpr std::string_view kHoldsCopies = "onnx_native::holds_copies";

}  // namespace onnx_native::aten
