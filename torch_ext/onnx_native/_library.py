"""Finds and loads the compiled library after checking the version of PyTorch."""

import functools
import importlib.machinery
import importlib.util
import os
import pathlib
import sys
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch

from onnx_native import _build_info

_lock = threading.RLock()
_at_load: list[Callable[[Any], None]] = []
# The folders of code that is not the user's: PyTorch and this package.
NOT_OF_USER = tuple(os.path.join(os.path.dirname(file), "") for file in (torch.__file__, __file__))
_PATH = pathlib.Path(__file__).absolute().with_name("libonnx_native.so")


def check_torch_version() -> None:
    """Raises ImportError if the library was built for another version of PyTorch.

    The library would load but give wrong results, because interned symbols differ between versions.
    """
    running = ".".join(torch.__version__.split(".")[:2])
    if running != _build_info.TORCH_VERSION:
        raise ImportError(
            f"onnx_native {_build_info.VERSION} was built for PyTorch {_build_info.TORCH_VERSION} "
            f"but PyTorch {torch.__version__} is running; install the onnx_native that was built "
            "for this version, or rebuild it (pip install --no-build-isolation .)"
        )


def library_path() -> str:
    """Returns the path of the library, for torch.ops.load_library."""
    check_torch_version()
    if not _PATH.exists():
        raise ImportError(f"the onnx_native library is missing: {_PATH}; reinstall the package")
    return str(_PATH)


def extension() -> Any:
    """Returns the extension module; the first call loads it."""
    with _lock:
        return _extension()


# The extension module is the file that torch.ops.load_library loads.
@functools.cache
def _extension() -> Any:
    name = "onnx_native._C"
    loader = importlib.machinery.ExtensionFileLoader(name, library_path())
    spec = importlib.util.spec_from_loader(name, loader, origin=str(_PATH))
    assert spec is not None
    module: ModuleType = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    sys.modules[name] = module
    for action in _at_load:
        action(module)
    return module


def at_load(action: Callable[[Any], None]) -> None:
    """Calls a function with the extension module as soon as it is loaded."""
    _at_load.append(action)
