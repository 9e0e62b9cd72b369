"""Native capture of modules that keep tensors, and of results in containers of all kinds."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict, UserList
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from models import running
from models.calling import Calling
from models.recording import (
    DYNAMIC,
    EXAMPLES,
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


class KeepingLast(nn.Module):
    """Keeps a tensor, a size and a list of tensors of the last call."""

    last: Any

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])
        self.last = torch.zeros(1)
        self.features: list[torch.Tensor] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.features = []
        self.length = x.shape[1]
        for layer in self.layers:
            x = layer(x)
            self.features.append(x)
        self.last = x * self.length
        return self.last + self.features[0]


class Translating(nn.Module):
    """A transformer that finds out whether its masks are causal."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.network = nn.Transformer(4, 2, 1, 2, 8, batch_first=True, **options)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
        near = torch.ones_like(mask, dtype=torch.bool).triu(2)
        padding = (torch.arange(x.shape[1]) >= 3).expand(x.shape[0], -1)
        return (
            self.network(x, x, tgt_mask=mask, tgt_key_padding_mask=padding)
            + self.network(x, x, near, mask)
            + self.network(x, x, mask, near, src_is_causal=None, tgt_is_causal=None)
        )


@pytest.mark.parametrize("options", [{}, {"norm_first": True}])
def test_transformer_with_masks(options: Any) -> None:
    assert_recorded(Translating(**options).eval(), DYNAMIC, *EXAMPLES)


def test_attributes_that_the_program_writes_first() -> None:
    module = KeepingLast()
    last = module.last
    assert_recorded(module, DYNAMIC, *EXAMPLES)
    module = KeepingLast()
    last = module.last
    exported(module, (X,), DYNAMIC)
    assert module.last is last
    assert module.features == []
    assert not hasattr(module, "length")


class Anchored(nn.Module):
    """Keeps what follows from the last shape, with defaults in the class, as detectors do."""

    anchors = torch.empty(0)
    shape: Any = None

    def __init__(self, reads_first: bool = False) -> None:
        super().__init__()
        self.reads_first = reads_first

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        before = self.anchors.numel() if self.reads_first else 0
        if self.shape != x.shape:
            self.anchors = torch.arange(x.shape[1])[:, None] * 0.5
            self.shape = x.shape
        return x * self.anchors + before


def test_attributes_with_defaults_in_the_class() -> None:
    module = Anchored()
    assert_recorded(Anchored(), DYNAMIC, *EXAMPLES)
    exported(module, (X,), DYNAMIC)
    assert "anchors" not in vars(module)
    assert module.shape is None  # the sizes of the recording are none of eager's
    assert Anchored.anchors.numel() == 0
    module(X)


@pytest.mark.parametrize("x", [X, X[:1]], ids=["two", "one"])
def test_what_earlier_calls_keep(x: torch.Tensor) -> None:
    module = Anchored().eval()
    module(x)
    shape, anchors = module.shape, module.anchors
    program = exported(module, (x,), DYNAMIC)
    assert_native(program)
    assert program.export_report["capture"]["guards"] == []
    assert module.shape is shape
    assert module.anchors is anchors
    assert_equal_to_eager(program, module, *EXAMPLES)


class Masked(nn.Module):
    """Keeps a mask for the last length, as a tutorial of PyTorch does."""

    def __init__(self) -> None:
        super().__init__()
        self.mask: Any = None
        self.length: Any = -1

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.mask is None or self.mask.size(0) != x.shape[1]:
            self.mask = torch.ones(x.shape[1], x.shape[1]).tril()
        if self.length != x.shape[1]:
            self.length = x.shape[1]
            self.scales = torch.arange(self.length) * 0.5
        return self.mask @ x * self.scales[:, None]


@pytest.mark.parametrize("is_fresh", [True, False])
@pytest.mark.parametrize("x", [X, X[:1]], ids=["two", "one"])
def test_caches_that_are_read_first(x: torch.Tensor, is_fresh: bool) -> None:
    module = Masked().eval()
    if not is_fresh:
        module(x)
    before = dict(vars(module))
    program = exported(module, (x,), DYNAMIC)
    assert_native(program)
    assert program.export_report["capture"]["guards"] == []
    assert all(vars(module)[name] is value for name, value in before.items())
    assert vars(module).keys() == before.keys()
    assert_equal_to_eager(program, module, *EXAMPLES)


class Recurrent(nn.Module):
    """Starts each call with the state that the last one left."""

    state: Any = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.state = x.sum(1) if self.state is None else self.state + x.sum(1)
        return self.state


@pytest.mark.parametrize("is_fresh", [True, False])
def test_state_is_no_cache(is_fresh: bool) -> None:
    module = Recurrent().eval()
    if not is_fresh:
        module(X)
    assert "state of a Recurrent" in reason_of(module, (X,), DYNAMIC)


def test_results_that_depend_on_earlier_calls_step_aside() -> None:
    class Summing(Anchored):
        total: Any = 0.0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if self.shape != x.shape:
                self.total = self.total + torch.ones(1)
                self.shape = x.shape
            return x * self.total

    module = Summing().eval()
    module(X[:, :3])
    module(X)
    assert "batch == 2" in reason_of(module, (X,), DYNAMIC)


