"""Gives modules their state back after runs that are not the user's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from onnx_native import _undo
from onnx_native.modules import _generators
from onnx_native.request import _checks
from onnx_native.upstream import _upstream


def restore_numbers(model: Any) -> Callable[[], None]:
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
def _unchanged(model: Any) -> Iterator[None]:
    """Gives buffers and numbers of the module their values back."""
    restore = restore_numbers(model)
    buffers = model.buffers() if isinstance(model, torch.nn.Module) else ()
    before = [(buffer, buffer.detach().clone()) for buffer in buffers]

    def put_back() -> None:
        restore()
        for buffer, value in before:
            with torch.inference_mode(buffer.is_inference()), torch.no_grad():
                buffer.copy_(value)

    with _undo.at_end(put_back):
        yield


def results(function: Any, model: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """Runs a model, or a function in its place, on copies of the arguments; returns flat results.

    The state of the model and the random numbers of the caller stay as they are. Functions of
    torch.compile run as they are written.
    """
    copied_args, copied_kwargs = _upstream.pytree.tree_map_only(
        torch.Tensor, lambda tensor: tensor.detach().clone(), (tuple(args), dict(kwargs))
    )
    with (
        _upstream.as_written(),
        _unchanged(model),
        torch.no_grad(),
        torch.random.fork_rng(devices=[]),
        _generators.kept(model),
    ):
        values = function(*copied_args, **copied_kwargs)
        with _checks.no_cycle("the module returns a container"):
            return _upstream.pytree.tree_leaves(values)
