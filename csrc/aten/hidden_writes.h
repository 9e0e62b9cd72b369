// Operators that write to arguments without declaring it in their schemas.
#pragma once

#include <array>
#include <cstddef>

#include "aten/graph.h"

namespace onnx_native::aten {

// Rewrites them into operators whose schemas declare the writes: batch_norm and instance_norm with
// batch statistics, which update the running statistics.
void reveal_hidden_writes(Graph& graph);

// Returns true if the call updates running statistics: the arguments at kStatistics.
bool updates_statistics(const Node& node);
constexpr std::array<size_t, 2> kStatistics{3, 4};

}  // namespace onnx_native::aten
