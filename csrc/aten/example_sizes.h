// What the sizes of the example inputs say of a program.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>

#include "aten/graph.h"

namespace onnx_native::aten {

// What symbols stood for in the example, where a reader knows it.
using Hints = std::unordered_map<std::string, int64_t>;

// Throws ExportError(unsupported) for a squeeze of a dynamic dimension whose size was 1 in the
// example: the program would keep the dimension for the very inputs that it was captured with.
void check_squeezes(const Graph& graph, const Hints& hints);

}  // namespace onnx_native::aten
