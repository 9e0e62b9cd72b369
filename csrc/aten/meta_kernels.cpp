#include "aten/meta_kernels.h"

#include <ATen/CompositeExplicitAutogradFunctions.h>
#include <ATen/MetaFunctions.h>
#include <ATen/Operators.h>

namespace onnx_native::aten {
namespace {

// Adds PyTorch's kernel of an operator; the operator's schema chooses among overloaded functions.
template <class Operator>
void add(KernelTable& table, typename Operator::schema* kernel) {
  table.emplace(
      c10::Dispatcher::singleton().findSchemaOrThrow(Operator::name, Operator::overload_name),
      c10::KernelFunction::makeFromUnboxedRuntimeFunction(kernel));
}

// The operator with its overload, and the function in at::meta.
#define ONE(op, function) add<at::_ops::op>(table, &at::meta::function)
#define PLAIN(op) ONE(op, op)
// The same and the operator that writes to its argument.
#define BOTH(op) \
  PLAIN(op);     \
  PLAIN(op##_)
#define BOTH_OF(op, overload) \
  ONE(op##_##overload, op);   \
  ONE(op##__##overload, op##_)

void add_unary(KernelTable& table) {
  BOTH(acos);
  BOTH(acosh);
  BOTH(asin);
  BOTH(asinh);
  BOTH(atan);
  BOTH(atanh);
  BOTH(bitwise_not);
  BOTH(ceil);
  BOTH(cos);
  BOTH(cosh);
  BOTH(erf);
  BOTH(erfc);
  BOTH(exp);
  BOTH(exp2);
  BOTH(expm1);
  BOTH(floor);
  BOTH(frac);
  BOTH(log);
  BOTH(log10);
  BOTH(log1p);
  BOTH(log2);
  BOTH(neg);
  BOTH(reciprocal);
  BOTH(round);
  BOTH_OF(round, decimals);
  BOTH(rsqrt);
  BOTH(sgn);
  BOTH(sigmoid);
  BOTH(sign);
  BOTH(sin);
  BOTH(sinh);
  BOTH(sqrt);
  BOTH(tan);
  BOTH(tanh);
  BOTH(trunc);
  PLAIN(isneginf);
  PLAIN(isposinf);
  PLAIN(signbit);
}

void add_activations(KernelTable& table) {
  BOTH(elu);
  BOTH(gelu);
  BOTH(hardsigmoid);
  BOTH(leaky_relu);
  BOTH(mish);
  BOTH(silu);
  BOTH(threshold);
  PLAIN(glu);
  PLAIN(hardshrink);
  PLAIN(softplus);
  PLAIN(softshrink);
  PLAIN(_log_softmax);
  PLAIN(_softmax);
}

void add_binary(KernelTable& table) {
  BOTH_OF(add, Tensor);
  BOTH_OF(bitwise_and, Tensor);
  BOTH_OF(bitwise_or, Tensor);
  BOTH_OF(bitwise_xor, Tensor);
  BOTH_OF(div, Tensor);
  BOTH_OF(div, Tensor_mode);
  BOTH_OF(fmod, Tensor);
  BOTH_OF(mul, Tensor);
  BOTH_OF(remainder, Tensor);
  BOTH_OF(sub, Tensor);
  BOTH_OF(xlogy, Tensor);
  BOTH(atan2);
  PLAIN(fmax);
  PLAIN(fmin);
  PLAIN(logaddexp);
  PLAIN(logaddexp2);
  PLAIN(maximum);
  PLAIN(minimum);
  ONE(pow_Scalar, pow);
  ONE(pow_Tensor_Scalar, pow);
  ONE(pow_Tensor_Tensor, pow);
  ONE(pow__Scalar, pow_);
  ONE(pow__Tensor, pow_);
  BOTH_OF(eq, Scalar);
  BOTH_OF(eq, Tensor);
  BOTH_OF(ge, Scalar);
  BOTH_OF(ge, Tensor);
  BOTH_OF(gt, Scalar);
  BOTH_OF(gt, Tensor);
  BOTH_OF(le, Scalar);
  BOTH_OF(le, Tensor);
  BOTH_OF(lt, Scalar);
  BOTH_OF(lt, Tensor);
  BOTH_OF(ne, Scalar);
  BOTH_OF(ne, Tensor);
}

void add_ternary(KernelTable& table) {
  BOTH(addcdiv);
  BOTH(addcmul);
  BOTH(clamp);
  BOTH(clamp_max);
  BOTH(clamp_min);
  BOTH_OF(clamp, Tensor);
  BOTH_OF(clamp_max, Tensor);
  BOTH_OF(clamp_min, Tensor);
  ONE(lerp_Scalar, lerp);
  ONE(lerp_Tensor, lerp);
}

void add_products(KernelTable& table) {
  BOTH(addmm);
  BOTH(addmv);
  BOTH(baddbmm);
  PLAIN(bmm);
  PLAIN(linalg_cross);
  PLAIN(mm);
}

void add_reductions(KernelTable& table) {
  PLAIN(all);
  ONE(all_dim, all);
  ONE(all_dims, all);
  PLAIN(amax);
  PLAIN(amin);
  PLAIN(aminmax);
  PLAIN(any);
  ONE(any_dim, any);
  ONE(any_dims, any);
  PLAIN(argmax);
  PLAIN(argmin);
  BOTH(cumprod);
  BOTH(cumsum);
  PLAIN(linalg_vector_norm);
  ONE(max_dim, max);
  ONE(mean_dim, mean);
  ONE(min_dim, min);
  ONE(norm_ScalarOpt_dim, norm);
  ONE(norm_ScalarOpt_dim_dtype, norm);
  ONE(prod_dim_int, prod);
  ONE(sort_stable, sort);
  ONE(sum_dim_IntList, sum);
  ONE(topk, topk_symint);
}

void add_images(KernelTable& table) {
  PLAIN(avg_pool2d);
  PLAIN(avg_pool3d);
  PLAIN(max_pool2d_with_indices);
  ONE(reflection_pad1d, reflection_pad1d_symint);
  ONE(replication_pad1d, replication_pad1d_symint);
  ONE(replication_pad2d, replication_pad2d_symint);
  ONE(upsample_bicubic2d, upsample_bicubic2d_symint);
  ONE(upsample_bilinear2d, upsample_bilinear2d_symint);
  ONE(upsample_linear1d, upsample_linear1d_symint);
  ONE(upsample_nearest1d, upsample_nearest1d_symint);
  ONE(upsample_nearest2d, upsample_nearest2d_symint);
  ONE(upsample_nearest3d, upsample_nearest3d_symint);
  ONE(upsample_trilinear3d, upsample_trilinear3d_symint);
  ONE(_upsample_bicubic2d_aa, _upsample_bicubic2d_aa_symint);
  ONE(_upsample_bilinear2d_aa, _upsample_bilinear2d_aa_symint);
}

void add_indexing(KernelTable& table) {
  PLAIN(cat);
  PLAIN(gather);
  ONE(index_Tensor, index);
  BOTH(index_add);
  BOTH_OF(scatter, reduce);
  BOTH_OF(scatter, src);
  BOTH_OF(scatter, value);
  BOTH_OF(scatter, value_reduce);
  BOTH_OF(scatter_reduce, two);
  BOTH(scatter_add);
  ONE(tril, tril_symint);
  ONE(tril_, tril__symint);
  ONE(triu, triu_symint);
  ONE(triu_, triu__symint);
}

#undef ONE
#define ONE(op, function) add<at::_ops::op>(table, &at::compositeexplicitautograd::function)

// Kernels for all devices, which call operators with kernels of their own.
void add_composite(KernelTable& table) {
  BOTH_OF(add, Scalar);
  BOTH_OF(div, Scalar);
  BOTH_OF(div, Scalar_mode);
  BOTH_OF(mul, Scalar);
  BOTH_OF(sub, Scalar);
  PLAIN(empty_like);
  PLAIN(full_like);
  PLAIN(ones_like);
  PLAIN(zeros_like);
  ONE(new_empty, new_empty_symint);
  ONE(new_full, new_full_symint);
  ONE(new_ones, new_ones_symint);
  ONE(new_zeros, new_zeros_symint);
  ONE(repeat, repeat_symint);
  ONE(unsafe_split_Tensor, unsafe_split_symint);
  ONE(_unsafe_view, _unsafe_view_symint);
}

#undef ONE
#undef PLAIN
#undef BOTH
#undef BOTH_OF

}  // namespace

const KernelTable& meta_kernels() {
  static const KernelTable& table = *[] {
    auto* all = new KernelTable;  // NOLINT(cppcoreguidelines-owning-memory): for the process
    for (const auto& add_some : {add_unary, add_activations, add_binary, add_ternary, add_products,
                                 add_reductions, add_images, add_indexing, add_composite})
      add_some(*all);
    return all;
  }();
  return table;
}

void add_meta_kernels_of_padded_volumes(KernelTable& table) {
  add<at::_ops::reflection_pad3d>(table, &at::meta::reflection_pad3d_symint);
  add<at::_ops::replication_pad3d>(table, &at::meta::replication_pad3d_symint);
}

}  // namespace onnx_native::aten
