"""What an export does beyond torch.onnx.export's own arguments."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any


@dataclasses.dataclass(frozen=True)
class Options:
    """The options of an export."""

    state: bool | tuple[str, ...] = False
    metadata: bool = True


_DEFAULT = Options()
_current: ContextVar[Options] = ContextVar("onnx_native_options", default=_DEFAULT)


def current() -> Options:
    """What the exports of this thread do."""
    return _current.get()


@contextmanager
def options(
    *, state: bool | str | Sequence[str] | None = None, metadata: bool | None = None
) -> Iterator[None]:
    """Sets options of the exports in its block; what is None stays as it is around the block.

    Args:
        state: Which buffers (names of the ``state_dict``) and inputs the model hands back updated:
            True for all that the program writes to. A buffer ``k`` becomes an input ``k`` and an
            output ``k_out``, an input gets an output. False: a warning names what is written to.
        metadata: Whether the model's nodes say where in the user's program they come from. Without
            it the file does not depend on where the program's source lies.
    """
    changes: dict[str, Any] = {}
    if state is not None:
        names = (state,) if isinstance(state, str) else state
        changes["state"] = names if isinstance(names, bool) else tuple(names)
    if metadata is not None:
        changes["metadata"] = metadata
    token = _current.set(dataclasses.replace(_current.get(), **changes))
    try:
        yield
    finally:
        _current.reset(token)
