"""TorchScript for modules that no capture records: it keeps branches and loops by elements.

``torch.jit.script`` compiles the source of a module. A module that it cannot compile, or that
computes something else then, is left alone.
"""

from __future__ import annotations

import dataclasses
import inspect
import logging
import sys
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Any

import torch

from onnx_native import _refusals, _replaced
from onnx_native.modules import (
    _differences,
    _generators,
    _module_changes,
    _module_state,
    _placeholders,
    _tracing,
)
from onnx_native.request import _jit
from onnx_native.torchscript import _script_source, _unlike_python
from onnx_native.upstream import _flags, _upstream

logger = logging.getLogger("onnx_native")


class ScriptingError(Exception):
    """TorchScript cannot stand for the module; the text says why."""


@dataclasses.dataclass(frozen=True)
class Script:
    """A module as TorchScript.

    Attributes:
        module: The script.
        inputs: Its arguments.
        expected: What the user's module returns for them, flat.
    """

    module: Any
    inputs: _jit.ScriptInputs
    expected: list[Any]

    def check_dtypes(self, dtypes: list[torch.dtype], half: torch.dtype | None) -> None:
        """Raises ScriptingError if the dtypes of the model's results are not those of the module's.

        TorchScript stores True as 1, which makes ``mask * True`` an integer, but leaves the product
        out when it runs the script. Results of float32 may be `half`.
        """
        values = filter(_differences.is_value, self.expected)
        for value, dtype in zip(values, dtypes, strict=False):  # the module's state comes after
            wanted = torch.as_tensor(value).dtype
            if dtype is half and wanted is torch.float32:
                continue
            if wanted.to_real() != dtype:
                raise ScriptingError(f"its result is {dtype} instead of {wanted}")


def scripted(
    model: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None, specs: list[Any]
) -> Script:
    """Returns a module as TorchScript that computes the same for these arguments.

    Args:
        model: The module.
        args: Positional arguments.
        kwargs: Keyword arguments.
        specs: The dynamic sizes of each leaf of (args, kwargs); empty if there are none.

    Raises:
        ScriptingError: There is none.
    """
    if not isinstance(model, torch.nn.Module):
        raise ScriptingError("it is not a module")
    tensors = _upstream.pytree.tree_leaves((args, kwargs))
    tensors += [*model.parameters(), *model.buffers()]
    if any(_placeholders.lacks_elements(tensor) for tensor in tensors):
        raise ScriptingError("its tensors have no elements to compare its results with")
    # The compiler and the example run leave attributes on modules.
    with warnings.catch_warnings(), _module_changes.restored(model), ExitStack() as at_end:
        warnings.simplefilter("ignore")
        try:
            types = _script_source.Types()
            with types.recorded(), _refused_functions():
                expected = _results(model, model, args, kwargs)
            script = _compiled(model, types)
            at_end.callback(_upstream.forget_runs, script)
            unlike = _unlike_python.difference(script, model)
            if unlike is not None:
                raise ScriptingError(unlike)
            inputs = _jit.ScriptInputs(script, args, kwargs, _by_name(model, args, kwargs, specs))
            actual = _results(script, model, args, kwargs)
        except Exception as error:
            raise ScriptingError(_refusals.first_line(error)) from error
        if not _agree(expected, actual):
            raise ScriptingError("it computes something else")
        _check_larger_sizes(script, model, inputs.larger())
    return Script(script, inputs, expected)


def _compiled(model: Any, types: _script_source.Types) -> Any:
    """Returns the module as TorchScript.

    The program gets the answers of torch.export where it asks whether it is being captured. What
    it keeps from TorchScript (``if not torch.jit.is_scripting()``) is left out only if TorchScript
    does not compile it.
    """
    answers = _script_source.Answers(is_scripting=False)
    with _resolved_annotations(model):
        try:
            with _script_source.prepared(types, answers):
                return _unshared(model)
        except Exception:
            if not answers.of_scripting:
                raise
        with _script_source.prepared(types, _script_source.Answers(is_scripting=True)):
            return _unshared(model)


def _unshared(module: Any) -> Any:
    """Returns a module as TorchScript, whose classes are not shared with other scripted modules."""
    recursive = _upstream.jit_recursive
    return recursive.create_script_module(
        _upstream.prepare_to_script(module), recursive.infer_methods_to_compile, share_types=False
    )


@contextmanager
def _refused_functions() -> Iterator[None]:
    """Makes calls fail that TorchScript leaves out: its embeddings ignore ``max_norm``."""

    def refuse(*_: Any) -> Any:
        raise ScriptingError("TorchScript ignores max_norm of embeddings")

    name = "_no_grad_embedding_renorm_"
    with _replaced.attributes([(torch.nn.functional, name, refuse)]):
        yield


def _by_name(
    model: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None, specs: list[Any]
) -> dict[str, Any] | None:
    """Returns the dynamic sizes of the arguments by the names of the parameters."""
    if not specs:
        return None
    structure = _upstream.pytree.tree_structure((args, kwargs or {}))
    of_args, of_kwargs = _upstream.pytree.tree_unflatten(specs, structure)
    positional = inspect.signature(model.forward).bind_partial(*args).arguments
    return {**dict(zip(positional, of_args, strict=True)), **of_kwargs}


@contextmanager
def _resolved_annotations(model: Any) -> Iterator[None]:
    """Resolves annotations of attributes that are text, as with ``from __future__ import
    annotations``. TorchScript does not read it."""
    replaced = []
    for owner in {kind for module in model.modules() for kind in type(module).__mro__}:
        own = vars(owner).get("__annotations__")
        if own and any(isinstance(annotation, str) for annotation in own.values()):
            replaced.append((owner, "__annotations__", _resolved(owner, own)))
    with _replaced.attributes(replaced):
        yield


def _resolved(owner: type, annotations: dict[str, Any]) -> dict[str, Any]:
    names = vars(sys.modules[owner.__module__])
    try:
        return {
            name: eval(text, names, dict(vars(owner))) if isinstance(text, str) else text
            for name, text in annotations.items()
        }
    except Exception:  # names for type checkers only
        return annotations


def _results(
    function: Any, model: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None
) -> list[Any]:
    """Runs the model as in an export, or its script, with the same random numbers."""
    # PyTorch calls scripts with wrong arguments in an export.
    in_export = _flags.answers(is_compiling=True, is_exporting=True)
    state = in_export if function is model else nullcontext()
    with _generators.seeded(), state, _tracing.as_in_eager():
        return _module_state.results(function, model, args, kwargs or {})


def _check_larger_sizes(script: Any, model: Any, arguments: list[Any] | None) -> None:
    """Raises ScriptingError if the script differs from the module for larger dynamic sizes.

    TorchScript takes an index without dimensions for one of elements, for example, so that axes of
    size 1 in the example may be in another order.
    """
    if arguments is None:
        return
    try:
        expected = _results(model, model, tuple(arguments), None)
    except Exception as error:
        logger.debug("The module does not take larger sizes: %s", error)
        return
    try:
        actual = _results(script, model, tuple(arguments), None)
    except Exception as error:
        raise ScriptingError(f"it fails for larger sizes: {_refusals.first_line(error)}") from error
    if not _agree(expected, actual):
        raise ScriptingError("it computes something else for larger sizes")


def _agree(expected: list[Any], actual: list[Any]) -> bool:
    if list(map(type, expected)) != list(map(type, actual)):
        return False
    return all(
        not _differences.measure(torch.as_tensor(one), torch.as_tensor(other)).is_significant
        if _differences.is_value(one)
        else one == other
        for one, other in zip(expected, actual, strict=True)
    )
