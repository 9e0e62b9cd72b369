"""Checks what ``dynamic_shapes`` declares against the example, before anything is captured."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch.export import Dim

from onnx_native import _replaced, _warnings
from onnx_native.request import _shapes
from onnx_native.upstream import _upstream

# The name of an argument's leaf, its example and the user's spec for it.
Leaf = tuple[str, Any, Any]


def check(leaves: Iterable[Leaf]) -> None:
    """Checks that the example has the sizes that are declared.

    Raises:
        TorchExportError: It does not, or a Dim has different sizes.
    """
    known: dict[str, tuple[int, Any, str]] = {}  # by the names of Dims
    for place, size, entry in _entries(leaves):
        if isinstance(entry, (int, Dim, _upstream.DimHint)):
            _check_entry(place, size, entry, known)


def _entries(leaves: Iterable[Leaf]) -> Iterator[tuple[str, int, Any]]:
    """Yields the sizes and numbers that have an entry, each with its place."""
    for name, leaf, spec in leaves:
        if isinstance(leaf, torch.Tensor):
            for axis, entry in _shapes.axes_of(spec).items():
                if isinstance(axis, int) and -leaf.dim() <= axis < leaf.dim():
                    yield f"dimension {axis} of {name}", leaf.shape[axis], entry
        elif isinstance(leaf, int) and not isinstance(leaf, bool) and not isinstance(spec, int):
            yield f"the number {name}", leaf, spec


def _check_entry(place: str, size: int, entry: Any, known: dict[str, tuple[int, Any, str]]) -> None:
    if isinstance(entry, int):
        if entry != size:
            _fail(f"dynamic_shapes gives {place} the size {entry}", f"it is {size} in the example")
        return
    declared = f"dynamic_shapes declares {place} as {_text(entry)}"
    low, high = getattr(entry, "min", None), getattr(entry, "max", None)
    if (low is not None and size < low) or (high is not None and size > high):
        _fail(f"{declared}{_range(entry)}", f"it is {size} in the example")
    if isinstance(entry, _upstream.DimHint):
        return
    root, value = entry, size
    while hasattr(root, "root"):  # a*root + b
        offset = int(root.fn(0))
        value, rest = divmod(value - offset, int(root.fn(1)) - offset)
        if rest != 0:
            _fail(declared, f"it is {size} in the example")
        root = root.root
    name = root.__name__
    first, other, where = known.setdefault(name, (value, root, place))
    if (root.min, root.max) != (other.min, other.max):
        _fail(f"dynamic_shapes has two definitions of Dim({name!r})", "with different ranges")
    if first != value:
        _fail(
            f"{declared}, which makes {name} {value} in the example",
            f"but it is {first} by {where}",
        )
    if value < root.min or value > root.max:
        _fail(
            f"{declared}, which makes {name} {value} in the example",
            f"but it is declared{_range(root)}",
        )


def _text(entry: Any) -> str:
    return repr(entry) if isinstance(entry, _upstream.DimHint) else entry.__name__


def _range(entry: Any) -> str:
    is_open = entry.max is None or not isinstance(entry.max, int)
    return f" (at least {entry.min or 0}" + (")" if is_open else f", at most {entry.max})")


def _fail(declared: str, actual: str) -> None:
    cause = f"{declared}, but {actual}" if actual.startswith("it ") else f"{declared}, {actual}"
    error = _upstream.TorchExportError(f"The example contradicts dynamic_shapes: {cause}.")
    error.kind, error.cause = "invalid argument", cause  # type: ignore[attr-defined]
    raise error


class Names:
    """The names of sizes; a name that the user gave to different sizes is made unique."""

    def __init__(self, leaves: Iterable[Leaf]) -> None:
        self._places: dict[str, dict[int, str]] = {}
        for place, size, entry in _entries(leaves):
            if isinstance(entry, str):
                self._places.setdefault(entry, {}).setdefault(size, place)
        self._names: dict[tuple[str, int], str] = {}
        for name, places in self._places.items():
            counted = (f"{name}_{i}" for i in itertools.count(1))
            for size in itertools.islice(places, 1, None):
                new = next(each for each in counted if each not in self._places)
                self._names[name, size] = new

    def of(self, name: str, size: int) -> str:
        """Returns the name of a size that the user called so."""
        new = self._names.get((name, size))
        return name if new is None else type(name)(new)

    def in_spec(self, leaf: Any, spec: Any) -> Any:
        """Returns the spec of a leaf with unique names."""
        if not self._names:
            return spec
        if isinstance(spec, str) and isinstance(leaf, int):
            return self.of(spec, leaf)
        if not isinstance(leaf, torch.Tensor) or not isinstance(spec, (Mapping, list, tuple)):
            return spec
        entries = {
            axis: self.of(entry, leaf.shape[axis]) if isinstance(entry, str) else entry
            for axis, entry in _shapes.axes_of(spec).items()
        }
        return entries if isinstance(spec, Mapping) else type(spec)(entries.values())

    def warn(self) -> None:
        """Warns of names that are given to different sizes."""
        for (name, size), new in self._names.items():
            sizes = self._places[name]
            first, place = next(iter(sizes.items()))
            _warnings.warn(
                f"dynamic_shapes names sizes of {first} ({place}) and {size} ({sizes[size]}) "
                f"{name!r}. They are different sizes; the second has the name {new!r}."
            )


@contextmanager
def kept_dynamic() -> Iterator[None]:
    """Keeps PyTorch's exporter from fixing a Dim.

    If torch.export refuses a Dim that the program fixes, the exporter tries again with the number
    that the error suggests.
    """
    refine = torch.export.dynamic_shapes.refine_dynamic_shapes_from_suggested_fixes

    def refined(message: str, shapes: Any) -> Any:
        changed = refine(message, shapes)
        if _fixes(shapes, changed):
            raise ValueError("the program fixes a declared size")
        return changed

    owner = torch.export.dynamic_shapes
    with _replaced.attributes([(owner, refine.__name__, refined)]):
        yield


def _fixes(before: Any, after: Any) -> bool:
    """Whether a Dim has become a number."""
    if isinstance(before, Mapping):
        return any(_fixes(entry, after[key]) for key, entry in before.items())
    if isinstance(before, (list, tuple)):
        return any(map(_fixes, before, after))
    return isinstance(before, Dim) and isinstance(after, int)
