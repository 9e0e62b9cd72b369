"""Numbers in natively captured programs: inputs, elements of tensors, floats of sizes, counts."""

from __future__ import annotations

import functools
import importlib
import math
import pathlib
from typing import Any

import numpy as np
import onnx
import onnx_native
import pytest
import torch
from models.calling import Calling
from models.recording import (
    DYNAMIC,
    EXAMPLES,
    LARGER,
    SINGLE,
    Function,
    X,
    assert_equal_to_eager,
    assert_native,
    assert_recorded,
    exported,
    reason_of,
)
from torch import nn
from torch.export import Dim

# Elements of tensors.


def integer_of_a_tensor(x: torch.Tensor) -> Any:
    count = (x > 0).sum().item()
    return x * count, torch.full((2,), count), x + count // 2 - count % 3, count * 2


def float_of_a_tensor(x: torch.Tensor) -> Any:
    mean = x.mean().item()
    total = x.double().sum().item()
    return x * mean + 2 * mean, x / (total + 0.5), torch.full((2,), mean), mean * total, -mean


def bool_of_a_tensor(x: torch.Tensor) -> Any:
    positive = (x.sum() > 0).item()
    return x * positive, torch.full((2,), positive)


def size_of_a_tensor(x: torch.Tensor) -> Any:
    count = (x[..., 0] > 0).sum().item()
    torch._check(count >= 0)
    made = torch.arange(count)
    return made * 2, torch.zeros(count, 2), made.shape[0] + 1


def slices_by_elements(x: torch.Tensor) -> Any:
    at = (x[0, :, 0] > 0).sum().item() % 4
    torch._check(at >= 0)
    torch._check(at < 4)
    return x[..., at], x.select(2, at), x.narrow(2, 0, at), x[:, :, :at]


def checked(x: torch.Tensor) -> Any:
    count = (x[..., 0] > 5).sum().item() + 2
    torch._check(count >= 2)
    torch._check(count <= 1000)
    scale = 2 if count > 1 else 3
    return torch.ones(count) * scale


def compared_floats(x: torch.Tensor) -> Any:
    mean = x.mean().item()
    above = torch.sym_not(mean <= 0.1)
    larger = torch.sym_max(mean, mean * 2)
    return x * above, larger * x, x * (mean < larger), mean <= larger


# Counts.


def masked(x: torch.Tensor) -> Any:
    positive = x[x > 0]
    return positive, positive.sum(), positive * 2, positive.shape[0] * 3


def masked_rows(x: torch.Tensor) -> Any:
    rows = x[x[..., 0] > 0]
    columns = x[:, x[0, :, 1] > 0]
    return rows, rows @ x[0].t(), columns.transpose(1, 2), rows.unsqueeze(0).mean(-1)


def selected(x: torch.Tensor) -> Any:
    return torch.masked_select(x, x > 0.5), torch.nonzero(x > 0), torch.argwhere(x[0] > 1)


def where_nonzero(x: torch.Tensor) -> Any:
    rows, columns, _ = torch.where(x > 0)
    first = (x[0] > 0).nonzero(as_tuple=True)
    return rows * 2, columns + rows, x[first[0].new_zeros(1), first[0][:1]], first[1]


def unique(x: torch.Tensor) -> Any:
    whole = (x * 2).long()
    values, inverse, counts = torch.unique(whole, return_inverse=True, return_counts=True)
    return values, inverse, counts, torch.unique_consecutive(whole[0, :, 0])


def interleaved(x: torch.Tensor) -> Any:
    repeats = (x[0, :, 0] > 0).long() + 1
    return torch.repeat_interleave(x, repeats, dim=1), torch.repeat_interleave(repeats)


def reshaped_count(x: torch.Tensor) -> Any:
    rows = (x * 2)[x[..., 0] > 0]
    rows.unsqueeze_(0)
    rows.transpose_(0, 2)
    return rows, torch.ones(rows.shape[1]), rows.shape[1], rows.reshape(-1)


def written_count(x: torch.Tensor) -> Any:
    y = x * 1
    y[y > 0] = 3.0
    positive = x[x > 0]
    positive.add_(1)
    y[x > 0] = positive
    return y


def written_slices(x: torch.Tensor) -> Any:
    rows = x.new_zeros(x.shape[1], 4)
    rows[:] = x[0]
    rows[None, :] = x[:1]
    return rows, x * abs((x * 3).long().sum().item())


