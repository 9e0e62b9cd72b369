// The arguments that say how a view looks at its base.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "aten/graph.h"
#include "aten/op_facts.h"

namespace onnx_native::aten {

// The type of the first argument, a view's base; nullptr when it is not a tensor.
const Type* base_type(const Node& node);

const Argument* find_argument(const Node& node, std::string_view name);
// A number, or a value whose expression is known.
std::optional<Dim> size_of(const Argument& argument);
std::optional<int64_t> int_argument(const Node& node, std::string_view name);
std::optional<Dim> size_argument(const Node& node, std::string_view name);
// A dimension, counted from the front; nullopt when the rank is needed and not known.
std::optional<int64_t> dim_argument(const Node& node, std::string_view name);
// The dimension along which a split splits.
std::optional<int64_t> split_dim(const Node& view);

// For views that only reorder dimensions: which of the base's dimensions each of the view's is;
// nullopt where the rank is not known or the arguments do not fit it.
std::optional<std::vector<int64_t>> permutation(const Node& view, ViewKind kind);

}  // namespace onnx_native::aten
