// How the operands and the results of a recorded call lie in memory.
#pragma once

#include <vector>

#include "aten/graph.h"
#include "capture/call.h"

namespace onnx_native::capture {

// Gives the operands of the call's node their layouts if no call of the program made them.
void settle_operands(const Call& call, const aten::Node& node);
// Gives the results their layouts.
void record_layouts(const Call& call, const aten::Node& node, const std::vector<at::Tensor>& metas);
// Returns true if contiguous() returns its argument at all sizes. If it does only in the example,
// the result must not be the argument itself.
bool is_always_same(const Call& call);
// Notes the condition for view(), which fails where the sizes demand a copy.
void check_view(const Call& call, const aten::Node& node);

}  // namespace onnx_native::capture
