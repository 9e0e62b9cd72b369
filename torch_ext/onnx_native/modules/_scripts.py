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
    scripts = _scripts(module) if _has_scripts(module) else ()
    states = [_library.extension().ScriptState(script) for script in scripts]

    def restore() -> None:
        for state in states:
            state.restore()

    with _undo.at_end(restore):
        yield


def _has_scripts(module: Any) -> bool:
    kinds = set(map(type, module.modules())) if isinstance(module, torch.nn.Module) else set()
    return any(issubclass(kind, torch.jit.ScriptModule) for kind in kinds)


def _scripts(module: torch.nn.Module) -> Iterator[torch.jit.ScriptModule]:
    if isinstance(module, torch.jit.ScriptModule):
        yield module
    else:
        for child in module.children():
            yield from _scripts(child)
