"""The random number generators of a program, and what it draws from those that it seeds.

Numbers that a program draws after ``torch.manual_seed(0)``, or from a ``torch.Generator`` that it
makes, are the same in every run: the native capture makes them constants. Other captures lose the
seed, so that their models would draw other numbers in every run; such programs are refused.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from onnx_native import _library, _replaced, _undo, _warnings
from onnx_native.modules import _other_generators, _snapshot
from onnx_native.upstream import _upstream

_MOST_RECORDINGS = 4
_MARK = int.from_bytes(b"onnxnatv", "big")  # kMark in csrc/capture/generators.cpp


def of_program(model: Any, snapshot: _snapshot.Snapshot | None = None) -> list[torch.Generator]:
    """The generators that a module, its classes and their files keep.

    Args:
        model: The module.
        snapshot: Its containers, if they are known.
    """
    if not isinstance(model, torch.nn.Module):
        return []
    snapshot = snapshot or _snapshot.Snapshot(model)
    places = [contents.was for _, contents in snapshot.contents]
    kinds = {kind for module in model.modules() for kind in type(module).__mro__}
    places += [dict(vars(kind)) for kind in kinds]
    files = {kind.__module__ for kind in kinds}
    places += [dict(vars(sys.modules[file])) for file in files if file in sys.modules]
    found = {
        id(value): value
        for place in places
        if any(map(_is_generator, set(map(type, place.values()))))
        for value in place.values()
        if isinstance(value, torch.Generator)
    }
    return list(found.values())


@functools.cache
def _is_generator(kind: type) -> bool:
    return issubclass(kind, torch.Generator)


def of_devices() -> list[torch.Generator]:
    """The default generators of the devices that the process uses, besides the CPU."""
    accelerator = torch.accelerator.current_accelerator()
    kinds = ["cuda", "xpu", *([accelerator.type] if accelerator else [])]
    return [
        generator
        for kind in dict.fromkeys(kinds)
        if getattr(torch.get_device_module(kind), "is_initialized", lambda: True)()
        for generator in _library.extension().default_generators(torch.device(kind))
    ]


@contextmanager
def kept(model: Any) -> Iterator[None]:
    """Gives the generators of a program their states back; those of PyTorch have their own."""
    with _states_kept(of_program(model)), _other_generators.kept():
        yield


@contextmanager
def _states_kept(generators: Iterable[torch.Generator]) -> Iterator[None]:
    states = [(generator, generator.get_state()) for generator in generators]

    def put_back() -> None:
        for generator, state in states:
            generator.set_state(state)

    with _undo.at_end(put_back):
        yield


@contextmanager
def initial_seed_of_caller() -> Iterator[None]:
    """Shows a program its own initial seeds in place of the mark."""
    modules = [torch, *(each for each in (torch.cuda, torch.xpu) if each.is_initialized())]
    with _replaced.attributes(
        [
            (place, "initial_seed", _without_mark(module.initial_seed))
            for module in modules
            for place in (module, module.random)
        ]
    ):
        yield


def _without_mark(plain: Callable[[], int]) -> Callable[[], int]:
    seed = plain()

    def initial_seed() -> int:
        found = plain()
        return seed if found == _MARK else found

    return initial_seed


@contextmanager
def seeded() -> Iterator[None]:
    """Gives a block the same random numbers as others, and the caller its own back.

    Not torch.manual_seed: it would seed accelerators that the caller first uses later. It also
    takes locks; in a child that was forked while another thread holds one, it would never end.
    """
    generators = [torch.default_generator, *of_devices()]
    with _states_kept(generators):
        for generator in generators:
            generator.manual_seed(0)
        yield


@contextmanager
def marked(model: Any) -> Iterator[Any]:
    """Marks the generators while a program runs, to know which it seeds, and restores them."""
    generators = _library.extension().Generators(of_program(model), of_devices())
    with initial_seed_of_caller(), _undo.at_end(generators.stop), _other_generators.kept():
        generators.start()
        yield generators


class Seeds:
    """Decides which generators are seeded, from one recording of a program to the next.

    A program that seeds runs again until two runs draw the same numbers from seeded generators. In
    the second run all generators are known that are not the program's own. If the numbers differ
    each time, so do the seeds (``torch.seed()``), and the model draws new numbers in every run.
    """

    def __init__(self, known: list[torch.Generator]) -> None:
        """Takes the generators of the program."""
        self._known = known
        self._drawn: list[torch.Tensor] = []
        self._recordings = 0

    def generators(self) -> Any:
        """The generators for the next recording."""
        generators = _library.extension().Generators(self._known, of_devices())
        if self._recordings == _MOST_RECORDINGS:
            generators.ignore_seeds()
        return generators

    def are_known(self, generators: Any) -> bool:
        """Whether a recording with these generators is right."""
        drawn, before = generators.drawn(), self._drawn
        self._known += generators.found()
        self._drawn = drawn
        self._recordings += 1
        are_same = len(drawn) == len(before) and all(map(torch.equal, drawn, before))
        return are_same or self._recordings > _MOST_RECORDINGS


def seeded_draw(model: torch.nn.Module, run: Callable[[], Any]) -> str:
    """Runs a module; returns where it draws from a generator that it seeds, or an empty string."""
    with marked(model) as generators, _undo.at_end(generators.unwatch):
        generators.watch(_warnings.user_line)
        run()
    found: str = generators.seeded_draw()
    return found


def generator_argument(program: torch.export.ExportedProgram) -> str:
    """Returns the name of a call of a captured program that has a generator, or an empty string."""
    for graph in _graphs(program):
        for node in graph.nodes:
            if node.op == "call_function" and node.kwargs.get("generator") is not None:
                return str(node.target)
    return ""


def draws(program: torch.export.ExportedProgram) -> bool:
    """Whether a captured program draws random numbers."""
    return any(
        isinstance(node.target, _upstream.OpOverload)
        and torch.Tag.nondeterministic_seeded in node.target.tags
        for graph in _graphs(program)
        for node in graph.nodes
    )


def _graphs(program: torch.export.ExportedProgram) -> Iterator[torch.fx.Graph]:
    for module in program.graph_module.modules():
        if isinstance(module, torch.fx.GraphModule):
            yield module.graph
