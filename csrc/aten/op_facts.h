// Facts about operators: those that their schemas state, and a table of those that they do not.
#pragma once

#include <string_view>
#include <vector>

#include "aten/schema.h"

namespace onnx_native::aten {

// The dtype of an operator's result, given those of its operands.
enum class ResultDtype {
  unknown,
  promoted,           // torch.result_type of its tensors
  promoted_or_float,  // the same, but integers may give floats
  floating,           // the same, always a float
  boolean,
  of_self,  // that of the first tensor
};

// Complex results of real operands.
enum class ComplexResult {
  none,
  made,  // of the operands' precision
  half,  // of float16 parts
};

// How a view looks at its base.
enum class ViewKind {
  none,
  identity,      // shape and elements are the base's
  to,            // identity unless it converts
  contiguous,    // identity unless it copies
  dropout,       // identity where it drops nothing
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

// The strides of results that are not views, where the arguments ask for no memory format.
enum class Strides {
  of_operands,  // contiguous where all operands are
  of_self,      // those of the first tensor, where that has no holes
  packed,       // contiguous, whatever the operands' strides are
  scattered,    // may not be contiguous although all operands are
  of_matmul,    // packed, except that a matrix times a batch of them is transposed
};

struct OpFacts {
  ResultDtype dtype = ResultDtype::unknown;
  ComplexResult complex_result = ComplexResult::none;
  unsigned real_results = 0;  // bit i: result i of complex operands is real
  ViewKind view = ViewKind::none;
  bool hidden_alias = false;  // the results may share memory, which the schema does not say
  Strides strides = Strides::of_operands;
  // The operator that computes what this one writes, where the name does not tell.
  std::string_view functional = {};
  bool idempotent = false;        // applied twice with the same arguments, it does nothing more
  bool uniform = false;           // all elements of the result are equal
  bool check = false;             // see is_check
  bool half_in_autocast = false;  // torch.autocast runs it in half precision

  bool operator==(const OpFacts&) const = default;
};

// OpFacts::functional of operators that write what no operator computes.
constexpr std::string_view kNoFunctional = "none";

// The table's row of the overload, else that of the operator.
const OpFacts& facts_of(const Schema& schema);

// Assertions about sizes, values and metadata, and other calls that compute nothing and write
// nothing: a program is exported for inputs that satisfy them.
bool is_check(const Schema& schema);
// An operator that is no check, writes nothing and has results that may share memory with its
// arguments looks at them by this kind.
ViewKind kind_of(const Schema& schema);
// The in-place operator gives its argument another shape or other strides, and leaves its elements
// alone (torch.Tag.inplace_view): `t_`, `unsqueeze_`, `resize_`.
bool changes_geometry(const Schema& schema);
// Each element of a result follows from the operands' elements at the same place
// (torch.Tag.pointwise).
bool is_pointwise(const Schema& schema);

// What an argument of an operator that rearranges elements says about them and about dimensions.
enum class ArgumentRole {
  other,
  place,    // a tensor that says where elements are
  element,  // a number that becomes an element
  axis,     // one axis or several, all there are of them
  axes,     // the order of all axes
  sizes,
  repeats,  // one factor for each axis
};
ArgumentRole role_of(const SchemaArgument& argument);

// The table, for tests. A row's name is that of an operator, or of one of its overloads.
struct OpFactsRow {
  std::string_view name;
  OpFacts facts;
};
std::vector<OpFactsRow> fact_rows();
std::vector<std::string_view> scattered_families();

}  // namespace onnx_native::aten
