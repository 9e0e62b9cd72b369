"""Rows of csrc/ops/nn/norm.cpp."""

import torch

from ops.row import Case, Row, floats

aten = torch.ops.aten
X, C = floats(4, 3, 5), floats(3)
MEAN, VAR = floats(3, seed=1), floats(3, seed=2).abs() + 0.5

ROWS = [
    Row(
        "aten::layer_norm",
        opinfo="nn.functional.layer_norm",
        cases=(
            Case(
                lambda x, w, c: aten.layer_norm(x.bfloat16(), [5], w, c).float(),
                floats(4, 5),
                floats(5),
                floats(5, seed=1),
            ),
            Case(lambda x, c: aten.layer_norm(x, [3, 5], None, c), X, floats(3, 5)),
        ),
    ),
    Row(
        "aten::native_layer_norm",
        opinfo="native_layer_norm",
        cases=(Case(lambda x, w: aten.native_layer_norm(x, [5], w, None, 1e-5), X, floats(5)),),
    ),
    Row(
        "aten::rms_norm",
        opinfo="nn.functional.rms_norm",
        cases=(
            Case(lambda x, w: aten.rms_norm(x, [5], w), X, floats(5)),
            Case(lambda x: aten.rms_norm(x.bfloat16(), [3, 5]).float(), X * 1e-4),
        ),
    ),
    Row(
        "aten::_fused_rms_norm",
        cases=(Case(lambda x, w: aten._fused_rms_norm(x, [5], w, 1e-5), X, floats(5)),),
    ),
    Row(
        "aten::group_norm",
        opinfo="nn.functional.group_norm",
        cases=(Case(lambda x, w: aten.group_norm(x, 2, w), floats(2, 6, 4), floats(6)),),
    ),
    Row(
        "aten::native_group_norm",
        opinfo="native_group_norm",
        cases=(
            Case(
                lambda x, w: aten.native_group_norm(x, w, None, x.shape[0], 6, 4, 2, 1e-5),
                floats(2, 6, 4),
                floats(6),
            ),
        ),
    ),
    Row("aten::instance_norm", opinfo="nn.functional.instance_norm"),
    Row("aten::batch_norm", opinfo="nn.functional.batch_norm"),
    Row("aten::native_batch_norm", opinfo="native_batch_norm"),
    Row(
        ("aten::_native_batch_norm_legit_functional", "aten::_native_batch_norm_legit.no_stats"),
        opinfo="_native_batch_norm_legit",
        pick=lambda samples: samples,
    ),
    Row(
        "aten::_native_batch_norm_legit_no_training",
        cases=(
            Case(
                lambda x, w, m, v: aten._native_batch_norm_legit_no_training(
                    x, w, None, m, v, 0.1, 1e-5
                ),
                X,
                C,
                MEAN,
                VAR,
            ),
        ),
    ),
    Row("aten::_batch_norm_with_update_functional", opinfo="_batch_norm_with_update"),
]
