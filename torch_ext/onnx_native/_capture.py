"""Native capture: the user's module runs once, and the C++ recorder writes down what it calls.

The module runs on tensors without elements that know their sizes as expressions. Where the recorder
is not sure of a program, it steps aside with a reason, and torch.export captures the program.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import gc
import inspect
import re
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from torch.nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)
from torch.utils.hooks import RemovableHandle

from onnx_native import (
    _attributes,
    _autograd_functions,
    _control_flow,
    _declared_sizes,
    _eager,
    _executors,
    _fake_kernels,
    _forks,
    _functions_of_sizes,
    _generators,
    _inputs,
    _library,
    _module_changes,
    _module_state,
    _options,
    _placeholders,
    _reads,
    _replaced,
    _sizes,
    _subclasses,
    _tracing,
    _undo,
    _upstream,
    _written_attributes,
)


class StepAsideError(Exception):
    """The program is not for the native capture; the message is the reason."""


@dataclasses.dataclass
class Captured:
    """A recorded program.

    Attributes:
        native: The recording, which the native program takes its graph from.
        flatten: Maps (args, kwargs) to the inputs of the model.
        sizes: The dynamic sizes by the names of their symbols.
        guards: Where the program is valid, by its decisions on the example: a condition on the
            sizes and the source line of each.
        known: Tensors of the module by whose elements it decided something: (name, source line).
        tied: Names of weights that are other weights under a second name.
        dimensions: The first dimension of an input that has each symbol: "dimension 0 of x".
        warnings: What the model lacks, for the user.
    """

    native: Any
    flatten: Callable[[Any, Any], Sequence[Any]]
    sizes: _sizes.Sizes
    guards: list[dict[str, str]]
    known: list[tuple[str, str]]
    tied: dict[str, str]
    dimensions: dict[str, str]
    warnings: list[str]


def capture(
    model: Any, inputs: _inputs.Inputs, opset: int | None = None, *, forks: bool = False
) -> Captured:
    """Records a module for a model of this opset; with `forks` both ways of branches on elements.

    Raises:
        StepAsideError: The recorder is not sure of the program, or the program fails.
    """
    if not isinstance(model, torch.nn.Module):
        raise StepAsideError("the program is not a torch.nn.Module")
    with _placeholders.in_module(model):
        return _Recorder(model, inputs, opset, forks).captured()


class _Recorder:
    """Records a module, once or several times, with the sizes of its example or with others."""

    def __init__(
        self, model: torch.nn.Module, inputs: _inputs.Inputs, opset: int | None, forks: bool
    ) -> None:
        self._model = model
        self._inputs = inputs
        self._opset = opset or _upstream.DEFAULT_OPSET
        self._forks = forks
        leaves, self._structure = _upstream.pytree.tree_flatten((inputs.args, inputs.kwargs or {}))
        self._leaves = [
            _placeholders.of(leaf) if _placeholders.lacks_elements(leaf) else leaf
            for leaf in leaves
        ]
        self._names = _leaf_names(model, inputs)
        if len(self._names) != len(leaves):
            raise StepAsideError("the arguments have no names")
        for name, leaf in zip(self._names, self._leaves, strict=True):
            if not _is_plain(leaf):
                raise StepAsideError(f"the input {name} is a {type(leaf).__name__}")
        try:
            self._sizes, self._symbols = _declared_sizes.of(self._leaves, inputs)
        except _declared_sizes.UnknownError as error:
            raise StepAsideError(str(error)) from error
        self._dimensions = _declared_sizes.dimensions(self._names, self._sizes)
        self._restore = _module_state.restore_numbers(model)

    def captured(self) -> Captured:
        """Records the program; raises StepAsideError."""
        replaced = _module_changes.Replaced()
        try:
            return self._recorded({}, replaced)
        except StepAsideError as error:
            first = error
        # What strides and broadcasting do with a size of 1 does not tell what they do with others.
        ones = self._others(lambda size: 2 if size == 1 else size)
        if ones:
            with contextlib.suppress(StepAsideError):
                return self._recorded(ones, _module_changes.Replaced())
        with contextlib.suppress(StepAsideError):
            return self._without_caches(replaced.kept)
        # The last resort: a size that may be static is.
        with contextlib.suppress(StepAsideError):
            return self._recorded({}, _module_changes.Replaced(), fixes=True)
        raise first

    def _others(self, change: Callable[[int], int]) -> dict[str, int]:
        """The dynamic sizes that may have another value than in the example, with that value."""
        others = {
            name: change(size)
            for name, (size, _, high, _, is_size) in self._symbols.items()
            if is_size and (high is None or change(size) <= high)
        }
        return {name: size for name, size in others.items() if size != self._symbols[name][0]}

    def _without_caches(self, kept: set[_written_attributes.Attribute]) -> Captured:
        """Records the program without what it keeps from earlier calls.

        A detector keeps its anchors and the sizes that they are for: ``if self.shape != shape``.
        Attributes that the program replaces, here or for other sizes, are caches if it gives the
        same results without them.
        """
        found = _module_changes.Replaced()
        larger = self._others(lambda size: 2 * size)
        if larger:
            with contextlib.suppress(StepAsideError):
                self._recorded(larger, found)
        caches = kept | found.kept
        if not caches:
            raise StepAsideError("the program keeps nothing")
        with _module_changes.restored(self._model):
            _written_attributes.unset(caches)
            captured = self._recorded({}, _module_changes.Replaced(caches))
        with _module_changes.restored(self._model):
            expected = self._results()
            _written_attributes.unset(caches)
            results = [self._results(), self._results()]  # without, and with what the first keeps
        if not all(_are_same(each, expected) for each in results):
            raise StepAsideError("the program depends on earlier calls")
        return captured

    def _results(self) -> list[Any]:
        """The values that the module returns for the example."""
        eager = _eager.Eager(self._model, self._inputs)
        try:
            return eager.outputs(*eager.example)
        except Exception as error:
            raise StepAsideError(_first_line(error)) from error

    def _recorded(
        self,
        others: Mapping[str, int],
        replaced: _module_changes.Replaced,
        *,
        fixes: bool = False,
    ) -> Captured:
        """Records the program with these sizes in place of the example's.

        The decisions by which the recording is valid must hold for the example. With `fixes`, a
        size that the program fixes and that the user left to the capture (Dim.AUTO) is static.
        """
        sizes = self._sizes
        symbols = {
            name: (others.get(name, symbol[0]), *symbol[1:])
            for name, symbol in self._symbols.items()
        }
        identities: dict[str, str] = {}  # of numbers that are read from data
        static: list[dict[str, str]] = []
        seeds = _generators.Seeds(self._model)
        first: str | None = None  # the reason before small numbers stand for those of data
        while True:
            self._restore()
            state, tied = _state(self._model)
            generators = seeds.generators()
            native = _library.extension().Capture(
                state, symbols, identities, generators, small_numbers=first is not None
            )
            with (
                _inputs.elements_of(self._model, self._inputs),
                _autograd_functions.recorded(
                    self._opset, elements=functools.partial(_known, native)
                ) as notes,
            ):
                reason, has_learned = _run(
                    native,
                    generators,
                    self._model,
                    self._leaves,
                    self._structure,
                    self._names,
                    sizes,
                    replaced,
                    self._forks,
                )
            if reason is None and seeds.are_known(generators):
                break
            if reason is None:
                continue
            equation = native.equation()
            if equation is None and (replaced.is_to_be_written_first() or has_learned):
                continue
            if equation is None and first is None and native.reads_numbers():
                first = reason
                continue
            if equation is None:
                raise StepAsideError(first or reason)
            symbol, value, line, is_loop = equation
            if not all(name.isidentifier() for name in symbols):
                raise StepAsideError(first or f"the program demands {symbol} == {value}")
            is_of_data = symbol not in symbols
            # For other sizes, the equation need not hold for the example.
            is_fixed = bool(line) and not is_loop and not fixes
            if symbol in identities or (others and not is_of_data) or is_fixed:
                raise StepAsideError(first or reason)
            if is_of_data:
                identities[symbol] = value
                continue
            sizes, symbols = _declared_sizes.related(sizes, symbols, symbol, value)
            if line:
                guard = {"condition": f"{symbol} == {value}", "source": line}
                does = "a loop is unrolled" if is_loop else "the program fixes the size"
                static.append(guard | {"note": f", where {does}"})
        if not native.allows({name: self._symbols[name][0] for name in others}):
            raise StepAsideError("the program decides otherwise for the sizes of the example")
        guards = [{"condition": text, "source": line} for text, line in native.guards()]
        return Captured(
            native=native,
            flatten=_flattener(self._leaves, sizes),
            sizes=_declared_sizes.varied(
                self._inputs, sizes, {name: self._symbols[name] for name in symbols}, native
            ),
            guards=static + guards,
            known=native.known_elements(),
            tied=tied,
            dimensions=self._dimensions,
            warnings=notes,
        )


def _known(native: Any, tensor: torch.Tensor) -> torch.Tensor | None:
    """The elements of a tensor that follows from constants and weights; None for others."""
    if native.varies(tensor) or _placeholders.lacks_elements(tensor):
        return None
    elements: torch.Tensor = native.elements(tensor, False)
    return elements


def _run(native: Any, *arguments: Any) -> tuple[str | None, bool]:
    """Records the program; returns why not, and whether another run may know more."""
    # PyTorch has guards of dispatch keys in local variables, as where it prints a tensor. They end
    # with the exceptions that hold their frames, and in the wrong order.
    with _collecting_later(), _library.extension().KeptDispatchKeys():
        try:
            with _upstream.without_compiler() as stopped:
                _record(native, *arguments)
        except Exception as error:
            reason = native.reason() or _first_line(error)
            _clear_frames(error)
            if not stopped:
                return reason, _functions_of_sizes.learn_packages(error)
        if stopped:
            _upstream.import_compiler()
            return "the program imports TorchDynamo", True
        for generation in range(3):
            if native.alive():
                gc.collect(generation)
    return (None if native.finish() else native.reason()), False


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


def _first_line(error: Exception) -> str:
    lines = str(error).splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else ''}"


def _are_same(first: list[Any], second: list[Any]) -> bool:
    try:
        torch.testing.assert_close(first, second, rtol=0, atol=0, equal_nan=True)
    except AssertionError:
        return False
    return True


def _is_plain(leaf: Any) -> bool:
    """Whether the recorder takes an input: a plain tensor, or a constant."""
    if isinstance(leaf, torch.Tensor):
        return (
            type(leaf) in (torch.Tensor, torch.nn.Parameter)
            and leaf.layout is torch.strided
            and leaf.device.type == "cpu"
            and not (leaf.is_quantized or leaf.is_nested or leaf.is_conj() or leaf.is_neg())
        )
    return leaf is None or isinstance(leaf, (bool, int, float, str))


# Names of inputs.


def _leaf_names(model: torch.nn.Module, inputs: _inputs.Inputs) -> list[str]:
    """The names that torch.export gives the leaves of (args, kwargs)."""
    try:
        parameters = list(inspect.signature(model.forward).parameters.values())
    except (TypeError, ValueError):
        return []
    arguments: list[tuple[str, Any]] = []
    for i, value in enumerate(inputs.args):
        rest = next((p for p in parameters[: i + 1] if p.kind is p.VAR_POSITIONAL), None)
        if rest is not None:
            index = i - parameters.index(rest)
            arguments.append((f"{rest.name}_{index}", value))
        elif i < len(parameters):
            arguments.append((parameters[i].name, value))
    arguments += (inputs.kwargs or {}).items()
    names = []
    for prefix, value in arguments:
        for path, _ in _upstream.pytree.tree_flatten_with_path(value)[0]:
            words = [prefix, *(str(_key(entry)) for entry in path)]
            names.append(re.sub(r"[^a-zA-Z0-9]", "_", "_".join(words).lower()))
    return names


def _key(entry: Any) -> Any:
    """The index, key or attribute in an entry of a pytree path."""
    for field in ("idx", "key", "name"):
        if hasattr(entry, field):
            return getattr(entry, field)
    return entry


# The module.


def _state(
    model: torch.nn.Module,
) -> tuple[list[tuple[str, torch.Tensor, str, bool]], dict[str, str]]:
    """The module's tensors, and the second names of tied ones.

    A tensor is (name, tensor, kind, whether the model keeps its updates).
    """
    kept = _options.current().state
    temporary = set(_upstream.temporary_buffers(model))
    names: dict[int, str] = {}
    tied: dict[str, str] = {}
    state = []
    found: Iterator[tuple[str, str, Any]] = (
        (kind, name, tensor)
        for kind, pairs in (
            ("parameter", model.named_parameters(remove_duplicate=False)),
            ("buffer", model.named_buffers(remove_duplicate=False)),
            ("constant", _tensor_attributes(model)),
        )
        for outer, subclass in pairs
        for name, tensor in _subclasses.plain_tensors(outer, subclass)
    )
    for kind, name, tensor in found:
        first = names.setdefault(id(tensor), name)
        if first == name:
            if name in temporary:
                kind = "temporary_buffer"
            state.append((name, tensor, kind, kept if isinstance(kept, bool) else name in kept))
        elif kind != "constant":
            tied[name] = first
    return state, tied


def _tensor_attributes(model: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Tensors that are plain attributes of modules."""
    for path, module in model.named_modules():
        for name, value in vars(module).items():
            if isinstance(value, torch.Tensor):
                yield (f"{path}.{name}" if path else name), value


