// Which operators make views, and the arguments that say how a view looks at its base.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "aten/graph.h"

namespace onnx_native::aten {

// How a view looks at its base.
enum class ViewKind {
  none,
  identity,      // shape and elements are the base's
  to,            // identity unless it converts
  contiguous,    // identity unless it copies
  reshape,       // another shape over the same elements in the same order
  copy_reshape,  // the same, or a copy where strides forbid a view
  expand,
  select,
  slice,
  narrow,
  diagonal,
  as_strided,
  unfold,
  transpose,
  permute,
  movedim,
  reverse,         // numpy_T: all dimensions reversed
  last_two,        // t of a matrix, mT
  conjugate_last,  // mH, adjoint: last_two for real tensors
  conjugate,       // conj: identity for real tensors
  conjugate_copy,  // identity for real tensors, else a copy
  real,            // identity for real tensors
  sum_to_size,     // identity unless it sums
  imag,
  unbind,
  split,
  view_as_real,
  view_as_complex,
  several,  // one view for each tensor of a list
  einsum,   // a view when there is one operand and no sum
  other,    // views through which nothing can be written
};

ViewKind kind_of(const Schema& schema);

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
