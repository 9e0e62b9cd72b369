"""dynamic_shapes and dynamic_axes have the same meaning for every kind of program."""

from __future__ import annotations

from typing import Any

import onnx_native
import pytest
import torch
from onnx_native.request import _dynamic_axes, _inputs, _jit, _shapes
from torch.export import Dim


@pytest.mark.parametrize(
    ("entry", "varies"),
    [
        *(("n", True), (Dim("n"), True), (Dim.DYNAMIC, True), (Dim.AUTO, True)),
        *((Dim.STATIC, False), (3, False), (None, False), ({}, False)),
    ],
)
def test_entries_that_vary(entry: Any, varies: bool) -> None:
    assert _shapes.varies(entry) == varies


class TwoArguments(torch.nn.Module):
    def forward(self, x: torch.Tensor, xs: list[torch.Tensor], n: int = 3) -> torch.Tensor:
        return x + xs[0] + xs[1] * n


EXAMPLE = (torch.ones(2, 3), [torch.ones(2, 3), torch.ones(2, 3)], 4)
ROWS = {0: "rows"}
X = torch.arange(6.0).reshape(2, 3)


def script_sizes(shapes: Any) -> list[Any]:
    specs = _jit.ScriptInputs(torch.jit.script(TwoArguments()), EXAMPLE, None, shapes).specs
    elements = specs[1].elements
    assert elements is not None
    return [each.sizes for each in (specs[0], *elements)] + [specs[2].is_fixed]


def test_names_axes_and_numbers_of_scripts() -> None:
    assert script_sizes((ROWS, [None, {1: Dim.AUTO}], "n")) == [
        *(["rows", 3], [2, 3], [2, "xs_1_dim_1"], False)
    ]
    assert script_sizes({"xs": [(Dim("a"), None), {-1: "b"}]}) == [
        *([2, 3], ["a", 3], [2, "b"], True)
    ]
    assert script_sizes(None) == [[2, 3], [2, 3], [2, 3], True]


