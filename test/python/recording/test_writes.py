"""Writes in natively captured programs: to buffers, parameters, inputs, literals and shapes."""

from __future__ import annotations

import contextlib
import copy
import warnings
from typing import Any

import onnx_native
import pytest
import torch
from models.calling import Calling
from models.recording import (
    DYNAMIC,
    EXAMPLES,
    LARGER,
    SINGLE,
    Example,
    Function,
    X,
    assert_equal_to_eager,
    assert_native,
    assert_recorded,
    exported,
    function_id,
    reason_of,
)
from torch import nn


def stateful(module: nn.Module, args: Example, dynamic_shapes: Any, state: Any = True) -> Any:
    """The program of a native capture, which must leave the module unchanged."""
    before = copy.deepcopy(module.state_dict(keep_vars=True))
    held = dict(module.named_buffers())
    with onnx_native.options(state=state), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Exporting a model while it is in training mode")
        program = exported(module, args, dynamic_shapes)
    assert_native(program)
    for name, value in module.state_dict(keep_vars=True).items():
        assert torch.equal(value, before[name])
    assert all(held[name] is buffer for name, buffer in module.named_buffers())
    return program


def follow(program: Any, module: nn.Module, *steps: Example) -> None:
    """Runs both step by step; the model takes the state from its previous step."""
    module = copy.deepcopy(module)
    for args in steps:
        with torch.no_grad():
            expected = torch.utils._pytree.tree_leaves(module(*copy.deepcopy(args)))
        results = program(*args)
        torch.testing.assert_close(list(results[: len(expected)]), expected)
        program.state = dict(zip(program.state_outputs, results[len(expected) :], strict=True))
        written = {**dict(module.named_buffers()), **dict(module.named_parameters())}
        after = {name: written[name].detach() for name in program.initial_state}
        torch.testing.assert_close(program.state, after)


def interface(program: Any) -> tuple[list[str], int, dict[str, str]]:
    """The names of inputs and state, which do not depend on the capture."""
    graph = program.model_proto.graph
    return [v.name for v in graph.input], len(graph.output), dict(program.state_outputs)


