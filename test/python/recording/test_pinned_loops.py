"""Loops over a size: no declared dimension is static in the file unless the export says so."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import pytest
import torch
from models.recording import Function, function_id
from torch import Tensor
from torch.export import Dim

Error = torch.onnx.errors.OnnxExporterError
X = torch.rand(4, 3, generator=torch.Generator().manual_seed(0))
OTHERS = [torch.rand(n, 3, generator=torch.Generator().manual_seed(n)) for n in (3, 4, 6)]


def by_index(x: Tensor) -> Tensor:
    s = x[0] * 0
    for i in range(x.shape[0]):
        s = s + x[i] * i
    return s


def by_size(x: Tensor) -> Tensor:
    s = x[0] * 0
    for i in range(x.size(0)):
        s = torch.tanh(s + x[i])
    return s


def by_len(x: Tensor) -> Tensor:
    s = x[0] * 0
    for i in range(len(x)):
        s = s * 0.5 + x[i]
    return s


def backward(x: Tensor) -> Tensor:
    s = x[0] * 0
    for i in range(x.shape[0] - 1, -1, -1):
        s = s * 0.5 + x[i]
    return s


def from_one(x: Tensor) -> Tensor:
    s = x[0]
    for i in range(1, x.shape[0]):
        s = torch.maximum(s * 0.9, x[i])
    return s


def collected(x: Tensor) -> Tensor:
    out = []
    for i in range(x.shape[0]):
        out.append(x[i] * i)
    return torch.stack(out)


def comprehended(x: Tensor) -> Tensor:
    return torch.stack([x[i] + i for i in range(x.shape[0])])


def generated(x: Tensor) -> Tensor:
    return sum(x[i] * i for i in range(x.shape[0]))  # type: ignore[return-value]


def iterated(x: Tensor) -> Tensor:
    s = torch.zeros(3)
    for row in x:
        s = s * 0.5 + row
    return s


def unbound(x: Tensor) -> Tensor:
    s = x[0] * 0
    for row in x.unbind(0):
        s = s * 0.5 + row
    return s


def enumerated(x: Tensor) -> Tensor:
    s = x[0] * 0
    for i, row in enumerate(x):
        s = torch.tanh(s + row * i)
    return s


def zipped(x: Tensor) -> Tensor:
    s = x[0] * 0
    for one, other in zip(x, x.flip(0), strict=False):
        s = s * 0.5 + one * other
    return s


def reversed_rows(x: Tensor) -> Tensor:
    s = x[0] * 0
    for row in reversed(x.unbind(0)):
        s = s * 0.5 + row
    return s


def split(x: Tensor) -> Tensor:
    return torch.cat([piece * 2 for piece in x.split(1)])


def chunked(x: Tensor) -> Tensor:
    return torch.stack([piece.sum() for piece in x.chunk(x.shape[0])])


def in_a_dict(x: Tensor) -> Tensor:
    rows = {}
    for i in range(x.shape[0]):
        rows[i] = x[i] * i
    return torch.stack(list(rows.values()))


def written(x: Tensor) -> Tensor:
    out = torch.zeros(x.shape[0], 3)
    for i in range(1, x.shape[0]):
        out[i] = out[i - 1] * 0.5 + x[i]
    return out


def nested(x: Tensor) -> Tensor:
    s = x[0] * 0
    for i in range(x.shape[0]):
        for j in range(i):
            s = s + x[i] * x[j]
    return s


def over_another_size(x: Tensor) -> Tensor:
    s = x
    for i in range(x.T.shape[1]):
        s = s + i
    return s


def with_break(x: Tensor) -> Tensor:
    s = x[0] * 0
    for i in range(x.shape[0]):
        if i == 5:
            break
        s = s + x[i]
    return s


def with_continue(x: Tensor) -> Tensor:
    s = x[0] * 0
    for i in range(x.shape[0]):
        if i % 2 == 1:
            continue
        s = s + x[i]
    return s


def with_a_handler(x: Tensor) -> Tensor:
    s = x[0] * 0
    try:
        for i in range(x.shape[0]):
            s = torch.tanh(s + x[i])
    except ZeroDivisionError:
        pass
    return s


def with_a_lambda(x: Tensor) -> Tensor:
    step = lambda s, row: torch.tanh(s + row)  # noqa: E731
    s = x[0] * 0
    for i in range(x.shape[0]):
        s = step(s, x[i])
    return s


def with_a_set(x: Tensor) -> Tensor:
    return x.sum(0) * sum({i * 2 for i in range(x.shape[0])})


def with_while(x: Tensor) -> Tensor:
    s = x[0] * 0
    i = 0
    while i < x.shape[0]:
        s = s + x[i]
        i += 1
    return s


def in_steps(x: Tensor) -> Tensor:
    s = x[0] * 0
    for i in range(0, x.shape[0], 2):
        s = s * 0.5 + x[i]
    return s


def accumulated(x: Tensor) -> Tensor:
    return torch.stack(list(itertools.accumulate(x.unbind(0), lambda a, b: a * 0.5 + b)))


def mapped(x: Tensor) -> Tensor:
    return torch.stack(list(map(torch.tanh, x)))


def counted_down(x: Tensor) -> Tensor:
    s, n = x[0] * 0, x.shape[0]
    while n > 0:
        n -= 1
        s = s * 0.5 + x[n]
    return s


def repeated(x: Tensor) -> Tensor:
    return torch.cat([x[:1]] * x.shape[0])


class Rows(torch.nn.Module):
    """Calls a function; TorchScript can compile the module if it can compile the function."""

    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


LOOPS: list[Function] = [
    by_index, by_size, by_len, backward, from_one, collected, comprehended, generated, iterated,
    unbound, enumerated, zipped, reversed_rows, split, chunked, in_a_dict, written, nested,
    over_another_size, with_break, with_continue, with_a_handler, with_a_lambda, with_a_set,
    with_while, in_steps, accumulated, mapped, counted_down, repeated,
]  # fmt: skip


def check(function: Function, size: Any) -> str:
    """Exports a loop; returns how its size is: static, dynamic or refused."""
    module = Rows(function).eval()
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try:
            program: Any = torch.onnx.export(
                module, (X,), dynamic_shapes=({0: size},), verbose=False
            )
        except Error:
            return "refused"
    dim = program.model_proto.graph.input[0].type.tensor_type.shape.dim[0]
    guards = [guard["condition"] for guard in program.export_report["capture"]["guards"]]
    told = [w for w in seen if w.category is torch.onnx.errors.OnnxExporterWarning]
    if guards:
        assert told, "the guards are no warning"
    for x in OTHERS:
        allowed = all(eval(guard, {"n": len(x), "s0": len(x)}) for guard in guards)
        if allowed and (dim.dim_param or len(x) == len(X)):
            torch.testing.assert_close(program(x)[0], module(x))
    if dim.dim_param:
        return "dynamic"
    assert any(guard.endswith("== 4") for guard in guards), "nothing says that the size is static"
    return "static"


@pytest.mark.parametrize("function", LOOPS, ids=function_id)
def test_a_declared_size_is_not_static(function: Function) -> None:
    assert check(function, Dim("n", min=1)) != "static"


@pytest.mark.parametrize("function", LOOPS, ids=function_id)
def test_a_named_size_is_static_only_where_no_capture_keeps_it(function: Function) -> None:
    named = check(function, "n")
    if named != "dynamic":
        assert check(function, Dim.DYNAMIC) == "refused"


@pytest.mark.parametrize("function", LOOPS[::6], ids=function_id)
def test_auto_is_never_refused(function: Function) -> None:
    assert check(function, Dim.AUTO) != "refused"
