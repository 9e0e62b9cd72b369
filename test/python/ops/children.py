"""Runs the work of a row in a process of its own, so that a crash is a finding too."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import Connection
from typing import TypeVar

SECONDS_OF_A_ROW = 300
Finding = TypeVar("Finding")


def findings(
    work: Callable[[], Iterable[Finding]],
    lost: Callable[[str], Finding],
    seconds: float = SECONDS_OF_A_ROW,
) -> Iterator[Finding]:
    """Yields what `work` finds in a child; `lost(reason)` ends it where the child does not end."""
    receiving, sending = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(target=_send, args=(work, sending))
    process.start()
    sending.close()
    end = time.monotonic() + seconds
    try:
        while receiving.poll(max(0.0, end - time.monotonic())):
            finding = receiving.recv()
            if finding is None:
                return
            yield finding
        yield lost(f"no end after {seconds:.0f} seconds")
    except EOFError:
        process.join()
        yield lost(f"the process ended with {process.exitcode}")
    finally:
        process.kill()
        process.join()


def _send(work: Callable[[], Iterable[Finding]], out: Connection) -> None:
    for finding in work():
        out.send(finding)
    out.send(None)
