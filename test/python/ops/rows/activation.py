"""Rows of csrc/ops/nn/activation.cpp."""

import math

import torch

from ops.row import NEWEST_RANDOM_OPSET, Case, Row, floats, integers

aten = torch.ops.aten
functional = torch.nn.functional

SPECIAL = torch.tensor([math.nan, math.inf, -math.inf, -0.0, 0.0, 1.5, -2.5, 0.25, -7.0, 30.0])

# OpInfo nn.functional.<name> -> the key's name if it differs.
ACTIVATIONS = {
    "relu": "",
    "relu6": "",
    "gelu": "",
    "silu": "",
    "mish": "",
    "elu": "",
    "selu": "",
    "celu": "",
    "leaky_relu": "",
    "prelu": "",
    "hardtanh": "",
    "hardsigmoid": "",
    "hardswish": "",
    "hardshrink": "",
    "softshrink": "",
    "softplus": "",
    "logsigmoid": "log_sigmoid",
    "threshold": "",
    "glu": "",
}

ones = torch.ones(3, 4, 2)
many = torch.ones(400, 300)
wide = floats(400, 300)

ROWS = [
    *(
        Row(f"aten::{key or name}", opinfo=f"nn.functional.{name}")
        for name, key in ACTIVATIONS.items()
    ),
    Row(
        (
            *(
                f"aten::{name}"
                for name in ("rrelu", "rrelu_with_noise_functional", "_prelu_kernel")
            ),
            *(f"aten::{name}" for name in ("special_softmax", "special_log_softmax")),
        ),
        name="other forms of activations",
        cases=(
            Case(
                lambda x: (
                    aten.rrelu(x, 0.1, 0.3, False),
                    *aten.rrelu_with_noise_functional(x, x, 0.1, 0.3),
                    aten._prelu_kernel(x, torch.full((1, 4), 0.2)),
                    aten.special_softmax(x, -1, torch.float64),
                    aten.special_log_softmax(x, -1),
                ),
                floats(3, 4),
            ),
        ),
    ),
    Row(
        "aten::relu",
        name="activations of special values",
        cases=(
            Case(
                lambda x: (
                    aten.relu(x),
                    aten.relu6(x),
                    aten.elu(x, 0.5, 2, 3),
                    aten.elu(x, 0.7),
                    aten.selu(x),
                    aten.celu(x, 0.5),
                    aten.leaky_relu(x, 0.3),
                    aten.hardtanh(x, -2, 1),
                    aten.hardsigmoid(x),
                    aten.hardswish(x),
                    aten.hardshrink(x, 0.25),
                    aten.softshrink(x, 0.25),
                    aten.softplus(x, 2, 5),
                    aten.log_sigmoid(x),
                    aten.threshold(x, 0.25, 7),
                    aten.sigmoid(x),
                    aten.tanh(x),
                ),
                SPECIAL,
            ),
            Case(lambda x: (aten.relu(x), aten.relu6(x)), integers(3, 4)),
            Case(aten.relu, integers(3, 4, low=0, dtype=torch.uint8)),
            Case(lambda x: aten.gelu(x, approximate="tanh"), floats(3, 4)),
            Case(functional.tanhshrink, floats(3, 4)),
        ),
    ),
    Row(
        "aten::softmax.int",
        opinfo="softmax",
        cases=(
            Case(lambda x: torch.softmax(x, 0), floats(3, 4)),
            Case(lambda x: functional.softmin(x, -1), floats(3, 4)),
            Case(lambda x: torch.softmax(x, -1, dtype=torch.float32), integers(3, 4)),
        ),
        dtypes=("float32", "float16"),
    ),
    Row("aten::log_softmax.int", opinfo="log_softmax", dtypes=("float32", "float16")),
    Row(
        ("aten::_softmax", "aten::_log_softmax"),
        cases=(
            Case(
                lambda x: (aten._softmax(x, 1, False), aten._log_softmax(x, 0, False)), floats(3, 4)
            ),
        ),
    ),
    Row(
        "aten::_safe_softmax",
        cases=(
            Case(
                lambda x: aten._safe_softmax(x, -1),
                torch.tensor([[-math.inf, -math.inf], [1, -math.inf], [2.0, 3]]),
            ),
        ),
    ),
    Row(
        (
            "aten::dropout",
            "aten::feature_dropout",
            "aten::alpha_dropout",
            "aten::feature_alpha_dropout",
            "aten::native_dropout",
        ),
        name="dropout outside of training",
        cases=(
            Case(
                lambda x: (
                    aten.dropout(x, 0.5, False) + 1,
                    aten.feature_dropout(x, 0.5, False) + 2,
                    aten.alpha_dropout(x, 0.5, False) + 3,
                    aten.feature_alpha_dropout(x, 0.5, False) + 4,
                    *aten.native_dropout(x, 0.5, False),
                ),
                floats(3, 4),
            ),
            # Its parameter `self` corresponds to dropout's `input`.
            Case(lambda x: aten.dropout_(x * 2, 0.5, False), floats(3, 4)),
            Case(lambda x: (aten.dropout(x, 1.0, True), aten.alpha_dropout(x, 1.0, True)), ones),
        ),
    ),
    Row(
        ("aten::dropout", "aten::feature_dropout", "aten::native_dropout"),
        name="dropout in training",
        random=True,
        cases=(
            Case(lambda x: aten.dropout(x, 0.25, True), ones),
            Case(lambda x: aten.feature_dropout(x, 0.25, True), ones),
            Case(lambda x: aten.native_dropout(x, 0.25, None), ones),
        ),
    ),
    # Means over many elements do not depend on the random numbers.
    Row(
        ("aten::alpha_dropout", "aten::feature_alpha_dropout"),
        name="expectations of dropout in training",
        static="the tolerance is that of this many elements",
        tolerance={"float32": (0, 0.03)},
        cases=(
            Case(lambda x: aten.dropout(x, 0.25, True).mean(), many),
            Case(lambda x: (aten.dropout(x, 0.25, True) == 0).float().mean(), many),
            Case(lambda x: aten.feature_dropout(x, 0.25, True).mean(), many),
            Case(lambda x: aten.alpha_dropout(x, 0.25, True).std(), wide),
            Case(lambda x: aten.alpha_dropout(x, 0.25, True).mean(), wide),
            Case(lambda x: aten.feature_alpha_dropout(x, 0.25, True).mean(), wide),
        ),
    ),
    Row(
        "aten::rrelu",
        name="rrelu in training",
        static="the tolerance is that of this many elements",
        tolerance={"float32": (0, 0.03)},
        newest=NEWEST_RANDOM_OPSET,
        cases=(Case(lambda x: aten.rrelu(x, 0.1, 0.3, True).mean(), -many),),
    ),
]
