"""Puts the native exporter where torch.onnx.export looks for its own.

torch.onnx.export imports ``_compat`` and calls its ``export_compat``. That module drags in
onnxscript, over a second of imports that a native export never needs, so as long as nobody has
loaded it, a stand-in takes its place; whoever asks that for anything else gets the original.
"""

import importlib
from collections.abc import Callable
from types import ModuleType
from typing import Any

from onnx_native import _upstream

_installed = False
_original: Callable[..., Any] | None = None


def _export_compat(*args: Any, **kwargs: Any) -> Any:
    from onnx_native import _context, _export

    with _context.neutral():
        return _export.export_compat(*args, **kwargs)


class _StandIn(ModuleType):
    """The ``_compat`` module while it is not loaded."""

    def __init__(self) -> None:
        super().__init__(_upstream.COMPAT, "Stands in for PyTorch's module of this name.")
        self.export_compat = _export_compat

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(upstream_module(), name)


def _loaded_module() -> ModuleType | None:
    module = _upstream.loaded_compat()
    return None if isinstance(module, _StandIn) else module


def upstream_module() -> ModuleType:
    """PyTorch's own ``_compat``, loaded if it was not."""
    module = _loaded_module()
    if module is None:
        _upstream.put_compat(None)
        module = importlib.import_module(_upstream.COMPAT)
    if _installed:
        _patch(module)
    return module


def _patch(module: Any) -> None:
    global _original
    if module.export_compat is not _export_compat:
        _original = module.export_compat
        module.export_compat = _export_compat


def install() -> None:
    """Makes torch.onnx.export native; harmless when it is."""
    global _installed
    _installed = True
    module = _loaded_module()
    if module is not None:
        _patch(module)
    elif _upstream.loaded_compat() is None:
        _upstream.put_compat(_StandIn())


def uninstall() -> None:
    """Gives torch.onnx.export back; harmless when it is."""
    global _installed, _original
    _installed = False
    module: Any = _loaded_module()
    if module is None:
        _upstream.put_compat(None)
    elif _original is not None:
        module.export_compat = _original
        _original = None


def is_installed() -> bool:
    return _installed


def on_library_loaded() -> None:
    """Called by the library once it is loaded."""
    install()
