"""What an export does beyond torch.onnx.export's own arguments."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch


@dataclasses.dataclass(frozen=True)
class Options:
    """The options of an export."""

    state: bool | tuple[str, ...] = False
    metadata: bool = True
    functions: bool | tuple[str, ...] = False


_DEFAULT = Options()
_current: ContextVar[Options] = ContextVar("onnx_native_options", default=_DEFAULT)


def current() -> Options:
    """What the exports of this thread do."""
    return _current.get()


def _names(classes: Iterable[type[torch.nn.Module] | str]) -> tuple[str, ...]:
    if isinstance(classes, (str, type)):
        classes = (classes,)
    names = []
    for given in classes:
        if isinstance(given, type) and issubclass(given, torch.nn.Module):
            names.append(f"{given.__module__}.{given.__qualname__}")
        elif isinstance(given, str) and given:
            names.append(given)
        else:
            raise TypeError(f"functions= takes classes of modules or their names, not {given!r}")
    return tuple(sorted(names))


@contextmanager
def options(
    *,
    state: bool | str | Sequence[str] | None = None,
    metadata: bool | None = None,
    functions: bool | Iterable[type[torch.nn.Module] | str] | None = None,
) -> Iterator[None]:
    """Sets options of the exports in its block; what is None stays as it is around the block.

    Args:
        state: Which buffers (names of the ``state_dict``) and inputs the model hands back updated:
            True for all that the program writes to. A buffer ``k`` becomes an input ``k`` and an
            output ``k_out``, an input gets an output. False: a warning names what is written to.
        metadata: Whether the model's nodes say where in the user's program they come from. Without
            it the file does not depend on where the program's source lies.
        functions: Which modules become functions of the model (local functions of ONNX): True for
            all, or their classes or the names of these, ``"package.module.Class"`` or ``"Class"``.
    """
    changes: dict[str, Any] = {}
    if state is not None:
        names = (state,) if isinstance(state, str) else state
        changes["state"] = names if isinstance(names, bool) else tuple(names)
    if metadata is not None:
        changes["metadata"] = metadata
    if functions is not None:
        changes["functions"] = functions if isinstance(functions, bool) else _names(functions)
    token = _current.set(dataclasses.replace(_current.get(), **changes))
    try:
        yield
    finally:
        _current.reset(token)
