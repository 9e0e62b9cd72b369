#include "ops/families.h"
#include "ops/formulas/compositions.h"

namespace onnx_native::ops {

void register_all(OpTable& ops) {
  ops.set_compositions(compositions());
  register_control_flow(ops);
  register_calculus(ops);
  register_covariance(ops);
  register_numbers(ops);
  register_segment(ops);
  register_backward(ops);
  register_special(ops);
  register_special_bessel(ops);
  register_special_error(ops);
  register_special_gamma(ops);
  register_special_polynomials(ops);
  register_view(ops);
  register_slice(ops);
  register_join(ops);
  register_pad(ops);
  register_index(ops);
  register_scatter(ops);
  register_sort(ops);
  register_search(ops);
  register_symbolic(ops);
  register_adaptive_pool(ops);
  register_attention(ops);
  register_conv(ops);
  register_embedding(ops);
  register_matmul(ops);
  register_linalg_eig(ops);
  register_linalg_factor(ops);
  register_linalg_ldl(ops);
  register_linalg_norm(ops);
  register_linalg_solve(ops);
  register_linalg_spectral(ops);
  register_matrix_function(ops);
  register_linalg_complex(ops);
  register_norm(ops);
  register_distance(ops);
  register_einsum(ops);
  register_pool(ops);
  register_transformer(ops);
  register_upsample(ops);
  register_rnn(ops);
  register_packed_sequence(ops);
  register_loss(ops);
  register_ctc_loss(ops);
  register_vision(ops);
  register_quantize(ops);
  register_grouped_matmul(ops);
  register_grid(ops);
  register_fractional_pool(ops);
  register_unary(ops);
  register_binary(ops);
  register_logic(ops);
  register_conversion(ops);
  register_activation(ops);
  register_reduction(ops);
  register_cumulative(ops);
  register_creation(ops);
  register_window(ops);
  register_dropout(ops);
  register_random(ops);
  register_complex(ops);
  register_complex_views(ops);
  register_complex_sums(ops);
  register_complex_functions(ops);
  register_hash(ops);
  register_fourier(ops);
  register_prims(ops);  // aliases of the entries above
}

OpTable& op_table() {
  static OpTable table = [] {
    OpTable ops;
    register_all(ops);
    return ops;
  }();
  return table;
}

}  // namespace onnx_native::ops
