"""The structure of the example arguments, to which the arguments of later calls are brought.

The inputs of a model come in the order of the example's leaves, and a dict may have its keys in
any order.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onnx_native.upstream import _upstream


class _Leaf:
    """Stands for a tensor or number, so as not to keep it."""


class Structure:
    """The containers of arguments, without what they hold."""

    def __init__(self, name: str, value: Any) -> None:
        self._name = name
        self._value = _upstream.pytree.tree_map(
            lambda leaf: None if leaf is None else _Leaf(), value
        )

    def arranged(self, value: Any) -> Any:
        """Returns a value with the keys of its dicts in the order of the example's, at any depth.

        Containers of other kinds, or with another number of values, stay as they are.

        Raises:
            ValueError: A dict has other keys.
        """
        return _arranged(self._value, value, self._name)


def _arranged(example: Any, value: Any, path: str) -> Any:
    if isinstance(example, _Leaf) or example is None:
        return value
    if isinstance(example, Mapping) and isinstance(value, Mapping):
        value = _in_order(example, value, path)
    parts, structure = _parts(value)
    examples, _ = _parts(example)
    if len(parts) != len(examples) or (len(parts) == 1 and parts[0] is value):
        return value
    names: list[Any] = list(value if isinstance(value, Mapping) else range(len(parts)))
    found = [
        _arranged(one, part, f"{path}[{name!r}]")
        for one, part, name in zip(examples, parts, names, strict=False)
    ]
    if all(map(lambda one, other: one is other, found, parts)):
        return value
    return _upstream.pytree.tree_unflatten(found, structure)


def _parts(value: Any) -> tuple[list[Any], Any]:
    """The values that a container has itself, and what makes it of them."""
    found: tuple[list[Any], Any] = _upstream.pytree.tree_flatten(
        value, is_leaf=lambda part: part is not value
    )
    return found


def _in_order(example: Mapping[Any, Any], value: Mapping[Any, Any], path: str) -> Any:
    """Returns a mapping with the example's keys in their order; those of None may be missing."""
    if list(example) == list(value):
        return value
    missing = [key for key in example if key not in value and example[key] is not None]
    others = [key for key in value if key not in example]
    if missing or others:
        text = [f"lacks {missing}"] * bool(missing) + [f"has the new keys {others}"] * bool(others)
        raise ValueError(
            f"the dict {path} {' and '.join(text)}: it needs those of the export, {list(example)}"
        )
    ordered = {key: value.get(key) for key in example}
    if type(value) is dict:
        return ordered
    parts, _ = _parts(value)
    given = dict(zip(value, parts, strict=False))
    if type(value) is not type(example) or len(given) != len(parts) or len(given) != len(example):
        return ordered
    return _upstream.pytree.tree_unflatten([given[key] for key in example], _parts(example)[1])
