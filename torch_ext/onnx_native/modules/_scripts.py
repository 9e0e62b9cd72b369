"""TorchScript modules in a module. Their attributes are not Python's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from onnx_native import _library, _undo


@contextmanager
def unchanged(module: Any) -> Iterator[None]:
    """Gives TorchScript modules their attributes back; not the elements of tensors."""
    states = [_library.extension().ScriptState(script) for script in _scripts(module)]

    def restore() -> None:
        for state in states:
            state.restore()

    with _undo.at_end(restore):
        yield


def _scripts(module: Any) -> Iterator[torch.jit.ScriptModule]:
    if isinstance(module, torch.jit.ScriptModule):
        yield module
    elif isinstance(module, torch.nn.Module) and _has_scripts(module):
        for child in module.children():
            yield from _scripts(child)


def _has_scripts(module: torch.nn.Module) -> bool:
    return any(
        issubclass(kind, torch.jit.ScriptModule) for kind in set(map(type, module.modules()))
    )
