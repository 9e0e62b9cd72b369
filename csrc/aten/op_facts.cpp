#include "aten/op_facts.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>
#include <iterator>
#include <unordered_map>

namespace onnx_native::aten {
namespace {

constexpr unsigned kAll = ~0u;

// Ordered by name. An operator without a row has no facts beyond its schema. `strides` were
// measured with all of PyTorch's OpInfo samples with contiguous arguments.
constexpr OpFactsRow kRows[] = {
    {"aten::__and__", {.dtype = ResultDtype::promoted}},
    {"aten::__or__", {.dtype = ResultDtype::promoted}},
    {"aten::__xor__", {.dtype = ResultDtype::promoted}},
    {"aten::_autocast_to_full_precision", {.view = ViewKind::to}},
    {"aten::_autocast_to_reduced_precision", {.view = ViewKind::to}},
    {"aten::_conj", {.view = ViewKind::conjugate}},
    {"aten::_convolution", {.half_in_autocast = true}},
    {"aten::_fft_c2r", {.real_results = kAll}},
    {"aten::_fft_r2c", {.complex_result = ComplexResult::made}},
    {"aten::_functional_assert_async", {.check = true}},
    {"aten::_functional_assert_scalar", {.check = true}},
    {"aten::_functional_sym_constrain_range", {.check = true}},
    {"aten::_functional_sym_constrain_range_for_size", {.check = true}},
    {"aten::_linalg_eigh", {.real_results = 1u << 0}},
    {"aten::_linalg_eigvals", {.complex_result = ComplexResult::made}},
    {"aten::_linalg_slogdet", {.real_results = 1u << 1}},
    {"aten::_linalg_svd", {.real_results = 1u << 1}},
    {"aten::_native_multi_head_attention", {.half_in_autocast = true}},
    {"aten::_reshape_alias", {.view = ViewKind::reshape}},
    {"aten::_thnn_fused_gru_cell", {.half_in_autocast = true}},
    {"aten::_to_copy", {.strides = Strides::of_self}},
    {"aten::_unsafe_view", {.view = ViewKind::reshape, .hidden_alias = true}},
    {"aten::abs", {.dtype = ResultDtype::of_self, .real_results = kAll, .idempotent = true}},
    {"aten::absolute", {.dtype = ResultDtype::of_self, .real_results = kAll}},
    {"aten::add", {.dtype = ResultDtype::promoted}},
    {"aten::addbmm", {.half_in_autocast = true}},
    {"aten::addcdiv", {.dtype = ResultDtype::promoted_or_float}},
    {"aten::addcmul", {.dtype = ResultDtype::promoted}},
    {"aten::addmm", {.strides = Strides::packed, .half_in_autocast = true}},
    {"aten::addmv", {.half_in_autocast = true}},
    {"aten::addr", {.half_in_autocast = true}},
    {"aten::adjoint", {.view = ViewKind::conjugate_last, .strides = Strides::scattered}},
    {"aten::alias", {.view = ViewKind::identity}},
    {"aten::alpha_dropout", {.view = ViewKind::dropout, .hidden_alias = true}},
    {"aten::angle", {.real_results = kAll}},
    {"aten::arctan2", {.dtype = ResultDtype::promoted_or_float}},
    {"aten::argwhere", {.strides = Strides::scattered}},
    {"aten::as_strided", {.view = ViewKind::as_strided, .strides = Strides::scattered}},
    {"aten::atan2", {.dtype = ResultDtype::promoted_or_float}},
    {"aten::atleast_1d", {.view = ViewKind::reshape, .hidden_alias = true}},
    {"aten::atleast_1d.Sequence", {.view = ViewKind::several, .hidden_alias = true}},
    {"aten::atleast_2d", {.view = ViewKind::reshape, .hidden_alias = true}},
    {"aten::atleast_2d.Sequence", {.view = ViewKind::several, .hidden_alias = true}},
    {"aten::atleast_3d", {.view = ViewKind::reshape, .hidden_alias = true}},
    {"aten::atleast_3d.Sequence", {.view = ViewKind::several, .hidden_alias = true}},
    {"aten::baddbmm", {.half_in_autocast = true}},
    {"aten::bitwise_and", {.dtype = ResultDtype::promoted}},
    {"aten::bitwise_not", {.dtype = ResultDtype::of_self}},
    {"aten::bitwise_or", {.dtype = ResultDtype::promoted}},
    {"aten::bitwise_xor", {.dtype = ResultDtype::promoted}},
    {"aten::bmm", {.strides = Strides::packed, .half_in_autocast = true}},
    {"aten::broadcast_tensors", {.view = ViewKind::several, .hidden_alias = true}},
    {"aten::broadcast_to", {.view = ViewKind::expand}},
    {"aten::cat", {.dtype = ResultDtype::promoted}},
    {"aten::ceil", {.idempotent = true}},
    {"aten::chain_matmul", {.half_in_autocast = true}},
    {"aten::chalf", {.complex_result = ComplexResult::half}},
    {"aten::chunk", {.view = ViewKind::split}},
    {"aten::clamp", {.dtype = ResultDtype::promoted, .idempotent = true}},
    {"aten::clamp.Tensor", {.dtype = ResultDtype::promoted}},
    {"aten::clamp_max", {.dtype = ResultDtype::promoted, .idempotent = true}},
    {"aten::clamp_max.Tensor", {.dtype = ResultDtype::promoted}},
    {"aten::clamp_min", {.dtype = ResultDtype::promoted, .idempotent = true}},
    {"aten::clamp_min.Tensor", {.dtype = ResultDtype::promoted}},
    {"aten::clip", {.dtype = ResultDtype::promoted, .idempotent = true}},
    {"aten::clip.Tensor", {.dtype = ResultDtype::promoted}},
    {"aten::clone", {.dtype = ResultDtype::of_self, .strides = Strides::of_self}},
    {"aten::complex", {.complex_result = ComplexResult::made}},
    {"aten::concat", {.dtype = ResultDtype::promoted}},
    {"aten::concatenate", {.dtype = ResultDtype::promoted}},
    {"aten::conj", {.view = ViewKind::conjugate}},
    {"aten::conj_physical", {.view = ViewKind::conjugate_copy, .hidden_alias = true}},
    {"aten::constant_pad_nd", {.strides = Strides::of_pad}},
    {"aten::contiguous", {.view = ViewKind::contiguous}},
    {"aten::conv1d", {.half_in_autocast = true}},
    {"aten::conv2d", {.half_in_autocast = true}},
    {"aten::conv3d", {.half_in_autocast = true}},
    {"aten::conv_tbc", {.half_in_autocast = true}},
    {"aten::conv_transpose1d", {.half_in_autocast = true}},
    {"aten::conv_transpose2d", {.half_in_autocast = true}},
    {"aten::conv_transpose3d", {.half_in_autocast = true}},
    {"aten::convolution", {.half_in_autocast = true}},
    {"aten::copy", {.dtype = ResultDtype::of_self}},
    {"aten::copysign", {.dtype = ResultDtype::promoted_or_float}},
    {"aten::data", {.view = ViewKind::identity, .hidden_alias = true}},
    {"aten::detach", {.view = ViewKind::identity}},
    {"aten::diagonal", {.view = ViewKind::diagonal, .strides = Strides::scattered}},
    {"aten::div", {.dtype = ResultDtype::promoted_or_float}},
    {"aten::divide", {.dtype = ResultDtype::promoted_or_float}},
    {"aten::dropout", {.view = ViewKind::dropout, .hidden_alias = true}},
    {"aten::dsplit", {.view = ViewKind::split}},
    {"aten::dstack", {.dtype = ResultDtype::promoted}},
    {"aten::einsum",
     {.view = ViewKind::einsum,
      .hidden_alias = true,
      .strides = Strides::scattered,
      .half_in_autocast = true}},
    {"aten::embedding", {.strides = Strides::packed}},
    {"aten::empty_like", {.strides = Strides::of_self}},
    {"aten::empty_permuted", {.strides = Strides::scattered}},
    {"aten::empty_strided", {.strides = Strides::scattered}},
    {"aten::eq", {.dtype = ResultDtype::boolean}},
    {"aten::expand", {.view = ViewKind::expand}},
    {"aten::expand_as", {.view = ViewKind::expand}},
    {"aten::feature_alpha_dropout", {.view = ViewKind::dropout, .hidden_alias = true}},
    {"aten::feature_dropout", {.view = ViewKind::dropout, .hidden_alias = true}},
    {"aten::fft_fft", {.complex_result = ComplexResult::made}},
    {"aten::fft_fft2", {.complex_result = ComplexResult::made}},
    {"aten::fft_fftn", {.complex_result = ComplexResult::made}},
    {"aten::fft_hfft", {.dtype = ResultDtype::floating, .real_results = kAll}},
    {"aten::fft_hfft2", {.dtype = ResultDtype::floating, .real_results = kAll}},
    {"aten::fft_hfftn", {.dtype = ResultDtype::floating, .real_results = kAll}},
    {"aten::fft_ifft", {.complex_result = ComplexResult::made}},
    {"aten::fft_ifft2", {.complex_result = ComplexResult::made}},
    {"aten::fft_ifftn", {.complex_result = ComplexResult::made}},
    {"aten::fft_ihfft", {.complex_result = ComplexResult::made}},
    {"aten::fft_ihfft2", {.complex_result = ComplexResult::made}},
    {"aten::fft_ihfftn", {.complex_result = ComplexResult::made}},
    {"aten::fft_irfft", {.dtype = ResultDtype::floating, .real_results = kAll}},
    {"aten::fft_irfft2", {.dtype = ResultDtype::floating, .real_results = kAll}},
    {"aten::fft_irfftn", {.dtype = ResultDtype::floating, .real_results = kAll}},
    {"aten::fft_rfft", {.complex_result = ComplexResult::made}},
    {"aten::fft_rfft2", {.complex_result = ComplexResult::made}},
    {"aten::fft_rfftn", {.complex_result = ComplexResult::made}},
    {"aten::fill", {.dtype = ResultDtype::of_self, .idempotent = true, .uniform = true}},
    {"aten::fill_diagonal_", {.functional = "onnx_native::fill_diagonal"}},
    {"aten::fix", {.idempotent = true}},
    {"aten::flatten", {.view = ViewKind::copy_reshape}},
    {"aten::float_power", {.dtype = ResultDtype::promoted_or_float}},
    {"aten::floor", {.idempotent = true}},
    {"aten::floor_divide", {.dtype = ResultDtype::promoted}},
    {"aten::fmod", {.dtype = ResultDtype::promoted}},
    {"aten::full", {.uniform = true}},
    {"aten::full_like", {.strides = Strides::of_self, .uniform = true}},
    {"aten::fused_moving_avg_obs_fake_quant",
     {.functional = "aten::_fused_moving_avg_obs_fq_helper_functional"}},
    {"aten::gather", {.dtype = ResultDtype::of_self, .strides = Strides::packed}},
    {"aten::ge", {.dtype = ResultDtype::boolean}},
    {"aten::geqrf", {.strides = Strides::scattered}},
    {"aten::greater", {.dtype = ResultDtype::boolean}},
    {"aten::greater_equal", {.dtype = ResultDtype::boolean}},
    {"aten::gru", {.strides = Strides::scattered, .half_in_autocast = true}},
    {"aten::gru_cell", {.half_in_autocast = true}},
    {"aten::gt", {.dtype = ResultDtype::boolean}},
    {"aten::hardtanh", {.idempotent = true}},
    {"aten::heaviside", {.dtype = ResultDtype::promoted}},
    {"aten::hsplit", {.view = ViewKind::split}},
    {"aten::hstack", {.dtype = ResultDtype::promoted}},
    {"aten::hypot", {.dtype = ResultDtype::promoted_or_float}},
    {"aten::imag", {.real_results = kAll, .view = ViewKind::imag}},
    {"aten::index_add", {.dtype = ResultDtype::of_self}},
    {"aten::index_copy", {.dtype = ResultDtype::of_self}},
    {"aten::index_fill", {.dtype = ResultDtype::of_self, .idempotent = true}},
    {"aten::index_put", {.dtype = ResultDtype::of_self}},
    {"aten::index_reduce", {.dtype = ResultDtype::of_self}},
    {"aten::index_select", {.dtype = ResultDtype::of_self, .strides = Strides::packed}},
    {"aten::inverse", {.strides = Strides::scattered}},
    {"aten::istft", {.real_results = kAll, .strides = Strides::scattered}},
    {"aten::layer_norm", {.strides = Strides::packed}},
    {"aten::le", {.dtype = ResultDtype::boolean}},
    {"aten::less", {.dtype = ResultDtype::boolean}},
    {"aten::less_equal", {.dtype = ResultDtype::boolean}},
    {"aten::lift", {.view = ViewKind::identity, .hidden_alias = true}},
    {"aten::lift_fresh", {.view = ViewKind::identity}},
    {"aten::linalg_cond", {.real_results = kAll}},
    {"aten::linalg_diagonal", {.view = ViewKind::diagonal, .strides = Strides::scattered}},
    {"aten::linalg_eig", {.complex_result = ComplexResult::made}},
    {"aten::linalg_eigh", {.real_results = 1u << 0}},
    {"aten::linalg_eigvals", {.complex_result = ComplexResult::made}},
    {"aten::linalg_eigvalsh", {.real_results = kAll}},
    {"aten::linalg_matrix_norm", {.real_results = kAll}},
    {"aten::linalg_multi_dot", {.half_in_autocast = true}},
    {"aten::linalg_norm", {.real_results = kAll}},
    {"aten::linalg_slogdet", {.real_results = 1u << 1}},
    {"aten::linalg_svd", {.real_results = 1u << 1}},
    {"aten::linalg_svdvals", {.real_results = kAll}},
    {"aten::linalg_vecdot", {.half_in_autocast = true}},
    {"aten::linalg_vector_norm", {.real_results = kAll}},
    {"aten::linear", {.strides = Strides::packed, .half_in_autocast = true}},
    {"aten::logical_and", {.dtype = ResultDtype::boolean}},
    {"aten::logical_not", {.dtype = ResultDtype::boolean}},
    {"aten::logical_or", {.dtype = ResultDtype::boolean}},
    {"aten::logical_xor", {.dtype = ResultDtype::boolean}},
    {"aten::lstm", {.strides = Strides::scattered, .half_in_autocast = true}},
    {"aten::lstm_cell", {.half_in_autocast = true}},
    {"aten::lt", {.dtype = ResultDtype::boolean}},
    {"aten::mH", {.view = ViewKind::conjugate_last, .strides = Strides::scattered}},
    {"aten::mT", {.view = ViewKind::last_two, .strides = Strides::scattered}},
    {"aten::masked_fill", {.dtype = ResultDtype::of_self, .idempotent = true}},
    {"aten::masked_scatter", {.dtype = ResultDtype::of_self}},
    {"aten::matmul", {.strides = Strides::of_matmul, .half_in_autocast = true}},
    {"aten::matrix_H", {.view = ViewKind::conjugate_last, .strides = Strides::scattered}},
    {"aten::matrix_power", {.strides = Strides::scattered}},
    {"aten::meshgrid", {.view = ViewKind::several, .hidden_alias = true}},
    {"aten::mm", {.strides = Strides::packed, .half_in_autocast = true}},
    {"aten::moveaxis", {.view = ViewKind::movedim, .strides = Strides::scattered}},
    {"aten::movedim", {.view = ViewKind::movedim, .strides = Strides::scattered}},
    {"aten::mul", {.dtype = ResultDtype::promoted}},
    {"aten::multiply", {.dtype = ResultDtype::promoted}},
    {"aten::mv", {.half_in_autocast = true}},
    {"aten::nan_to_num", {.idempotent = true}},
    {"aten::nanquantile", {.strides = Strides::scattered}},
    {"aten::narrow", {.view = ViewKind::narrow}},
    {"aten::ne", {.dtype = ResultDtype::boolean}},
    {"aten::neg", {.dtype = ResultDtype::of_self}},
    {"aten::negative", {.dtype = ResultDtype::of_self}},
    {"aten::new_empty", {.strides = Strides::packed}},
    {"aten::new_empty_strided", {.strides = Strides::scattered}},
    {"aten::new_full", {.strides = Strides::packed, .uniform = true}},
    {"aten::new_ones", {.strides = Strides::packed, .uniform = true}},
    {"aten::new_zeros", {.strides = Strides::packed, .uniform = true}},
    {"aten::nonzero", {.strides = Strides::scattered}},
    {"aten::nonzero_static", {.strides = Strides::scattered}},
    {"aten::norm", {.real_results = kAll}},
    {"aten::normal_", {.functional = "aten::normal_functional"}},
    {"aten::not_equal", {.dtype = ResultDtype::boolean}},
    {"aten::numpy_T", {.view = ViewKind::reverse, .strides = Strides::scattered}},
    {"aten::ones", {.uniform = true}},
    {"aten::ones_like", {.strides = Strides::of_self, .uniform = true}},
    {"aten::ormqr", {.strides = Strides::scattered}},
    {"aten::pad", {.strides = Strides::of_pad}},
    {"aten::permute", {.view = ViewKind::permute, .strides = Strides::scattered}},
    {"aten::pinverse", {.strides = Strides::scattered}},
    {"aten::polar", {.complex_result = ComplexResult::made}},
    {"aten::positive", {.view = ViewKind::identity}},
    {"aten::pow", {.dtype = ResultDtype::promoted}},
    {"aten::prelu", {.half_in_autocast = true}},
    {"aten::put", {.dtype = ResultDtype::of_self}},
    {"aten::qr", {.strides = Strides::scattered}},
    {"aten::quantile", {.strides = Strides::scattered}},
    {"aten::rand_like", {.strides = Strides::of_self}},
    {"aten::randint_like", {.strides = Strides::of_self}},
    {"aten::randn_like", {.strides = Strides::of_self}},
    {"aten::ravel", {.view = ViewKind::copy_reshape}},
    {"aten::real", {.real_results = kAll, .view = ViewKind::real}},
    {"aten::relu", {.dtype = ResultDtype::of_self, .idempotent = true}},
    {"aten::relu6", {.idempotent = true}},
    {"aten::remainder", {.dtype = ResultDtype::promoted}},
    {"aten::reshape", {.view = ViewKind::copy_reshape}},
    {"aten::reshape_as", {.view = ViewKind::copy_reshape}},
    {"aten::resolve_conj", {.view = ViewKind::identity}},
    {"aten::resolve_neg", {.view = ViewKind::identity}},
    {"aten::retain_grad", {.check = true}},
    {"aten::rnn_relu", {.strides = Strides::scattered}},
    {"aten::rnn_relu_cell", {.half_in_autocast = true}},
    {"aten::rnn_tanh", {.strides = Strides::scattered}},
    {"aten::rnn_tanh_cell", {.half_in_autocast = true}},
    {"aten::rot90", {.strides = Strides::scattered}},
    {"aten::scalar_tensor", {.uniform = true}},
    {"aten::scaled_dot_product_attention",
     {.strides = Strides::scattered, .half_in_autocast = true}},
    {"aten::scatter", {.dtype = ResultDtype::of_self}},
    {"aten::scatter_add", {.dtype = ResultDtype::of_self}},
    {"aten::scatter_reduce", {.dtype = ResultDtype::of_self}},
    {"aten::select", {.view = ViewKind::select}},
    {"aten::set_", {.functional = kNoFunctional}},
    {"aten::set_data", {.functional = kNoFunctional}},
    {"aten::sgn", {.dtype = ResultDtype::of_self, .idempotent = true}},
    {"aten::sign", {.dtype = ResultDtype::of_self, .idempotent = true}},
    {"aten::slice", {.view = ViewKind::slice}},
    {"aten::slogdet", {.real_results = 1u << 1}},
    {"aten::split", {.view = ViewKind::split}},
    {"aten::split_with_sizes", {.view = ViewKind::split}},
    {"aten::square", {.dtype = ResultDtype::of_self}},
    {"aten::squeeze", {.view = ViewKind::reshape}},
    {"aten::stack", {.dtype = ResultDtype::promoted}},
    {"aten::std", {.real_results = kAll}},
    {"aten::std_mean", {.real_results = 1u << 0}},
    {"aten::stft", {.dtype = ResultDtype::floating, .strides = Strides::scattered}},
    {"aten::sub", {.dtype = ResultDtype::promoted}},
    {"aten::subtract", {.dtype = ResultDtype::promoted}},
    {"aten::sum_to_size", {.view = ViewKind::sum_to_size, .hidden_alias = true}},
    {"aten::svd", {.real_results = 1u << 1, .strides = Strides::scattered}},
    {"aten::swapaxes", {.view = ViewKind::transpose, .strides = Strides::scattered}},
    {"aten::swapdims", {.view = ViewKind::transpose, .strides = Strides::scattered}},
    {"aten::t", {.view = ViewKind::last_two, .strides = Strides::scattered}},
    {"aten::tensor_split", {.view = ViewKind::split}},
    {"aten::tensordot", {.half_in_autocast = true}},
    {"aten::to", {.view = ViewKind::to, .strides = Strides::of_self}},
    {"aten::to_dense", {.view = ViewKind::to, .hidden_alias = true}},
    {"aten::transpose", {.view = ViewKind::transpose, .strides = Strides::scattered}},
    {"aten::triangular_solve", {.strides = Strides::scattered}},
    {"aten::tril", {.dtype = ResultDtype::of_self}},
    {"aten::triu", {.dtype = ResultDtype::of_self}},
    {"aten::true_divide", {.dtype = ResultDtype::promoted_or_float}},
    {"aten::trunc", {.idempotent = true}},
    {"aten::type_as", {.view = ViewKind::to, .hidden_alias = true, .strides = Strides::of_self}},
    {"aten::unbind", {.view = ViewKind::unbind}},
    {"aten::unflatten", {.view = ViewKind::reshape}},
    {"aten::unfold", {.view = ViewKind::unfold, .strides = Strides::scattered}},
    {"aten::unique_consecutive", {.strides = Strides::scattered}},
    {"aten::unique_dim", {.strides = Strides::scattered}},
    {"aten::unique_dim_consecutive", {.strides = Strides::scattered}},
    {"aten::unsafe_chunk", {.view = ViewKind::split, .hidden_alias = true}},
    {"aten::unsafe_split", {.view = ViewKind::split, .hidden_alias = true}},
    {"aten::unsafe_split_with_sizes", {.view = ViewKind::split, .hidden_alias = true}},
    {"aten::unsqueeze", {.view = ViewKind::reshape}},
    {"aten::var", {.real_results = kAll}},
    {"aten::var_mean", {.real_results = 1u << 0}},
    {"aten::view", {.view = ViewKind::reshape}},
    {"aten::view.dtype", {.view = ViewKind::other}},
    {"aten::view_as", {.view = ViewKind::reshape}},
    {"aten::view_as_complex",
     {.complex_result = ComplexResult::made, .view = ViewKind::view_as_complex}},
    {"aten::view_as_real", {.real_results = kAll, .view = ViewKind::view_as_real}},
    {"aten::vsplit", {.view = ViewKind::split}},
    {"aten::vstack", {.dtype = ResultDtype::promoted}},
    {"aten::xlogy", {.dtype = ResultDtype::promoted_or_float}},
    {"aten::zero", {.dtype = ResultDtype::of_self, .idempotent = true, .uniform = true}},
    {"aten::zeros", {.uniform = true}},
    {"aten::zeros_like", {.strides = Strides::of_self, .uniform = true}},
    {"onnx_native::fill_diagonal", {.dtype = ResultDtype::of_self}},
};

// Operators with these name prefixes have scattered results.
constexpr std::string_view kScatteredFamilies[] = {
    "aten::linalg_", "aten::_linalg_", "aten::fft_",     "aten::_fft_",
    "aten::_unique", "aten::lu",       "aten::cholesky", "aten::_scaled_dot_product",
    "aten::_lu_"};

bool in_scattered_family(std::string_view name) {
  return std::ranges::any_of(kScatteredFamilies,
                             [name](std::string_view family) { return name.starts_with(family); });
}

std::unordered_map<std::string_view, OpFacts> make_table() {
  std::unordered_map<std::string_view, OpFacts> table;
  for (const OpFactsRow& row : kRows) {
    OpFacts& facts = table.emplace(row.name, row.facts).first->second;
    if (in_scattered_family(row.name) && facts.strides == Strides::of_operands)
      facts.strides = Strides::scattered;
  }
  return table;
}

bool has_tag(const Schema& schema, at::Tag tag) {
  const auto found = c10::Dispatcher::singleton().findSchema({schema.name, schema.overload});
  return found && found->hasTag(tag);
}

}  // namespace

const OpFacts& facts_of(const Schema& schema) {
  static const std::unordered_map<std::string_view, OpFacts> table = make_table();
  static constexpr OpFacts kNone;
  static constexpr OpFacts kScattered{.strides = Strides::scattered};
  if (!schema.overload.empty()) {
    if (const auto at = table.find(schema.key); at != table.end()) return at->second;
  }
  if (const auto at = table.find(schema.name); at != table.end()) return at->second;
  return in_scattered_family(schema.name) ? kScattered : kNone;
}

bool is_check(const Schema& schema) {
  return (schema.returns.empty() && !schema.is_mutable()) || facts_of(schema).check;
}

ViewKind kind_of(const Schema& schema) {
  if (schema.is_mutable()) return ViewKind::none;
  const ViewKind kind = facts_of(schema).view;
  return kind == ViewKind::none && schema.is_view() ? ViewKind::other : kind;
}

bool changes_geometry(const Schema& schema) {
  return schema.is_mutable() && has_tag(schema, at::Tag::inplace_view);
}

bool is_pointwise(const Schema& schema) { return has_tag(schema, at::Tag::pointwise); }

ArgumentRole role_of(const SchemaArgument& argument) {
  static constexpr std::pair<std::string_view, ArgumentRole> kOfTensors[] = {
      {"condition", ArgumentRole::place}, {"index", ArgumentRole::place},
      {"indices", ArgumentRole::place},   {"mask", ArgumentRole::place},
      {"other", ArgumentRole::element},   {"self", ArgumentRole::element},
      {"src", ArgumentRole::element},     {"value", ArgumentRole::element},
  };
  static constexpr std::pair<std::string_view, ArgumentRole> kOfIntegers[] = {
      {"axis0", ArgumentRole::axis},      {"axis1", ArgumentRole::axis},
      {"dim", ArgumentRole::axis},        {"dim0", ArgumentRole::axis},
      {"dim1", ArgumentRole::axis},       {"destination", ArgumentRole::axis},
      {"dims", ArgumentRole::axes},       {"end_dim", ArgumentRole::axis},
      {"source", ArgumentRole::axis},     {"start_dim", ArgumentRole::axis},
      {"shape", ArgumentRole::sizes},     {"size", ArgumentRole::sizes},
      {"repeats", ArgumentRole::repeats},
  };
  static constexpr std::pair<std::string_view, ArgumentRole> kOfNumbers[] = {
      {"fill_value", ArgumentRole::element}, {"other", ArgumentRole::element},
      {"s", ArgumentRole::element},          {"self", ArgumentRole::element},
      {"value", ArgumentRole::element},
  };
  const auto find = [&argument](const auto& roles) {
    const auto* at =
        std::ranges::find(roles, argument.name, &std::pair<std::string_view, ArgumentRole>::first);
    return at == std::end(roles) ? ArgumentRole::other : at->second;
  };
  switch (argument.type.kind) {
    case TypeKind::tensor:
      return find(kOfTensors);
    case TypeKind::integer:
    case TypeKind::sym_int:
      return find(kOfIntegers);
    case TypeKind::scalar:
    case TypeKind::floating:
      return find(kOfNumbers);
    default:
      return ArgumentRole::other;
  }
}

std::vector<OpFactsRow> fact_rows() { return {std::begin(kRows), std::end(kRows)}; }

std::vector<std::string_view> scattered_families() {
  return {std::begin(kScatteredFamilies), std::end(kScatteredFamilies)};
}

}  // namespace onnx_native::aten
