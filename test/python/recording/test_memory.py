"""Programs that give tensors other memory, copy it, or ask how it is laid out."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from models.recording import (
    assert_native,
    assert_recorded,
    exported,
    function_id,
    reason_or_none,
)

Tensor = torch.Tensor
Program = Callable[[Tensor], Any]
X = torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(0))
LARGER = torch.randn(5, 3, 4, generator=torch.Generator().manual_seed(1))
IMAGE = torch.randn(2, 3, 4, 5, generator=torch.Generator().manual_seed(2))
IMAGES = torch.randn(4, 3, 6, 2, generator=torch.Generator().manual_seed(3))


class Calling(torch.nn.Module):
    """Calls a program of one tensor."""

    def __init__(self, program: Program) -> None:
        super().__init__()
        self.program = program

    def forward(self, x: Tensor) -> Any:
        return self.program(x)


# Other memory.


def set_to_result(x: Tensor) -> Any:
    y, before = x * 2, x * 3
    alias = before.detach()
    before.set_(y + 1)
    alias.add_(5)
    before.mul_(3)
    return y, before, alias


def set_to_alias(x: Tensor) -> Any:
    y = x * 2
    z = torch.zeros(3)
    z.set_(y)
    z += 1
    return y, z


def set_to_other_shape(x: Tensor) -> Any:
    y = x * 2
    view = y[0]
    y.set_(x.sum(0))
    view += 1
    return y * 3, view


def data_in_place(x: Tensor) -> Any:
    y = x * 2
    y.data += 1
    y.data.mul_(3)
    y.data[0] -= 1
    return y


def data_assigned(x: Tensor) -> Any:
    y, z = x * 2, x + 1
    y.data = z
    z *= 2
    y += 1
    return y, z


def data_in_a_loop(x: Tensor) -> Tensor:
    y = x * 2
    for i in range(3):
        y.data += i
        y.data = y.data * 2
    return y


def data_of_the_input(x: Tensor) -> Any:
    x = x.view_as(x)
    x.data = x + 1
    return x * 2


def deep_copies(x: Tensor) -> Any:
    y = x * 2
    first, same, named = copy.deepcopy((y, y, {"x": x}))
    first += 1
    return y, first, same, named["x"]


def deep_copy_of_a_transpose(x: Tensor) -> Any:
    y = copy.deepcopy(x.mT)
    return y + y.stride(1), y.is_contiguous()


def shallow_copies(x: Tensor) -> Any:
    """They share memory with the original, and are tensors of their own."""
    y = x * 2
    first, view, given = copy.copy(y), copy.copy(y[0]), copy.copy(x)
    first += 1
    view.fill_(5)
    y *= 3
    same = float(first is y) + float(copy.copy(x.mT).stride(1))
    return y, first, view, given * 2, same + x


def copies_of_attributes(x: Tensor) -> Any:
    y: Any = x * 2
    y.factor, y.parts = 3, [x + 1]
    deep, shallow = copy.deepcopy(y), copy.copy(y)
    deep.parts[0] += 1
    shallow.factor = 7
    deep.own = 2
    assert not hasattr(y, "own")
    assert shallow.parts is y.parts
    return y * y.factor, deep * deep.factor, shallow * shallow.factor, deep.parts[0], y.parts[0]


@dataclasses.dataclass
class Cache:
    keys: list[Tensor]
    named: dict[str, Tensor]
    last: Tensor


def copies_of_containers(x: Tensor) -> Any:
    cache = Cache([x * 2, x + 1], {"k": x * 3}, x - 1)
    deep, shallow = copy.deepcopy(cache), copy.copy(cache)
    deep.keys[0] += 1
    deep.named["k"] *= 2
    shallow.keys[1] -= 4
    shallow.last = copy.copy(shallow.last) + 9
    pairs = copy.copy((x * 5, {"x": x}))
    return [*cache.keys, *deep.keys, *shallow.keys, *(c.last for c in (cache, deep, shallow))], (
        cache.named,
        deep.named,
        copy.copy([*pairs])[0],
    )


@pytest.mark.parametrize(
    "program",
    [
        shallow_copies,
        copies_of_attributes,
        copies_of_containers,
        set_to_result,
        set_to_alias,
        set_to_other_shape,
        data_in_place,
        data_assigned,
        data_in_a_loop,
        data_of_the_input,
        deep_copies,
        deep_copy_of_a_transpose,
    ],
    ids=function_id,
)
def test_other_memory(program: Program) -> None:
    assert_recorded(Calling(program), ({0: "n"},), (X,), (LARGER,))


def other_dtype(x: Tensor) -> Tensor:
    y = x * 2
    y.data = x.long()
    return y


def part_of_memory(x: Tensor) -> Tensor:
    y = x * 2
    y.set_(x, 0, (2, 2), (2, 1))
    return y


def copies_that_share_memory(x: Tensor) -> Any:
    y = x * 2
    first, second = copy.deepcopy([y, y[0]])
    second += 1
    return first, second


def copy_of_expanded_memory(x: Tensor) -> Any:
    y = copy.deepcopy(x[:1].expand(3, -1, -1))
    y[0] += 1
    return y


def pickled(x: Tensor) -> Any:
    return pickle.loads(pickle.dumps(x * 2)) + 1


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        (pickled, "calls __reduce_ex__ of a Tensor"),
        (other_dtype, "gives a tensor other contents"),
        (part_of_memory, "set_ of a Tensor with a storage or with sizes"),
        (copies_that_share_memory, "calls __deepcopy__ of a Tensor"),
        (copy_of_expanded_memory, "not dense in memory"),
    ],
)
def test_memory_that_is_refused(program: Program, reason: str) -> None:
    assert reason in (reason_or_none(Calling(program), (X,), None) or "")


# Layouts.


def formats(x: Tensor) -> Any:
    last = x.movedim(1, -1).contiguous().movedim(-1, 1)
    flags = [
        y.is_contiguous(memory_format=torch.channels_last)
        for y in (x * 2, last, last * 2, x.mT, x[:, :1] * 1, x[0])
    ]
    return [x + flag for flag in flags]


def volume_formats(x: Tensor) -> Any:
    volume = x.unsqueeze(-1).expand(-1, -1, -1, -1, 2)
    last = volume.contiguous(memory_format=torch.channels_last_3d)
    flags = [y.is_contiguous(memory_format=torch.channels_last_3d) for y in (volume * 2, last)]
    return [x + flag for flag in flags]


@pytest.mark.parametrize("program", [formats, volume_formats], ids=function_id)
def test_memory_formats(program: Program) -> None:
    module = Calling(program)
    assert_recorded(module, None, (IMAGE,))
    assert_recorded(module, ({0: "n", 2: "h", 3: "w"},), (IMAGE,), (IMAGES,))


def test_a_memory_format_that_depends_on_a_size_is_guarded() -> None:
    program = exported(Calling(lambda x: formats(x * 1)), (IMAGE,), ({2: "h", 3: "w"},))
    assert_native(program)
    conditions = [guard["condition"] for guard in program.export_report["capture"]["guards"]]
    assert any("h" in condition or "w" in condition for condition in conditions), conditions


@pytest.mark.parametrize("view", [lambda x: x.mT.view(-1), lambda x: x[:, :2].view(-1)])
def test_views_that_eager_refuses(view: Program) -> None:
    for shapes in (None, ({0: "n"},)):
        with pytest.raises(torch.onnx.OnnxExporterError, match="view size is not compatible"):
            exported(Calling(view), (X,), shapes)


class Attending(torch.nn.Module):
    """Writes to the result of an attention, or to a copy of it if it is not contiguous."""

    def __init__(self, is_of_one_tensor: bool) -> None:
        super().__init__()
        self.attention = torch.nn.MultiheadAttention(4, 2, batch_first=True)
        self.is_of_one_tensor = is_of_one_tensor

    def forward(self, x: Tensor) -> Tensor:
        y = self.attention(x, x, x if self.is_of_one_tensor else x + 1)[0]
        y.contiguous().sub_(1.0)
        return y


@pytest.mark.parametrize("is_fused", [True, False])
@pytest.mark.parametrize("is_of_one_tensor", [True, False])
def test_memory_of_attention(
    is_of_one_tensor: bool, is_fused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PyTorch's fused kernel gives other strides than the operators that an export records."""
    module = Attending(is_of_one_tensor).eval()
    monkeypatch.setattr(torch.backends.mha, "get_fastpath_enabled", lambda: is_fused)
    with torch.no_grad():
        assert_native(exported(module, (X,)))
        torch.testing.assert_close(exported(module, (X,))(X)[0], module(X))