def test_defaults_in_the_class_that_are_read_step_aside() -> None:
    module = Anchored(reads_first=True)
    program = exported(module, (X,), DYNAMIC)
    assert program.export_report["capture"]["by"] == "torch.export"
    assert "anchors of a Anchored" in program.export_report["capture"]["reason"]


class Decided(nn.Module):
    """Decides by a buffer, and reads its elements as an array."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("initted", torch.tensor(True))
        self.scale = nn.Parameter(torch.tensor([1.0, 4.0]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not self.initted:
            return x
        steps = torch.arange(3).numpy()
        scale = float(np.sqrt(self.scale.detach().numpy()).sum())
        return x * scale + float(steps.sum()) + sum((self.scale * 2).tolist())


def test_elements_of_weights_as_arrays() -> None:
    program = assert_recorded(Decided(), DYNAMIC, *EXAMPLES)
    assert {name for name, _ in program.export_report["known_elements"]} == {"initted", "scale"}


def writes_to_an_array(x: torch.Tensor) -> Any:
    scale = torch.ones(4) * 2
    scale.numpy()[0] = 7
    return x * scale


def array_of_an_input(x: torch.Tensor) -> Any:
    return x * float((x * 2).numpy().sum())


def written_after_it_became_an_array(x: torch.Tensor) -> Any:
    scale = torch.ones(3)
    array = scale.numpy()
    scale.add_(1)
    return x * float(array.sum())


def written_view_of_an_array(x: torch.Tensor) -> Any:
    scale = torch.ones(3) * 2
    array = np.asarray(scale[1:])
    scale[2:].mul_(3)
    return x * float(array.sum())


ASIDE = [
    writes_to_an_array,
    array_of_an_input,
    written_after_it_became_an_array,
    written_view_of_an_array,
]


@pytest.mark.parametrize("function", ASIDE, ids=function_id)
def test_arrays_that_step_aside(function: Function) -> None:
    assert reason_of(Calling(function), (X,), None)


def test_a_list_of_numbers_from_a_tensor() -> None:
    def pieces(x: torch.Tensor, sizes: torch.Tensor) -> Any:
        first, second = sizes.tolist()
        return x[:, :first], x[:, first : first + second], x[:, 0] * second

    assert_recorded(
        Calling(pieces),
        ((*DYNAMIC, None),),
        *(
            (x, torch.tensor(sizes))
            for (x,), sizes in zip(EXAMPLES, ([2, 3], [1, 5], [4, 1]), strict=True)
        ),
    )


@dataclasses.dataclass
class Prediction:
    logits: torch.Tensor
    states: tuple[torch.Tensor, ...] = ()
    loss: torch.Tensor | None = None


class Output(OrderedDict[str, Any]):
    """A dict that pytree does not know."""


def results_in_containers(x: torch.Tensor) -> Any:
    return Prediction(x * 2, (x + 1, x - 1)), Output(values=x * 3, more=[Prediction(x * 4)])


def test_results_in_containers_that_pytree_does_not_know() -> None:
    program = exported(Calling(results_in_containers), (X,), (DYNAMIC,))
    assert_native(program)
    onnx.checker.check_model(program.model_proto, full_check=True)
    for (x,) in EXAMPLES:
        running.assert_same(program(x), [x * 2, x + 1, x - 1, x * 3, x * 4])


def in_an_unknown_object(x: torch.Tensor) -> Any:
    return UserList([x * 2])


def test_a_result_in_an_unknown_object_steps_aside() -> None:
    assert "is not a tensor or a number" in reason_of(Calling(in_an_unknown_object), (X,), None)


class Recast(nn.Module):
    """Casts its weights in each call, to the dtype that they have."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> Any:
        self.layer = self.layer.to(x.dtype)
        return self.layer(x)


def test_a_cast_of_weights_to_their_dtype() -> None:
    module = Recast()
    weight = module.layer.weight
    assert_recorded(module, DYNAMIC, *EXAMPLES)
    assert module.layer.weight is weight
    assert_equal_to_eager(exported(module, (X,)), module, (X,))


class ArrayOfABuffer(nn.Module):
    """Reads a buffer as an array, and writes to the buffer before or after it uses the array."""

    def __init__(self, read: Function, writes: bool) -> None:
        super().__init__()
        self.register_buffer("levels", torch.tensor([3.0, 4.0]))
        self.read, self.writes = read, writes

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        elements = self.read(self.levels)
        if self.writes:
            self.levels.add_(1)
        return x * float(np.sum(elements))


READS = [lambda t: t.numpy(), lambda t: t.tolist(), lambda t: t.detach().numpy(), np.asarray]


@pytest.mark.parametrize("read", READS, ids=["numpy", "tolist", "detached", "asarray"])
def test_arrays_of_buffers(read: Function) -> None:
    assert_recorded(ArrayOfABuffer(read, writes=False), DYNAMIC, *EXAMPLES)


@pytest.mark.parametrize("read", [READS[0], *READS[2:]], ids=["numpy", "detached", "asarray"])
def test_arrays_of_written_buffers_step_aside(read: Function) -> None:
    reason = reason_of(ArrayOfABuffer(read, writes=True), (X,), None)
    assert "shares memory with an array" in reason
