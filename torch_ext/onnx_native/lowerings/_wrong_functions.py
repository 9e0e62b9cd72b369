"""Functions of PyTorch's ONNX function library whose results differ from eager.

Each was run on its own, on samples of PyTorch's operator database, in ONNX Runtime without
optimizations. They are not used as fallbacks: an operator without another lowering is an error.
"""

# Operator -> when its function is wrong.
WRONG_FUNCTIONS = {
    "aten::_upsample_bilinear2d_aa": "ignores the scale factors with align_corners",
    "aten::addmm": "does not scale the input if the sum is empty (a Gemm in ONNX Runtime)",
    "aten::arange.start_step": "computes the length of a floating-point range in float32",
    "aten::avg_pool2d": "ignores divisor_override",
    "aten::avg_pool3d": "ignores divisor_override",
    "aten::blackman_window": "is not 1 for a length of 1",
    "aten::hamming_window": "uses 25/46 instead of 0.54",
    "aten::hann_window": "is not 1 for a length of 1",
    "aten::split.Tensor": "returns a sequence, not tensors",
    "aten::unsafe_split.Tensor": "returns a sequence, not tensors",
}
