// Facts about operators, from their schemas and from a table of facts that the schemas omit.
#pragma once

#include <span>
#include <string_view>

#include "aten/schema.h"

namespace onnx_native::aten {

// The rule for the dtype of an operator's result.
enum class ResultDtype {
  unknown,
  promoted,           // torch.result_type of the tensors
  promoted_or_float,  // like promoted, but integers may give floats
  floating,           // like promoted, but always floating-point
  boolean,
  of_self,  // the dtype of the first tensor
};

// The precision of complex results of real operands.
enum class ComplexResult {
  none,
  made,  // the precision of the operands
  half,  // float16 parts
};

// The mapping from a base to its view.
enum class ViewKind {
  none,
  identity,      // same shape and elements as the base
  to,            // identity unless it converts
  contiguous,    // identity unless it copies
  dropout,       // identity if it drops nothing
  reshape,       // another shape for the same elements in the same order
  copy_reshape,  // reshape, or a copy if the strides rule out a view
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
  reverse,         // numpy_T: reverses all dimensions
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
  einsum,   // a view for a single operand without a sum
  other,    // views that cannot be written through
};

// Facts about a kind of views, as far as they are known for all its operators.
struct ViewFacts {
  bool moves_elements = false;  // the view has elements of the base as they are
  bool scatters = false;        // a view of a contiguous tensor may be non-contiguous
  bool keeps_order = false;     // the dimensions stay in memory order

  bool operator==(const ViewFacts&) const = default;
};
ViewFacts facts_of(ViewKind kind);

// The strides of results that are not views, if the arguments request no memory format.
enum class Strides {
  of_operands,  // contiguous if all operands are
  of_self,      // the strides of the first tensor if it is dense
  packed,       // always contiguous
  scattered,    // may be non-contiguous even if all operands are contiguous
  of_matmul,    // packed, except that a matrix times a batch of matrices is transposed
  of_pad,       // packed, except for images in another memory format and where nothing is padded
};

// The results after the first, which are for the backward pass.
enum class Saved {
  nothing,
  statistics,  // results 1 and 2: the mean and the deviation by which the operator normalizes
  by_kernel,   // their sizes depend on the kernel
};

// The quantization of the results if the first tensor is quantized.
enum class Quantized {
  unknown,
  kept,     // the results have elements of the operand
  rounded,  // to the scale and zero point of the operand
};

// Says when torch.autocast casts tensors of different dtypes to the widest of these dtypes.
enum class Widens { never, on_cuda, always };

struct OpFacts {
  ResultDtype dtype = ResultDtype::unknown;
  ComplexResult complex_result = ComplexResult::none;
  unsigned real_results = 0;  // bit i: result i is real if the operands are complex
  ViewKind view = ViewKind::none;
  bool hidden_alias = false;  // the results may alias, but the schema does not say so
  Strides strides = Strides::of_operands;
  // The functional operator, if it does not follow from the name.
  std::string_view functional = {};
  bool idempotent = false;        // a second application with the same arguments has no effect
  bool uniform = false;           // all elements of the result are equal
  bool check = false;             // see is_check
  bool half_in_autocast = false;  // torch.autocast runs it in half precision
  Widens widens = Widens::never;
  bool pointwise = false;       // see is_pointwise
  bool reads_elements = false;  // numbers or sizes of results depend on elements, without a tag
  bool of_dtypes = false;       // the result follows from the dtypes of the operands
  bool uninitialized = false;   // the elements of the result have no particular values
  bool fills_randomly = false;  // draws independently of the first tensor's elements
  bool joins_devices = false;   // takes tensors on several devices; the first one's is the result's
  unsigned cpu_results = 0;     // bit i: result i is on the CPU, wherever the operands are
  Saved saved = Saved::nothing;
  Quantized quantized = Quantized::unknown;  // see quantized_of

  bool operator==(const OpFacts&) const = default;
};

// OpFacts::functional of operators that have no functional form.
constexpr std::string_view kNoFunctional = "none";

// Returns the table's row for the overload, else the row for the operator.
const OpFacts& facts_of(const Schema& schema);

// Returns true for assertions about sizes, values and metadata, and for other calls that neither
// compute nor write anything. A program is exported for inputs that satisfy its assertions.
bool is_check(const Schema& schema);
// Returns the view kind of an operator that is not a check, writes nothing and has results that may
// alias its arguments; ViewKind::none for other operators.
ViewKind kind_of(const Schema& schema);
// Returns true if an in-place operator changes the shape or the strides of its argument but not its
// elements (torch.Tag.inplace_view): `t_`, `unsqueeze_`, `resize_`.
bool changes_geometry(const Schema& schema);
// Returns true if such an operator gives its argument another shape or another order of dimensions
// for the same elements: `t_`, `unsqueeze_`, but not `resize_`.
bool reshapes_in_place(const Schema& schema);
// Returns true if each element of a result depends only on the operands' elements at the same
// position (torch.Tag.pointwise, which some operators lack). Operands are broadcast to each other,
// or to the one that the operator writes to.
bool is_pointwise(const Schema& schema);
// Returns true if the call reads the one element of its tensor: `item`.
bool is_item(const Schema& schema);
// Returns the mapping to the result whose shape is an argument: ViewKind::reshape for `view`,
// ViewKind::expand for `expand`. The result may be a copy: `view_copy`. ViewKind::none for other
// operators.
ViewKind kind_by_shape(const Schema& schema);
// Returns true for a split into as many pieces as the arguments say, whatever the size:
// `split_with_sizes` and `tensor_split`, but not `chunk`, which may return fewer.
bool has_fixed_pieces(const Schema& schema);
// Returns true for recurrent networks over packed sequences: `lstm.data`.
bool is_over_packed_sequence(const Schema& schema);
Quantized quantized_of(const Schema& schema);

// The role of an argument of an operator that rearranges elements.
enum class ArgumentRole {
  other,
  place,    // a tensor of element positions
  element,  // a number that becomes an element of the result
  axis,     // one or several axes
  axes,     // a permutation of all axes
  sizes,
  repeats,  // one factor per axis
};
ArgumentRole role_of(const SchemaArgument& argument);

// The table: op_fact_rows.cpp. A row names an operator or one of its overloads.
struct OpFactsRow {
  std::string_view name;
  OpFacts facts;
};
std::span<const OpFactsRow> fact_rows();
std::span<const std::string_view> scattered_families();

}  // namespace onnx_native::aten
