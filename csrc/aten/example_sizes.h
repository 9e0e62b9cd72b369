// Checks of what a program assumes about dynamic sizes.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "aten/graph.h"

namespace onnx_native::aten {

// The values that symbols had in the example, if the reader knows them.
using Hints = std::unordered_map<std::string, int64_t>;

// Throws ExportError(unsupported) for a squeeze of a dynamic dimension whose size was 1 in the
// example: the exported program would keep the dimension even for the example inputs.
void check_squeezes(const Graph& graph, const Hints& hints);

// Returns a message for each squeeze of a dimension whose size may be 1 at run time: the exported
// program keeps the dimension, and eager then removes it.
std::vector<std::string> kept_dimensions(const Graph& graph);

// Returns a message for each reshape that fixes a dynamic size: its result has a fixed number of
// elements.
std::vector<std::string> fixed_dimensions(const Graph& graph);

// Returns a message for each reshape or expansion with a number in the place of a dynamic size that
// had this value in the example, if the program's results no longer depend on the size.
std::vector<std::string> fixed_examples(const Graph& graph, const Hints& hints);

// Returns a message for each chunk of a dynamic size whose number of pieces depends on the size:
// the exported program has the number of the example.
std::vector<std::string> fixed_counts(const Graph& graph);

}  // namespace onnx_native::aten
