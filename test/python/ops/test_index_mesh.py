"""Indices that select whole rows and columns, like numpy.ix_, need no list of coordinates."""

import collections
from collections.abc import Callable

import onnx_native
import pytest
import torch
from models import running
from torch.export import Dim

pytestmark = pytest.mark.captures("auto", "torch.export")

Index = Callable[[torch.Tensor], torch.Tensor]


def columns(count: int) -> torch.Tensor:
    return torch.tensor([2, -1, 0])[:count]


# What selects from x of shape (batch, 5, length), and how many Gather nodes remain.
MESHES: dict[str, tuple[Index, int]] = {
    "a mask of all rows": (
        lambda x: x.amax(1)[
            torch.arange(x.shape[0])[:, None, None, None], torch.arange(x.shape[2])[None, None]
        ],
        0,
    ),
    "rows and columns": (lambda x: x[:, columns(3)[:, None], columns(2)], 2),
    "columns before rows": (lambda x: x[:, columns(3), columns(2)[:, None]], 2),
    "a slice between": (lambda x: x[columns(2)[:, None] % 2, :, columns(3)], 2),
    "a slice before": (lambda x: x[:, columns(3)[:, None, None], columns(2)[:, None]], 2),
    "one element": (lambda x: x[:, torch.tensor([[1]]), columns(3)[:, None]], 2),
    "a number": (lambda x: x[torch.tensor(1), columns(3)], 2),
    "reversed": (lambda x: x[:, torch.arange(5).flip(0)[:, None], torch.arange(x.shape[2])], 1),
}
LISTS: dict[str, Index] = {
    "one dimension": lambda x: x[:, columns(3), columns(3)],
    "two dimensions": lambda x: x[:, columns(3) + columns(2)[:, None], columns(3)],
    "nothing": lambda x: x[:, columns(0)[:, None], columns(2)],
}


class Indexed(torch.nn.Module):
    def __init__(self, index: Index) -> None:
        super().__init__()
        self.index = index

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.index(x)


def check(index: Index) -> collections.Counter[str]:
    """Compares with eager at two sizes; returns the numbers of operators."""
    module = Indexed(index).eval()
    shapes = ({0: Dim("batch", min=2), 2: Dim("length", min=3)},)
    program = torch.onnx.export(
        module, (torch.randn(2, 5, 4),), dynamo=True, dynamic_shapes=shapes, verbose=False
    )
    assert program is not None
    for batch, length in ((2, 4), (3, 7)):
        x = torch.randn(batch, 5, length)
        got = running.run(running.session(program.model_proto.SerializeToString()), {"x": x})
        torch.testing.assert_close(got[0], module(x))
    return collections.Counter(node.op_type for node in program.model_proto.graph.node)


@pytest.fixture(autouse=True)
def enabled():
    onnx_native.enable()


@pytest.mark.parametrize("name", MESHES)
def test_meshes_are_gathered_axis_by_axis(name):
    index, gathers = MESHES[name]
    found = check(index)
    assert found["GatherND"] == 0
    assert found["Gather"] == gathers


@pytest.mark.parametrize("name", LISTS)
def test_other_indices_are_lists_of_coordinates(name):
    check(LISTS[name])
