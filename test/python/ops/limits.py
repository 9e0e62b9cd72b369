"""What is refused, or not as eager has it: for docs/operators.md.

A refusal is an error that names the operator, the argument and the user's source line.
"""

# Operator -> what is refused or different.
LIMITS: dict[str, str] = {
    "aten::_native_multi_head_attention": "masks are bool",
    "aten::_scaled_dot_product_attention_math": "no dropout_mask",
    "aten::_scaled_mm": "float8 from opset 19 on",
    "aten::_transformer_encoder_layer_fwd": "masks are bool; the width is constant",
    "aten::as_strided": "of contiguous tensors, as captured",
    "aten::diagonal": "two dimensions",
    "aten::grid_sampler": "5-D input from opset 20 on",
    "aten::grid_sampler_3d": "5-D input from opset 20 on",
    "aten::hash_tensor": "mode 0",
    "aten::kthvalue": "of equal elements, the first one's index; eager gives any",
    "aten::linalg_cholesky_ex": "after a failure, the factor is not LAPACK's leftover",
    "aten::linalg_eig@complex": "in any order and scaling, as eager",
    "aten::linalg_eigh": "vectors up to their sign, as eager",
    "aten::linalg_inv_ex": "after a failure, the result is not LAPACK's leftover",
    "aten::linalg_lu": "with pivoting: the rest is for CUDA",
    "aten::linalg_lu_factor": "with pivoting: the rest is for CUDA",
    "aten::linalg_lu_factor_ex": "with pivoting: the rest is for CUDA",
    "aten::linalg_solve_ex": "after a failure, the result is not LAPACK's leftover",
    "aten::linalg_svd": "vectors up to their sign, as eager",
    "aten::lstm.input": "the hidden size is constant",
    "aten::mode": "of equal elements, the last one's index; eager gives any; memory grows with n²",
    "aten::polygamma": "n >= 0, as eager",
    "aten::pow.Tensor_Tensor": "integers: exact up to 2^53",
    "aten::roll": "a shift for each dimension",
    "aten::segment_reduce": "by lengths or offsets",
    "aten::sort": "NaN last as ONNX Runtime's TopK has it; equal elements keep their order",
    "aten::sum": "int64: ONNX Runtime adds exactly up to 2^53",
    "aten::sum.dim_IntList": "int64: ONNX Runtime adds exactly up to 2^53",
    "aten::prod": "int64: ONNX Runtime multiplies exactly up to 2^53",
    "aten::prod.dim_int": "int64: ONNX Runtime multiplies exactly up to 2^53",
    "aten::stft@complex": "no align_to_window, no complex window",
    "aten::istft@complex": "no complex window",
    "aten::topk": "NaN as ONNX Runtime's TopK has it; of equal elements, the first",
    "aten::unbind.int": "of a dimension of constant size",
    "aten::view.dtype": "dtypes of another size from opset 26 on, or where a size can be split",
    "quantized_decomposed::choose_qparams_symmetric.tensor": "int8",
}

# Why an overload that PyTorch's operator database reaches has no entry of its own.
IN_PLACE = "in place: the functional operator is lowered, and its result takes the tensor's place"
ASSERTION = "an assertion: dropped, as the program is exported for inputs that satisfy it"
NO_ENTRY: dict[str, str] = {
    "aten::_assert_scalar": ASSERTION,
    "aten::_assert_tensor_metadata": ASSERTION,
    "aten::_batch_norm_with_update": IN_PLACE,
    "aten::_native_batch_norm_legit": IN_PLACE,
    "aten::cauchy_": IN_PLACE,
    "aten::detach_": IN_PLACE,
    "aten::embedding_renorm_": IN_PLACE,
    "aten::exponential_": IN_PLACE,
    "aten::geometric_": IN_PLACE,
    "aten::log_normal_": IN_PLACE,
    "aten::normal_": IN_PLACE,
    "aten::resize_": "in place: a view of a contiguous tensor's first elements; it cannot grow",
    "aten::resize_as_": "in place: a view of a contiguous tensor's first elements; it cannot grow",
    "aten::sym_size.int": "a size: it is known from the shape of its tensor",
    "aten::sym_storage_offset": "known where a view is taken",
    "aten::uniform_": IN_PLACE,
    "aten::zero_": IN_PLACE,
    "python::getitem": "one of several results: read from them",
}

# What has no lowering, and why.
LEFT_OUT: dict[str, str] = {
    "aten::linalg_lstsq": "torch.export cannot capture it: the size of its result depends on data",
    "aten::_ctc_loss": "torch.export cannot capture it: the size of its result depends on data",
    "aten::allclose, aten::equal, cov, corrcoef": "torch.export cannot capture them: "
    "they ask for a Python bool",
    "aten::narrow.Tensor": "torch.export cannot capture it: the size of its result depends on data",
    "aten::combinations": "of two or more elements: torch.export cannot capture it",
    "aten::random.from": "torch.export cannot print its name",
    "gradients in a model": "torch.export records constants or fails; jvp works",
    "aten::to_sparse and sparse tensors": "ONNX Runtime's operators do not take sparse tensors",
    "quantized::*, aten::int_repr, aten::q_scale": "torch.export cannot capture quantised tensors "
    "and packed weights; quantized_decomposed::* is what it has in their place",
    "aten::_scaled_grouped_mm, aten::_weight_int4pack_mm": "for CUDA, or packed for one processor",
    "aten::native_norm": "it has no CPU kernel to compare with",
    "complex qr, lu, ldl, svd, pinv, matrix_rank, cond, logdet, cholesky_solve": "no entry yet",
    "complex cumprod, logcumsumexp, var_mean, logspace, scatter.reduce": "no entry yet",
}

# Keys that no captured program reaches, so that no row can -> where they are tested.
ONLY_IN_TORCHSCRIPT = {
    "higher_order::for_loop": "test/python/jit",
    "aten::_pack_padded_sequence": "test/python/jit/test_packed_sequences.py",
    "aten::_pad_packed_sequence": "test/python/jit/test_packed_sequences.py",
    "aten::gru.data": "test/python/jit/test_packed_sequences.py",
    "aten::lstm.data": "test/python/jit/test_packed_sequences.py",
    "aten::rnn_relu.data": "test/python/jit/test_packed_sequences.py",
    "aten::rnn_tanh.data": "test/python/jit/test_packed_sequences.py",
}
