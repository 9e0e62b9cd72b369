"""One run of a module on recorded tensors, and everything that is watched meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import torch

from onnx_native import _context, _library, _undo
from onnx_native.modules import _eager, _module_changes, _tracing, _written_attributes
from onnx_native.numbers import _declared_sizes, _functions_of_sizes
from onnx_native.questions import _attributes, _reads
from onnx_native.recording import _as_in_export, _control_flow, _fake_kernels, _forks
from onnx_native.upstream import _upstream

if TYPE_CHECKING:
    from onnx_native._C import Capture


def run(
    native: Capture,
    needs: _functions_of_sizes.Needs | None,
    notes: list[str],
    leaves: Sequence[Any],
    sizes: _declared_sizes.LeafSizes,
    generators: Any,
    model: torch.nn.Module,
    structure: Any,
    names: Sequence[str],
    replaced: _module_changes.Replaced,
    forks: bool,
    says_so: bool,
    program: Callable[[Capture, Any, Any], list[Any]] | None,
    structures: list[Any],
) -> None:
    """Runs the module on recorded tensors; `needs` is None if it has no symbolic numbers.

    With `says_so`, the module hears that it is exported, if it asks. A `program` runs in place of
    the module. It gets the recording and the arguments. `structures` gets the structure of the
    module's results.
    """

    def results_of() -> list[Any]:
        generators.restart()
        with _context.device_of_caller():
            if program is not None:
                return program(native, args, kwargs)
            results = model(*args, **kwargs)
        structures.append(_upstream.pytree.tree_structure(results))
        return list(_eager.leaves_of(results))

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
        _module_changes.unchanged(native, model, replaced),
        _written_attributes.missing(replaced.written_first, native.note_refusal),
        _as_in_export.as_in_export(says_so=says_so),
        _as_in_export.module_paths(native, model),
        _reads.watched(native, notes),
        nullcontext() if needs is None else _functions_of_sizes.kept_symbolic(native, model, needs),
        _as_in_export.scripted_modules(model),
        _attributes.watched(native),
        _tracing.watched(native),
        _control_flow.recorded(native),
        _fake_kernels.recorded(native),
    ):
        torch.clear_autocast_cache()  # the caller's: its tensors are not part of this recording
        with _undo.at_end(torch.clear_autocast_cache), _undo.at_end(native.stop):
            native.start()
            results = _forks.results(native, model, results_of) if forks else results_of()
        native.add_outputs(results)
    notes += replaced.before.warnings
    notes += [
        f"the update of input {name} is not part of the ONNX model"
        for name, value, memory in inputs
        if memory_of(value) != memory
    ]
