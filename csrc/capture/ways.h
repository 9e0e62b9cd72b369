// A program that takes another way for some sizes of its inputs, as one graph.
#pragma once

#include <memory>

#include "aten/graph.h"
#include "capture/decisions.h"

namespace onnx_native::capture {

// Returns the graph of a program that was recorded twice: `yes` is valid where the condition of the
// guard is true, `no` where it is false. Calls that both have are made once. Where they differ, the
// graph has a higher_order::cond. Both graphs are functional. Their sizes are expressions of the
// same symbols. Returns nullptr if they are the same graph.
// Throws ExportError(unsupported) if one graph cannot hold both: the ways return numbers that
// differ, or write to different buffers.
std::unique_ptr<aten::Graph> join_ways(const Guard& guard, const aten::Graph& yes,
                                       const aten::Graph& no);

// Returns true if both graphs have the same calls.
bool are_same_ways(const Guard& guard, const aten::Graph& yes, const aten::Graph& no);

}  // namespace onnx_native::capture
