// Evaluation of operators that select, place or count elements, or sum products.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "onnx/graph.h"
#include "passes/elements.h"

namespace onnx_native::passes {

// The inputs of a node, of dtypes that has_elements() accepts. The first one is present.
using FoldInputs = std::vector<std::optional<Elements>>;
// Returns the first result; nullopt if it would have more than `limit` elements, or if ONNX or
// runtimes leave it undefined.
using Fold = std::optional<Elements> (*)(const onnx::Node& node, const FoldInputs& inputs,
                                         int64_t limit);

// These return nullptr for an operator of another kind.
Fold find_indexing_fold(std::string_view op_type);
Fold find_product_fold(std::string_view op_type);
// Returns a result of a Split.
std::optional<Elements> fold_split(const onnx::Node& node, const FoldInputs& inputs, size_t output);

// Counts an axis from the first one; nullopt if it is out of range.
std::optional<size_t> axis_of(int64_t axis, size_t rank);

}  // namespace onnx_native::passes
