// Copies of graphs.
#pragma once

#include <functional>
#include <memory>

#include "aten/graph.h"

namespace onnx_native::aten {

// Returns a copy of a graph, with its subgraphs. Weights are shared. `type` maps the types of its
// values to those of the copy's.
std::unique_ptr<Graph> copy(
    const Graph& graph,
    const std::function<Type(const Type&)>& type = [](const Type& same) { return same; });

}  // namespace onnx_native::aten
