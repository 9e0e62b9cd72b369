"""Runs an unchanged program with the exporter in place of PyTorch's."""

from __future__ import annotations

import contextlib
import os
import pathlib
import runpy
import shutil
import sys
from collections.abc import Iterator, Sequence

from onnx_native import _library, _options
from onnx_native.routes import _hook, _log


class NoProgramError(FileNotFoundError):
    """There is no such program."""


def run(script: str | os.PathLike, *args: str) -> list[_log.Export]:
    """Implements onnx_native.run."""
    words = [os.fspath(script), *map(str, args)]
    is_module = words[0] == "-m"
    if is_module:
        words = words[1:]
        if not words:
            raise NoProgramError("-m needs the name of a module")
    elif not pathlib.Path(words[0]).exists():
        found = shutil.which(words[0])
        if found is None:
            raise NoProgramError(f"there is no program {words[0]!r}, here or on the PATH")
        words[0] = found
    with _noted() as exports, _taken_over(), _arguments(words, is_module):
        try:
            if is_module:
                runpy.run_module(words[0], run_name="__main__", alter_sys=True)
            else:
                runpy.run_path(words[0], run_name="__main__")
        except SystemExit as end:
            if end.code not in (None, 0):
                raise
        finally:
            print(_table(exports), file=sys.stderr)
    return exports


@contextlib.contextmanager
def _noted() -> Iterator[list[_log.Export]]:
    before, _log.exports = _log.exports, []
    try:
        yield _log.exports
    finally:
        _log.exports = before


@contextlib.contextmanager
def _taken_over() -> Iterator[None]:
    _library.extension()
    was_installed = _hook.is_installed()
    _hook.install()
    before = _options.set_legacy(True)
    try:
        yield
    finally:
        _options.set_legacy(before)
        if not was_installed:
            _hook.uninstall()


@contextlib.contextmanager
def _arguments(words: Sequence[str], is_module: bool) -> Iterator[None]:
    """Sets sys.argv and the folder that Python looks for modules in, as ``python`` sets them."""
    folder = os.getcwd() if is_module else os.path.dirname(os.path.realpath(words[0]))
    argv, sys.argv = sys.argv, list(words)
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.argv = argv
        with contextlib.suppress(ValueError):
            sys.path.remove(folder)


def _table(exports: Sequence[_log.Export]) -> str:
    if not exports:
        return "onnx_native: the program exported no model"
    rows = [
        (_name(export.file), export.by, f"{export.seconds:.2f} s", export.reason)
        for export in exports
    ]
    widths = [max(len(row[i]) for row in rows) for i in range(3)]
    count = "1 model was" if len(rows) == 1 else f"{len(rows)} models were"
    lines = [f"onnx_native: {count} exported"]
    for file, by, seconds, reason in rows:
        line = f"  {file:<{widths[0]}}  {by:<{widths[1]}}  {seconds:>{widths[2]}}  {reason}"
        lines.append(line.rstrip())
    return "\n".join(lines)


def _name(file: object) -> str:
    if isinstance(file, (str, os.PathLike)):
        return os.fsdecode(file)
    return "(in memory)" if file is None else f"({type(file).__name__})"
