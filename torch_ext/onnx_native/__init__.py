"""Runs torch.onnx.export natively, in C++.

Load the library and call torch.onnx.export as before::

    import onnx_native, torch

    torch.ops.load_library(onnx_native.library_path())
    torch.onnx.export(model, args, "model.onnx", dynamo=True)
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from onnx_native import _build_info, _library
from onnx_native._library import library_path
from onnx_native._options import options
from onnx_native.lowerings._fallbacks import fallbacks
from onnx_native.lowerings._keep import keep
from onnx_native.lowerings._lowerings import lowering, remove_lowering
from onnx_native.routes import _hook

if TYPE_CHECKING:
    from onnx_native._C import ExportError
    from onnx_native.decoders._decoder import ExportedDecoder, export_decoder
    from onnx_native.program._program import ONNXProgram
    from onnx_native.verify._comparison import compare

__all__ = [
    "ExportError",
    "ExportedDecoder",
    "ONNXProgram",
    "__version__",
    "compare",
    "disable",
    "disabled",
    "enable",
    "export_decoder",
    "fallbacks",
    "is_enabled",
    "keep",
    "library_path",
    "lowering",
    "options",
    "remove_lowering",
]

__version__ = _build_info.VERSION


def enable() -> None:
    """Makes torch.onnx.export run natively. Loading the library does this too."""
    _library.extension()
    _hook.install()


def disable() -> None:
    """Makes torch.onnx.export use PyTorch's own exporter again."""
    _hook.uninstall()


def is_enabled() -> bool:
    """Returns whether torch.onnx.export runs natively."""
    return _hook.is_installed()


@contextmanager
def disabled() -> Iterator[None]:
    """Runs the block with PyTorch's own exporter."""
    before = is_enabled()
    disable()
    try:
        yield
    finally:
        if before:
            enable()


def __getattr__(name: str) -> Any:
    if name in ("_C", "ExportError"):
        extension = _library.extension()
        return extension if name == "_C" else extension.ExportError
    if name == "ONNXProgram":
        from onnx_native.program._program import ONNXProgram

        return ONNXProgram
    if name == "compare":
        from onnx_native.verify._comparison import compare

        return compare
    if name in ("export_decoder", "ExportedDecoder"):
        from onnx_native.decoders import _decoder

        return getattr(_decoder, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
