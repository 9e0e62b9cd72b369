"""Nested divisions and remainders of data-dependent integers, also by negative numbers.

torch records some of them incorrectly: it simplifies (n//2)//-3 to n//-6. If a program contains
both, torch treats them as the same number, and the capture is wrong.
"""

from __future__ import annotations

import linecache
from typing import Any

import pytest
import torch
from jit.running import check as check_script
from models import routes

INNER = ("n // 2", "n // -2", "-n // 2", "n % 4", "n % -4", "2 * (n // 3)", "n // 2 + 1")
OUTER = ("({}) // 3", "({}) // -3", "-({}) // 3", "({}) % 3", "({}) % -3", "7 // (({}) * 2 + 1)")
GROUPS = [[outer.format(inner) for outer in OUTER] for inner in INNER] + [
    ["(n // 2) // -3 // -2"],
    ["(n // -2 // 3) % -2"],
    ["max((n // 2) // -3, 0)", "min((n // 2) // -3, -1)", "((n // 2) // -3) * 2 - n"],
    ["((n // 2) // -3 + 1) // -2"],
    ["((n - 1) // 2 + n) // -5", "(n // 5 // -1) // -1"],
]
VALUES = range(-20, 21)
X = torch.tensor([1, 100])
DYNAMIC: routes.Dynamic = [{0: "m"}, {}]


def program(expressions: list[str], number: str) -> tuple[str, str]:
    lines = "".join(f"        x * ({text}),\n" for text in expressions)
    source = f"def numbers(x, t):\n    n = {number}\n    return [\n{lines}    ]\n"
    return f"<{expressions[0]}>", source


def function(expressions: list[str]) -> Any:
    name, source = program(expressions, "t.item()")
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    scope: dict[str, Any] = {}
    exec(compile(source, name, "exec"), scope)
    return scope["numbers"]


def every() -> list[tuple[torch.Tensor, torch.Tensor]]:
    return [(X, torch.tensor(n)) for n in (11, *VALUES)]


@pytest.mark.parametrize("route", ["fx", "pt2"])
@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group[0])
def test_numbers(group: list[str], route: str) -> None:
    first, *others = every()
    routes.check(function(group), first, route, *others, dynamic=DYNAMIC)


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group[0])
def test_scripted_numbers(group: list[str]) -> None:
    _, source = program(group, "int(t)")
    check_script(torch.jit.CompilationUnit(source).numbers, every(), opsets=(20,))


def sizes(x: torch.Tensor, t: torch.Tensor) -> tuple[torch.Tensor, ...]:
    n = t.item()
    size = max((n // 2) // -3, 0)
    filled = torch.zeros(size + 2) + n
    return filled, filled.reshape(1, -1), torch.arange(size) * 2, x[:1].expand(size, 2)


@pytest.mark.parametrize("route", ["fx", "pt2"])
def test_sizes(route: str) -> None:
    x = torch.arange(8.0).reshape(4, 2)
    first, *others = [(x, torch.tensor(n)) for n in (-11, *VALUES)]
    routes.check(sizes, first, route, *others, dynamic=[{0: "m"}, {}])
