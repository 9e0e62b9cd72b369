// Strides of tensors, and the conditions on sizes under which operators copy.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "aten/graph.h"

namespace onnx_native::aten {

// A stride in elements; nullopt if unknown.
using Stride = std::optional<Dim>;

// The layout of a tensor of known rank.
struct Layout {
  std::vector<Stride> strides;  // one per dimension
  Stride offset;                // of the first element in the storage; may be unknown
};

// These return nullopt if the rank is unknown.
std::optional<Layout> contiguous_layout(const Type& type);
std::optional<Layout> unknown_layout(const Type& type);

// Returns the layout of a value in the example; an unknown one unless it is an input.
std::optional<Layout> layout_of_input(const Graph& graph, const Value* value);
// Returns the strides that a tensor had in the example; nullopt if it was contiguous.
std::optional<std::vector<Stride>> scattered_strides(const Type& type, const Shape& strides);

// Returns the strides that view a layout of the shape `from` as the shape `to` without a copy. They
// are unknown if the sizes do not determine them.
Layout layout_of_reshape(const Shape& from, const Layout& layout, const Shape& to);

// A condition on sizes, in conjunctive form: in each clause at least one case holds, and in a case
// all equalities hold. Assumes that all sizes are positive, because an empty tensor shares no
// elements.
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
  std::vector<Clause> clauses;  // only if `truth` is `depends`
};

// The condition that a tensor of this type and layout is contiguous in the memory format
// ("contiguous_format", "channels_last", "channels_last_3d").
Condition is_contiguous(const Type& type, const Layout& layout, std::string_view format);
bool known_contiguous(const Type& type, const std::optional<Layout>& layout);
// The condition that a tensor of these sizes and layout can be viewed as `to` without a copy.
Condition is_viewable(const Shape& from, const Layout& layout, const Shape& to);
// The condition that two shapes of the same rank are equal.
Condition are_equal(const Shape& a, const Shape& b);

// Returns true if it is proved that no two elements share memory.
bool is_known_to_not_overlap(const Shape& shape, const Layout& layout);
// Returns true if it is proved that two elements share memory. Assumes that symbolic sizes are
// large, except those of expanded dimensions, which may be 1.
bool is_known_to_overlap(const Shape& shape, const Layout& layout);

// Returns the size as an argument: a number or a value.
Argument make_size(Graph& graph, const Dim& size, const Location* location);
// Emits a condition that depends on sizes; returns a sym_bool.
Value* emit(Graph& graph, const Condition& condition, const Location* location);

}  // namespace onnx_native::aten
