"""Attributes of PyTorch's classes and modules that a capture replaces for a while."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from onnx_native import _library, _undo
from onnx_native.upstream import _upstream

_NOTHING = object()
# Setting them makes Python treat instances as sequences, even after they are deleted.
_ITEMS = ("__getitem__", "__setitem__")


@contextmanager
def attributes(replacements: Sequence[tuple[Any, str, Any]]) -> Iterator[None]:
    """Sets attributes, given as (owner, name, value), and puts the old ones back at the end.

    An attribute that the owner inherits, or does not have, is deleted at the end. Instances of
    torch.Tensor, which inherits its `__getitem__`, are no sequences for Python, and do not become
    sequences.

    PyTorch makes lists of its functions when they are first needed. With other functions in them, a
    ``with torch.device(...)`` after the export would not reach ``torch.tensor``. So lists that are
    made meanwhile are forgotten.
    """
    old = [(owner, name, vars(owner).get(name, _NOTHING)) for owner, name, _ in replacements]
    mappings = {owner for owner, name, value in old if name in _ITEMS and value is _NOTHING}
    # The block may need these with PyTorch's functions in them.
    _upstream.device_constructors()
    torch.overrides.get_default_nowrap_functions()
    unmade = [each for each in _slow_lists() if not each.cache_info().currsize]

    def put_back() -> None:
        for owner, name, value in old:
            if value is not _NOTHING:
                setattr(owner, name, value)
            elif name in vars(owner):
                delattr(owner, name)
        _keep_mappings(mappings)
        for each in unmade:
            each.cache_clear()

    with _undo.at_end(put_back, of_process=True):
        for owner, name, value in replacements:
            setattr(owner, name, value)
        _keep_mappings(mappings)
        yield


def in_this_thread(function: Callable[..., Any], plain: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function that takes the place of a plain one in this thread alone."""
    thread = threading.get_ident()

    @functools.wraps(plain)
    def chosen(*args: Any, **kwargs: Any) -> Any:
        # TorchDynamo does not know threads.
        is_ours = torch.compiler.is_dynamo_compiling() or threading.get_ident() == thread
        return (function if is_ours else plain)(*args, **kwargs)

    return chosen


def _keep_mappings(classes: set[type]) -> None:
    for each in classes:
        _library.extension().clear_sequence_slots(each)


@functools.cache
def _slow_lists() -> Sequence[Any]:
    """Functions that return lists of functions. These take up to 5 ms, and few programs need
    them."""
    return (
        torch.overrides.get_ignored_functions,
        torch.overrides.get_testing_overrides,
        _upstream.overridable_functions,
        _upstream.tensor_methods,
    )
