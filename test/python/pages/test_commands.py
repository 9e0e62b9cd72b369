"""The commands on the pages name targets, scripts and modules that are there.

They take minutes or need a network, so the tests do not run them. test_pages.py runs those of the
command onnx-native.
"""

from __future__ import annotations

import importlib.util
import re

import pytest
from pages import snippets

BARE_BLOCK = re.compile(r"^```(?:sh)?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ANY_BLOCK = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
TARGET = re.compile(r"^(?:\w+=(?:\".*?\"|\S+) )*make ([a-z]+)\b")
SCRIPT = re.compile(r"(?:^|[\s=])(\.ci/[\w.-]*\w|(?:benchmarks|cmake|examples|test)/[\w./-]+\.py)")
MODULE = re.compile(r"python[\d.]* -m ([\w.]+)")


def commands(text: str) -> list[str]:
    """Returns the lines of blocks that have no language or are of a shell, and the code in text."""
    lines = [line for block in BARE_BLOCK.findall(text) for line in block.splitlines()]
    return lines + re.findall(r"`([^`]+)`", ANY_BLOCK.sub("", text))


def missing(text: str) -> list[str]:
    """Returns what the commands of a text name and the repository lacks."""
    makefile = (snippets.ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z]+):", makefile, re.MULTILINE))
    found = []
    for line in commands(text):
        found += [f"make {each}" for each in TARGET.findall(line) if each not in targets]
        found += [each for each in SCRIPT.findall(line) if not (snippets.ROOT / each).exists()]
        found += [each for each in MODULE.findall(line) if importlib.util.find_spec(each) is None]
    return found


@pytest.mark.parametrize("page", snippets.pages())
def test_commands_of_a_page(page: str) -> None:
    assert missing((snippets.ROOT / page).read_text(encoding="utf-8")) == []


def test_missing_parts_of_commands_are_found() -> None:
    block = '```\nA="b c" make nothing\n.ci/run  # all\n```\n'
    assert missing(block + "`python benchmarks/no.py`, `make site`\n") == [
        "make nothing", "benchmarks/no.py",
    ]  # fmt: skip
    assert missing("```sh\n.venv/bin/python -m no_such_module\n```\n") == ["no_such_module"]
    assert missing("```python\nmake nothing\n```\n") == []
