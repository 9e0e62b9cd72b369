"""Where TorchScript differs from Python, a compiled module does not stand for the user's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnx_native
import pytest
import torch
from onnx_native.torchscript import _unlike_python
from torch import Tensor, nn

EXAMPLE = torch.tensor([1.0, -2.0, 3.0, 4.0])
OTHERS = (-EXAMPLE, EXAMPLE * 0, EXAMPLE * 3)


class Branches(nn.Module):
    """The example takes the first way. TorchScript and Python differ on the other one."""

    def forward(self, x: Tensor) -> Tensor:
        if x.sum() > 0:
            return x
        return self.otherwise(x)

    def otherwise(self, x: Tensor) -> Tensor:
        raise NotImplementedError


class Formats(Branches):
    def otherwise(self, x: Tensor) -> Tensor:
        return x + len(f"{True}-{None}-{1e20}-{[1, 2]}-{(1,)}-{'a'}")


class MakesText(Branches):
    def otherwise(self, x: Tensor) -> Tensor:
        return x + len(str([1.5, 2.0]) + str({"a": 1}))


class MakesTextOfAConstant(Branches):
    """TorchScript computes it while it compiles."""

    def otherwise(self, x: Tensor) -> Tensor:
        return x + len(str(1e10))


class AsksForNames(Branches):
    def otherwise(self, x: Tensor) -> Tensor:
        return x + int("_x".isidentifier())


class SplitsLines(Branches):
    def otherwise(self, x: Tensor) -> Tensor:
        return x + len("a\r\nb\x0bc".splitlines())


class CountsLetters(Branches):
    def otherwise(self, x: Tensor) -> Tensor:
        return x + len("é")


class OfAnAttribute(Branches):
    def __init__(self) -> None:
        super().__init__()
        self.name = "ähnlich"

    def otherwise(self, x: Tensor) -> Tensor:
        return x + len(self.name)


class LooksForNothing(Branches):
    def otherwise(self, x: Tensor) -> Tensor:
        return x + "abc".count("")


class HasUnused(Branches):
    @torch.jit.unused
    def tripled(self, x: Tensor) -> Tensor:
        return x * 3

    def otherwise(self, x: Tensor) -> Tensor:
        return self.tripled(x)


class Caller(nn.Module):
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return super().__call__(*args, **kwargs) + 1

    def forward(self, x: Tensor) -> Tensor:
        return x * 5


class HasCall(Branches):
    def __init__(self) -> None:
        super().__init__()
        self.inner = Caller()

    def otherwise(self, x: Tensor) -> Any:
        return self.inner(x)


class AsksForTypes(Branches):
    def otherwise(self, x: Tensor) -> Tensor:
        y = x.sum().item()
        if isinstance(y, int):
            return x + 1
        if isinstance(y, float):
            return x + 2
        return x + 3


class SaysSomething(Branches):
    """Text of messages is not a part of the model."""

    def otherwise(self, x: Tensor) -> Tensor:
        if x.dim() > 4:
            raise ValueError(f"unexpected: {x.shape}, {1.5}")
        return x * 2


DIFFERENT: list[Callable[[], nn.Module]] = [
    Formats,
    MakesText,
    MakesTextOfAConstant,
    AsksForNames,
    SplitsLines,
    CountsLetters,
    OfAnAttribute,
    LooksForNothing,
    HasUnused,
    HasCall,
]


@pytest.mark.parametrize("make", [*DIFFERENT, AsksForTypes, SaysSomething])
def test_all_ways_are_those_of_python(make: Callable[[], nn.Module]) -> None:
    program = torch.onnx.export(make().eval(), (EXAMPLE,), dynamo=True, verbose=False)
    for x in (EXAMPLE, *OTHERS):
        torch.testing.assert_close(program(x)[0], make()(x))
    by = program.export_report["capture"]["by"]
    assert by == ("native" if make in DIFFERENT else "TorchScript")


@pytest.mark.parametrize(
    ("text", "is_same"),
    [
        ("'a-b'.split('-')[0] == 'a'", True),
        ("len('abc'[1:]) + len('a' + s)", True),
        ("'{}{}'.format(1, s)", True),
        ("s.find('b') + s.count('b')", True),
        ("s.upper().strip()", True),
        ("'{}'.format(1.5)", False),
        ("s.splitlines()", False),
        ("s.count(s)", False),
        ("s.find('b', 1)", False),
        ("str(x.size())", False),
        ("'%s' % 1", False),
        ("s == 'é'", True),
        ("s + str(len('é' + s))", False),
    ],
)
def test_text(text: str, *, is_same: bool) -> None:
    script = torch.jit.CompilationUnit(f"def f(x: Tensor, s: str):\n    return {text}\n")
    assert (_unlike_python.difference(script.f, nn.Identity()) is None) == is_same


def test_types_of_data_dependent_numbers() -> None:
    class Asks(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            y = x.sum().item()
            return x * 2 if isinstance(y, float) else x * 3

    program = torch.onnx.export(torch.jit.script(Asks()), (EXAMPLE,), dynamo=True, verbose=False)
    assert isinstance(program, onnx_native.ONNXProgram)
    torch.testing.assert_close(program(EXAMPLE)[0], EXAMPLE * 2)
