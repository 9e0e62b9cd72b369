"""What a recorded program does to the attributes of its modules."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

from onnx_native import _library, _undo
from onnx_native.modules import _containers, _held_tensors, _snapshot, _written_attributes
from onnx_native.upstream import _upstream

if TYPE_CHECKING:
    from onnx_native._C import Capture


class Replaced:
    """Attributes of modules and of objects in them that the program replaces.

    Attributes:
        before: What the program may change, as it was before a recording.
        tensors: The tensors in them. The recorder keeps writes from their elements.
        found: Those that hold tensors, in the last recording.
        written_first: Those that the program writes before it reads them, or must.
        kept: Those that hold tensors or sizes.
        caches: Those that the program may read and replace, because it gives the same results
            without them.
    """

    def __init__(self, model: torch.nn.Module, caches: _written_attributes.Attributes = ()) -> None:
        self.before = _snapshot.Snapshot(model)
        contents_of_all = [contents for _, contents in self.before.contents]
        self.tensors = _held_tensors.HeldTensors(model, contents_of_all, elements=False)
        self.found: list[_written_attributes.Attribute] = []
        self.written_first: list[_written_attributes.Attribute] = []
        self.kept: set[_written_attributes.Attribute] = set()
        self.caches = caches

    def is_to_be_written_first(self) -> bool:
        """Whether to record again, without the attributes that the last recording found."""
        self.written_first += self.found
        found, self.found = self.found, []
        return bool(found)


@contextmanager
def unchanged(native: Capture, model: torch.nn.Module, replaced: Replaced) -> Iterator[None]:
    """Restores what the program changes in the module, and refuses programs that replace tensors.

    The new tensor of a buffer is a mutation. A new entry of a dict, list or object is allowed if it
    follows from weights alone: it is a cache. What functools.lru_cache keeps is forgotten. A weight
    that a hook computes before each call is allowed too. Sizes, numbers and other values are only
    restored.
    """
    before, tensors = replaced.before, replaced.tensors

    def restore() -> None:
        before.restore()
        tensors.restore_rest()

    times = Counter(id(tensor) for _, tensor in model.named_buffers(remove_duplicate=False))
    with _undo.at_end(restore):
        try:
            yield
        finally:
            tensors.restore_gradients()  # those of the recording are recorded
            changes = [
                _Change(module, contents, *change)
                for module, contents in before.contents
                for change in contents.changes()
            ]
            changes = [change for change in changes if change.holds(*_NUMBERS, *_TENSORS)]
            own = {change: (change.module, change.key) for change in changes if change.is_own()}
            replaced.kept.update(own.values())
    changes = [change for change in changes if own.get(change) not in replaced.caches]
    mutations = [c for c in changes if c.is_of_buffer() and times[id(c.old)] == 1]
    for change in mutations:
        native.add_mutation(change.old, change.new)
    for change in changes:
        if change in mutations or change.is_recomputed() or not change.holds(*_TENSORS):
            continue
        if not (change.is_in_cache() and _is_constant(native, change.new)):
            if change.may_be_written_first():
                replaced.found.append((change.contents.owner, change.key))
            kind = type(change.module).__name__
            native.note_refusal(f"the program replaces {change.key} of a {kind}")


@contextmanager
def restored(model: torch.nn.Module) -> Iterator[None]:
    """Gives modules their attributes back at the end."""
    with _undo.at_end(_snapshot.Snapshot(model).restore):
        yield


_TENSORS = (torch.Tensor, torch.nn.Module)
_NUMBERS = (torch.SymInt, torch.SymFloat, torch.SymBool)
_OF_EVERY_MODULE = frozenset(vars(torch.nn.Module()))


@dataclasses.dataclass(eq=False)
class _Change:
    """An entry of a container of a module that the program replaced."""

    module: torch.nn.Module
    contents: _containers.Contents
    key: Any
    old: Any
    new: Any

    def holds(self, *kinds: type) -> bool:
        """Whether the entry has or had such values, or refers to some that are recorded."""
        return (
            _containers.holds(self.new, *kinds)
            or _containers.holds(self.old, *kinds)
            or any(isinstance(value, kinds) for value in _recorded(self.new))
        )

    def _is_attribute(self) -> bool:
        return self.contents.held is vars(self.module)

    def is_in_cache(self) -> bool:
        return self.old is None and not self._is_attribute()

    def is_recomputed(self) -> bool:
        """Whether a hook of weight_norm or the like sets the attribute before each call."""
        return self.is_own() and self.key in _upstream.recomputed(self.module)

    def may_be_written_first(self) -> bool:
        """Whether it is an attribute that the program may write before it reads it."""
        owner = self.contents.owner
        return owner is not None and _written_attributes.may_be_written_first(owner, self.key)

    def is_own(self) -> bool:
        """Whether the attribute is the module's own, not one that every module has."""
        return self._is_attribute() and self.key not in _OF_EVERY_MODULE

    def is_of_buffer(self) -> bool:
        of_tensors = isinstance(self.old, torch.Tensor) and isinstance(self.new, torch.Tensor)
        return of_tensors and self.contents.held is vars(self.module)["_buffers"]


def _recorded(value: Any) -> Iterator[Any]:
    """The recorded tensors and sizes that a value refers to."""
    return filter(_library.extension().is_recorded, _containers.reached(value))


def _is_constant(native: Capture, value: Any) -> bool:
    """Whether a value is the same in every call, by the tensors that it has or refers to."""
    return all(
        isinstance(each, torch.Tensor) and not native.varies(each)
        for leaf in _upstream.pytree.tree_leaves(value)
        for each in ([leaf] if isinstance(leaf, (torch.Tensor, *_NUMBERS)) else _recorded(leaf))
    )
