"""Native capture of programs that branch on elements and that TorchScript cannot compile."""

from __future__ import annotations

import contextlib
import gc
import itertools
from collections.abc import Iterator
from typing import Any

import onnx
import pytest
import torch
from onnx_native.recording import _kept_values
from torch import nn

EXAMPLES = [
    torch.randn(batch, 4, generator=torch.Generator().manual_seed(batch)) * scale + scale
    for batch in (3, 1, 5)
    for scale in (1.0, -1.0, 0.1, -0.1, 3.0)
]


class Layers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)


class Branches(Layers):
    """A branch of a tensor, and one of a number that several steps use."""

    def forward(self, x: torch.Tensor, **_: Any) -> dict[str, Any]:
        h = x * 2
        y = self.first(h) if h.sum() > 0 else self.second(h) - 1
        is_large = (y > 0.5).any().item()
        for _step in range(2):
            if is_large:
                y = y.relu() + 0.25
        return {"y": y, "none": None, "rows": [y.mean(1), h]}


class OptionalMask(Layers):
    """As FSMT of transformers does with its padding."""

    def __init__(self) -> None:
        super().__init__()
        self.dropout = nn.Dropout(0.1)

    def forward(self, x: torch.Tensor, **_: Any) -> torch.Tensor:
        mask: torch.Tensor | None = self.dropout(x) < -0.5
        if not mask.any():
            mask = None
        for layer in (self.first, self.second):
            x = layer(x)
            if mask is not None:
                x = x.masked_fill(mask, 0.0)
        return x


class Rows(Layers):
    """The number of rows depends on the branch."""

    def forward(self, x: torch.Tensor, **_: Any) -> torch.Tensor:
        return self.first(x[x[:, 0] > 0]) if x.mean() > 0 else self.second(x)


class Checks(Layers):
    """As libraries check their arguments."""

    def forward(self, x: torch.Tensor, **_: Any) -> torch.Tensor:
        if x.isnan().any():
            raise ValueError("the input has NaN")
        for layer in (self.first, self.second):
            if (x.abs() > 1e6).any():
                raise RuntimeError(
                    f"too large before {layer}: {x.shape[0]} rows, up to {x.max().item()}"
                )
            x = layer(x)
        if x.sum() > 0:
            if x.abs().max() > 1e6:
                raise AssertionError
            return x
        return x * 2


class WritesABuffer(nn.Module):
    seen: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x: torch.Tensor, **_: Any) -> torch.Tensor:
        self.seen += x.sum()
        return x * 2 if x.sum() > 0 else x


class Halves(nn.Module):
    """More branches, one after the other, than the capture follows."""

    def forward(self, x: torch.Tensor, **_: Any) -> torch.Tensor:
        while x.abs().max() > 1:
            x = x / 2
        return x


class DrawsBefore(nn.Module):
    """Each way would draw other numbers than those that decided."""

    def forward(self, x: torch.Tensor, **_: Any) -> torch.Tensor:
        y = x + torch.rand_like(x)
        return y * 2 if self.is_large(y) else y

    def is_large(self, y: torch.Tensor) -> Any:
        return y.sum() > 0


class DrawsBeforeAFloat(DrawsBefore):
    def is_large(self, y: torch.Tensor) -> Any:
        return y.sum().item() > 0


class DrawsBeforeACount(DrawsBefore):
    def is_large(self, y: torch.Tensor) -> Any:
        return y[y > 0].shape[0] > 3


def exported(module: nn.Module) -> Any:
    torch.manual_seed(0)
    program: Any = torch.onnx.export(
        module.eval(), (EXAMPLES[0],), dynamic_shapes={"x": {0: "rows"}}, verbose=False
    )
    onnx.checker.check_model(program.model_proto, full_check=True)
    return program


@pytest.mark.parametrize("kind", [Branches, OptionalMask, Rows])
def test_both_ways_are_in_the_model(kind: type[nn.Module]) -> None:
    module = kind()
    program = exported(module)
    assert program.export_report["capture"]["by"] == "native"
    assert "If" in {node.op_type for node in program.model_proto.graph.node}
    for x in EXAMPLES:
        expected = torch.utils._pytree.tree_leaves(module(x))
        wanted = [one.detach() for one in expected if one is not None]
        torch.testing.assert_close(list(program(x)), wanted)


