"""Installs the native exporter as the backend of torch.onnx.export.

torch.onnx.export imports ``_compat`` and calls its ``export_compat``. The module imports
onnxscript, which takes over a second and which a native export does not need. As long as nothing
has loaded the module, a stand-in replaces it; any other attribute of the stand-in loads the
original.
"""

import functools
import importlib
from collections.abc import Callable
from types import ModuleType
from typing import Any

from onnx_native import _options, _undo
from onnx_native.upstream import _upstream

_installed = False
_original: Callable[..., Any] | None = None


@functools.partial(_undo.all_at_end, flags=_upstream.modules_of_flags)
def _export_compat(*args: Any, **kwargs: Any) -> Any:
    from onnx_native import _context
    from onnx_native.routes import _export

    with _context.neutral():
        return _export.export_compat(*args, **kwargs)


class _StandIn(ModuleType):
    """Replaces the ``_compat`` module until something loads the original."""

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
    """Returns PyTorch's own ``_compat``; loads it if needed."""
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
    """Makes torch.onnx.export native; does nothing if it already is."""
    global _installed
    _installed = True
    module = _loaded_module()
    if module is not None:
        _patch(module)
    elif _upstream.loaded_compat() is None:
        _upstream.put_compat(_StandIn())
    if _options.legacy_in_environment():
        _options.prepare_legacy()


def uninstall() -> None:
    """Restores PyTorch's torch.onnx.export; does nothing if it is in place."""
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
    """The library calls this after it has been loaded."""
    install()