@pytest.mark.parametrize(
    ("shapes", "said"),
    [
        (
            {"y": ROWS},
            r"dynamic_shapes has entries for \['y'\], "
            r"but the arguments of forward are \['x', 'xs', 'n'\]",
        ),
        ((ROWS,), r"dynamic_shapes has 1 entries for the arguments \['x', 'xs', 'n'\]"),
        ((None, [ROWS], None), "for xs, which has 2 elements; write a list with an entry for each"),
        ((None, ROWS, None), "for xs, which has 2 elements; write a list with an entry for each"),
        (({2: "n"}, None, None), "an entry for axis 2 of x, which has 2 dimensions"),
        (({-3: "n"}, None, None), "an entry for axis -3 of x, which has 2 dimensions"),
        ((("a", "b", "c"), None, None), "an entry for axis 2 of x, which has 2 dimensions"),
    ],
)
def test_shapes_that_match_no_script(shapes: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        script_sizes(shapes)


def test_keys_that_no_dict_of_a_script_has() -> None:
    with pytest.raises(ValueError, match=r"for d, which is a dict with the keys \['a'\]"):
        _shapes.elements({"a": torch.ones(2)}, {"b": ROWS}, "d")


def test_strings_are_names_for_modules() -> None:
    prepared = _inputs.prepare(TwoArguments(), EXAMPLE, None, (ROWS, [("n", 3), None], "k"))
    assert prepared is not None
    assert prepared.dynamic_shapes == ({0: Dim.DYNAMIC}, [(Dim.DYNAMIC, 3), None], Dim.DYNAMIC)
    assert prepared.specs == [ROWS, ("n", 3), None, "k"]


@pytest.mark.parametrize(
    "shapes", [(ROWS,), {"x": ROWS}, (ROWS, [None], None), (ROWS, {0: None}, None)]
)
def test_torch_export_explains_shapes_that_match_no_module(shapes: Any) -> None:
    assert _inputs.prepare(TwoArguments(), EXAMPLE, None, shapes) is None


def test_shapes_without_arguments() -> None:
    named = (None, Dim("n"))
    shapes, specs = _shapes.without_arguments({"x": ROWS, "xs": [named, None]})
    assert shapes["x"] == {0: Dim.DYNAMIC}
    assert [spec for spec in specs if spec] == [ROWS, named]
    assert _shapes.without_arguments({"x": {0: Dim.AUTO}}) == ({"x": {0: Dim.AUTO}}, [])
    assert _shapes.without_arguments(None) == (None, [])


def test_axes_of_scripts() -> None:
    axes: Any = {"image": [0, 1], "y": {0: "n"}, "out": {0: "n"}}
    arguments = {"x": torch.ones(2, 3), "y": torch.ones(2)}
    assert _dynamic_axes.of_script(axes, arguments, ["image"], ["out"]) == {
        "x": {0: "image_dim_0", 1: "image_dim_1"},
        "y": {0: "n"},
    }


class Plus(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1


@pytest.mark.parametrize("capture", ["native", "torch.export"])
@pytest.mark.parametrize(
    ("shapes", "said"),
    [
        (({5: "n"},), "axis 5 of a tensor with the shape"),
        (({"0": "n"},), "Unexpected dimension mapped to index 0"),
        (({0: 5},), "Static shape constraint of 5 does not match input size of 2"),
        (({0: 2.5},), "Unexpected dimension mapped to index 0"),
        ((["n"],), "expected 2, but got 1"),
        ((({0: "n", 1: "m"},),), "expected 2, but got 1"),
        (([{0: "n"}, None],), "Unexpected dimension #0"),
        (("n",), "expected either a list/tuple of dimensions, or a dict"),
        ({"y": {0: "n"}}, r"must be the arg names \['x'\]"),
        (({0: "n"}, {0: "k"}), "`inputs` has 1 elements, but `dynamic_shapes` has 2 elements"),
    ],
)
def test_shapes_that_do_not_describe_the_tensor(shapes: Any, said: str, capture: str) -> None:
    """No capture leaves a size static in silence because an entry is malformed."""
    with (
        onnx_native.options(capture=capture),
        pytest.raises((torch.onnx.OnnxExporterError, IndexError), match=said),
    ):
        torch.onnx.export(
            Plus().eval(),
            (torch.ones(2, 3),),
            dynamo=True,
            verbose=False,
            dynamic_shapes=shapes,
        )


class SizesOfData(torch.nn.Module):
    """Its symbols in torch.export are s..., u0 and u1."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch.arange(x.max().item()), y.nonzero(), x.roll(x.max().item(), 0), y * y.shape[0]


@pytest.mark.parametrize("capture", ["native", "torch.export"])
@pytest.mark.parametrize("name", ["u0", "u1", "s0", "s77", "s27"])
def test_names_that_torch_export_gives_other_sizes(name: str, capture: str) -> None:
    def inputs(n: int, m: int) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.arange(n * 2).reshape(n, 2) % 5 + 1, torch.arange(m * 3.0).reshape(m, 3)

    with onnx_native.options(capture=capture):
        program = torch.onnx.export(
            *(SizesOfData(), inputs(5, 4)),
            dynamo=True,
            dynamic_shapes=({0: name}, {0: Dim.DYNAMIC}),
            verbose=False,
        )
    assert program is not None
    for sizes in ((5, 4), (7, 2), (3, 6)):
        results, expected = program(*inputs(*sizes)), SizesOfData()(*inputs(*sizes))
        for result, wanted in zip(results, expected, strict=True):
            torch.testing.assert_close(result, wanted)


# What has no size needs no entry.


class Optional(torch.nn.Module):
    def forward(self, x: Any, y: Any = None, zs: Any = None) -> Any:
        total = x * 2 if y is None else x + y
        for z in zs or ():
            total = total if z is None else total + z
        return total


class Keywords(torch.nn.Module):
    def forward(self, x: torch.Tensor, **options: Any) -> torch.Tensor:
        mask, bias = options["mask"], options.get("bias")
        return x * mask if bias is None else x * mask + bias


@pytest.mark.parametrize(
    ("args", "shapes"),
    [
        ((X, None), (ROWS,)),
        ((X, None, None), [ROWS]),
        ((X, X, None), (ROWS, ROWS)),
        ((X, None, [X, None]), (ROWS, None, [ROWS])),
        ((X, X, (X, X, None, None)), {"x": ROWS, "y": ROWS, "zs": (ROWS, ROWS)}),
        ((X, None, [None]), {"x": ROWS}),
    ],
)
def test_nones_at_the_end_need_no_entry(args: Any, shapes: Any) -> None:
    program = torch.onnx.export(
        Optional().eval(), args, dynamo=True, verbose=False, dynamic_shapes=shapes
    )
    assert program is not None
    assert program.export_report["capture"]["by"] == "native"
    longer = torch.utils._pytree.tree_map_only(
        torch.Tensor, lambda x: torch.cat([x, x + 1, x]), args
    )
    torch.testing.assert_close(program(*longer)[0], Optional()(*longer))
    assert [str(value.shape[0]) for value in program.model.graph.inputs] == ["rows"] * sum(
        isinstance(leaf, torch.Tensor) for leaf in torch.utils._pytree.tree_leaves(args)
    )


@pytest.mark.parametrize("capture", ["native", "torch.export"])
def test_torch_export_gets_entries_for_nones(capture: str) -> None:
    with onnx_native.options(capture=capture):
        program = torch.onnx.export(
            Optional().eval(), (X, None), dynamo=True, verbose=False, dynamic_shapes=(ROWS,)
        )
    assert program is not None
    assert [str(value.shape[0]) for value in program.model.graph.inputs] == ["rows"]


@pytest.mark.parametrize("shapes", [(ROWS,), {"x": ROWS}, (ROWS, None, [ROWS])])
def test_tensors_at_the_end_need_an_entry(shapes: Any) -> None:
    """PyTorch demands one, and its absence may be a mistake."""
    with pytest.raises(torch.onnx.OnnxExporterError, match="dynamic_shapes"):
        torch.onnx.export(
            *(Optional().eval(), (X, X, [X, X])),
            dynamo=True,
            verbose=False,
            dynamic_shapes=shapes,
        )


@pytest.mark.parametrize(
    "shapes",
    [
        {"x": ROWS, "options": {"mask": ROWS}},
        {"x": ROWS, "options": {"mask": ROWS, "bias": None}},
        {"options": {"bias": None, "mask": ROWS}, "x": ROWS},
        (ROWS, {"mask": ROWS}),
        {"x": ROWS, "mask": ROWS},
        {"x": ROWS, "bias": None, "mask": ROWS},
    ],
)
def test_names_of_other_keyword_arguments(shapes: Any) -> None:
    program = torch.onnx.export(
        Keywords().eval(),
        (X,),
        kwargs={"mask": X + 1, "bias": None},
        dynamo=True,
        verbose=False,
        dynamic_shapes=shapes,
    )
    assert program is not None
    assert program.export_report["capture"]["by"] == "native"
    longer = torch.cat([X, X + 1, X])
    torch.testing.assert_close(program(longer, mask=longer * 2)[0], longer * longer * 2)
    assert [str(value.shape[0]) for value in program.model.graph.inputs] == ["rows", "rows"]


@pytest.mark.parametrize(
    "shapes",
    [
        {"x": ROWS},
        {"x": ROWS, "options": {}},
        {"x": ROWS, "options": {"masks": ROWS}},
        {"x": ROWS, "mask": ROWS, "other": ROWS},
        {"x": ROWS, "mask": ROWS, "options": {"mask": ROWS}},
    ],
)
def test_keyword_arguments_without_an_entry(shapes: Any) -> None:
    with pytest.raises(torch.onnx.OnnxExporterError, match="dynamic_shapes"):
        torch.onnx.export(
            *(Keywords().eval(), (X,)),
            kwargs={"mask": X + 1},
            dynamo=True,
            verbose=False,
            dynamic_shapes=shapes,
        )