def test_ways_that_raise_are_left_out() -> None:
    module = Checks()
    program = exported(module)
    assert program.export_report["capture"]["by"] == "native"
    types = [node.op_type for node in program.model_proto.graph.node]
    assert types.count("If") == 1
    assert "IsNaN" not in types
    for x in EXAMPLES:
        torch.testing.assert_close(program(x)[0], module(x).detach())


class Compares(nn.Module):
    """As the kernels of gpytorch do."""

    def forward(self, x: torch.Tensor, **_: Any) -> Any:
        is_same, is_short = torch.equal(x, x.clamp(min=0)), x.equal(x[:, :2])
        return x * 2 if is_same else x + 1, x * is_short, x + torch.equal(x, x)


def test_comparisons_of_all_elements() -> None:
    program = exported(Compares())
    assert program.export_report["capture"]["by"] == "native"
    for x in (*EXAMPLES, torch.ones(2, 4)):
        torch.testing.assert_close(tuple(program(x)), Compares()(x))


class Validates(nn.Module):
    """torch.distributions check their arguments, and raise."""

    def forward(self, x: torch.Tensor, **_: Any) -> Any:
        policy = torch.distributions.Normal(x, x.exp())
        return policy.log_prob(x * 2), torch.distributions.Categorical(logits=x).entropy()


