"""PyTorch's primitives, called like its decompositions call them."""

import torch

from ops.row import Case, Row, floats, integers

prims = torch.ops.prims

FLOATS = (
    "abs asin asinh atan ceil cos cosh digamma erf erfc exp exp2 expm1 floor isfinite lgamma neg "
    "reciprocal round sign sin sinh tan tanh trunc".split()
)
POSITIVE = "acosh log log10 log1p log2 rsqrt sqrt".split()
PAIRS = "add atan2 div eq fmax fmin fmod ge gt hypot le lt maximum minimum mul ne remainder sub"
INTEGERS = "bitwise_and bitwise_or bitwise_xor shift_left shift_right_arithmetic"


def unary(name: str, *inputs: torch.Tensor) -> Row:
    op = getattr(prims, name)
    return Row(f"prims::{name}", cases=tuple(Case(lambda x: op(x), x) for x in inputs))


def binary(name: str, x: torch.Tensor, y: torch.Tensor) -> Row:
    op = getattr(prims, name)
    return Row(f"prims::{name}", cases=(Case(lambda x, y: op(x, y), x, y),))


def reduction(name: str) -> Row:
    op = getattr(prims, name)
    x = floats(3, 4, 2)
    return Row(
        f"prims::{name}",
        cases=(Case(lambda x: op(x, [1]), x), Case(lambda x: op(x, [0, 2]), x)),
    )


ROWS = [
    *(unary(name, floats(3, 4)) for name in FLOATS),
    *(unary(name, floats(3, 4).abs() + 1.25) for name in POSITIVE),
    unary("acos", floats(3, 4).tanh()),
    unary("atanh", floats(3, 4).tanh() * 0.9),
    unary("bitwise_not", integers(3, 4)),
    *(binary(name, floats(3, 4), floats(3, 4, seed=1)) for name in PAIRS.split()),
    *(binary(name, integers(3, 4), integers(3, 4, low=0, seed=1)) for name in INTEGERS.split()),
    binary("pow", floats(3, 4).abs(), floats(3, 4, seed=1)),
    *(reduction(name) for name in ("sum", "prod", "amax", "amin")),
    Row(
        "prims::var",
        cases=(
            Case(lambda x: prims.var(x, [1], 1.0), floats(3, 4)),
            Case(lambda x: prims.var(x, [0, 2], 0.0), floats(3, 4, 2)),
        ),
    ),
    Row("prims::cat", cases=(Case(lambda x, y: prims.cat([x, y], 1), floats(3, 4), floats(3, 2)),)),
    Row("prims::clone", cases=(Case(lambda x: prims.clone(x), floats(3, 4)),)),
    Row(
        "prims::convert_element_type",
        cases=(Case(lambda x: prims.convert_element_type(x, torch.int32), floats(3, 4)),),
    ),
    Row("prims::fill", cases=(Case(lambda x: prims.fill(x, 2.5), floats(3, 4)),)),
    Row(
        "prims::reshape", cases=(Case(lambda x: prims.reshape(x, [x.shape[0] * 4]), floats(3, 4)),)
    ),
    Row("prims::rev", cases=(Case(lambda x: prims.rev(x, [1]), floats(3, 4)),)),
    Row(
        "prims::scalar_tensor",
        cases=(
            Case(
                lambda x: x + prims.scalar_tensor(2.5, dtype=torch.float32, device="cpu"),
                floats(3, 4),
            ),
        ),
    ),
    Row("prims::squeeze", cases=(Case(lambda x: prims.squeeze(x, [1]), floats(3, 1, 4)),)),
    Row(
        "prims::transpose", cases=(Case(lambda x: prims.transpose(x, [2, 0, 1]), floats(3, 4, 2)),)
    ),
    Row(
        "prims::where",
        cases=(Case(lambda x, y: prims.where(x > 0, x, y), floats(3, 4), floats(3, 4, seed=1)),),
    ),
    Row("prims::view_of", cases=(Case(lambda x: prims.view_of(x) * 2, floats(3, 4)),)),
    Row(
        "prims::device_put",
        cases=(Case(lambda x: prims.device_put(x, torch.device("cpu")), floats(3, 4)),),
    ),
    Row(
        "prims::broadcast_in_dim",
        cases=(
            Case(lambda x: prims.broadcast_in_dim(x, [x.shape[0], 2, 4], [0, 2]), floats(3, 4)),
        ),
    ),
    Row("prims::collapse", cases=(Case(lambda x: prims.collapse(x, 1, 2), floats(3, 4, 2)),)),
    Row(
        "prims::collapse_view",
        cases=(Case(lambda x: prims.collapse_view(x, 1, 2), floats(3, 4, 2)),),
    ),
    Row("prims::split_dim", cases=(Case(lambda x: prims.split_dim(x, 1, 2), floats(3, 4)),)),
    Row(
        "prims::iota",
        cases=(
            Case(
                lambda x: (
                    x
                    + prims.iota(
                        4, start=1, step=2, dtype=torch.int64, device="cpu", requires_grad=False
                    )
                ),
                floats(3, 4),
            ),
        ),
    ),
]
