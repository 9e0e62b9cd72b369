"""Why a route of an export leaves a program to another one."""

from __future__ import annotations

import dataclasses
import enum
from typing import Any


class Kind(enum.Enum):
    """What a refusal is about. The recorder's kinds (``_C.RefusalKind``) have the same names."""

    CONTROL_FLOW = "control flow"  # a branch or a loop by elements, which torch.export refuses too
    LOOP = "loop over a size"  # a loop over a dynamic size, which cannot be unrolled
    UNROLLED = "unrolled loop"  # one that can be unrolled: then the size is static
    PINNED_SIZE = "pinned size"  # the program fixes a dynamic size
    DIFFERENCE = "difference"  # what was captured computes something else than the module
    FAILURE = "failure"  # the program itself raises an exception
    OTHER = "other"


class Refusal(Exception):  # noqa: N818
    """A route leaves the program to another one.

    Attributes:
        text: Why.
        kind: What it is about.
    """

    def __init__(self, text: str, kind: Kind = Kind.OTHER) -> None:
        super().__init__(text)
        self.text = text
        self.kind = kind


@dataclasses.dataclass
class Attempt:
    """A route that an export took, and how that ended.

    Attributes:
        route: The name of the route.
        seconds: How long it took.
        refusal: Why it left the program; None if it exported it.
    """

    route: str
    seconds: float = 0.0
    refusal: Refusal | None = None

    def as_dict(self) -> dict[str, Any]:
        """The attempt, as export_report["capture"]["attempts"] has it."""
        refusal = self.refusal
        return {
            "route": self.route,
            "seconds": self.seconds,
            "kind": None if refusal is None else refusal.kind.value,
            "reason": None if refusal is None else refusal.text,
        }


def first_line(error: BaseException) -> str:
    """Returns the first line of an error's text."""
    return _first_line(error) or repr(error)


def summary(error: BaseException) -> str:
    """Returns the class of an error and the first line of its text."""
    return f"{type(error).__name__}: {_first_line(error)}"


def _first_line(error: BaseException) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), "")
