"""The example must have the sizes that dynamic_shapes declares, on every route."""

from __future__ import annotations

import math
from typing import Any

import onnx_native
import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim, ShapesCollection

Error = torch.onnx.errors.OnnxExporterError
X, Y = torch.arange(10.0), torch.arange(7.0)
d = Dim("d")


class Even(nn.Module):
    """Decides by the parity of a size."""

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return x[::2] if x.shape[0] % 2 == 0 else x[1:-1:2], y


class Loop(nn.Module):
    """Is exported as TorchScript."""

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        while x.sum() > 100:
            x = x / 2
        return x[::2] if x.shape[0] % 2 == 0 else x[1:-1:2], y


MODELS = {"even": Even(), "loop": Loop(), "scripted": torch.jit.script(Loop())}
WRONG: dict[str, tuple[Any, str]] = {
    "odd": (({0: 2 * d + 1}, None), r"dimension 0 of x as 2\*d \+ 1, but it is 10 in the example"),
    "by name": ({"x": {0: 2 * d + 1}, "y": None}, r"dimension 0 of x as 2\*d \+ 1, but"),
    "list": ([[2 * d + 1], None], r"dimension 0 of x as 2\*d \+ 1, but it is 10"),
    "tuple": (((4 * d,), None), r"dimension 0 of x as 4\*d, but it is 10"),
    "from the end": (({-1: 4 * d}, None), r"as 4\*d, but it is 10"),
    "other input": ((None, {0: 2 * d}), r"dimension 0 of y as 2\*d, but it is 7"),
    "related": (({0: d}, {0: d + 1}), "makes d 6 in the example, but it is 10 by dimension 0 of x"),
    "same": (({0: d}, {0: d}), "makes d 7 in the example, but it is 10 by dimension 0 of x"),
    "above": (({0: Dim("n", min=2, max=5)}, None), r"as n \(at least 2, at most 5\), but it is 10"),
    "below": (({0: Dim("n", min=20)}, None), r"as n \(at least 20\), but it is 10"),
    "root": (({0: 2 * Dim("n", max=4)}, None), r"2\*n.*, but it is 10"),
    "hint": (({0: Dim.DYNAMIC(max=5)}, None), r"DYNAMIC, max=5\).*, but it is 10"),
    "auto": (({0: Dim.AUTO(min=11)}, None), r"AUTO, min=11\).*, but it is 10"),
    "two": (({0: Dim("k", max=20)}, {0: Dim("k", max=30)}), r"two definitions of Dim\('k'\)"),
}


@pytest.mark.captures("auto", "torch.export")
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", WRONG)
def test_a_contradiction_is_an_error(name: str, model: str) -> None:
    shapes, message = WRONG[name]
    with pytest.raises(Error, match=f"(?s)The example contradicts dynamic_shapes: .*{message}"):
        torch.onnx.export(MODELS[model], (X, Y), dynamic_shapes=shapes, verbose=False)


def test_a_contradiction_in_other_forms() -> None:
    shapes = ShapesCollection()
    shapes[X] = (2 * d + 1,)
    with pytest.raises(Error, match=r"dimension 0 of x as 2\*d \+ 1, but it is 10"):
        torch.onnx.export(Even(), (X, Y), dynamic_shapes=shapes, verbose=False)  # type: ignore
    with pytest.raises(Error, match=r"dimension 0 of x as 2\*d \+ 1, but it is 10"):
        torch.onnx.export(
            Even(),
            (X, Y),
            dynamic_axes={"x": {0: 2 * d + 1}},  # type: ignore
            verbose=False,
        )
    with pytest.raises(Error, match=r"dimension 0 of y as 2\*d, but it is 7"):
        torch.onnx.export(
            Even(),
            (X,),
            kwargs={"y": Y},
            dynamic_shapes={"x": None, "y": {0: 2 * d}},
            verbose=False,
        )


class Nested(nn.Module):
    def forward(self, pairs: list[dict[str, Tensor]], n: int) -> Tensor:
        return pairs[0]["a"] * n


