"""The structure of the example arguments, to which the arguments of later calls are brought.

The inputs of a model come in the order of the example's leaves, and a dict may have its keys in
any order.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Mapping
from typing import Any

from onnx_native.upstream import _upstream


@dataclasses.dataclass
class _Container:
    """A container of the example, without the tensors that it holds.

    Attributes:
        parts: The values that it has itself; None if it is a tensor, a number or None.
        keys: Its keys if it is a mapping.
        is_none: Whether it is None.
        spec: What makes the container of its parts; None if that is not known.
    """

    parts: list[_Container] | None = None
    keys: list[Any] | None = None
    is_none: bool = False
    spec: Any = None


class Structure:
    """The containers of arguments, without what they hold: of a value, or of its TreeSpec."""

    def __init__(self, name: str, value: Any = None, *, spec: Any = None) -> None:
        self._name = name
        self._container = _of_value(value) if spec is None else _of_spec(spec)

    def arranged(self, value: Any) -> Any:
        """Returns a value with the keys of its dicts in the order of the example's, at any depth.

        Containers of other kinds, or with another number of values, stay as they are.

        Raises:
            ValueError: A dict has other keys.
        """
        return _arranged(self._container, value, self._name)


def _of_value(value: Any) -> _Container:
    parts, spec = _parts(value)
    if len(parts) == 1 and parts[0] is value:
        return _Container(is_none=value is None)
    keys = list(value) if isinstance(value, Mapping) else None
    return _Container(list(map(_of_value, parts)), keys, spec=spec)


def _of_spec(spec: Any) -> _Container:
    if spec.is_leaf():
        return _Container()
    keys = None
    if spec.type in (dict, collections.OrderedDict):
        keys = list(spec.context)
    elif spec.type is collections.defaultdict:
        keys = list(spec.context[1])
    return _Container(list(map(_of_spec, spec.children())), keys)


def _arranged(example: _Container, value: Any, path: str) -> Any:
    if example.parts is None:
        return value
    if example.keys is not None and isinstance(value, Mapping):
        value = _in_order(example, value, path)
    parts, spec = _parts(value)
    if len(parts) != len(example.parts) or (len(parts) == 1 and parts[0] is value):
        return value
    names: list[Any] = list(value if isinstance(value, Mapping) else range(len(parts)))
    found = [
        _arranged(one, part, f"{path}[{name!r}]")
        for one, part, name in zip(example.parts, parts, names, strict=False)
    ]
    if all(map(lambda one, other: one is other, found, parts)):
        return value
    return _upstream.pytree.tree_unflatten(found, spec)


def _parts(value: Any) -> tuple[list[Any], Any]:
    """The values that a container has itself, and what makes it of them."""
    found: tuple[list[Any], Any] = _upstream.pytree.tree_flatten(
        value, is_leaf=lambda part: part is not value
    )
    return found


def _in_order(example: _Container, value: Mapping[Any, Any], path: str) -> Any:
    """Returns a mapping with the example's keys in their order; those of None may be missing."""
    keys = example.keys or []
    if keys == list(value):
        return value
    of_none = [key for key, part in zip(keys, example.parts or (), strict=False) if part.is_none]
    missing = [key for key in keys if key not in value and key not in of_none]
    others = [key for key in value if key not in keys]
    if missing or others:
        text = [f"lacks {missing}"] * bool(missing) + [f"has the new keys {others}"] * bool(others)
        raise ValueError(
            f"the dict {path} {' and '.join(text)}: it needs those of the export, {keys}"
        )
    ordered = {key: value.get(key) for key in keys}
    if isinstance(value, collections.defaultdict):
        return collections.defaultdict(value.default_factory, ordered)
    if isinstance(value, collections.OrderedDict):
        return collections.OrderedDict(ordered)
    if type(value) is dict or example.spec is None or example.spec.type is not type(value):
        return ordered
    parts, _ = _parts(value)
    given = dict(zip(value, parts, strict=False))
    if len(given) != len(parts) or len(given) != len(keys):
        return ordered
    return _upstream.pytree.tree_unflatten([given[key] for key in keys], example.spec)
