"""Programs at which the native capture steps aside, and what it leaves behind."""

from __future__ import annotations

import contextvars
import copy
import functools
import pickle
import queue
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_native
import pytest
import torch
from models.calling import Calling
from models.recording import (
    DYNAMIC,
    Caching,
    Function,
    X,
    assert_equal_to_eager,
    assert_native,
    assert_recorded,
    exported,
    reason_of,
)
from onnx_native.questions import _messages
from torch import nn


class Accumulating(nn.Module):
    """Keeps a sum of all calls."""

    def __init__(self) -> None:
        super().__init__()
        self.last = torch.zeros(1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.last = self.last + x.sum()
        return self.last + 1


class AskingFirst(nn.Module):
    """Writes an attribute, but decides by its old value."""

    last: torch.Tensor | None

    def __init__(self) -> None:
        super().__init__()
        self.last = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scale = 1 if getattr(self, "last", None) is None else 2
        self.last = x * 2
        return self.last * scale


class WithDefault(AskingFirst):
    """The class has a value for the attribute."""

    last = None


class ReplacingInDict(nn.Module):
    """Counts calls in a tensor of a dict."""

    def __init__(self) -> None:
        super().__init__()
        self.cache = {"calls": torch.zeros(1)}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.cache["calls"] = self.cache["calls"] + 1
        return x + self.cache["calls"]


def size_as_text(x: torch.Tensor) -> Any:
    return x * len(str(x.shape[1]))


def size_in_format(x: torch.Tensor) -> Any:
    return x * int(f"{x.shape[1]:d}")


def equal_size(x: torch.Tensor) -> Any:
    return x * 2 if x.shape[1] == 5 else x


def as_numpy(x: torch.Tensor) -> Any:
    try:
        scale = float(x.numpy().shape[0])
    except Exception:
        scale = 1.0
    return x * scale


@functools.lru_cache
def doubled(n: int) -> int:
    return 2 * n


def cached_function(x: torch.Tensor) -> Any:
    return x * doubled(x.shape[1])


def hashed_size(x: torch.Tensor) -> Any:
    try:
        return x * {5: 2.0}.get(x.shape[1], 1.0)
    except TypeError:
        return x * 7


def caught(read: Callable[[torch.Tensor], Any]) -> Function:
    """A program that does something else where a read of elements fails."""

    def program(x: torch.Tensor) -> Any:
        try:
            read(x)
        except Exception:
            return x * 9
        return x * 2

    return program


READS: dict[str, Callable[[torch.Tensor], Any]] = {
    "numpy": lambda x: x.numpy(),
    "tolist": lambda x: x.tolist(),
    "branch": lambda x: bool(x.sum() > 0),
    "data_ptr": lambda x: x.data_ptr(),
    "storage": lambda x: x.untyped_storage(),
    "pickle": lambda x: pickle.dumps(x),
    "array": lambda x: np.asarray(x),
    "dlpack": lambda x: torch.utils.dlpack.to_dlpack(x),
    "text": lambda x: str(x),
}


def written_through_a_view(x: torch.Tensor) -> torch.Tensor:
    made = torch.zeros(4)
    made[:2].add_(x[0, 0, :2])
    return made


def kept_text(x: torch.Tensor) -> Any:
    torch._assert(x.dim() == 3, text := f"{x.shape[1]}")
    return x * len(text)


def text_from_a_call(x: torch.Tensor) -> Any:
    kept: list[str] = []
    torch._assert(x.dim() == 3, f"{kept.__iadd__([str(x.shape[1])])}")
    return x * len(kept[0])


def text_for_another_assertion(x: torch.Tensor) -> Any:
    kept: list[str] = []

    def _assert(_: bool, text: str) -> None:
        kept.append(text)

    _assert(x.dim() == 3, f"{x.shape[1]}")
    return x * len(kept[0])


STEPS_ASIDE: list[tuple[nn.Module, str]] = [
    (Calling(equal_size), "the program depends on n == 5"),
    (Calling(size_as_text), "text made of a size needs the number n"),
    (Calling(size_in_format), ""),
    (Calling(kept_text), "text made of a size needs the number n"),
    (Calling(text_from_a_call), "text made of a size needs the number n"),
    (Calling(text_for_another_assertion), "text made of a size needs the number n"),
    (Calling(as_numpy), ""),
    (Calling(hashed_size), "the program calls __hash__ of a SymInt"),
    (Calling(cached_function), "TypeError: unhashable type"),
    (Accumulating(), "the program reads last of a Accumulating, which it replaces"),
    (AskingFirst(), "the program reads last of a AskingFirst, which it replaces"),
    (WithDefault(), "the program reads last of a WithDefault, which it replaces"),
    (Caching(lambda x: x[0, 0]), "the program replaces x of a Caching"),
    (Caching(lambda x: torch.ones(x.shape[1]).sum()), "the program replaces x of a Caching"),
    (Caching(lambda x: torch.rand(4)), "the program replaces x of a Caching"),
    (Caching(written_through_a_view), "the program replaces x of a Caching"),
    (ReplacingInDict(), "the program replaces calls of a ReplacingInDict"),
]


@pytest.mark.parametrize(
    ("module", "reason"),
    STEPS_ASIDE,
    ids=[getattr(m, "function", type(m)).__name__ for m, _ in STEPS_ASIDE],
)
@onnx_native.options(branches="example")
def test_steps_aside(module: nn.Module, reason: str) -> None:
    before = copy.deepcopy(module.state_dict())
    dynamic_shapes = (DYNAMIC,) if isinstance(module, Calling) else DYNAMIC
    found = reason_of(module, (X,), dynamic_shapes)
    assert reason in found
    assert found
    after = module.state_dict()
    assert all(torch.equal(after[name], value) for name, value in before.items())
    with torch.no_grad():
        module(X)  # still runs


@pytest.mark.parametrize("dynamic_shapes", [None, (DYNAMIC,)], ids=["static", "dynamic"])
@pytest.mark.parametrize("read", READS)
def test_a_read_whose_failure_the_program_catches(read: str, dynamic_shapes: Any) -> None:
    assert reason_of(Calling(caught(READS[read])), (X,), dynamic_shapes)


# What is recorded must not be used later.


def test_a_recorded_tensor_in_a_cache_is_eager_s_later() -> None:
    cache = contextvars.ContextVar[tuple[torch.Tensor, torch.Tensor, Any]]("cache")

    def remember(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        cache.set((y.add_(1), torch.arange(x.shape[1]), {"size": x.shape[1]}))
        return cache.get()[0] + 1

    reason = reason_of(Calling(remember), (X,), (DYNAMIC,))
    assert reason == "the program keeps tensors or sizes outside of its module"
    result, positions, sizes = contextvars.copy_context()[cache]
    assert torch.equal(result, X * 2 + 1)
    assert torch.equal(positions, torch.arange(X.shape[1]))
    assert sizes == {"size": X.shape[1]}
    assert type(sizes["size"]) is int


def test_a_recorded_tensor_in_another_thread_raises() -> None:
    errors: queue.SimpleQueue[str] = queue.SimpleQueue()  # the export restores a list

    def elsewhere(x: torch.Tensor) -> torch.Tensor:
        def work() -> None:
            try:
                x + 1
            except RuntimeError as error:
                errors.put(str(error))

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        return x * 2

    module = Calling(elsewhere)
    program = exported(module, (X,))
    assert "recorded during a capture" in errors.get_nowait()
    assert_equal_to_eager(program, module, (X,))


def test_eager_runs_as_before_after_a_capture() -> None:
    module = nn.TransformerEncoderLayer(8, 2, batch_first=True).eval()
    x = torch.randn(2, 3, 8)
    with torch.no_grad():
        expected = module(x)
    program = exported(module, (x,), ({0: "batch", 1: "n"},))
    assert_native(program)
    assert not torch.compiler.is_exporting()
    with torch.no_grad():
        torch.testing.assert_close(module(x), expected)
    assert_equal_to_eager(program, module, (x,), (torch.randn(1, 5, 8),))


def test_tensors_are_no_sequences_after_a_capture() -> None:
    """Setting Tensor.__getitem__ makes Python take all tensors for sequences."""

    def list_of_tensors(x: torch.Tensor) -> Any:
        return x * torch.tensor([torch.tensor(2.0), torch.tensor(3.0)]).sum()

    numbers = [torch.tensor(2), nn.Parameter(torch.tensor(3.0))]
    assert_recorded(Calling(list_of_tensors), (DYNAMIC,), (X,))
    assert torch.tensor(numbers).tolist() == [2, 3]


def test_guards_of_dispatch_keys_in_exceptions_end(monkeypatch: Any) -> None:
    """PyTorch prints the tensors for its message about fill.Scalar, under such a guard."""
    monkeypatch.setattr(_messages, "is_only_shown", lambda frame: False)
    keys = torch._C._dispatch_tls_local_exclude_set()
    reason = reason_of(Calling(lambda x: torch.ops.aten.fill(x, x.sum())), (X,), None)
    assert "is_neg" in reason
    assert torch._C._dispatch_tls_local_exclude_set() == keys
    outer = torch.vmap(torch.vmap(torch.add, (None, 0)), (0, None))(torch.ones(3), torch.ones(4))
    assert outer.shape == (3, 4)