def test_places_in_containers_and_numbers() -> None:
    with pytest.raises(Error, match=r"dimension 0 of pairs\[0\]\['a'\] as 4\*d, but it is 10"):
        torch.onnx.export(
            Nested(), ([{"a": X}], 3), dynamic_shapes=([{"a": {0: 4 * d}}], None), verbose=False
        )
    with pytest.raises(Error, match=r"the number n as .*max=2.*, but it is 3 in the example"):
        torch.onnx.export(
            Nested(),
            ([{"a": X}], 3),
            dynamic_shapes=([{"a": None}], Dim.DYNAMIC(max=2)),
            verbose=False,
        )


@pytest.mark.captures("auto", "torch.export")
def test_what_agrees_is_exported() -> None:
    program: Any = torch.onnx.export(
        Even(), (X, Y), dynamic_shapes=({0: 2 * d}, {0: d + 2}), verbose=False
    )
    size = program.model_proto.graph.input[0].type.tensor_type.shape.dim[0]
    assert size.dim_param.startswith("2*")
    torch.testing.assert_close(program(X[:8], Y[:6]), Even()(X[:8], Y[:6]))


@pytest.mark.captures("auto", "torch.export")
@pytest.mark.parametrize("model", ["even", "scripted"])
def test_a_name_for_different_sizes_is_two_names(model: str) -> None:
    """A string only names a size: the model must not take the two for one size."""
    with pytest.warns(torch.onnx.errors.OnnxExporterWarning, match="has the name 'n_1'"):
        program: Any = torch.onnx.export(
            MODELS[model], (X, Y), dynamic_shapes=({0: "n"}, {0: "n"}), verbose=False
        )
    sizes = [value.type.tensor_type.shape.dim[0] for value in program.model_proto.graph.input]
    assert [size.dim_param for size in sizes] == ["n", "n_1"]
    torch.testing.assert_close(program(X, Y), Even()(X, Y))


class Fixing(nn.Module):
    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind

    def forward(self, x: Tensor) -> Tensor:
        n = x.shape[1]
        if self.kind == "assert":
            assert n == 4
        if self.kind == "check":
            torch._check(n == 4)
        if self.kind == "bounds":
            assert n >= 4
            assert n <= 4
        if self.kind == "text":
            return x * len(f"{n}")
        if self.kind == "computed":
            return x * 2 if math.sqrt(n) == 2 else x
        return x * 2 if n == 4 else x


@pytest.mark.parametrize("kind", ["assert", "check", "bounds", "text", "computed", "branch"])
@onnx_native.options(branches="example")
def test_an_auto_size_that_the_program_fixes_is_static(kind: str) -> None:
    x = torch.rand(3, 4)
    with pytest.warns(
        torch.onnx.errors.OnnxExporterWarning, match="s1 == 4 .*where the program fixes the size"
    ):
        program: Any = torch.onnx.export(
            Fixing(kind), (x,), dynamic_shapes=({0: Dim.AUTO, 1: Dim.AUTO},), verbose=False
        )
    assert program.export_report["capture"]["by"] == "native"
    sizes = program.model_proto.graph.input[0].type.tensor_type.shape.dim
    assert (sizes[0].dim_param, sizes[1].dim_value) == ("s0", 4)
    guards = program.export_report["capture"]["guards"]
    assert guards[0]["condition"] == "s1 == 4"
    assert guards[0]["source"].startswith("test_declarations.py:")
    for rows in (1, 5):
        x = torch.rand(rows, 4)
        torch.testing.assert_close(program(x)[0], Fixing(kind)(x))


@pytest.mark.parametrize("size", ["n", Dim("n"), Dim.DYNAMIC], ids=str)
@onnx_native.options(branches="example")
def test_a_declared_size_that_the_program_fixes_is_an_error(size: Any) -> None:
    with pytest.raises(Error):
        torch.onnx.export(
            Fixing("branch"), (torch.rand(3, 4),), dynamic_shapes=({1: size},), verbose=False
        )


class Related(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        assert y.shape[1] == 4
        assert x.shape[0] + 1 == y.shape[0]
        return x + y[1:]


def test_auto_sizes_that_are_related_stay_dynamic() -> None:
    auto = (Dim.AUTO, Dim.AUTO)
    program: Any = torch.onnx.export(
        Related(),
        (torch.rand(4, 4), torch.rand(5, 4)),
        dynamic_shapes=(auto, auto),
        verbose=False,
    )
    given = torch.rand(6, 4), torch.rand(7, 4)
    torch.testing.assert_close(program(*given)[0], Related()(*given))