@pytest.fixture
def validates(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a new process: TorchDynamo turns the checks off for the whole process."""
    torch._dynamo  # noqa: B018  imports it
    monkeypatch.setattr(torch.distributions.Distribution, "_validate_args", True)


@pytest.mark.usefixtures("validates")
def test_distributions_validate_their_arguments() -> None:
    program = exported(Validates())
    assert program.export_report["capture"]["by"] == "native"
    assert "If" not in [node.op_type for node in program.model_proto.graph.node]
    for x in EXAMPLES:
        torch.testing.assert_close(tuple(program(x)), Validates()(x))


class Shows(nn.Module):
    """A message that calls functions, and asks for elements meanwhile."""

    def described(self) -> str:
        return f"{'large' if self.sum > 2 else 'small'} {self.sum}"

    def check(self, x: torch.Tensor) -> torch.Tensor:
        self.sum = x.sum()
        if self.sum > 1e6:
            raise ValueError("unexpected: " + self.described())
        return x * 2

    def forward(self, x: torch.Tensor, **_: Any) -> Any:
        return self.check(x)


class ShowsInATry(Shows):
    """The exception is caught, so that this way of the branch is not left out."""

    def forward(self, x: torch.Tensor, **_: Any) -> Any:
        try:
            return self.check(x)
        except ValueError:
            return x * 3


def test_a_message_that_asks_for_elements() -> None:
    program = torch.onnx.export(Shows(), (torch.ones(3),), dynamo=True, verbose=False)
    assert program.export_report["capture"]["by"] == "native"
    assert "If" not in [node.op_type for node in program.model_proto.graph.node]
    torch.testing.assert_close(program(torch.ones(3))[0], torch.full((3,), 2.0))


def test_the_exception_of_a_message_is_caught() -> None:
    try:
        program = torch.onnx.export(ShowsInATry(), (torch.ones(3),), dynamo=True, verbose=False)
    except torch.onnx.OnnxExporterError as error:
        assert "the program branches on " in str(error)  # noqa: PT017
    else:
        for x in (torch.ones(3), torch.ones(3) * 1e7):
            torch.testing.assert_close(program(x)[0], ShowsInATry()(x))


def test_weights_are_not_copied() -> None:
    weights = [one.name for one in exported(Branches()).model_proto.graph.initializer]
    assert len(weights) == len(set(weights))
    assert sum(name.startswith("first.weight") for name in weights) == 1


@pytest.mark.parametrize(
    "kind", [WritesABuffer, Halves, DrawsBefore, DrawsBeforeAFloat, DrawsBeforeACount]
)
def test_other_programs_are_left(kind: type[nn.Module]) -> None:
    with pytest.raises(torch.onnx.OnnxExporterError) as raised:
        exported(kind())
    assert "the program branches on " in str(raised.value)


class Sorts(nn.Module):
    """Each comparison is a branch, whose condition is a new number."""

    def forward(self, x: torch.Tensor, **_: Any) -> Any:
        first, second, third = (x[i].item() for i in range(3))
        if second < first:
            return x[[2, 1, 0]] if third < second else x[[1, 0, 2]]
        return x[[2, 0, 1]] if third < first else x[[0, 1, 2]]


def test_conditions_on_new_numbers_are_told_apart() -> None:
    rows = [torch.tensor(row) for row in itertools.permutations((1.0, 2.0, 3.0))]
    try:
        program = torch.onnx.export(Sorts(), (rows[0],), dynamo=True, verbose=False)
    except torch.onnx.OnnxExporterError as error:
        assert "branches on " in str(error)  # noqa: PT017
    else:
        for x in rows:
            torch.testing.assert_close(program(x)[0], Sorts()(x))


class Notes:
    def __init__(self) -> None:
        self.count = 0
        self.names: list[str] = []


class Remembers(nn.Module):
    """Both ways change what the module holds."""

    def __init__(self) -> None:
        super().__init__()
        self.notes = Notes()
        self.seen: dict[str, Any] = {"calls": 0, "ways": [[]]}
        self.mode = "new"

    def forward(self, x: torch.Tensor, **_: Any) -> Any:
        self.notes.count += 1
        self.seen["calls"] += 1
        if x.sum() > 2:
            self.seen["ways"][0].append("large")
            self.mode = "large"
        else:
            self.notes.names.extend(["small", "small"])
            self.seen["small"] = 1
        size = len(self.notes.names) + 10 * len(self.seen["ways"][0]) + 100 * len(self.mode)
        return x * self.notes.count + size + ("small" in self.seen)


def test_ways_do_not_see_each_other() -> None:
    model = Remembers()
    program = torch.onnx.export(model, (EXAMPLES[0],), dynamo=True, verbose=False)
    assert program.export_report["capture"]["attempts"][-1]["route"] == "native, both ways"
    assert model.seen == {"calls": 0, "ways": [[]]}
    assert (model.notes.count, model.notes.names, model.mode) == (0, [], "new")
    for x in EXAMPLES[:5]:
        torch.testing.assert_close(program(x)[0], Remembers()(x))


class Advances(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.numbers = iter([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0])

    def forward(self, x: torch.Tensor, **_: Any) -> Any:
        return x * next(self.numbers) if x.sum() > 2 else x


def test_iterators_cannot_go_back() -> None:
    with pytest.raises(torch.onnx.OnnxExporterError, match=r"branches on|is an iterator"):
        torch.onnx.export(Advances(), (EXAMPLES[0],), dynamo=True, verbose=False)


@contextlib.contextmanager
def doubled() -> Iterator[None]:
    yield


class Decorated(nn.Module):
    """A decorator keeps its context manager, which keeps a generator that nobody runs."""

    @doubled()
    def forward(self, x: torch.Tensor, **_: Any) -> torch.Tensor:
        return x * 2 if x.sum() > 2 else x - 1


def test_a_context_manager_as_decorator() -> None:
    program = exported(Decorated())
    for x in EXAMPLES:
        torch.testing.assert_close(program(x)[0], Decorated()(x))


def test_a_refused_recording_keeps_no_tensor(monkeypatch: pytest.MonkeyPatch) -> None:
    """To look for what is alive among all objects of the process takes longer than the export."""
    looked_at: list[int] = []
    recorded = _kept_values._recorded
    monkeypatch.setattr(
        _kept_values,
        "_recorded",
        lambda objects: looked_at.append(len(objects)) or recorded(objects),
    )
    program = exported(Branches())
    assert program.export_report["capture"]["attempts"][0]["kind"] == "control flow"
    assert max(looked_at, default=0) < len(gc.get_objects()) / 4
