"""Tests the page of operators and its coverage of PyTorch's operator database."""

import pathlib

from ops import document
from ops.limits import LIMITS, NO_ENTRY
from ops.test_ops import row_keys, table_keys

# Call targets in PyTorch's operator database before decomposition.
OVERLOADS = pathlib.Path(__file__).with_name("overloads.txt")


def database_keys() -> set[str]:
    keys = set()
    for line in OVERLOADS.read_text(encoding="utf-8").split():
        namespace, _, name = line.replace("builtin:", "python.", 1).partition(".")
        keys.add(f"{namespace}::{name}")
    return keys


def test_document_is_fresh() -> None:
    assert document.PATH.read_text(encoding="utf-8") == document.document(), "run `make operators`"


def test_limits_name_keys() -> None:
    assert sorted(set(LIMITS) - row_keys()) == []


def test_every_overload_of_the_database_has_an_entry_or_needs_none() -> None:
    operators = {key.partition("@")[0] for key in table_keys()}
    assert sorted(database_keys() - operators - set(NO_ENTRY)) == []
    assert sorted(set(NO_ENTRY) & operators) == []
