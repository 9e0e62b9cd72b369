"""Finds and loads the compiled library after checking the version of PyTorch."""

import functools
import importlib.machinery
import importlib.util
import os
import sys
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch

from onnx_native import _builds

_lock = threading.RLock()
_at_load: list[Callable[[Any], None]] = []
# The folders of code that is not the user's: PyTorch and this package.
NOT_OF_USER = tuple(os.path.join(os.path.dirname(file), "") for file in (torch.__file__, __file__))


def library_path() -> str:
    """Returns the path of the library, for torch.ops.load_library.

    Raises:
        ImportError: There is no library for this version of PyTorch.
    """
    path = _builds.folder(torch.__version__) / "libonnx_native.so"
    if not path.exists():
        raise ImportError(f"the onnx_native library is missing: {path}; reinstall the package")
    return str(path)


def extension() -> Any:
    """Returns the extension module; the first call loads it."""
    with _lock:
        return _extension()


# The extension module is the file that torch.ops.load_library loads.
@functools.cache
def _extension() -> Any:
    name = "onnx_native._C"
    path = library_path()
    loader = importlib.machinery.ExtensionFileLoader(name, path)
    spec = importlib.util.spec_from_loader(name, loader, origin=path)
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
