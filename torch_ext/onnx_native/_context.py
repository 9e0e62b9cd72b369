"""Isolates an export from the caller's context managers and from exports in other threads."""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, TypeVar

import torch

from onnx_native import _undo
from onnx_native.upstream import _flags, _upstream

Function = TypeVar("Function", bound=Callable[..., Any])

# Captures and traces change the state of the process: PyTorch's flags and caches, and methods that
# this package replaces meanwhile. Reentrant, because a capture may need a trace.
_lock = threading.RLock()


class _Caller(threading.local):
    device: torch.device | None = None  # the default one, if it is an accelerator


_caller = _Caller()


def _forget_lost_threads() -> None:
    global _lock
    _lock = threading.RLock()
    _undo.undo_of_lost_threads()


# A thread that holds the lock while another one forks does not exist in the child. This runs after
# the function that `_flags` registers, since that module is imported before.
os.register_at_fork(after_in_child=_forget_lost_threads)


def one_at_a_time(function: Function) -> Function:
    """Makes a function that captures or traces programs run in one thread at a time.

    torch.onnx.is_in_onnx_export() is true meanwhile.
    """

    @functools.wraps(function)
    def locked(*args: Any, **kwargs: Any) -> Any:
        with _lock, _neutral_process(), _flags.answers(is_in_onnx_export=True):
            return function(*args, **kwargs)

    return locked  # type: ignore[return-value]


@contextmanager
def neutral() -> Iterator[None]:
    """Makes an export independent of the caller's context managers.

    torch.export would partly capture autocast, inference mode, anomaly detection, a default device
    and dispatch modes such as FakeTensorMode, or fail under them. The default dtype stays, because
    it determines what the program computes. Functions that run one at a time also have the state of
    the process neutral. `device_of_caller` is for the calls of the user's module.
    """
    with ExitStack() as stack:
        stack.enter_context(_without_modes())
        if torch.is_inference_mode_enabled():
            stack.enter_context(torch.inference_mode(False))
        device = torch.get_default_device()
        if device.type != "cpu":
            stack.enter_context(torch.device("cpu"))
        if device.type not in ("cpu", "meta"):  # weights without elements have no other device
            put_back = functools.partial(setattr, _caller, "device", _caller.device)
            stack.enter_context(_undo.at_end(put_back))
            _caller.device = device
        stack.enter_context(_no_autocast())
        yield


@contextmanager
def device_of_caller() -> Iterator[None]:
    """Gives a call of the user's module the default device that the caller of the export has."""
    if _caller.device is None:
        yield
        return
    put_back = functools.partial(setattr, _caller, "device", _caller.device)
    with _undo.at_end(put_back), _caller.device:
        _caller.device = None  # a call in this one has it already
        yield


@contextmanager
def _without_modes() -> Iterator[None]:
    """Disables dispatch modes.

    Some belong to the process. Waits for captures in other threads to end, so as to leave theirs.
    """
    modes = ExitStack()

    def enable() -> None:
        with _lock:
            modes.close()

    with _undo.at_end(enable):
        with _lock:
            modes.enter_context(_upstream.disable_current_modes())
        yield


@contextmanager
def _neutral_process() -> Iterator[None]:
    with ExitStack() as stack:
        if torch.is_anomaly_enabled():
            stack.enter_context(torch.autograd.set_detect_anomaly(False))
        stack.enter_context(_fresh_recurrences())
        yield


@contextmanager
def _fresh_recurrences() -> Iterator[None]:
    """Makes a capture independent of earlier captures in the process.

    With dynamic dimensions, other decompositions of recurrent layers are registered during a
    capture (`_recurrent`). The operators' dispatch caches do not notice this, so the
    decomposition that ran first in the process would stay in use.
    """
    aten = torch.ops.aten
    layers = (aten.lstm, aten.gru, aten.rnn_tanh, aten.rnn_relu)
    operators = [layer.input for layer in layers]

    def clear() -> None:
        for operator in operators:
            _upstream.clear_dispatch_cache(operator)

    clear()
    with _undo.at_end(clear):
        yield


@contextmanager
def _no_autocast() -> Iterator[None]:
    # Not torch.autocast(enabled=False): the capture would record the region.
    devices = [
        device
        for device in ("cpu", "cuda", "xpu", "mps", "hpu", "privateuseone")
        if _has_autocast(device) and torch.is_autocast_enabled(device)
    ]

    def enable() -> None:
        for device in devices:
            torch.set_autocast_enabled(device, True)

    with _undo.at_end(enable):
        for device in devices:
            torch.set_autocast_enabled(device, False)
        yield


def _has_autocast(device: str) -> bool:
    return torch.amp.is_autocast_available(device)
