"""Messages on the console, and the progress of long stages on a terminal."""

from __future__ import annotations

import importlib
import pathlib
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

# What an export prints on a console that cannot show it.
_ASCII = {"✅": "[ok]", "❌": "[failed]", "⚠️": "[warning]"}
_WORTH_SHOWING = 64 << 20  # bytes of a file
_PATIENCE = 2.0  # seconds until a stage is a long one


def printer(verbose: bool | None) -> Callable[..., None]:
    """Returns a function that prints as PyTorch's exporter does, unless `verbose` is False."""
    if verbose is False:
        return lambda *_: None

    def say(*parts: Any) -> None:
        print("[torch.onnx]", *(_shown(str(part)) for part in parts))

    return say


def _shown(text: str) -> str:
    """Returns the text in the characters that the console has."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    try:
        text.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        for sign, words in _ASCII.items():
            text = text.replace(sign, words)
        text = text.encode("ascii", "backslashreplace").decode("ascii")
    return text


def _bar(**options: Any) -> Any:
    """Returns a tqdm bar on the terminal; None if there is no terminal or no tqdm."""
    if sys.stderr is None or not sys.stderr.isatty():
        return None
    try:
        tqdm = importlib.import_module("tqdm").tqdm
    except ImportError:
        return None
    return tqdm(file=sys.stderr, leave=False, **options)


@contextmanager
def saving(
    path: pathlib.Path, total: int, *, shown: bool
) -> Iterator[Callable[[int, int], None] | None]:
    """Yields a function that shows how many bytes of a large file are written, or None."""
    name = _shown(path.name)
    options = {"total": total, "unit": "B", "unit_scale": True, "desc": f"Saving {name}"}
    bar = _bar(**options) if shown and total >= _WORTH_SHOWING else None
    if bar is None:
        yield None
        return

    def report(written: int, total: int) -> None:
        bar.total = total
        bar.update(written - bar.n)
        if written == total:
            bar.refresh()

    with bar:
        yield report


@contextmanager
def stage(title: str, *, shown: bool) -> Iterator[None]:
    """Shows for how long a stage is running, from some seconds on."""
    ended = threading.Event()
    watch = None
    if shown and sys.stderr is not None and sys.stderr.isatty():
        watch = threading.Thread(target=_show_elapsed, args=(title, ended), daemon=True)
        watch.start()
    try:
        yield
    finally:
        ended.set()
        if watch is not None:
            watch.join()


def _show_elapsed(title: str, ended: threading.Event) -> None:
    if ended.wait(_PATIENCE):
        return
    bar = _bar(total=0, desc=title, bar_format="{desc}: {elapsed}")
    if bar is None:
        return
    with bar:
        while not ended.wait(0.5):
            bar.refresh()
