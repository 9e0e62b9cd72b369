"""Gives modules their state back after runs that are not the user's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from onnx_native import _context, _undo, _warnings
from onnx_native.modules import _generators, _held_tensors, _scripts, _snapshot
from onnx_native.request import _checks
from onnx_native.upstream import _upstream


def _restore_numbers(model: Any) -> Callable[[], None]:
    """Returns a function that gives attributes of modules their numbers back.

    A program may count its calls; a capture that fails is not a call.
    """
    modules = model.modules() if isinstance(model, torch.nn.Module) else ()
    before = [
        (
            vars(module),
            {key: value for key, value in vars(module).items() if type(value) in (int, float)},
        )
        for module in modules
    ]

    def restore() -> None:
        for attributes, numbers in before:
            for key, number in numbers.items():
                if type(attributes.get(key)) in (int, float):
                    attributes[key] = number

    return restore


@contextmanager
def unchanged(
    model: Any, *, keeps_attributes: bool = False, is_eager: bool = True
) -> Iterator[None]:
    """Gives a module back what it holds, at any depth: attributes, and the elements of tensors.

    Args:
        model: The module, or a function.
        keeps_attributes: Whether attributes that are no numbers stay as they are at the end.
        is_eager: Whether the block runs the module in eager, rather than captures it.
    """
    before = _snapshot.Snapshot(model)
    restore = _restore_numbers(model) if keeps_attributes else before.restore
    tensors = _held_tensors.HeldTensors(model, [contents for _, contents in before.contents])
    with tensors.kept(is_eager=is_eager), _undo.at_end(restore), _scripts.unchanged(model):
        yield
    for warning in before.warnings:
        _warnings.warn(warning)


def results(
    function: Any,
    model: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    *,
    keeps_attributes: bool = False,
) -> list[Any]:
    """Runs a model, or a function in its place, on copies of the arguments; returns flat results.

    The state of the model and the random numbers of the caller stay as they are. Functions of
    torch.compile run as they are written.

    Args:
        function: What runs.
        model: The module whose state it has.
        args: Positional arguments.
        kwargs: Keyword arguments.
        keeps_attributes: Whether attributes that are no numbers stay as the run leaves them.
    """
    copied_args, copied_kwargs = _upstream.pytree.tree_map_only(
        torch.Tensor, lambda tensor: tensor.detach().clone(), (tuple(args), dict(kwargs))
    )
    with (
        _upstream.as_written(),
        unchanged(model, keeps_attributes=keeps_attributes),
        _scripts.unchanged(function),
        torch.no_grad(),
        torch.random.fork_rng(devices=[]),
        _generators.kept(model),
    ):
        with _context.device_of_caller():
            values = function(*copied_args, **copied_kwargs)
        with _checks.no_cycle("the module returns a container"):
            return _upstream.pytree.tree_leaves(values)
