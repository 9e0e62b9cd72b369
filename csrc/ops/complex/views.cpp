// Rearranges complex tensors with the lowerings for real ones: on pairs if the arguments can
// express it, else on the real and imaginary parts separately.
#include <algorithm>
#include <functional>
#include <numbers>

#include "ops/complex/real_call.h"
#include "ops/engine/lower.h"
#include "ops/formulas/complex.h"
#include "ops/formulas/numeric.h"

namespace onnx_native::ops {
namespace {

void define(OpTable& ops, std::string_view op,
            Results (*run)(const Call& call, const Lowering& dense)) {
  const Lowering& dense = dense_lowering(ops, op);
  ops.add(op, Key::complex,
          {.run = [dense, run](const Call& call) { return run(call, dense); },
           .parameters = dense.parameters});
}

// --- On pairs: axes do not count the last axis of pairs, and sizes get an extra element for it.

// Returns the call's complex tensors as pairs.
Values all_pairs(const Call& call) {
  Values pairs;
  const std::function<void(const aten::Argument&)> visit = [&](const aten::Argument& argument) {
    if (const auto* list = argument.get<aten::Argument::List>()) {
      for (const aten::Argument& element : *list) visit(element);
    } else if (argument.as_value() && is_complex(argument)) {
      pairs.push_back(call.lowered(argument.as_value()).value);
    }
  };
  for (const aten::Argument& argument : call.node().arguments) visit(argument);
  return pairs;
}

void append(aten::Argument& list, int64_t element) {
  if (!list.get<aten::Argument::List>()) list = aten::Argument::List{list};
  std::get<aten::Argument::List>(list.value).emplace_back(element);
}

bool names_axes(ArgumentRole role) {
  return role == ArgumentRole::axis || role == ArgumentRole::axes;
}

Results run_on_pairs(const Call& call, const Lowering& dense) {
  Builder& b = call.builder();
  const std::string_view op = call.node().op;
  if (op == "aten::index_put" && !is_complex(call.argument(0))) {  // it casts complex values
    const DType dtype = call.tensor(0)->dtype;
    return run_through(call, dense,
                       [dtype](Builder& b, Value pairs) { return real_cast(b, pairs, dtype); });
  }
  const Values pairs = all_pairs(call);
  const int64_t rank = pairs.at(0)->rank() - 1;
  if (std::ranges::all_of(pairs, is_joined)) return run_on_parts(call, dense);
  const bool adds_axis = op.starts_with("aten::unsqueeze") || op == "aten::stack";
  if (rank == 0 && !adds_axis) {
    for (size_t i = 0; i < call.size(); ++i) {
      if (names_axes(role_of(call, i))) return run_on_parts(call, dense);
    }
  }
  RealCall real(call);
  for (size_t i = 0; i < call.size(); ++i) {
    const ArgumentRole role = role_of(call, i);
    real.rewrite(i, [&](const aten::Argument& argument) -> aten::Argument {
      if (const auto* axis = argument.get<int64_t>())
        return names_axes(role) ? normalize_axis(*axis, rank + adds_axis) : *axis;
      const aten::Value* value = argument.as_value();
      if (!value || !value->type.is_tensor() || role == ArgumentRole::place) return argument;
      const Value tensor = call.lowered(value).value;
      if (is_complex(argument)) return real.replaced(*value, tensor);
      return real.replaced(*value, join(b, {b.cast(tensor, part_dtype(call))}));
    });
    aten::Argument& argument = real.node().arguments[i];
    if (role == ArgumentRole::axes && op.starts_with("aten::permute")) append(argument, rank);
    if (role == ArgumentRole::sizes) append(argument, 2);
    if (role == ArgumentRole::repeats) append(argument, 1);
  }
  real.retype_results(lowered_type);
  return real.run(dense);
}

// Creates a tensor of real numbers; if the result is complex, its imaginary part is 0.
Results run_real(const Call& call, const Lowering& dense) {
  const Value value = run_on_part(call, dense, false).at(0).value;
  if (!is_complex(call.result_type(0).dtype)) return {value};
  return {join(call.builder(), {value})};
}

// Complex normal numbers have variance 1, so each part has variance 1/2.
Results run_normal(const Call& call, const Lowering& dense) {
  if (!is_complex(call.result_type(0).dtype)) return run_on_part(call, dense, false);
  const Value pairs = run_on_parts(call, dense).at(0).value;
  Builder& b = call.builder();
  return {b.Mul(pairs, b.like(pairs, 1 / std::numbers::sqrt2))};
}

Value swap_matrix(Builder& b, Value pairs) {
  const int64_t rank = pairs->rank() - 1;
  return rank < 2 ? pairs : b.swap_axes(pairs, rank - 2, rank - 1);
}

}  // namespace

void register_complex_views(OpTable& ops) {
  for (std::string_view op : {"aten::view",
                              "aten::reshape",
                              "aten::_unsafe_view",
                              "aten::flatten.using_ints",
                              "aten::unflatten.int",
                              "aten::squeeze",
                              "aten::squeeze.dim",
                              "aten::squeeze.dims",
                              "aten::unsqueeze",
                              "aten::transpose.int",
                              "aten::swapaxes",
                              "aten::swapdims",
                              "aten::permute",
                              "aten::movedim.intlist",
                              "aten::movedim.int",
                              "aten::moveaxis.intlist",
                              "aten::moveaxis.int",
                              "aten::expand",
                              "aten::broadcast_to",
                              "aten::repeat",
                              "aten::select.int",
                              "aten::select_copy.int",
                              "aten::slice.Tensor",
                              "aten::slice_copy.Tensor",
                              "aten::narrow",
                              "aten::narrow_copy",
                              "aten::unbind.int",
                              "aten::split.Tensor",
                              "aten::split_with_sizes",
                              "aten::split.sizes",
                              "aten::chunk",
                              "aten::tensor_split.sections",
                              "aten::tensor_split.indices",
                              "aten::flip",
                              "aten::cat",
                              "aten::concat",
                              "aten::concatenate",
                              "aten::stack",
                              "aten::index.Tensor",
                              "aten::index_select",
                              "aten::index_put",
                              "aten::slice_scatter",
                              "aten::select_scatter",
                              "aten::clone",
                              "aten::detach",
                              "aten::alias",
                              "aten::contiguous",
                              "aten::positive",
                              "aten::resolve_conj",
                              "aten::resolve_neg",
                              "aten::lift_fresh_copy",
                              "aten::detach_copy"})
    define(ops, op, run_on_pairs);
  for (std::string_view op : {"aten::ravel",
                              "aten::view_as",
                              "aten::reshape_as",
                              "aten::expand_as",
                              "aten::roll",
                              "aten::fft_fftshift",
                              "aten::fft_ifftshift",
                              "aten::rot90",
                              "aten::fliplr",
                              "aten::flipud",
                              "aten::tile",
                              "aten::unfold",
                              "aten::as_strided",
                              "aten::diagonal",
                              "aten::diag_embed",
                              "aten::diag",
                              "aten::diagflat",
                              "aten::linalg_diagonal",
                              "aten::diagonal_scatter",
                              "aten::tril",
                              "aten::triu",
                              "aten::gather",
                              "aten::take",
                              "aten::take_along_dim",
                              "aten::put",
                              "aten::nan_to_num",
                              "aten::as_strided_scatter",
                              "aten::uniform",
                              "aten::masked_select",
                              "aten::masked_fill.Scalar",
                              "aten::masked_fill.Tensor",
                              "aten::masked_scatter",
                              "aten::where.self",
                              "aten::where.ScalarSelf",
                              "aten::where.ScalarOther",
                              "aten::where.Scalar",
                              "aten::scatter.src",
                              "aten::scatter.value",
                              "aten::scatter_add",
                              "aten::index_add",
                              "aten::index_copy",
                              "aten::index_fill.int_Scalar",
                              "aten::index_fill.int_Tensor",
                              "aten::hstack",
                              "aten::vstack",
                              "aten::dstack",
                              "aten::column_stack",
                              "aten::broadcast_tensors",
                              "aten::meshgrid",
                              "aten::meshgrid.indexing",
                              "aten::constant_pad_nd",
                              "aten::pad",
                              "aten::copy",
                              "aten::fill.Scalar",
                              "aten::fill.Tensor",
                              "aten::full",
                              "aten::full_like",
                              "aten::new_full",
                              "aten::scalar_tensor",
                              "aten::rand",
                              "aten::rand_like",
                              "aten::atleast_1d",
                              "aten::atleast_2d",
                              "aten::atleast_3d",
                              "aten::atleast_1d.Sequence",
                              "aten::atleast_2d.Sequence",
                              "aten::atleast_3d.Sequence",
                              "aten::block_diag"})
    define(ops, op, run_on_parts);

  for (std::string_view op :
       {"aten::zeros", "aten::zeros_like", "aten::new_zeros", "aten::ones", "aten::ones_like",
        "aten::new_ones", "aten::empty.memory_format", "aten::empty_like", "aten::new_empty",
        "aten::empty_strided", "aten::new_empty_strided", "aten::eye", "aten::eye.m",
        "aten::linspace", "aten::logspace", "aten::zero"})
    define(ops, op, run_real);
  for (std::string_view op : {"aten::randn", "aten::randn_like"}) define(ops, op, run_normal);

  for (std::string_view op : {"aten::t", "aten::mT"}) ops.def(op, Key::complex, swap_matrix);
  for (std::string_view op : {"aten::mH", "aten::adjoint", "aten::matrix_H"}) {
    ops.def(op, Key::complex,
            [](Builder& b, Value self) { return conjugate(b, swap_matrix(b, self)); });
  }
  ops.def("aten::numpy_T", Key::complex, [](Builder& b, Value self) {
    Ints permutation;
    const int64_t rank = self->rank() - 1;
    for (int64_t axis = rank; axis-- > 0;) permutation.push_back(axis);
    permutation.push_back(rank);
    return b.transpose(self, permutation);
  });
}

}  // namespace onnx_native::ops
