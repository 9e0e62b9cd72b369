"""Limits of operators for docs/operators.md: unsupported cases and differences from eager.

An unsupported case is an error that names the operator, the argument and the user's source line.
"""

# Operator -> what is unsupported or differs from eager.
LIMITS: dict[str, str] = {
    "aten::_native_multi_head_attention": "masks must be bool",
    "aten::_scaled_dot_product_attention_math": "no `dropout_mask`",
    "aten::_scaled_mm": "float8 requires opset 19",
    "aten::_transformer_encoder_layer_fwd": "masks must be bool; the head size must be constant",
    "aten::as_strided": "tensors that are contiguous at capture",
    "aten::diagonal": "two different dimensions",
    "aten::grid_sampler": "5-D input requires opset 20",
    "aten::grid_sampler_3d": "5-D input requires opset 20",
    "aten::hash_tensor": "mode 0 only",
    "aten::kthvalue": "for ties, the index of the first element (eager: any)",
    "aten::linalg_cholesky_ex": "after a failure, the factor differs from LAPACK's",
    "aten::linalg_eig@complex": "eigenvalues in any order, vectors in any scaling, like eager",
    "aten::linalg_eigh": "vectors are determined up to their sign, like eager",
    "aten::linalg_inv_ex": "after a failure, the result differs from LAPACK's",
    "aten::linalg_lstsq": "the driver gelsy: `rcond` at most 1e-4, because it cuts by pivots; the "
    "drivers gelsd and gelss: no batches of matrices with more rows than columns",
    "aten::linalg_lu": "with pivoting only; eager requires CUDA for the rest",
    "aten::linalg_lu_factor": "with pivoting only; eager requires CUDA for the rest",
    "aten::linalg_lu_factor_ex": "with pivoting only; eager requires CUDA for the rest",
    "aten::linalg_solve_ex": "after a failure, the result differs from LAPACK's",
    "aten::linalg_svd": "vectors are determined up to their sign, like eager",
    "aten::lstm.input": "the hidden size must be constant",
    "aten::mode": "for ties, the index of the last element (eager: any); memory grows with n²",
    "aten::polygamma": "n >= 0, like eager",
    "aten::pow.Tensor_Tensor": "integers are exact up to 2^53",
    "aten::roll": "one shift for each dimension",
    "aten::segment_reduce": "with lengths or offsets",
    "aten::sort": "NaN comes last, as in ONNX Runtime's TopK; the sort is stable",
    "aten::sum": "int64: ONNX Runtime's sums are exact up to 2^53",
    "aten::sum.dim_IntList": "int64: ONNX Runtime's sums are exact up to 2^53",
    "aten::prod": "int64: ONNX Runtime's products are exact up to 2^53",
    "aten::prod.dim_int": "int64: ONNX Runtime's products are exact up to 2^53",
    "aten::stft@complex": "no `align_to_window`, no complex window",
    "aten::istft@complex": "no complex window",
    "aten::topk": "NaN is ordered as in ONNX Runtime's TopK; for ties, the first element",
    "aten::unbind.int": "the size of the dimension must be constant",
    "aten::view.dtype": "below opset 26, NaN has the bits of torch.nan; 8-bit floats require it",
    "quantized_decomposed::choose_qparams_symmetric.tensor": "int8 only",
}

# Overloads in PyTorch's operator database without an entry of their own -> why.
RESIZE = "in-place: a view of the first elements of a contiguous tensor; it cannot grow"
IN_PLACE = "in-place: functionalized to the out-of-place operator"
ASSERTION = "an assertion: dropped, because the program is exported for inputs that satisfy it"
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
    "aten::resize_": RESIZE,
    "aten::resize_as_": RESIZE,
    "aten::sym_size.int": "a size, known from the shape of the tensor",
    "aten::sym_storage_offset": "known for each view",
    "aten::uniform_": IN_PLACE,
    "aten::zero_": IN_PLACE,
    "python::getitem": "selects one of several results",
}

# Operators without a lowering -> why.
DATA_DEPENDENT = "torch.export cannot capture it: the size of its result is data-dependent"
LEFT_OUT: dict[str, str] = {
    "aten::linalg_lstsq": DATA_DEPENDENT,
    "aten::_ctc_loss": DATA_DEPENDENT,
    "aten::allclose, aten::equal, cov, corrcoef": "torch.export cannot capture them: "
    "they return a Python bool",
    "aten::narrow.Tensor": DATA_DEPENDENT,
    "aten::combinations": "torch.export cannot capture it for two or more elements",
    "aten::random.from": "torch.export cannot print its name, a Python keyword",
    "gradients in a model": "torch.export records constants or fails; jvp works",
    "aten::to_sparse and sparse tensors": "ONNX Runtime's operators do not accept sparse tensors",
    "quantized::*, aten::int_repr, aten::q_scale": "torch.export cannot capture quantized tensors "
    "and packed weights; traced and scripted modules export",
    "aten::_scaled_grouped_mm, aten::_weight_int4pack_mm": "CUDA only",
    "aten::native_norm": "it has no CPU kernel to compare to",
    "complex qr, lu, ldl, svd, pinv, matrix_rank, cond, logdet, cholesky_solve": "no entry yet",
    "complex cumprod, logcumsumexp, var_mean, logspace, scatter.reduce": "no entry yet",
}

# Keys that no captured program, and so no row, can reach -> where they are tested.
ONLY_IN_TORCHSCRIPT = {
    "higher_order::for_loop": "test/python/jit",
    "aten::floordiv.float": "test/python/jit/test_float_divisions.py",
    "aten::remainder.float": "test/python/jit/test_float_divisions.py",
    "aten::_pack_padded_sequence": "test/python/jit/test_packed_sequences.py",
    "aten::_pad_packed_sequence": "test/python/jit/test_packed_sequences.py",
    "aten::gru.data": "test/python/jit/test_packed_sequences.py",
    "aten::lstm.data": "test/python/jit/test_packed_sequences.py",
    "aten::rnn_relu.data": "test/python/jit/test_packed_sequences.py",
    "aten::rnn_tanh.data": "test/python/jit/test_packed_sequences.py",
}

# Keys that only native capture records, since torch.export refuses them -> where they are tested.
ONLY_IN_NATIVE_CAPTURE = {
    "higher_order::scan_pieces": "test/python/rolling/test_ragged.py",
    "python::_sym_cos": "test/python/recording/test_functions.py",
    "python::_sym_exp": "test/python/recording/test_functions.py",
    "python::_sym_log": "test/python/recording/test_functions.py",
    "python::_sym_log10": "test/python/recording/test_functions.py",
    "python::_sym_log2": "test/python/recording/test_functions.py",
    "python::_sym_sin": "test/python/recording/test_functions.py",
    "python::_sym_tanh": "test/python/recording/test_functions.py",
}
