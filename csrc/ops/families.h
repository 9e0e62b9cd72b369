// One registration function per family of operators; register_all.cpp calls them in order.
#pragma once

#include "ops/engine/op_table.h"

namespace onnx_native::ops {

void register_control_flow(OpTable& ops);
void register_calculus(OpTable& ops);
void register_covariance(OpTable& ops);
void register_prims(OpTable& ops);
void register_numbers(OpTable& ops);
void register_segment(OpTable& ops);
void register_backward(OpTable& ops);
void register_special(OpTable& ops);
void register_special_bessel(OpTable& ops);
void register_special_error(OpTable& ops);
void register_special_gamma(OpTable& ops);
void register_special_polynomials(OpTable& ops);
void register_view(OpTable& ops);
void register_slice(OpTable& ops);
void register_join(OpTable& ops);
void register_pad(OpTable& ops);
void register_index(OpTable& ops);
void register_scatter(OpTable& ops);
void register_sort(OpTable& ops);
void register_search(OpTable& ops);
void register_symbolic(OpTable& ops);
void register_adaptive_pool(OpTable& ops);
void register_attention(OpTable& ops);
void register_conv(OpTable& ops);
void register_embedding(OpTable& ops);
void register_matmul(OpTable& ops);
void register_linalg_eig(OpTable& ops);
void register_linalg_complex(OpTable& ops);
void register_linalg_factor(OpTable& ops);
void register_linalg_ldl(OpTable& ops);
void register_linalg_norm(OpTable& ops);
void register_linalg_solve(OpTable& ops);
void register_linalg_spectral(OpTable& ops);
void register_matrix_function(OpTable& ops);
void register_norm(OpTable& ops);
void register_distance(OpTable& ops);
void register_einsum(OpTable& ops);
void register_pool(OpTable& ops);
void register_transformer(OpTable& ops);
void register_upsample(OpTable& ops);
void register_rnn(OpTable& ops);
void register_packed_sequence(OpTable& ops);
void register_loss(OpTable& ops);
void register_ctc_loss(OpTable& ops);
void register_vision(OpTable& ops);
void register_quantize(OpTable& ops);
void register_grouped_matmul(OpTable& ops);
void register_grid(OpTable& ops);
void register_fractional_pool(OpTable& ops);
void register_unary(OpTable& ops);
void register_binary(OpTable& ops);
void register_logic(OpTable& ops);
void register_conversion(OpTable& ops);
void register_activation(OpTable& ops);
void register_reduction(OpTable& ops);
void register_cumulative(OpTable& ops);
void register_creation(OpTable& ops);
void register_window(OpTable& ops);
void register_dropout(OpTable& ops);
void register_random(OpTable& ops);
// Call these last: they reuse the entries of the families above.
void register_complex(OpTable& ops);
void register_complex_views(OpTable& ops);
void register_complex_sums(OpTable& ops);
void register_complex_functions(OpTable& ops);
void register_hash(OpTable& ops);
void register_fourier(OpTable& ops);

}  // namespace onnx_native::ops
