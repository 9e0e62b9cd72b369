"""One row per operator, in files named as the families of csrc/ops; `ROWS` collects them all."""

import importlib
import pkgutil

from ops.row import Row

ROWS: list[Row] = [
    row
    for module in sorted(pkgutil.iter_modules(__path__), key=lambda module: module.name)
    for row in importlib.import_module(f"{__name__}.{module.name}").ROWS
]
