"""Computations on constants become constants, with eager's numbers."""

from collections.abc import Callable
from typing import Any

import onnx
import pytest
import torch
from models import routes
from torch import Tensor
from torch.nn import functional


def numbers(*shape: int) -> Tensor:
    count = int(torch.tensor(shape).prod())
    return (torch.arange(count) * 7 % 11 - 4).reshape(shape)


def floats(*shape: int) -> Tensor:
    return numbers(*shape) * 0.37


ROWS = torch.tensor([[2, 0, 1], [0, 0, -1 + 3]])

# Each adds what it computes to the input, which keeps the model from being empty.
CONSTANTS: dict[str, Callable[[], Any]] = {
    "split": lambda: floats(4, 3).split([1, 3]),
    "split_second_axis": lambda: floats(2, 5).chunk(3, 1),
    "unbind": lambda: numbers(3, 2).unbind(1),
    "states": lambda: torch.zeros(4, 2, 3).split(2),
    "gather": lambda: floats(2, 3).gather(1, ROWS),
    "gather_first_axis": lambda: numbers(3, 4).gather(0, ROWS),
    "take_along": lambda: floats(2, 3).take_along_dim(ROWS, 1),
    "index": lambda: floats(4, 3, 2)[torch.tensor([0, -1]), torch.tensor([2, 1])],
    "scatter": lambda: floats(2, 3).scatter(1, ROWS[:, :2].clone() * 0 + torch.tensor([2, 0]), 9.0),
    "index_put": lambda: floats(4, 3).index_put((torch.tensor([0, 2]),), floats(2, 3) + 1),
    "slice_scatter": lambda: floats(4, 3).slice_scatter(floats(2, 3) + 1, 0, 1, 3),
    "tile": lambda: numbers(2, 3).tile(2, 1, 3),
    "repeat_interleave": lambda: numbers(2, 3).repeat_interleave(2, 1),
    "pad": lambda: functional.pad(floats(2, 3), (1, 2, 0, 1), value=0.5),
    "pad_negative": lambda: functional.pad(floats(3, 4), (-1, 2, 1, -1)),
    "pad_reflect": lambda: functional.pad(floats(1, 2, 4), (2, 3), mode="reflect"),
    "pad_replicate": lambda: functional.pad(floats(1, 2, 4), (2, 5), mode="replicate"),
    "pad_circular": lambda: functional.pad(floats(1, 2, 4), (2, 3), mode="circular"),
    "cumsum": lambda: (floats(2, 3, 2).cumsum(1), numbers(3, 4).cumsum(0), numbers(5).cumsum(0)),
    "tril": lambda: (floats(3, 4).tril(1), numbers(4, 3).triu(-1), floats(2, 3, 3).triu(1)),
    "one_hot": lambda: functional.one_hot(torch.tensor([[0, 2], [1, 1]]), 4),
    "nonzero": lambda: torch.nonzero(torch.tensor([[1, 0, 2], [0, 3, 0]])),
    "argmax": lambda: (floats(3, 4).argmax(1), floats(3, 4).argmin(0, keepdim=True)),
    "mod": lambda: (numbers(3, 4) % 3, numbers(3, 4) % -3, torch.fmod(numbers(3, 4), 3)),
    "mod_of_floats": lambda: (
        floats(3, 4) % 0.4,
        floats(3, 4) % -0.7,
        torch.fmod(floats(3, 4), 0.4),
        torch.div(floats(3, 4), 0.3, rounding_mode="floor"),
    ),
    "sign": lambda: (floats(3, 4).sign(), numbers(3, 4).sign()),
    "products": lambda: (
        floats(3, 4) @ floats(2, 4, 3),
        functional.linear(floats(3, 4), floats(5, 4), floats(5)),
        torch.addmm(floats(3), floats(2, 4), floats(4, 3), beta=0.5, alpha=2),
        functional.conv1d(floats(2, 4, 5), floats(6, 2, 3), padding=1, groups=2),
        functional.conv2d(floats(1, 2, 5, 6), floats(3, 2, 3, 2), floats(3), 2, (1, 2), (1, 2)),
    ),
    "positions": lambda: (
        lambda at, n: [
            (at / 10000 ** (2 * torch.div(n, 2, rounding_mode="floor") / 8)).sin(),
            (at / 10000 ** (2 * (n // 2) / 8)).cos(),
        ]
    )(torch.arange(1, 7, dtype=torch.float32)[:, None] * 6.2, torch.arange(8.0)),
    "classes": lambda: (
        torch.tensor([1.0, torch.inf, -torch.inf, torch.nan]).isnan(),
        torch.tensor([1.0, torch.inf, -torch.inf, torch.nan]).isposinf(),
    ),
    "functions": lambda: (
        floats(8).atan(),
        floats(8).erf(),
        floats(8).sinh(),
        floats(8).cosh(),
        floats(8).asinh(),
        (floats(8) / 8).asin(),
        (floats(8) / 8).acos(),
        (floats(8) / 8).atanh(),
        (floats(8).abs() + 1).acosh(),
    ),
    "empty": lambda: torch.cat([numbers(4, 3)[:0], *numbers(4, 3).split([0, 4])]),
    "window_mask": lambda: (
        lambda ids: ids.view(2, 2, 2, 2).permute(0, 2, 1, 3).reshape(4, 4).unsqueeze(1) == ids[0]
    )(torch.zeros(4, 4).index_fill(0, torch.tensor([1, 3]), 2.0)),
}


def added(x: Tensor, constants: Any) -> list[Tensor]:
    tensors = constants if isinstance(constants, tuple | list) else [constants]
    return [each.to(x.dtype) + x for each in tensors]


def operators(model: onnx.ModelProto) -> set[str]:
    return {node.op_type for node in model.graph.node}


@pytest.mark.parametrize("name", CONSTANTS)
def test_constants(name: str) -> None:
    model = routes.check(lambda x: added(x, CONSTANTS[name]()), (torch.rand(()),), "native")
    assert operators(model) <= {"Add", "Identity"}


def test_a_split_keeps_what_is_a_result() -> None:
    def function(x: Tensor) -> Any:
        first, second = numbers(4, 3).split(2)
        return first, second + x.long()

    routes.check(function, (torch.rand(()),), "native")


def test_writes_to_the_same_place_stay() -> None:
    def function(x: Tensor) -> Tensor:
        return torch.zeros(3).index_put((torch.tensor([1, 1]),), x + torch.ones(2)) + x

    routes.check(function, (torch.rand(()),), "native")


def test_large_repetitions_stay() -> None:
    model = routes.check(lambda x: x + floats(64, 1).tile(1, 512), (torch.rand(512),), "native")
    assert operators(model) & {"Tile", "Expand"}


@pytest.mark.parametrize("kind", [torch.nn.LSTM, torch.nn.GRU])
def test_states_of_zeros(kind: type[torch.nn.Module]) -> None:
    module = kind(4, 3, num_layers=2, batch_first=True)
    model = routes.check(lambda x: module(x)[0], (torch.rand(2, 5, 4),), "native")
    assert "Split" not in operators(model)


def test_masks_are_not_casts() -> None:
    """Conversions to float16 do not follow a Cast to float."""

    def function(x: Tensor, mask: Tensor) -> Tensor:
        return functional.scaled_dot_product_attention(x, x, x, mask > 0)

    x = torch.rand(2, 3, 4)
    mask = torch.tensor([[1, 0, 1], [0, 0, 0], [1, 1, 0]])
    model = routes.check(function, (x, mask), "native")
    targets = [
        node.attribute[0].i
        for node in model.graph.node
        if node.op_type == "Cast" and node.attribute[0].name == "to"
    ]
    assert onnx.TensorProto.FLOAT not in targets
    reshapes = [node for node in model.graph.node if node.op_type == "Reshape"]
    assert not any(node.attribute for node in reshapes)


def test_constant_shapes_without_zeros_have_no_allowzero() -> None:
    class Tied(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rows = torch.nn.Embedding(7, 4)
            self.head = torch.nn.Linear(4, 7, bias=False)
            self.head.weight = self.rows.weight

        def forward(self, ids: Tensor) -> Any:
            return self.head(self.rows(ids).relu())

    model = routes.check(Tied().eval(), (torch.tensor([[1, 2, 3]]),), "native")
    assert not any(node.attribute for node in model.graph.node if node.op_type == "Reshape")
