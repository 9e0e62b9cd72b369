"""One run of a module on recorded tensors, and everything that is watched meanwhile."""

from __future__ import annotations

import contextlib
import gc
import inspect
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from torch import nn
from torch.nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)
from torch.utils.hooks import RemovableHandle

from onnx_native import _library, _options, _replaced, _undo
from onnx_native._refusals import Kind, Refusal, summary
from onnx_native.modules import _eager, _module_changes, _tracing, _written_attributes
from onnx_native.numbers import _declared_sizes, _functions_of_sizes
from onnx_native.questions import _attributes, _reads
from onnx_native.recording import _control_flow, _executors, _fake_kernels, _forks
from onnx_native.upstream import _upstream


def run(native: Any, packages: set[str], *arguments: Any) -> tuple[Refusal | None, bool]:
    """Records the program; returns why not, and whether another run may know more.

    Args:
        native: The recording.
        packages: The packages whose functions get sizes. Those of the model are added, and those
            that an exception shows.
        arguments: What is recorded.
    """
    # Functions of PyTorch, one that prints a tensor for example, hold guards of dispatch keys in
    # variables. An exception that holds their frames ends them late, in the wrong order.
    with _collecting_later(), _library.extension().KeptDispatchKeys():
        try:
            with _upstream.without_compiler() as stopped:
                _record(native, packages, *arguments)
        except Exception as error:
            refusal = _refusal(native) if native.reason() else Refusal(summary(error))
            found = _functions_of_sizes.packages_between(error)
            _clear_frames(error)
            if not stopped:
                has_more = not found <= packages
                packages |= found
                return refusal, has_more
        if stopped:
            _upstream.import_compiler()
            return Refusal("the program imports TorchDynamo"), True
        for generation in range(3):
            if native.alive():
                gc.collect(generation)
    return (None if native.finish() else _refusal(native)), False


def _refusal(native: Any) -> Refusal:
    """Returns why the recorder refuses the program."""
    return Refusal(native.reason(), Kind[native.refusal_kind().name])


@contextlib.contextmanager
def _collecting_later() -> Iterator[None]:
    """Lets what a recording leaves in cycles stay in the youngest generation, found in no time."""
    is_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if is_enabled:
            gc.enable()


def _clear_frames(error: BaseException | None) -> None:
    """Frees the local variables of the calls that ended in an exception."""
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__


def _record(
    native: Any,
    packages: set[str],
    generators: Any,
    model: torch.nn.Module,
    leaves: Sequence[Any],
    structure: Any,
    names: Sequence[str],
    sizes: _declared_sizes.LeafSizes,
    replaced: _module_changes.Replaced,
    forks: bool,
    notes: list[str],
) -> None:
    """Runs the module on recorded tensors."""
    packages |= _functions_of_sizes.packages_of(model)

    def run() -> list[Any]:
        generators.restart()
        return list(_eager.leaves_of(model(*args, **kwargs)))

    recorded = [
        native.add_integer(name, shape)
        if isinstance(shape, str)
        else native.add_input(leaf, name, shape)
        if isinstance(leaf, torch.Tensor)
        else leaf
        for leaf, name, shape in zip(leaves, names, sizes, strict=True)
    ]
    args, kwargs = _upstream.pytree.tree_unflatten(recorded, structure)
    memory_of = _library.extension().memory_of
    inputs = [
        (name, value, memory_of(value))
        for name, value in zip(names, recorded, strict=True)
        if isinstance(value, torch.Tensor)
    ]
    with (
        _lists_of_functions(),
        _module_changes.unchanged(native, model, replaced),
        _written_attributes.missing(replaced.written_first, native.refuse),
        _as_for_export(),
        _module_paths(native, model),
        _reads.watched(native),
        _functions_of_sizes.kept_symbolic(native, model, packages),
        _scripted_modules(model),
        _attributes.watched(native),
        _tracing.watched(native),
        _control_flow.recorded(native),
        _fake_kernels.recorded(native),
        _executors.in_order(),
    ):
        torch.clear_autocast_cache()  # of the caller: its tensors are not of this recording
        with _undo.at_end(torch.clear_autocast_cache), _undo.at_end(native.stop):
            native.start()
            results = _forks.results(native, run) if forks else run()
        native.add_outputs(results)
    notes += [
        f"the update of input {name} is not part of the ONNX model"
        for name, value, memory in inputs
        if memory_of(value) != memory
    ]


@contextmanager
def _lists_of_functions() -> Iterator[None]:
    """Keeps functions that a capture puts in place for a while out of PyTorch's lists.

    PyTorch makes these lists when they are first needed. With other functions in them, a
    ``with torch.device(...)`` after the export would not reach ``torch.tensor``.
    """
    overrides = torch.overrides
    _upstream.device_constructors()
    overrides.get_ignored_functions()
    overrides.get_default_nowrap_functions()
    # These take 16 ms to make, and few programs need them.
    slow = (
        overrides.get_testing_overrides,
        _upstream.overridable_functions,
        _upstream.tensor_methods,
    )
    unmade = [each for each in slow if not each.cache_info().currsize]

    def forget() -> None:
        for each in unmade:
            each.cache_clear()

    with _undo.at_end(forget):
        yield


@contextmanager
def _as_for_export() -> Iterator[None]:
    """Makes PyTorch do what it does while torch.export captures."""
    with (
        torch.no_grad(),
        _without_fast_path(),
        _upstream.compiling_state(),
        _upstream.as_written(),
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
        frame = inspect.currentframe()
        caller = frame.f_back.f_globals["__name__"] if frame and frame.f_back else None
        return caller == nn.MultiheadAttention.__module__ and of_process()

    return _replaced.attributes([(mha, "get_fastpath_enabled", get_fastpath_enabled)])


@contextmanager
def _hooked(enter: Callable[..., None], leave: Callable[..., None]) -> Iterator[None]:
    """Calls functions before and after the forward of each module, also after an exception."""
    hooks: list[RemovableHandle] = []

    def remove() -> None:
        for hook in hooks:
            hook.remove()

    with _undo.at_end(remove):
        hooks.append(register_module_forward_pre_hook(enter))
        hooks.append(register_module_forward_hook(leave, always_call=True))
        yield


@contextmanager
def _module_paths(native: Any, model: torch.nn.Module) -> Iterator[None]:
    """Tells the recorder which modules run, if the model is to say so."""
    options = _options.current()
    if options.metadata == "none" and not options.functions:
        yield
        return
    paths = {id(module): name for name, module in model.named_modules()}
    thread = threading.get_ident()

    def enter(module: torch.nn.Module, _: Any) -> None:
        if threading.get_ident() == thread:
            kind = type(module)
            native.enter(paths.get(id(module), ""), f"{kind.__module__}.{kind.__qualname__}")

    def leave(*_: Any) -> None:
        if threading.get_ident() == thread:
            native.leave()

    with _hooked(enter, leave):
        yield


@contextmanager
def _scripted_modules(model: torch.nn.Module) -> Iterator[None]:
    """Runs scripted modules as in eager; PyTorch calls them with wrong arguments in an export."""
    if not any(isinstance(module, torch.jit.ScriptModule) for module in model.modules()):
        yield
        return
    outside: list[bool] = []

    def enter(module: torch.nn.Module, _: Any) -> None:
        if isinstance(module, torch.jit.ScriptModule):
            outside.append(_upstream.set_exporting(False))

    def leave(module: torch.nn.Module, *_: Any) -> None:
        if isinstance(module, torch.jit.ScriptModule):
            _upstream.set_exporting(outside.pop())

    with _hooked(enter, leave):
        yield
