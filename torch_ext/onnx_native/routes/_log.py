"""Notes exports, for those who want to know afterwards what was exported."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping
from typing import Any


@dataclasses.dataclass
class Export:
    """An export that ended well.

    Attributes:
        file: Its path or stream; None if it was not to be saved.
        by: What captured the program, or another exporter.
        seconds: How long it took.
        reason: Why it was not captured natively.
    """

    file: Any
    by: str
    seconds: float
    reason: str = ""


# The exports of all threads, while somebody wants them.
exports: list[Export] | None = None


def add(file: Any, start: float, capture: Mapping[str, Any]) -> None:
    """Notes an export that started at a time of time.perf_counter().

    Args:
        file: Its file.
        start: When it started.
        capture: By what the program was captured, as export_report["capture"] has it.
    """
    if exports is not None:
        reason = (capture["reason"] or "").partition("\n")[0]
        exports.append(Export(file, capture["by"], time.perf_counter() - start, reason))