def _record(
    native: Any,
    generators: Any,
    model: torch.nn.Module,
    leaves: Sequence[Any],
    structure: Any,
    names: Sequence[str],
    sizes: _declared_sizes.Sizes,
    replaced: _module_changes.Replaced,
    forks: bool,
) -> None:
    """Runs the module on recorded tensors."""

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
    with (
        _module_changes.unchanged(native, model, replaced),
        _written_attributes.missing(replaced.written_first, native.refuse),
        _as_for_export(),
        _module_paths(native, model),
        _reads.watched(native),
        _functions_of_sizes.kept_symbolic(native, model),
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
    """
    thread = threading.get_ident()
    mha = torch.backends.mha
    of_process = mha.get_fastpath_enabled

    def get_fastpath_enabled() -> bool:
        return threading.get_ident() != thread and of_process()

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


def _flattener(
    example: Sequence[Any], sizes: _declared_sizes.Sizes
) -> Callable[[Any, Any], Sequence[Any]]:
    """A function from (args, kwargs) to the inputs among their leaves: tensors and numbers."""
    inputs = [
        i
        for i, (leaf, shape) in enumerate(zip(example, sizes, strict=True))
        if isinstance(leaf, torch.Tensor) or isinstance(shape, str)
    ]

    def flatten(args: Any, kwargs: Any) -> Sequence[Any]:
        leaves = _upstream.pytree.tree_leaves((args, kwargs))
        if len(leaves) == len(example):
            return [leaves[i] for i in inputs]
        return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]

    return flatten
