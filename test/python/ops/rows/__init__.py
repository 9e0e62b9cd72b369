"""One row per operator, in files named after the families of csrc/ops; `ROWS` has all rows."""

import importlib
import pkgutil

from ops.row import Row

FAMILIES: dict[str, list[Row]] = {
    module.name: importlib.import_module(f"{__name__}.{module.name}").ROWS
    for module in sorted(pkgutil.iter_modules(__path__), key=lambda module: module.name)
}
ROWS: list[Row] = [row for rows in FAMILIES.values() for row in rows]
