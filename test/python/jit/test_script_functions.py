"""Scripted and traced functions (torch.jit.ScriptFunction)."""

import pytest
import torch
from onnx_native.request import _jit
from torch import Tensor

from .running import check


@torch.jit.script
def scaled(x: Tensor, times: int = 2, bias: Tensor | None = None):
    for i in range(x.size(0)):
        x = x + i * times
    if bias is not None:
        x = x + bias
    return x


def chosen(values: dict[str, Tensor], flip: bool):
    y = values["a"] @ values["b"]
    return (-y, y) if flip else (y, values["b"])


def test_scripted():
    sets = [(torch.randn(3, 2),), (torch.randn(5, 2),)]
    program = check(scaled, sets, [{0: "rows"}])
    assert [value.name for value in program.model_proto.graph.input] == ["x"]


def test_scripted_with_keywords():
    inputs = (torch.randn(3, 2),)
    bias = torch.randn(2)
    program = torch.onnx.export(
        scaled,
        inputs,
        kwargs={"times": 3, "bias": bias},
        dynamo=True,
        verbose=False,
        dynamic_shapes={"x": {0: "rows"}},
    )
    x = torch.randn(4, 2)
    torch.testing.assert_close(program(x, times=3, bias=bias)[0], scaled(x, 3, bias))


def test_dict():
    values = [{"a": torch.randn(n, 3), "b": torch.randn(3, 2)} for n in (2, 4)]
    shapes = [{"a": {0: "n"}, "b": None}, None]
    check(torch.jit.script(chosen), [(value, True) for value in values], shapes)


def test_traced():
    weight = torch.randn(4, 2)
    sets = [(torch.randn(3, 4), torch.randn(3, 2)), (torch.randn(5, 4), torch.randn(5, 2))]
    traced = torch.jit.trace(lambda x, y: (x @ weight).relu() + y.size(0) * y, sets[0])
    check(traced, sets, [{0: "n"}, {0: "n"}])


def test_unknown_argument():
    with pytest.raises(TypeError, match="scaled has no arguments"):
        torch.onnx.export(scaled, (torch.ones(2, 2),), kwargs={"y": 1}, dynamo=True, verbose=False)


def magnitudes(x: Tensor, k: Tensor):
    n = int(k.item())
    shifted = x * (n >> 1) + (n << 2) - (x.size(0) >> 1)
    return abs(x), abs(k) + abs(n), shifted, (n >> 0) + (n >> 3), x.new_zeros(x.size(0) << 1)


def test_magnitudes_and_shifts_of_integers():
    sets = [(torch.randn(n, 2), torch.tensor(k)) for n, k in ((3, -7), (5, 9), (1, -1), (4, 0))]
    check(torch.jit.script(magnitudes), sets, [{0: "rows"}, {}])


def total(values: list[Tensor]) -> Tensor:
    result = values[0] * 2
    for value in values[1:]:
        result = result + value
    return result


def test_a_list_in_place_of_the_arguments():
    x, y = torch.randn(2, 3), torch.randn(2, 3)
    pair = torch.jit.trace(lambda *v: v[0] - v[1], [x, y])
    listed = torch.jit.trace(total, ([x, y],))
    as_tuple = torch.jit.trace(total, ((x, y),))
    scripted = torch.jit.script(total)
    for function, args, expected in (
        (pair, [x, y], x - y),
        (pair, (x, y), x - y),
        (listed, [x, y], 2 * x + y),
        (listed, (x, y), 2 * x + y),
        (listed, ([x, y],), 2 * x + y),
        (listed, ((x, y),), 2 * x + y),
        (as_tuple, [x, y], 2 * x + y),
        (as_tuple, ((x, y),), 2 * x + y),
        (as_tuple, ([x, y],), 2 * x + y),
        (scripted, [x, y, x], 3 * x + y),
        (scripted, ((x,),), 2 * x),
    ):
        program = torch.onnx.export(function, args, dynamo=True, verbose=False)
        given = _jit.positional(function, args)
        torch.testing.assert_close(program(*given)[0], expected)