class State(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
        self.register_buffer("total", torch.zeros(4))
        self.register_buffer("memory", torch.zeros(6, 4), persistent=False)
        self.weight = nn.Parameter(torch.ones(4))


class Counts(State):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return x * self.calls


class ReadsBetweenWrites(State):
    def forward(self, x: torch.Tensor) -> Any:
        before = self.total * 1
        self.total.add_(x.sum((0, 1)))
        between = self.total * 2
        self.total[:2].mul_(3)
        view = self.total[1:]
        self.total[1] = 7
        return before, between, self.total + x, view


class Replaces(State):
    def forward(self, x: torch.Tensor) -> Any:
        self.total = self.total + x.sum((0, 1))
        self.total[0] += 1
        self.calls = self.calls + x.shape[1]
        return x + self.total * self.calls


class WritesThenReplaces(State):
    def forward(self, x: torch.Tensor) -> Any:
        old = self.total
        old.add_(1)
        self.total = old + x[0, 0]
        old.mul_(2)
        return x + old + self.total


class Swaps(State):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("other", torch.ones(4))

    def forward(self, x: torch.Tensor) -> Any:
        self.total, self.other = self.other, self.total
        return x + self.total * 2 + self.other


class Cache(State):
    def forward(self, x: torch.Tensor) -> Any:
        at = torch.arange(x.shape[0]) + 1
        self.memory[at] = x[:, 0]
        self.memory.index_copy_(0, at + 1, x[:, 1])
        self.memory[:, 2:].copy_(self.memory[:, :2])
        return self.memory @ x.transpose(1, 2)


class WritesParameter(State):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            self.weight.mul_(0.5)
        return x * self.weight


class WritesData(State):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.weight.data.add_(1)
        self.total.data[:2] += 1
        return x * self.weight + self.total


class ForEach(State):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        torch._foreach_add_([self.total, self.memory], 1)
        torch._foreach_mul_([self.total, self.memory[0]], [2.0, 3.0])
        return x + self.total + self.memory[0]


class OutIsABuffer(State):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        torch.add(x[0, 0], self.total, out=self.total)
        return x + self.total


STATEFUL: list[type[State]] = [
    Counts,
    ReadsBetweenWrites,
    Replaces,
    WritesThenReplaces,
    Cache,
    OutIsABuffer,
    WritesParameter,
    # Programs whose state torch.export loses, or that it cannot capture:
    Swaps,
    ForEach,
    WritesData,
]


@pytest.mark.parametrize("kind", STATEFUL, ids=lambda kind: kind.__name__)
def test_state(kind: type[State]) -> None:
    module = kind()
    program = stateful(module, (X,), DYNAMIC)
    follow(program, module, (X,), (LARGER,), (SINGLE,), (X,))


@pytest.mark.parametrize("kind", STATEFUL[:-3], ids=lambda kind: kind.__name__)
def test_same_state_as_through_torch_export(kind: type[State]) -> None:
    program = stateful(kind(), (X,), DYNAMIC)
    with onnx_native.options(state=True):
        through = torch.onnx.export(kind().eval(), (X,), dynamo=True, dynamic_shapes=DYNAMIC)
    assert interface(program) == interface(through)


@pytest.mark.parametrize("kind", STATEFUL, ids=lambda kind: kind.__name__)
def test_state_that_is_not_asked_for(kind: type[State]) -> None:
    with pytest.warns(torch.onnx.errors.OnnxExporterWarning, match="the update of buffer"):
        program = stateful(kind(), (X,), DYNAMIC, state=False)
    for example in (X, LARGER, SINGLE):
        assert_equal_to_eager(program, kind(), (example,))


def test_running_statistics() -> None:
    module = nn.Sequential(nn.Conv1d(5, 4, 3, padding=1), nn.BatchNorm1d(4)).train()
    program = stateful(module, (X,), ({0: "batch"},))
    assert set(program.state_outputs) == {
        *("1.running_mean", "1.running_var", "1.num_batches_tracked")
    }
    follow(program, module, (X,), (torch.randn(3, 5, 4),), (torch.randn(1, 5, 4),))


def test_instance_statistics() -> None:
    module = nn.InstanceNorm1d(5, track_running_stats=True).train()
    program = stateful(module, (X,), ({0: "batch"},))
    follow(program, module, (X,), (torch.randn(3, 5, 4),), (torch.randn(1, 5, 4),))


def test_written_input() -> None:
    def write(x: torch.Tensor) -> torch.Tensor:
        x[:, 0] = 1.0
        x.mul_(2)
        return x.sum(1)

    module = Calling(write)
    with pytest.warns(torch.onnx.errors.OnnxExporterWarning, match="the update of input"):
        program = exported(module, (X.clone(),), (DYNAMIC,))
    assert_native(program)
    assert_equal_to_eager(program, module, (X,), (LARGER,), (SINGLE,))
    with onnx_native.options(state=True):
        program = exported(module, (X.clone(),), (DYNAMIC,))
    assert_native(program)
    for x in (X, LARGER, SINGLE):
        written = x.clone()
        total = module(written)
        torch.testing.assert_close(list(program(x)), [total, written])


# Writes to what the program made.


def literal(x: torch.Tensor) -> Any:
    scale = torch.tensor([1.0, 2.0, 3.0, 4.0])
    before = scale * 1
    scale[0] = 5
    scale[1:].add_(x[0, 0, 1:])
    return x * scale, before


def literal_in_a_loop(x: torch.Tensor) -> Any:
    total = torch.tensor(0.0)
    for row in range(4):
        total += x[..., row].sum()
    return total


def out_argument(x: torch.Tensor) -> Any:
    made = torch.empty_like(x)
    torch.mul(x, 3, out=made)
    values, indices = torch.empty(4), torch.empty(4, dtype=torch.int64)
    torch.max(x[0, :2], 0, out=(values, indices))
    return made, values, indices


def lists(x: torch.Tensor) -> Any:
    a, b = x * 2, x[:, :1] + 1
    torch._foreach_add_([a, b], 1)
    torch._foreach_mul_((a, b), 3)
    return a, b


def unsqueezed(x: torch.Tensor) -> Any:
    y = x * 2
    z = y
    y.unsqueeze_(1)
    y.add_(1)
    y.squeeze_(1)
    z.unsqueeze_(-1)
    return y, z * 2, y.shape[1], y.dim()


def transposed(x: torch.Tensor) -> Any:
    y = x * 2
    before = y[0]
    y.transpose_(1, 2)
    y.swapaxes_(0, 2)
    y[0] += 1
    matrix = before.clone()
    matrix.t_()
    matrix.swapdims_(0, 1)
    return y, before, matrix, y.reshape(-1)


def identities(x: torch.Tensor) -> Any:
    y = x * 2
    same = y.contiguous()
    other = y.to(torch.float32)
    same.unsqueeze_(0)
    return y, same, other, same is y, torch.tensor(float(other is y))


MADE: list[Function] = [
    literal,
    literal_in_a_loop,
    out_argument,
    lists,
    unsqueezed,
    transposed,
    identities,
]


@pytest.mark.parametrize("dynamic_shapes", [None, (DYNAMIC,)], ids=["static", "dynamic"])
@pytest.mark.parametrize("function", MADE, ids=lambda f: f.__name__)
def test_writes_to_what_the_program_made(function: Function, dynamic_shapes: Any) -> None:
    module = Calling(function)
    program = exported(module, (X,), dynamic_shapes)
    assert_native(program)
    assert not program.export_report["warnings"]
    larger = [(LARGER,), (SINGLE,)] if dynamic_shapes else []
    assert_equal_to_eager(program, module, (X,), *larger)


# What is left to torch.export.


class SharesMemory(State):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("first", self.total[:2])

    def forward(self, x: torch.Tensor) -> Any:
        self.first.add_(1)
        return x + self.total


class WritesAttribute(State):
    def __init__(self) -> None:
        super().__init__()
        self.plain = torch.zeros(4)

    def forward(self, x: torch.Tensor) -> Any:
        self.plain.add_(1)
        return x + self.plain


class ReplacesParameter(State):
    def forward(self, x: torch.Tensor) -> Any:
        self.weight = nn.Parameter(self.weight * 2)
        return x + self.weight


class GivesOtherContents(State):
    def forward(self, x: torch.Tensor) -> Any:
        with contextlib.suppress(RuntimeError):
            self.weight.data = x[0]
        return x + self.weight


class CachesWhatItWrites(State):
    """A cache of a value that follows from a counter, so that it differs in the next call."""

    def __init__(self) -> None:
        super().__init__()
        self.cache: dict[str, torch.Tensor] = {}

    def forward(self, x: torch.Tensor) -> Any:
        self.total = self.total + 1
        if "x" not in self.cache:
            self.cache["x"] = self.total * 2
        return x + self.cache["x"]


class Unregisters(State):
    def forward(self, x: torch.Tensor) -> Any:
        total = self.total
        self.total = None
        return x + total


OUTSIDE = torch.zeros(4)


def writes_outside(x: torch.Tensor) -> Any:
    OUTSIDE.add_(1)
    return x + OUTSIDE


def resizes(x: torch.Tensor) -> Any:
    y = x * 2
    y.resize_(2, 5)
    return y


def reshapes_input(x: torch.Tensor) -> Any:
    x.unsqueeze_(0)
    return x * 2


def reshapes_copy(x: torch.Tensor) -> Any:
    y = x * 2
    z = y.data
    z.unsqueeze_(0)
    return y, z


def squeezes_a_dynamic_size(x: torch.Tensor) -> Any:
    y = x[:, :1] * 2
    y = y.expand(-1, x.shape[1] - 4, -1).clone()
    y.squeeze_(1)
    return y


def resized_input(x: torch.Tensor) -> Any:
    return torch.cat([x, x], out=x)


def reshapes_idle_dropout(x: torch.Tensor) -> Any:
    y = x * 2
    z = torch.nn.functional.dropout(y, training=False)
    z.unsqueeze_(0)
    return y, z


ASIDE: list[tuple[nn.Module, str]] = [
    (SharesMemory(), "shares memory with another one"),
    (WritesAttribute(), "neither an input nor a buffer"),
    (ReplacesParameter(), "the program replaces weight of a ReplacesParameter"),
    (GivesOtherContents(), "tensor.data = ..."),
    (CachesWhatItWrites(), "the program replaces x of a CachesWhatItWrites"),
    (Unregisters(), "the program replaces total of a Unregisters"),
    (Calling(writes_outside), "neither an input nor a buffer"),
    (Calling(resizes), "changes the shape of its argument"),
    (Calling(reshapes_input), "a tensor that the program did not compute"),
    (Calling(reshapes_copy), "a tensor that has a copy"),
    (Calling(squeezes_a_dynamic_size), "the program depends on"),
    (Calling(resized_input), "a tensor that the program did not compute"),
]


def resized_results(x: torch.Tensor) -> Any:
    total, joined, best = torch.empty(0), x.new_zeros(2), torch.empty(5, dtype=torch.int64)
    torch.sum(x, 0, out=total)
    torch.cat([x, x], 1, out=joined)
    torch.argmax(x, 1, out=best)
    stacked = joined.new_empty(0)
    torch.stack([x, total.expand_as(x)], out=stacked)
    stacked += 1
    return total, joined, best, stacked, stacked.shape[2] + best.shape[0]


def resized_at_other_sizes(x: torch.Tensor) -> Any:
    made = torch.empty(2, 5, 4)
    torch.mul(x, 3, out=made)
    return made, made.reshape(made.shape[0], -1)


@pytest.mark.parametrize("program", [resized_results, resized_at_other_sizes], ids=function_id)
def test_an_out_argument_is_resized(program: Function) -> None:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "An output with one or more elements was resized")
        assert_recorded(Calling(program), (DYNAMIC,), *EXAMPLES)


@pytest.mark.parametrize(
    ("module", "reason"), ASIDE, ids=[getattr(m, "function", type(m)).__name__ for m, _ in ASIDE]
)
def test_steps_aside(module: nn.Module, reason: str) -> None:
    before = copy.deepcopy(module.state_dict())
    outside = OUTSIDE.clone()
    found = reason_of(module, (X.clone(),), (DYNAMIC,) if isinstance(module, Calling) else DYNAMIC)
    assert reason in found
    after = module.state_dict()
    assert all(torch.equal(after[name], value) for name, value in before.items())
    assert torch.equal(OUTSIDE, outside)


def test_a_dropout_that_is_off_is_its_argument() -> None:
    module = Calling(reshapes_idle_dropout)
    assert_recorded(module, (DYNAMIC,), *EXAMPLES)
