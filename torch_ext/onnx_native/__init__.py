"""Runs torch.onnx.export natively, in C++.

Load the library and call torch.onnx.export as before::

    import onnx_native, torch

    torch.ops.load_library(onnx_native.library_path())
    torch.onnx.export(model, args, "model.onnx", dynamo=True)
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from onnx_native import _build_info, _builds, _library, _options
from onnx_native._library import library_path
from onnx_native._options import WeightQuantization, options
from onnx_native.legacy import _hook as _legacy_hook
from onnx_native.lowerings._fallbacks import fallbacks
from onnx_native.lowerings._keep import keep
from onnx_native.lowerings._lowerings import lowering, remove_lowering
from onnx_native.routes import _hook

if TYPE_CHECKING:
    import os

    from onnx_native._C import ExportError
    from onnx_native.decoders._decoder import ExportedDecoder, export_decoder
    from onnx_native.program._adapters import save_adapter
    from onnx_native.program._program import ONNXProgram
    from onnx_native.routes._log import Export
    from onnx_native.together._together import Part, export_many, save_many
    from onnx_native.verify._comparison import compare

__all__ = [
    "ExportError",
    "ExportedDecoder",
    "ONNXProgram",
    "Part",
    "WeightQuantization",
    "__version__",
    "cmake_prefix_path",
    "compare",
    "disable",
    "disabled",
    "enable",
    "export_decoder",
    "export_many",
    "fallbacks",
    "is_enabled",
    "keep",
    "library_path",
    "lowering",
    "options",
    "remove_lowering",
    "run",
    "save_adapter",
    "save_many",
]

__version__ = _build_info.VERSION

_options.when_legacy(_legacy_hook.install)


def enable(*, legacy: bool | None = None) -> None:
    """Makes torch.onnx.export run natively. Loading the library does this too.

    Args:
        legacy: Whether ``dynamo=False`` runs natively too. None leaves that as it is: off, unless
            the environment has ONNX_NATIVE_LEGACY=1. See docs/legacy.md.
    """
    _library.extension()
    _hook.install()
    if legacy is not None:
        _options.set_legacy(legacy)


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


def cmake_prefix_path() -> str:
    """Returns the folder for CMAKE_PREFIX_PATH, with which a C++ application finds this package.

    The installed package holds the headers and libraries: ``find_package(onnx_native)`` gives the
    target ``onnx_native::core``. See docs/cpp.md.

    Raises:
        FileNotFoundError: The package is imported from a build folder, not installed.
    """
    folder = _builds.PACKAGE / "share" / "cmake"
    if not folder.exists():
        raise FileNotFoundError(
            f"{folder} is missing: this onnx_native is not installed; use `cmake --install`"
        )
    return str(folder)


def run(script: "str | os.PathLike", *args: str) -> "list[Export]":
    """Runs a Python program as ``python script args`` does; all its exports are native.

    Calls of torch.onnx.export run natively whatever their ``dynamo`` is. At the end a table on
    stderr says what was exported by whom, and in how many seconds. See docs/legacy.md.

    Args:
        script: The path of the program, the name of a command on the PATH that is a Python program
            (``"yolo"``), or ``"-m"`` with the name of a module as the first argument.
        args: The arguments of the program.

    Returns:
        The exports, each with its file, what captured the program, and its seconds.

    Raises:
        FileNotFoundError: There is no such program.
        SystemExit: The program ends so with another status than 0.
    """
    from onnx_native.legacy import _run

    return _run.run(script, *args)


def __getattr__(name: str) -> Any:
    if name in ("_C", "ExportError"):
        extension = _library.extension()
        return extension if name == "_C" else extension.ExportError
    if name == "ONNXProgram":
        from onnx_native.program._program import ONNXProgram

        return ONNXProgram
    if name == "save_adapter":
        from onnx_native.program._adapters import save_adapter

        return save_adapter
    if name == "compare":
        from onnx_native.verify._comparison import compare

        return compare
    if name in ("export_decoder", "ExportedDecoder"):
        from onnx_native.decoders import _decoder

        return getattr(_decoder, name)
    if name in ("Part", "export_many", "save_many"):
        from onnx_native.together import _together

        return getattr(_together, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
