"""Keyword arguments come in the order of forward's parameters, whatever the order of the call."""

from __future__ import annotations

from typing import Any

import onnx_native
import pytest
import torch
from torch import nn


def filled(value: float) -> torch.Tensor:
    return torch.full((2,), value)


A, B, C = filled(1), filled(2), filled(3)


class Plain(nn.Module):
    def forward(self, a: Any, b: Any = None, c: Any = None) -> Any:
        return a + 10 * b + 100 * c


class Open(nn.Module):
    def forward(self, a: Any, b: Any = None, **others: Any) -> Any:
        return a + 10 * b + 100 * others["c"]


class KeywordOnly(nn.Module):
    def forward(self, a: Any, *, b: Any, c: Any) -> Any:
        return a + 10 * b + 100 * c


class Looping(nn.Module):
    """Is exported as TorchScript."""

    def forward(self, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
        while a.sum() > 10:
            a = a - 1
        return a + 10 * b + 100 * c


def function(a: Any, b: Any, c: Any) -> Any:
    return a + 10 * b + 100 * c


class Nested(nn.Module):
    def forward(self, a: Any, b: Any) -> Any:
        return a + 10 * b["b"] + 100 * b["c"]


MODELS = {
    "plain": Plain(),
    "open": Open(),
    "keyword_only": KeywordOnly(),
    "looping": Looping(),
    "function": function,
    "scripted": torch.jit.script(Looping()),
}
CALLS: dict[str, tuple[Any, Any]] = {
    "kwargs": ((), {"c": C, "a": A, "b": B}),
    "a, then kwargs": ((A,), {"c": C, "b": B}),
    "dict in args": ((A, {"c": C, "b": B}), None),
    "dict": (({"c": C, "a": A, "b": B},), None),
}
NAMED = {name: {0: "n"} for name in "abc"}
SIZES: dict[str, dict[str, Any]] = {
    "static": {},
    "shapes": {"dynamic_shapes": NAMED},
    "axes": {"dynamic_axes": NAMED},
}


CASES = [
    *(("plain", call, "static", "auto") for call in CALLS),
    *(("plain", "kwargs", sizes, "auto") for sizes in ("shapes", "axes")),
    *((name, "kwargs", "shapes", "auto") for name in MODELS if name != "plain"),
    ("plain", "a, then kwargs", "axes", "torch.export"),
    ("open", "a, then kwargs", "static", "torch.export"),
    ("open", "dict in args", "static", "auto"),
]


@pytest.mark.filterwarnings("ignore:.*'dynamic_axes' is not recommended")
@pytest.mark.parametrize(("name", "call", "sizes", "capture"), CASES)
def test_inputs_have_the_order_of_the_parameters(
    name: str, call: str, sizes: str, capture: str
) -> None:
    model: Any = MODELS[name]
    args, kwargs = CALLS[call]
    options = dict(SIZES[sizes])
    if name == "open" and sizes == "shapes":
        options = {"dynamic_shapes": {"a": {0: "n"}, "b": {0: "n"}, "others": {"c": {0: "n"}}}}
    with onnx_native.options(capture=capture):
        program: Any = torch.onnx.export(
            model.eval() if isinstance(model, nn.Module) else model,
            args,
            kwargs=kwargs,
            input_names=["a", "b", "c"],
            verbose=False,
            **options,
        )
    graph = program.model_proto.graph
    assert [value.name for value in graph.input] == ["a", "b", "c"]
    wanted = function(A, B, C)
    feeds = {"a": A.numpy(), "b": B.numpy(), "c": C.numpy()}
    program.initialize_inference_session()
    (result,) = program._inference_session.run(None, feeds)
    torch.testing.assert_close(torch.from_numpy(result), wanted)
    if name == "scripted":
        return
    for given in ({"a": A, "b": B, "c": C}, {"c": C, "b": B, "a": A}):
        torch.testing.assert_close(program(**given)[0], wanted)
    torch.testing.assert_close(program(A, c=C, b=B)[0], wanted)


def test_order_of_more_keywords_stays() -> None:
    """Those of ``**kwargs`` have no parameters: they come in the order of the call."""
    program: Any = torch.onnx.export(
        Open().eval(), (), kwargs={"d": C, "c": C, "b": B, "a": A}, verbose=False
    )
    assert [value.name for value in program.model_proto.graph.input] == ["a", "b", "d", "c"]


def test_dicts_inside_arguments_keep_their_order() -> None:
    program: Any = torch.onnx.export(
        Nested().eval(), (), kwargs={"b": {"c": C, "b": B}, "a": A}, verbose=False
    )
    torch.testing.assert_close(program(A, {"c": C, "b": B})[0], function(A, B, C))
    torch.testing.assert_close(program(b={"c": C, "b": B}, a=A)[0], function(A, B, C))


def test_compare_takes_any_order() -> None:
    program: Any = torch.onnx.export(
        Plain().eval(), (), kwargs={"c": C, "a": A, "b": B}, verbose=False
    )
    for given in ({"a": A, "b": B, "c": C}, {"b": B, "c": C, "a": A}):
        assert onnx_native.compare(program, given).first is None
