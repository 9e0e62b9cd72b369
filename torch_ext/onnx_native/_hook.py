"""Puts the native exporter where torch.onnx.export looks for its own.

torch.onnx.export imports ``_compat`` and calls its ``export_compat``. That module drags in
onnxscript, over a second of imports that a native export never needs, so as long as nobody has
loaded it, a stand-in takes its place; whoever asks that for anything else gets the original.
"""

import importlib
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch.onnx._internal.exporter as _package

_NAME = "torch.onnx._internal.exporter._compat"

_installed = False
_original: Callable[..., Any] | None = None


def _export_compat(*args: Any, **kwargs: Any) -> Any:
    from onnx_native import _context, _export

    with _context.neutral():
        return _export.export_compat(*args, **kwargs)


class _StandIn(ModuleType):
    """The ``_compat`` module while it is not loaded."""

    def __init__(self) -> None:
        super().__init__(_NAME, "Stands in for PyTorch's module of this name.")
        self.export_compat = _export_compat

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(upstream_module(), name)


def _place(module: ModuleType | None) -> None:
    if module is None:
        sys.modules.pop(_NAME, None)
        if hasattr(_package, "_compat"):
            del _package._compat
    else:
        sys.modules[_NAME] = module
        _package._compat = module  # type: ignore[attr-defined]


def _loaded_module() -> ModuleType | None:
    module = sys.modules.get(_NAME)
    return None if isinstance(module, _StandIn) else module


def upstream_module() -> ModuleType:
    """PyTorch's own ``_compat``, loaded if it was not."""
    module = _loaded_module()
    if module is None:
        _place(None)
        module = importlib.import_module(_NAME)
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
    elif _NAME not in sys.modules:
        _place(_StandIn())


def uninstall() -> None:
    """Gives torch.onnx.export back; harmless when it is."""
    global _installed, _original
    _installed = False
    module: Any = _loaded_module()
    if module is None:
        _place(None)
    elif _original is not None:
        module.export_compat = _original
        _original = None


def is_installed() -> bool:
    return _installed


def on_library_loaded() -> None:
    """Called by the library once it is loaded."""
    install()
