"""Loads Python files that are in no package."""

from __future__ import annotations

import importlib.util
import pathlib
from types import ModuleType


def loaded(path: pathlib.Path) -> ModuleType:
    """Runs a file, and returns it as a module that nothing can import."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
