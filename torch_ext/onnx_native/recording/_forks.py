"""Branches on elements in a native capture: the program goes on both ways.

Where the program asks for the truth of a tensor, the rest of it depends on the answer. It runs once
more for each answer, as a branch of a condition in the model. Each run finds the attributes of the
modules as they were before the first. A way that ends in a ``raise`` is left out: the model is for
inputs that the program accepts.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import functools
import os
import traceback
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch

from onnx_native import _library
from onnx_native.modules import _containers, _held_tensors, _snapshot, _written_attributes
from onnx_native.questions import _sources
from onnx_native.recording import _control_flow

if TYPE_CHECKING:
    from onnx_native._C import Capture, Region

_MOST_FORKS = 3  # one after the other: the model has up to 8 copies of the program
_MOST_CHOICES = 32  # also of branches that raise, for each of which the program runs again
# What a run must not leave in a module that the next one reads.
_RECORDED = (torch.Tensor, torch.nn.Module, torch.SymInt)
# PyTorch's files that check the elements of tensors, as programs do.
_CHECKING = tuple(
    os.path.join(os.path.dirname(torch.__file__), *path)
    for path in (("distributions", ""), ("nn", "functional.py"))
)


def results(native: Capture, model: torch.nn.Module, run: Callable[[], list[Any]]) -> list[Any]:
    """Returns the flat results of the program, which `run` runs."""
    return _results(native, _from_one_state(native, model, run))


def _from_one_state(
    native: Capture, model: torch.nn.Module, run: Callable[[], list[Any]]
) -> Callable[[], list[Any]]:
    """Makes each run start with the same contents of the modules, and leave them."""
    before = _snapshot.Snapshot(model)
    # The recorder keeps writes from the elements of tensors; those of arrays are restored.
    held = _held_tensors.HeldTensors(model, [each for _, each in before.contents], elements=False)
    iterators = (
        f"{key} of a {type(module).__name__}"
        for module, contents in before.contents
        for key, value in contents.was.items()
        if isinstance(value, Iterator) and not _is_single_use(contents.owner)
    )
    iterator = next(iterators, None)

    def again() -> list[Any]:
        if iterator is not None:
            _control_flow.refuse(native, f"{iterator} is an iterator, which cannot go back")
        try:
            return run()
        finally:
            for module, contents in before.contents:
                _put_back(native, module, contents)
            held.restore_arrays()
            before.restore_rest()

    return again


def _is_single_use(owner: Any) -> bool:
    """Whether an object runs its iterator once. As a decorator it makes a new one in each call; the
    second ``with`` raises."""
    return isinstance(owner, contextlib.AbstractContextManager)


def _put_back(native: Capture, module: torch.nn.Module, contents: _containers.Contents) -> None:
    """Undoes what a run did to a container, but for attributes that it writes before it reads."""
    owner = contents.owner
    changed = []
    for key, *values in contents.changes():
        if any(_containers.holds(value, *_RECORDED) for value in values):
            if owner is not None and _written_attributes.may_be_written_first(owner, key):
                continue
            kind = type(module).__name__
            native.note_refusal(f"the program replaces {key} of a {kind} and branches")
        changed.append(key)
    if changed:
        contents.put_back(changed)


def _results(
    native: Capture, run: Callable[[], list[Any]], choices: tuple[bool, ...] = (), forks: int = 0
) -> list[Any]:
    """Returns the results of the program after these choices.

    Args:
        native: The recording.
        run: Runs the program.
        choices: The ways of its first branches.
        forks: How many of them go both ways.
    """
    native.regions.fork(list(choices), probes=False)
    condition = None
    try:
        found = run()
    except Exception:
        condition = native.regions.undecided()
        if condition is None:
            raise
    if condition is None:
        if native.regions.undecided() is not None:
            native.note_refusal("the program catches an exception of the capture")
        return found
    if len(choices) == _MOST_CHOICES:
        _control_flow.refuse(
            native, "the program branches on elements more often than the capture follows"
        )
    if isinstance(condition, torch.Tensor):
        condition = condition.reshape(())
        condition = condition if condition.dtype == torch.bool else condition != 0
    ways = [way for way in (True, False) if not _raises(native, run, (*choices, way))]
    if not ways:
        _control_flow.refuse(native, "both ways of a branch raise an exception")
    if len(ways) == 1:
        return _results(native, run, (*choices, ways[0]), forks)
    if forks == _MOST_FORKS:
        _control_flow.refuse(
            native, "the program branches on elements more often than the capture follows"
        )
    (yes, constants), (no, others) = (_way(native, run, (*choices, way), forks + 1) for way in ways)
    if constants != others:
        _control_flow.refuse(
            native, "the branches return different numbers of tensors, or different numbers"
        )
    merged = native.regions.cond(condition, yes, no)
    for i, leaf in sorted(constants.items()):
        merged.insert(i, leaf)
    return merged


def _raises(native: Capture, run: Callable[[], list[Any]], choices: tuple[bool, ...]) -> bool:
    """Returns whether the program raises an exception before its next branch."""
    native.regions.begin()
    native.regions.fork(list(choices), probes=True)
    try:
        run()
    except Exception as error:
        native.regions.undecided()  # forgets the branch: the caller is at the one before it
        return _is_in_raise(error)
    finally:
        native.regions.fork([], probes=False)
        native.regions.discard()
    return False


def _way(
    native: Capture, run: Callable[[], list[Any]], choices: tuple[bool, ...], forks: int
) -> tuple[Region, dict[int, Any]]:
    """Records one way as a region.

    Returns it with the results that are not tensors, by their places.
    """

    def end(leaves: list[Any]) -> tuple[Region, dict[int, Any]]:
        constants = {i: x for i, x in enumerate(leaves) if not isinstance(x, torch.Tensor)}
        # Nothing writes to them after this, so they may be copies.
        tensors = [x.clone() for x in leaves if isinstance(x, torch.Tensor)]
        return native.regions.end(tensors), constants

    way, constants = _control_flow.region(
        native, lambda: _results(native, run, choices, forks), end
    )
    return way, constants


def _is_in_raise(error: Exception) -> bool:
    """Returns whether a ``raise`` or ``assert`` of the program threw an exception, or what a
    ``raise`` calls did: ``raise ValueError(f"{x.shape} is too small")``."""
    frames = list(traceback.walk_tb(error.__traceback__))
    places = [
        (_lines_of(_sources.tree(path)), line)
        for frame, line in frames
        if _is_of_program(path := frame.f_code.co_filename)
    ]
    if not places:
        return False
    lines, line = places[-1]
    if isinstance(error, AssertionError) and line in lines.asserts:
        return True
    raising = [line in lines.raises for lines, line in places]
    if raising[-1] and _is_of_program(frames[-1][0].f_code.co_filename):
        return True
    # The capture threw it. The program might catch the exception of the ``raise``.
    return any(raising) and not any(line in lines.caught for lines, line in places)


def _is_of_program(path: str) -> bool:
    """Whether a file's checks are the program's."""
    return path.startswith(_CHECKING) or not path.startswith(_library.NOT_OF_USER)


@dataclasses.dataclass(frozen=True)
class _Lines:
    """Lines of a file by their statements.

    Attributes:
        asserts: Those of ``assert``.
        raises: Those of ``raise``.
        caught: Those whose exceptions the file may catch.
    """

    asserts: set[int] = dataclasses.field(default_factory=set)
    raises: set[int] = dataclasses.field(default_factory=set)
    caught: set[int] = dataclasses.field(default_factory=set)


@functools.lru_cache(maxsize=64)
def _lines_of(tree: ast.Module) -> _Lines:
    lines = _Lines()
    for node in ast.walk(tree):
        if isinstance(node, ast.Assert):
            lines.asserts.update(_span(node, node))
        elif isinstance(node, ast.Raise):
            lines.raises.update(_span(node, node))
        elif isinstance(node, ast.Try) and node.handlers:
            lines.caught.update(_span(node, node.body[-1]))
    return lines


def _span(first: ast.stmt, last: ast.stmt) -> range:
    return range(first.lineno, (last.end_lineno or first.lineno) + 1)
