"""Methods of lists and dicts in scripts, also of plain modules that only TorchScript can read."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from jit.running import check

X = torch.arange(24.0).reshape(2, 3, 4)


class Remove(nn.Module):
    def forward(self, x):
        axes = [0, 1, 2]
        axes.remove(1)
        names = ["q", "k", "v"]
        names.remove("k")
        for name in names:
            x = x * 100 if name == "k" else x + 1
        return x.sum(axes)


class SortSizes(nn.Module):
    def forward(self, x):
        sizes = [x.size(0), x.size(1), x.size(2)]
        sizes.sort(reverse=True)
        return x.reshape(sizes), sizes[0] * 10 + sizes.index(3) + sizes.count(2)


class SortsAttribute(nn.Module):
    def __init__(self):
        super().__init__()
        self.order = [3, 1, 2]

    def forward(self, x):
        order = self.order
        order.sort()
        return x * order[0] + self.order[2]


class SortsStrings(nn.Module):
    def forward(self, x):
        names = ["b", "a"]
        names.sort()
        return x * 2 if names[0] == "a" else x * 3


class SortsInBranch(nn.Module):
    def forward(self, x):
        sizes = [4, 2]
        scales = [0.5, 0.25]
        if bool(x.sum() > 0):
            sizes.sort()
            scales.sort()
        return x.sum() * sizes[0] * scales[1]


class Multiplies(nn.Module):
    def forward(self, x):
        a = [1, 2]
        b = a
        a *= 2
        return x * len(b) + b[3]


class ListsOfLists(nn.Module):
    def forward(self, x):
        inner = [1]
        lists = [inner, [2, 3]]
        lists.reverse()
        lists[1].append(7)
        return x * len(inner) + inner[1] * len(lists[0])


class Compares(nn.Module):
    def forward(self, x):
        sizes = [x.size(0), x.size(2)]
        a = [x.max(), x.min()]
        same = [x.max() + 0, x.min()] == a
        scales = [0.5, float(x.max())]
        return (
            x * sum(sizes) + max(scales),
            sizes == [2, 4],
            same,
            [x.min()] != a[:1],
            (4 in sizes) and a.index(x.min()) == 1 and a.count(x.max()) == 1,
        )


class OfTensors(nn.Module):
    def forward(self, x):
        a = [x.max(), x.min(), x.mean()]
        a.sort()
        b = [x.max(), x.min(), x.mean()]
        b.remove(x.min())
        return a[0], a[1] * 2, b[0], b[1], len(b), sorted(b)[0]


class Defaults(nn.Module):
    def forward(self, x):
        d = {"a": 1}
        n = d.setdefault("c", 5) + d.setdefault("a", 9)
        e = {"x": x}
        y = e.setdefault("y", x + 1) + e.setdefault("x", x * 100)
        del d["c"]
        return y * n * len(d) + len(e)


class PopsItems(nn.Module):
    def forward(self, x):
        d = {"a": 2, "b": 3}
        key, value = d.popitem()
        e = {3: x, 4: x + 1}
        _, y = e.popitem()
        return y * value * len(d) * len(key) + e[4]


class Repeated(nn.Module):
    def forward(self, x):
        d = {1: 2, 2: 3, 1: 4}  # noqa: F601
        e = {True: x, False: x * 2, True: x * 3}  # noqa: F601
        f = {0.5: 1, 0.25: 2}
        f.update({0.5: 7})
        return x * len(d) * d[1] + e[True] * f[0.5] * len(e), d.get(3, 7), d.get(2, 7)


class Twice(nn.Module):
    """Sizes are the same key if they are equal."""

    def forward(self, x):
        d = {x.size(0): 1, x.size(1): 2}
        d[x.size(0)] = 5
        return x * d[2] + len(d)


PROGRAMS = [
    *(Remove, SortSizes, SortsAttribute, SortsStrings, SortsInBranch, Multiplies, ListsOfLists),
    *(Compares, OfTensors, Defaults, PopsItems, Repeated, Twice),
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_methods(program):
    check(torch.jit.script(program()), [(X,), (X - 30,)], opsets=(20,))


def test_dynamic_sizes():
    axes = {0: "a", 1: "b", 2: "c"}
    inputs = [(X,), (X.reshape(4, 3, 2),), (X.reshape(3, 2, 4),)]
    check(torch.jit.script(SortSizes()), inputs, (axes,), (20,))


class LooksUp(nn.Module):
    def forward(
        self,
        x,
        ints: dict[int, Tensor],
        bools: dict[bool, Tensor],
        floats: dict[float, Tensor],
        k: int,
    ):
        y = ints[3] if 3 in ints else x * 0
        return y + ints.get(k, x) + bools[True] * bools.get(False, x) + floats[0.5] + len(ints)


def test_keys_of_arguments():
    args = (X, {1: X, 3: X + 5}, {True: X + 1}, {0.5: X + 2, 1.0: X}, 3)
    check(torch.jit.script(LooksUp()), [args], opsets=(20,))


class ToList(nn.Module):
    def forward(self, x, i):
        numbers: list[float] = x[0, 0].tolist()
        rows: list[list[int]] = i.tolist()
        single: int = i[0, 0].tolist()
        numbers.sort()
        return x * numbers[1] + rows[1][0] * single, len(numbers)


def test_lists_of_a_tensor():
    i = torch.tensor([[1, 2], [3, 4]])
    check(torch.jit.script(ToList()), [(X, i), (X - 30, i + 5)], opsets=(20,))


class Either(nn.Module):
    def forward(self, x, axes: list[int] | int, scale: Tensor | list[Tensor]):
        y = x.sum(axes) if isinstance(axes, list) else x.sum([axes])
        return y * scale[0] if isinstance(scale, list) else y * scale


def test_arguments_of_several_types():
    module = torch.jit.script(Either())
    for axes in ([0, 1], 1):
        for scale in (torch.tensor(3.0), [torch.tensor(2.0)]):
            check(module, [(X, axes, scale)], opsets=(20,))


class Branches(nn.Module):
    def forward(self, x, ints: dict[int, Tensor]):
        axes = [2, 0, 1]
        axes.remove(1)
        axes.sort()
        d = {1: 2, 2: 3, 1: 4}  # noqa: F601
        d.setdefault(5, 6)
        if x.sum() > 0:
            x = x * 2
        return x.sum(axes) * len(d) + d[1] + ints.get(3, x).sum()


def test_plain_modules_with_branches():
    module = Branches()
    arguments: tuple[Any, ...] = (X, {1: X, 3: X + 5})
    program = torch.onnx.export(module, arguments, dynamo=True, verbose=False)
    assert program is not None
    assert program.export_report["capture"]["by"] == "TorchScript"
    torch.testing.assert_close(program(*arguments)[0], module(*arguments))


@torch.jit.script
class Scale:
    def __init__(self, start: int):
        self.count = torch.zeros(1) + start
        self.n = start

    def __enter__(self) -> Tensor:
        self.count.add_(10.0)
        self.n += 10
        return self.count

    def __exit__(self, kind: Any, value: Any, trace: Any):
        self.count.sub_(4.0)
        self.n -= 4


class With(nn.Module):
    def forward(self, x):
        scale = Scale(1)
        with scale:
            y = x + scale.n
        with scale as count:
            z = x * count
            with torch.no_grad():
                z = z + scale.n
            if torch.is_grad_enabled():
                z = z * 100
        return y * scale.n, z, scale.count


class WithInBranch(nn.Module):
    def forward(self, x):
        scale = Scale(2)
        if bool(x.sum() > 0):
            with scale:
                x = x * scale.count
        return x + scale.n


@pytest.mark.parametrize("program", [With, WithInBranch])
def test_context_managers(program):
    check(torch.jit.script(program()), [(X,), (X - 30,)], opsets=(20,))


class ComplexResult(nn.Module):
    def forward(self, x):
        return x * 2, complex(1.0, 2.0)


def test_complex_results():
    program = torch.onnx.export(torch.jit.script(ComplexResult()), (X,), dynamo=True, verbose=False)
    assert program is not None
    torch.testing.assert_close(program(X)[1], torch.tensor([1.0, 2.0]))


class ChangesAKey(nn.Module):
    def forward(self, x):
        d = {x.size(0): 1, 2: 3}
        return x * d[2]


class TensorKey(nn.Module):
    def forward(self, x):
        d = {x: 1}
        return x * d.get(x + 1, 2)


class DivisionByZero(nn.Module):
    def forward(self, x):
        sizes = [x.size(1) - 3]
        return x + 7 % sizes[0]


class ReturnsDevice(nn.Module):
    def forward(self, x):
        return x, x.device


@pytest.mark.parametrize(
    ("program", "message"),
    [
        (ChangesAKey, "cannot find the int 2 among the keys of a dict"),
        (TensorKey, "cannot find a tensor among the keys of a dict"),
        (DivisionByZero, "aten::remainder divides by 0"),
        (ReturnsDevice, "cannot return a value of type Device"),
    ],
)
def test_refusals(program, message):
    with pytest.raises(torch.onnx.OnnxExporterError, match=message) as caught:
        check(torch.jit.script(program()), [(X,)], ({0: "n"},), (20,))
    has_line = program in (TensorKey, DivisionByZero)
    assert not has_line or "test_container_methods.py" in str(caught.value)