def indexed_by_sizes(x: torch.Tensor) -> Any:
    last = x.shape[1] - 1
    y = x * 2
    y[:, last] = 0
    y[0, last, 1:3] = x[0, 0, :2]
    return x[:, last], x[0, last, None], x[..., last - last], y


# Floats of sizes.


def floats_of_sizes(x: torch.Tensor) -> Any:
    n = x.shape[1]
    return x * (n / 2), x * (n * 0.1), x + n**0.5, x / (x.shape[0] / n), n * 0.3


def rounded_floats(x: torch.Tensor) -> Any:
    n = x.shape[1]
    return (
        x * math.floor(n * 0.1),
        torch.ones(math.floor(n / 3 * 3), math.ceil(n * 1.1)),
        x + math.floor(n / x.shape[0]),
        torch.arange(math.floor(n**0.5) + 1),
    )


def divided_floats(x: torch.Tensor) -> Any:
    # Python's remainder is exact, and its quotient follows from it: 5 // 0.1 is 49.
    n = x.shape[1]
    return (
        *(x * (n // 0.1), x * (n / 10 // 0.1), x * (n // 2.0), x * (-n // 0.75), x * (7.3 // n)),
        *(x * (n % 0.1), x * (-n / 2 % 0.7), x * (n % -0.3), x * (n / 4 % 0.5), x * (2.5 % n)),
        *(x * divmod(n, 0.1)[0], x * (n / 3 // (n / 9))),
        *(torch.ones(int(n // 0.3)), torch.ones(int(n // 0.5) + 1)),
    )


def remainders_of_elements(x: torch.Tensor) -> Any:
    mean = x.mean().item()
    return x * (mean % 2), x * (mean // 0.1), x * (mean * -3 % 0.7)


def extremes_of_not_a_number(x: torch.Tensor) -> Any:
    half = x.shape[1] / 2
    first = torch.full((2,), max(math.nan, half))
    return x * max(half, math.nan), x * min(half, math.nan), first.isnan()


def branch_on_a_float(x: torch.Tensor) -> Any:
    return x * 2 if x.shape[1] * 0.3 < 100.5 else x


def integer(x: torch.Tensor) -> Any:
    return x * int(x.sum())


def integer_of_a_float(x: torch.Tensor) -> Any:
    return x * int(x.shape[1] * 0.3)


@functools.lru_cache
def doubled(shape: tuple[int, ...]) -> int:
    return shape[0] * 2


def cached_call(x: torch.Tensor) -> Any:
    # einops.rearrange does this.
    try:
        count = doubled(x.shape)
    except TypeError:
        count = doubled.__wrapped__(x.shape)
    return x * count


def positions(x: torch.Tensor) -> Any:
    # Relative positions of a Conformer: a part of a constant, at places that a size gives.
    table = torch.arange(99.0)
    n = x.shape[1]
    return table[49 - n + 1 : 49 + n], table[50 - n :], x.sum()


def whole_pieces(x: torch.Tensor) -> Any:
    pieces = x.shape[1] / 7
    return x * 2 if pieces.is_integer() else x + x


def virtual_batches(x: torch.Tensor) -> Any:
    # TabNet's; a guard says that there is one.
    return torch.cat([part - part.mean(0) for part in x.chunk(int(np.ceil(x.shape[1] / 128)), 1)])


RIGHT: list[Function] = [
    virtual_batches,
    whole_pieces,
    cached_call,
    positions,
    integer,
    integer_of_a_float,
    integer_of_a_tensor,
    float_of_a_tensor,
    bool_of_a_tensor,
    size_of_a_tensor,
    slices_by_elements,
    checked,
    compared_floats,
    masked,
    masked_rows,
    selected,
    where_nonzero,
    unique,
    interleaved,
    reshaped_count,
    written_count,
    written_slices,
    indexed_by_sizes,
    floats_of_sizes,
    rounded_floats,
    divided_floats,
    remainders_of_elements,
    extremes_of_not_a_number,
    branch_on_a_float,
]


@pytest.mark.parametrize("function", RIGHT, ids=lambda f: f.__name__)
def test_dynamic(function: Function) -> None:
    assert_recorded(Calling(function), (DYNAMIC,), *EXAMPLES, (-X,))


def test_library_that_takes_sizes(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Python's functions are replaced in the packages of the modules, then in those they call.
    code = "def middle(n):\n    return float(n - 1) / 2, int(n) // 2, max(n, 3)\n"
    (tmp_path / "library_of_sizes.py").write_text(code)
    monkeypatch.syspath_prepend(str(tmp_path))
    library = importlib.import_module("library_of_sizes")

    def scaled(x: torch.Tensor) -> Any:
        middle, half, at_least = library.middle(x.shape[1])
        return x * middle + half, torch.zeros(at_least)

    assert_recorded(Calling(scaled), (DYNAMIC,), *EXAMPLES)


@pytest.mark.parametrize("function", RIGHT, ids=lambda f: f.__name__)
def test_static(function: Function) -> None:
    assert_recorded(Calling(function), None, (X,), (-X,))


# Numbers as inputs.


class Numbers(nn.Module):
    def forward(self, x: torch.Tensor, k: int, scale: float, flag: bool) -> Any:
        return x * k + torch.ones(4) * scale, x * flag, k * 2 + x.shape[0], k // 3, scale + 1.0


@pytest.mark.parametrize("spec", ["k", Dim.DYNAMIC, Dim.AUTO, Dim("k", min=-9, max=9)], ids=str)
def test_number_inputs(spec: Any) -> None:
    shapes = (DYNAMIC[0], spec, Dim.DYNAMIC, Dim.DYNAMIC)
    program = exported(Numbers(), (X, 3, 0.5, True), shapes)
    assert_native(program)
    inputs = {v.name: v.type.tensor_type.elem_type for v in program.model_proto.graph.input}
    proto = onnx.TensorProto
    assert list(inputs.items())[1:] == [
        *(("k", proto.INT64), ("scale", proto.FLOAT), ("flag", proto.BOOL))
    ]
    examples = [(X, 3, 0.5, True), (LARGER, -7, -1.5, False), (SINGLE, 0, 0.25, True)]
    assert_equal_to_eager(program, Numbers(), *examples)


class Repeats(nn.Module):
    def forward(self, x: torch.Tensor, k: int) -> Any:
        made = x.new_ones(k) if k >= 0 else x.new_ones(1)
        return made, x.repeat(k, 1, 1), x[:, :k], torch.arange(k) * 2


class Positions(nn.Module):
    def forward(self, x: torch.Tensor, k: int) -> Any:
        return (
            *(x[:, :k], x[:, k:], x[..., k], x.select(2, k), torch.roll(x, k, 1)),
            *(x.narrow(2, 1, 2) * (k // 2), x + k % 3, torch.ones(4) * max(k, -2), k - x.shape[1]),
        )


def test_integer_of_any_sign() -> None:
    for first, others in ((3, (-2, 0, 1)), (-2, (3, 0, -1))):
        program = exported(Positions(), (X, first), (DYNAMIC[0], "k"))
        assert_native(program)
        examples = [(x, k) for x in (X, LARGER, SINGLE) for k in (first, *others)]
        holds = [_meets(program.export_report["capture"]["guards"], k) for _, k in examples]
        met = [example for example, fits in zip(examples, holds, strict=True) if fits]
        assert len(met) >= 3
        assert_equal_to_eager(program, Positions(), *met)


def _meets(guards: list[dict[str, str]], k: int) -> bool:
    return all(eval(guard["condition"], {"k": k}) for guard in guards)


def test_integer_that_is_a_size() -> None:
    program = exported(Repeats(), (X, 3), (DYNAMIC[0], "k"))
    assert_native(program)
    assert any("k" in guard["condition"] for guard in program.export_report["capture"]["guards"])
    assert_equal_to_eager(program, Repeats(), (X, 3), (LARGER, 1), (SINGLE, 5))


# Elements of weights.


class Initialized(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("ready", torch.tensor(True))
        self.register_buffer("sizes", torch.tensor([2, 3]))
        self.weight = nn.Parameter(torch.arange(4.0))

    def forward(self, x: torch.Tensor) -> Any:
        if not self.ready:
            self.ready.fill_(True)
            return x
        widest = int(self.sizes.max())
        scale = self.weight.abs().max().item() if (self.weight * 2).sum() > 1 else 1.0
        first = self.sizes.tolist()[0]
        return x[..., :widest] * scale, torch.ones(self.sizes[1].item()) * first


def test_decisions_by_the_elements_of_weights(capsys: pytest.CaptureFixture[str]) -> None:
    module = Initialized()
    with onnx_native.options(capture="native"):
        program: Any = torch.onnx.export(
            module, (X,), dynamic_shapes=DYNAMIC, dynamo=True, verbose=True
        )
    assert_native(program)
    assert "valid for the present elements of ready: test_numbers.py" in capsys.readouterr().out
    known = program.export_report["known_elements"]
    assert [name for name, _ in known] == ["ready", "sizes", "weight"]
    assert_equal_to_eager(program, module, (X,), (LARGER,), (SINGLE,))
    module.ready.fill_(False)
    with pytest.raises(onnx_native.ExportError, match="ready"):
        program.model_proto  # noqa: B018


class Starts(Initialized):
    """Decides by a buffer before it writes to it."""

    def forward(self, x: torch.Tensor) -> Any:
        scale = 2.0 if self.ready else 3.0
        self.ready.logical_not_()
        return x * scale


def test_a_decision_by_a_buffer_that_becomes_an_input() -> None:
    with pytest.warns(torch.onnx.errors.OnnxExporterWarning, match="the update of buffer ready"):
        program = exported(Starts(), (X,), DYNAMIC)
    assert_native(program)
    assert_equal_to_eager(program, Starts(), (X,))
    with onnx_native.options(state="ready"):
        reason = reason_of(Starts(), (X,), DYNAMIC)
    assert "decides by the elements of a tensor that is an input" in reason


# What is left to torch.export.


class DecidesAfterAWrite(Initialized):
    def forward(self, x: torch.Tensor) -> Any:
        self.ready.logical_not_()
        return x * 2 if self.ready else x


class ListsAfterAWrite(Initialized):
    def forward(self, x: torch.Tensor) -> Any:
        self.sizes += 1
        return x * self.sizes.tolist()[0]


def literal_after_a_write(x: torch.Tensor) -> Any:
    total = torch.tensor(0.0)
    total += x.sum()
    return x * 2 if total.item() > 0 else x


def literal_view_after_a_write(x: torch.Tensor) -> Any:
    total = torch.tensor([0.0, 1.0])
    total[0] += x.sum()
    return x * 2 if total > 0 else x


def branch_on_an_element(x: torch.Tensor) -> Any:
    return x * 2 if x.sum().item() > 0 else x


def branch_on_a_tensor(x: torch.Tensor) -> Any:
    return x * 2 if x.sum() > 0 else x


def branch_on_a_count(x: torch.Tensor) -> Any:
    return x * 2 if x[x > 0].shape[0] == 3 else x


def loop(x: torch.Tensor) -> Any:
    for _ in range((x > 0).sum().item()):
        x = x + 1
    return x


def pinned_by_a_float(x: torch.Tensor) -> Any:
    return x * 2 if x.shape[1] * 0.3 == 1.5 else x


def caught_branch(x: torch.Tensor) -> Any:
    try:
        return x * 2 if x.sum().item() > 0 else x
    except Exception:
        return x * 9


def caught_bits(x: torch.Tensor) -> Any:
    try:
        return x * (x.long().sum().item() & 3)
    except Exception:
        return x * 9


def random_decision(x: torch.Tensor) -> Any:
    return x * 2 if torch.rand(4).sum() > 2 else x


ASIDE: list[tuple[nn.Module, str]] = [
    (DecidesAfterAWrite(), "the program branches on the elements of a tensor"),
    (ListsAfterAWrite(), "reads elements that depend on data"),
    (Calling(literal_after_a_write), "branches on a number that depends on data"),
    (Calling(literal_view_after_a_write), ""),
    (Calling(branch_on_an_element), "branches on a number that depends on data"),
    (Calling(branch_on_a_tensor), "branches on the elements of a tensor"),
    (Calling(branch_on_a_count), "branches on a number that depends on data"),
    (Calling(loop), "a Python int or a loop needs the number"),
    (Calling(pinned_by_a_float), "which holds for the example"),
    (Calling(caught_bits), "the program calls"),
    (Calling(caught_branch), "branches on a number that depends on data"),
    (Calling(random_decision), "branches on the elements of a tensor"),
]


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize(
    ("module", "reason"), ASIDE, ids=[getattr(m, "function", type(m)).__name__ for m, _ in ASIDE]
)
@onnx_native.options(branches="example")
def test_steps_aside(module: nn.Module, reason: str, dynamic: bool) -> None:
    if not dynamic and getattr(module, "function", None) is pinned_by_a_float:
        assert_equal_to_eager(exported(module, (X,)), module, (X,))
        return
    shapes: Any = (DYNAMIC,) if isinstance(module, Calling) else DYNAMIC
    found = reason_of(module, (X,), shapes if dynamic else None)
    assert reason in found
    assert not reason or "test_numbers.py:" in found
