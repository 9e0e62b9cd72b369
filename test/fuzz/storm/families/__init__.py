"""The kinds of statements; a family adds one statement or a few related ones."""

import importlib

from storm.families.registry import FAMILIES, Family

__all__ = ["FAMILIES", "Family"]

for _name in (
    *(
        "composite",
        "control",
        "functions",
        "indexing",
        "integers",
        "layers",
        "modules",
        "numbers",
        "operators",
    ),
    *("pointwise", "reductions", "views", "writes"),
):
    importlib.import_module(f"storm.families.{_name}")
