"""Runs what a recorded program gives to a pool of threads.

A recording is of one thread. A call that a program submits to a ThreadPoolExecutor runs at once, in
the program's own thread; its future is done. Calls of other threads refuse the recording.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import torch

from onnx_native import _replaced


@contextmanager
def in_order() -> Iterator[None]:
    """Runs the calls that this thread submits to pools of threads, in their order."""
    thread = threading.get_ident()
    plain = ThreadPoolExecutor.submit

    def submit(pool: Any, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        if threading.get_ident() != thread or not _is_alike(pool):
            return plain(pool, function, *args, **kwargs)
        future: Future[Any] = Future()
        future.set_running_or_notify_cancel()
        try:
            future.set_result(function(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future

    with _replaced.attributes([(ThreadPoolExecutor, "submit", submit)]):
        yield


def _is_alike(pool: Any) -> bool:
    """Whether a call does the same in this thread as in a thread of the pool.

    Threads of a pool do not inherit autocast, and may have an initializer.
    """
    return (
        type(pool) is ThreadPoolExecutor
        and getattr(pool, "_initializer", None) is None
        and not getattr(pool, "_shutdown", True)
        and not torch.is_autocast_enabled("cpu")
    )
