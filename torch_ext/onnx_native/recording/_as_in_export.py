"""Makes PyTorch and the user's modules do in a recording what they do in an export."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)
from torch.utils.hooks import RemovableHandle

from onnx_native import _options, _replaced, _undo
from onnx_native.recording import _executors
from onnx_native.upstream import _flags, _upstream

if TYPE_CHECKING:
    from onnx_native._C import Capture


@contextmanager
def as_in_export(*, says_so: bool = True) -> Iterator[None]:
    """Makes PyTorch do what it does while torch.export captures.

    With `says_so`, programs that ask whether they are exported hear that they are.
    """
    with (
        torch.no_grad(),
        _without_fast_path(),
        _flags.answers(is_compiling=says_so, is_exporting=says_so),
        _upstream.as_written(),
        _executors.in_order(),
        torch.jit.optimized_execution(False),  # TorchScript's profiler would read sizes
    ):
        yield


def _without_fast_path() -> AbstractContextManager[None]:
    """Keeps torch.nn from the fused kernels of attention in this thread.

    PyTorch's own switch is of the process: the results of other threads would change.
    `MultiheadAttention` asks next whether it is exported, and then gives its result the strides
    that the fused kernel gives it.
    """
    thread = threading.get_ident()
    mha = torch.backends.mha
    of_process = mha.get_fastpath_enabled

    def get_fastpath_enabled() -> bool:
        if threading.get_ident() != thread:
            return of_process()
        caller = sys._getframe(1).f_globals["__name__"]
        return caller == nn.MultiheadAttention.__module__ and of_process()

    return _replaced.attributes([(mha, "get_fastpath_enabled", get_fastpath_enabled)])


@contextmanager
def module_paths(native: Capture, model: nn.Module) -> Iterator[None]:
    """Tells the recorder which modules run, if the model records that."""
    options = _options.current()
    if options.metadata == "none" and not options.functions:
        yield
        return
    paths = {id(module): name for name, module in model.named_modules()}

    def enter(module: nn.Module, _: Any) -> None:
        kind = type(module)
        native.enter(paths.get(id(module), ""), f"{kind.__module__}.{kind.__qualname__}")

    def leave(*_: Any) -> None:
        native.leave()

    with _hooked(enter, leave):
        yield


@contextmanager
def scripted_modules(model: nn.Module) -> Iterator[None]:
    """Runs scripted modules as in eager; PyTorch calls them with wrong arguments in an export."""
    if not any(isinstance(module, torch.jit.ScriptModule) for module in model.modules()):
        yield
        return
    blocks: list[AbstractContextManager[None]] = []

    def enter(module: nn.Module, _: object) -> None:
        if isinstance(module, torch.jit.ScriptModule):
            blocks.append(_flags.answers(is_exporting=False))
            blocks[-1].__enter__()

    def leave(module: nn.Module, *_: object) -> None:
        if isinstance(module, torch.jit.ScriptModule):
            blocks.pop().__exit__(None, None, None)

    with _hooked(enter, leave):
        yield


@contextmanager
def _hooked(enter: Callable[..., None], leave: Callable[..., None]) -> Iterator[None]:
    """Calls functions before and after the forward of each module, also after an exception.

    Modules that run in other threads are not of the recording.
    """
    hooks: list[RemovableHandle] = []
    thread = threading.get_ident()

    def of_this_thread(function: Callable[..., None]) -> Callable[..., None]:
        def called(*args: Any) -> None:
            if threading.get_ident() == thread:
                function(*args)

        return called

    def remove() -> None:
        for hook in hooks:
            hook.remove()

    with _undo.at_end(remove, of_process=True):
        hooks.append(register_module_forward_pre_hook(of_this_thread(enter)))
        hooks.append(register_module_forward_hook(of_this_thread(leave), always_call=True))
        yield
