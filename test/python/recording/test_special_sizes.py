"""Programs that take another way at a few sizes, among them those of the example."""

from __future__ import annotations

from typing import Any

import onnx_native
import pytest
import torch
from models.recording import assert_equal_to_eager, assert_native, exported
from torch import nn

Warned = torch.onnx.errors.OnnxExporterWarning


class Positions(nn.Module):
    """Resizes a table of positions unless it has the size of the image, as vision models do."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(1, 3, 4, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        height, width = x.shape[2:]
        if height * width == 16 and height == width:
            return x + self.table
        resized = nn.functional.interpolate(self.table, size=(height, width), mode="bicubic")
        return x + resized


class Attending(nn.Module):
    """Needs no mask for one row, as decoders."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores = x @ x.mT
        if x.shape[1] != 1:
            scores = scores.masked_fill(torch.ones_like(scores).triu(1).bool(), -torch.inf)
        return scores.softmax(-1) @ x


class Doubling(nn.Module):
    """Returns something else for four rows."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.shape[0] == 4 else x * 1


class Demanding(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape[0] != 4:
            raise ValueError("needs four rows")
        return x * 2


@pytest.mark.parametrize("size", [4, 6])
@onnx_native.options(branches="example")
def test_a_way_with_the_same_results_is_left_out(size: int) -> None:
    module = Positions().eval()
    with pytest.warns(Warned, match="valid only where"):
        program = exported(module, (torch.randn(2, 3, size, size),), ({0: "b", 2: "h", 3: "w"},))
    assert_native(program)
    takes_another = [w for w in program.export_report["warnings"] if "takes another way" in w]
    assert len(takes_another) == (size == 4)
    shapes = [(2, 3, 4, 4), (1, 3, 4, 6), (3, 3, 9, 5), (1, 3, 1, 1)]
    assert_equal_to_eager(program, module, *((torch.randn(shape),) for shape in shapes))


@onnx_native.options(branches="example")
def test_a_single_row_does_not_stand_for_more() -> None:
    module = Attending().eval()
    with pytest.warns(Warned, match="takes another way for the sizes of the example"):
        program = exported(module, (torch.randn(2, 1, 4),), ({0: "b", 1: "rows"},))
    assert_native(program)
    assert_equal_to_eager(program, module, *((torch.randn(2, n, 4),) for n in (1, 2, 7)))


@pytest.mark.parametrize("module", [Doubling(), Demanding()], ids=["doubling", "demanding"])
@onnx_native.options(branches="example")
def test_a_way_with_other_results_is_refused(module: nn.Module) -> None:
    with pytest.raises(torch.onnx.errors.OnnxExporterError):
        torch.onnx.export(
            module, (torch.randn(4, 2),), dynamic_shapes=({0: "n"},), dynamo=True, verbose=False
        )


@pytest.mark.parametrize("module", [Doubling(), Demanding()], ids=["doubling", "demanding"])
@onnx_native.options(branches="example")
def test_a_size_left_to_the_capture_is_fixed_there(module: nn.Module) -> None:
    shapes: Any = ({0: torch.export.Dim.AUTO},)
    with pytest.warns(Warned, match="s0 == 4"):
        program = exported(module, (torch.randn(4, 2),), shapes)
    assert program.model_proto.graph.input[0].type.tensor_type.shape.dim[0].dim_value == 4
    assert_equal_to_eager(program, module, (torch.randn(4, 2),))


@onnx_native.options(branches="example")
def test_the_example_needs_elements() -> None:
    """Without elements the two ways cannot be compared."""
    with torch.device("meta"):
        module = Positions().eval()
        x = torch.randn(2, 3, 4, 4)
    with pytest.raises(Exception, match=r"height|h\*w|16"), onnx_native.options(capture="native"):
        torch.onnx.export(
            module, (x,), dynamic_shapes=({2: "h", 3: "w"},), dynamo=True, verbose=False
        )
