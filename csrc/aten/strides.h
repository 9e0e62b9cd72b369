// Where the elements of tensors lie in memory, and what that says of copies: conditions on sizes.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "aten/graph.h"

namespace onnx_native::aten {

// In elements; nullopt: not known.
using Stride = std::optional<Dim>;

// Of a tensor of known rank.
struct Layout {
  std::vector<Stride> strides;  // one per dimension
  Stride offset;                // of its first element in the storage
};

// These return nullopt when the rank is not known.
std::optional<Layout> contiguous_layout(const Type& type);
std::optional<Layout> unknown_layout(const Type& type);

// The strides that let a layout of these sizes be seen as `to` without a copy; not known where the
// sizes do not tell.
Layout layout_of_reshape(const Shape& from, const Layout& layout, const Shape& to);

// A statement on sizes: in each of its clauses one case holds, in a case all equalities. It takes
// all sizes to be positive: a tensor without elements shares none.
struct Condition {
  struct Equality {
    Dim a, b;
    bool equal = true;  // false: a != b
    bool operator==(const Equality&) const = default;
  };
  using Case = std::vector<Equality>;
  using Clause = std::vector<Case>;
  enum class Truth { holds, fails, depends, unknown };

  Truth truth = Truth::holds;
  std::vector<Clause> clauses;  // when it depends on sizes
};

// A tensor of this type and layout is contiguous in the memory format ("contiguous_format",
// "channels_last", "channels_last_3d").
Condition is_contiguous(const Type& type, const Layout& layout, std::string_view format);
// A tensor of these sizes and this layout can be seen as `to` without a copy.
Condition is_viewable(const Shape& from, const Layout& layout, const Shape& to);
// The shapes, of one rank, are equal.
Condition are_equal(const Shape& a, const Shape& b);

// The element at any place is at a place of its own in memory.
bool is_known_to_not_overlap(const Shape& shape, const Layout& layout);
// Two elements are at one place in memory. Takes symbolic sizes to be large, except those of
// expanded dimensions, which may be 1.
bool is_known_to_overlap(const Shape& shape, const Layout& layout);

// An argument that is this size: a number or a value.
Argument make_size(Graph& graph, const Dim& size, const Location* location);
// Emits a condition that depends on sizes; a sym_bool.
Value* emit(Graph& graph, const Condition& condition, const Location* location);

}  // namespace onnx_native::aten
