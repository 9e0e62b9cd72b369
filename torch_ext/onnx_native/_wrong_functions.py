"""Functions of PyTorch's ONNX function library that give other results than eager.

Each was run alone, on samples of PyTorch's operator database, in ONNX Runtime without
optimizations. They are no safety net: an operator that has nothing else is an error.
"""

# Operator -> when its function is wrong.
WRONG_FUNCTIONS = {
    "aten::_upsample_bilinear2d_aa": "ignores the scale factors when the corners are aligned",
    "aten::addmm": "adds the input unscaled when nothing is summed (a Gemm in ONNX Runtime)",
    "aten::arange.start_step": "counts the numbers of a floating range in float32",
    "aten::avg_pool2d": "ignores divisor_override",
    "aten::avg_pool3d": "ignores divisor_override",
    "aten::blackman_window": "is not 1 for a length of 1",
    "aten::hamming_window": "has 25/46 for 0.54",
    "aten::hann_window": "is not 1 for a length of 1",
    "aten::split.Tensor": "gives a sequence, not tensors",
    "aten::unsafe_split.Tensor": "gives a sequence, not tensors",
}
