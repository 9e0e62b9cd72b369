"""Runs the code of the documentation's pages.

The Python blocks of a page run one after the other, with the same names, as a reader would type
them. A block of text that directly follows one is what an error says, which the block must raise,
or what it prints, except for the digits of numbers.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import linecache
import pathlib
import re
from collections.abc import Iterator
from typing import Any

import pytest

ROOT = pathlib.Path(__file__).parents[3]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ERROR = re.compile(r"[\w.]*Error\b|cannot |The native capture did not")
# Code on the pages is in a file of this name, as messages show it.
FILE = "model.py"


@dataclasses.dataclass(frozen=True)
class Block:
    """A block of code, and the text that its error has, or that it prints."""

    code: str
    error: str | None = None
    printed: str | None = None


def pages() -> list[str]:
    """Returns the paths of all pages that the site shows."""
    found = [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    for folder in ("docs", "csrc", "torch_ext", "test"):
        found += sorted((ROOT / folder).rglob("*.md"))
    return [str(path.relative_to(ROOT)) for path in found]


def blocks(page: str, language: str = "python") -> list[Block]:
    """Returns the blocks of a page in a language; "" are those without one."""
    text = (ROOT / page).read_text(encoding="utf-8")
    found: list[Block] = []
    last: re.Match[str] | None = None
    for match in BLOCK.finditer(text):
        follows = last is not None and not text[last.end() : match.start()].strip()
        if follows and not match[1] and language == "python":
            if ERROR.match(match[2]):
                found[-1] = dataclasses.replace(found[-1], error=match[2])
            elif "print(" in found[-1].code:
                found[-1] = dataclasses.replace(found[-1], printed=match[2])
        last = match if match[1] == language else None
        if last:
            found.append(Block(match[2]))
    return found


def without_digits(text: str) -> list[str]:
    """Returns the lines of a text without what differs from one machine to another."""
    text = re.sub(r"\d+\.\d+(e[-+]\d+)?", "#", text)
    return [" ".join(re.sub(r"-{2,}", "-", line).split()) for line in text.splitlines()]


def run(block: Block, names: dict[str, Any]) -> None:
    """Runs a block, which must do what the page shows."""
    lines = block.code.splitlines(keepends=True)
    linecache.cache[FILE] = (len(block.code), None, lines, FILE)
    code = compile(block.code, FILE, "exec")
    if block.error is None:
        with contextlib.redirect_stdout(io.StringIO()) as output:
            exec(code, names)
        printed = without_digits(output.getvalue())
        missing = [line for line in without_digits(block.printed or "") if line not in printed]
        assert not missing, f"not printed: {missing}\n{output.getvalue()}"
        return
    with pytest.raises(Exception, match="") as caught:
        exec(code, names)
    said = str(caught.value).splitlines()
    missing = [line for line in block.error.splitlines() if line not in said]
    assert not missing, f"not in the message: {missing}\n{caught.value}"


def steps(page: str, **given: Any) -> Iterator[dict[str, Any]]:
    """Runs the blocks of a page, and yields the names after each of them."""
    names: dict[str, Any] = {"__name__": "__main__", **given}
    for block in blocks(page):
        run(block, names)
        yield names
