// Arguments of views: sizes, dimensions and permutations.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "aten/graph.h"
#include "aten/op_facts.h"

namespace onnx_native::aten {

// Returns the type of the first argument, a view's base; nullptr if it is not a tensor.
const Type* base_type(const Node& node);

const Argument* find_argument(const Node& node, std::string_view name);
// Returns a number, or the expression of a value if it is known.
std::optional<Dim> size_of(const Argument& argument);
std::optional<int64_t> int_argument(const Node& node, std::string_view name);
std::optional<Dim> size_argument(const Node& node, std::string_view name);
// Returns a dimension counted from the front; nullopt if it is not constant, or if it is negative
// and the rank is unknown.
std::optional<int64_t> dim_argument(const Node& node, std::string_view name);
// Returns the dimension along which a split splits.
std::optional<int64_t> split_dim(const Node& view);

// For views that only reorder dimensions: returns the base dimension of each view dimension;
// nullopt if the rank is unknown or does not match the arguments.
std::optional<std::vector<int64_t>> permutation(const Node& view, ViewKind kind);

}  // namespace onnx_native::aten
