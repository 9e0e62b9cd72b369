"""Recordings of a module, with the sizes of its example or with others."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from onnx_native import _library
from onnx_native._refusals import Kind, Refusal, summary
from onnx_native.lowerings import _autograd_functions
from onnx_native.modules import (
    _eager,
    _generators,
    _module_changes,
    _placeholders,
    _scripts,
    _written_attributes,
)
from onnx_native.numbers import _declared_sizes
from onnx_native.recording import _attempt, _leaves
from onnx_native.request import _inputs, _sizes
from onnx_native.upstream import _upstream

if TYPE_CHECKING:
    from onnx_native._C import Capture


# Gets the recording and the model's inputs, and returns the results.
Program = Callable[["Capture", Sequence[Any]], list[Any]]


class StepAsideError(Refusal):
    """The native capture leaves the program to another route.

    Attributes:
        loops: The dynamic sizes that a loop of the program runs over, if that is why.
    """

    def __init__(self, text: str, kind: Kind = Kind.OTHER, loops: Sequence[str] = ()) -> None:
        super().__init__(text, kind)
        self.loops = loops


@dataclasses.dataclass
class Recorded:
    """A recorded program.

    Attributes:
        native: The recording. The native program takes its graph.
        flatten: Maps (args, kwargs) to the inputs of the model.
        sizes: The dynamic sizes by the names of their symbols.
        guards: Where the program is valid, by its decisions on the example: a condition on the
            sizes and the source line of each.
        known: Tensors of the module by whose elements it decided something: (name, source line).
        tied: Names of weights that are other weights under a second name.
        dimensions: The first dimension of an input that has each symbol: "dimension 0 of x".
        warnings: What the model lacks, for the user.
        structure: The structure of the module's results; None if another program was recorded.
        unrolled: How many steps loops have that run as often as for the example.
        rolled: The loops over a dynamic size that are scans: their steps and source lines.
        ways: How many ways of the program it has, of which the sizes of the inputs choose one.
    """

    native: Capture
    flatten: Callable[[Any, Any], Sequence[Any]]
    sizes: _sizes.Sizes
    guards: list[dict[str, Any]]
    known: list[tuple[str, str]]
    tied: dict[str, str]
    dimensions: dict[str, str]
    warnings: list[str]
    structure: Any = None
    unrolled: list[str] = dataclasses.field(default_factory=list)
    rolled: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    ways: int = 1


class Recorder:
    """Records a module, once or several times, with the sizes of its example or with others.

    Attributes:
        model: The module.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        inputs: _inputs.Inputs,
        opset: int | None,
        *,
        forks: bool = False,
        unrolls: bool = False,
    ) -> None:
        self.model = model
        self._inputs = inputs
        self._opset = opset or _upstream.DEFAULT_OPSET
        self._forks = forks
        self._unrolls = unrolls
        self._says_so = True  # that the program is exported
        leaves, self._structure = _upstream.pytree.tree_flatten((inputs.args, inputs.kwargs or {}))
        self._leaves = [
            _placeholders.of(leaf) if _placeholders.lacks_elements(leaf) else leaf
            for leaf in leaves
        ]
        self._names = _leaves.names(model, inputs)
        if len(self._names) != len(leaves):
            raise StepAsideError("the arguments have no names")
        for name, leaf in zip(self._names, self._leaves, strict=True):
            if not _leaves.is_plain(leaf):
                raise StepAsideError(f"the input {name} is {_leaves.described(leaf)}")
        try:
            self._sizes, self._symbols = _declared_sizes.of(self._leaves, inputs)
        except _declared_sizes.UnknownError as error:
            raise StepAsideError(str(error)) from error
        self._dimensions = _declared_sizes.dimensions(self._names, self._sizes)
        self._attempts = _attempt.Attempts(
            {name: symbol.example for name, symbol in self._symbols.items()}
        )

    def captured(self) -> Recorded:
        """Records the program; raises StepAsideError."""
        replaced = _module_changes.Replaced(self.model)
        try:
            return self._recorded({}, replaced)
        except StepAsideError as error:
            if error.kind is Kind.UNROLLED:
                raise
            first = error
        if first.kind is Kind.FAILURE:  # some modules fail only where they know of an export
            self._says_so = False
            with contextlib.suppress(StepAsideError):
                return self._recorded({}, _module_changes.Replaced(self.model))
            self._says_so = True
        # A size of 1 does not show what strides and broadcasting do with other sizes.
        ones = self._others(lambda size: 2 if size == 1 else size)
        if ones:
            with contextlib.suppress(StepAsideError):
                return self._recorded(ones, _module_changes.Replaced(self.model))
        with contextlib.suppress(StepAsideError):
            return self._without_caches(replaced.kept)
        raise first

    def with_static_sizes(self) -> Recorded:
        """Records the program; sizes that it fixes are static if they may be."""
        return self._recorded({}, _module_changes.Replaced(self.model), fixes=True)

    def elsewhere(self) -> Recorded:
        """Records the program with larger sizes; raises StepAsideError."""
        return self._recorded(self.larger(), _module_changes.Replaced(self.model), elsewhere=True)

    def larger(self) -> dict[str, int]:
        """The dynamic sizes that may be larger, with a larger value; StepAsideError if none may."""
        larger = self._others(_doubled)
        if not larger:
            raise StepAsideError("no size of the inputs can be larger")
        return larger

    def way(self, sizes: Mapping[str, int], fixed: Sequence[str]) -> Recorded:
        """Records the way that the program takes for these sizes; raises StepAsideError.

        Its guards say where the recording is valid, also where they leave one value for a size.

        Args:
            sizes: Sizes that are not the example's.
            fixed: Those that have no other value on this way.
        """
        self._attempts.restart()
        replaced = _module_changes.Replaced(self.model)
        return self._recorded(sizes, replaced, elsewhere=True, fixed=fixed, follows=True)

    # Recordings for loops over a size, which are rolled.

    def lengths(self) -> list[str]:
        """The dynamic sizes that may be lengths of loops."""
        return [name for name, symbol in self._symbols.items() if symbol.is_size]

    def example(self, symbol: str) -> int:
        """A size of the example."""
        return self._symbols[symbol].example

    def bounds(self, symbol: str) -> tuple[int, int | None]:
        """The least and the largest value of a size; None if there is no largest."""
        known = self._symbols[symbol]
        lowest = known.lowest
        return 1 if lowest is None else lowest, known.highest

    def axes_of(self, symbol: str) -> list[tuple[int, int]]:
        """The axes with a size, as (input of the model, axis); StepAsideError without any."""
        places = _leaves.places_of_inputs(self._leaves, self._sizes)
        inputs = [self._sizes[place] for place in places]
        found = [
            (i, axis)
            for i, shape in enumerate(inputs)
            if isinstance(shape, list)
            for axis, size in enumerate(shape)
            if size == symbol
        ]
        if not found:
            raise StepAsideError(f"no input has the size {symbol}")
        return found

    def counted(self, lengths: Mapping[str, int]) -> Recorded:
        """Records the program with so many steps of loops over sizes; raises StepAsideError."""
        self._attempts.restart()
        return self._recorded(lengths, _module_changes.Replaced(self.model), counts=True)

    def of_program(
        self, program: Program, sizes: Mapping[str, int], *, counts: bool = False
    ) -> Recorded:
        """Records a program in place of the module's; raises StepAsideError.

        Args:
            program: The program.
            sizes: Sizes in place of the example's.
            counts: Whether loops run as often as these sizes say. See counted().
        """
        flatten = _leaves.flattener(self._leaves, self._sizes)

        def run(native: Capture, args: Any, kwargs: Any) -> list[Any]:
            return program(native, flatten(args, kwargs))

        self._attempts.restart()
        replaced = _module_changes.Replaced(self.model)
        return self._recorded(sizes, replaced, counts=counts, program=run)

    def state(self) -> dict[str, torch.Tensor]:
        """The tensors of the module by their names."""
        return {each.name: each.tensor for each in _leaves.state(self.model)[0]}

    def _has_another_way(self, name: str) -> bool:
        """Whether the program may run where a size is another one than its equations say."""
        symbol = self._symbols[name]
        larger, smaller = 2 * symbol.example + 1, symbol.example - 1
        if symbol.highest is not None:
            larger = min(larger, symbol.highest)
        for size in (larger, smaller):
            if size == symbol.example or size < (symbol.lowest or 0):
                continue
            try:
                self.way({name: size}, ())
            except StepAsideError as error:
                if error.kind is Kind.FAILURE:  # the module itself fails
                    continue
            return True
        return False

    def _others(self, change: Callable[[int], int]) -> dict[str, int]:
        """The dynamic sizes that may have another value than in the example, with that value."""
        others = {
            name: change(symbol.example)
            for name, symbol in self._symbols.items()
            if symbol.is_size
            and (symbol.highest is None or change(symbol.example) <= symbol.highest)
        }
        return {name: size for name, size in others.items() if size != self._symbols[name].example}

    def _without_caches(self, kept: set[_written_attributes.Attribute]) -> Recorded:
        """Records the program without what it keeps from earlier calls.

        A detector keeps its anchors and the sizes that they are for: ``if self.shape != shape``.
        Attributes that the program replaces, here or for other sizes, are caches if it gives the
        same results without them.
        """
        found = _module_changes.Replaced(self.model)
        larger = self._others(_doubled)
        if larger:
            with contextlib.suppress(StepAsideError):
                self._recorded(larger, found)
        caches = kept | found.kept
        if not caches:
            raise StepAsideError("the program keeps nothing")
        unset = _written_attributes.unset(caches)
        with _module_changes.restored(self.model):
            unset()
            captured = self._recorded({}, _module_changes.Replaced(self.model, caches))
        with _module_changes.restored(self.model):
            expected = self._results()
            unset()
            # Without caches, and with those that the first run fills.
            results = [self._results(), self._results()]
        if not all(_are_same(each, expected) for each in results):
            raise StepAsideError("the program depends on earlier calls")
        return captured

    def _results(self) -> list[Any]:
        """The values that the module returns for the example."""
        eager = _eager.Eager(self.model, self._inputs)
        try:
            return eager.outputs(*eager.example, keeps_attributes=True)
        except Exception as error:
            raise StepAsideError(summary(error)) from error

    def _recorded(
        self,
        others: Mapping[str, int],
        replaced: _module_changes.Replaced,
        *,
        elsewhere: bool = False,
        fixes: bool = False,
        counts: bool = False,
        follows: bool = False,
        fixed: Sequence[str] = (),
        program: Callable[[Capture, Any, Any], list[Any]] | None = None,
    ) -> Recorded:
        """Records the program with these sizes in place of the example's.

        The guards of the recording must hold for the example, unless `elsewhere`. With `fixes`, a
        size that the program fixes and that the user left to the capture (Dim.AUTO) is static.
        With `counts`, loops run as often as these sizes say, and decisions are calls. With
        `follows`, the recording is one way of the program: equations that pin a size are guards.
        The `fixed` sizes are static. A `program` runs in place of
        the module: it gets the recording, the arguments and those by name.
        """
        sizes = self._sizes
        symbols = {
            name: symbol.with_example(others.get(name, symbol.example))
            for name, symbol in self._symbols.items()
        }
        symbols |= {name: symbols[name].counted(others[name]) for name in others if counts}
        for name in fixed:
            sizes, symbols = _declared_sizes.related(sizes, symbols, name, str(others[name]))
        identities: dict[str, str] = {}  # of numbers that are read from data
        static: list[dict[str, Any]] = []
        seeds = _generators.Seeds(_generators.of_program(self.model, replaced.before))
        structures: list[Any] = []
        first: Refusal | None = None  # before small numbers stand for those of data
        while True:
            state, tied = _leaves.state(self.model)
            generators = seeds.generators()
            native: Capture = _library.extension().Capture(
                state, symbols, identities, generators, small_numbers=first is not None
            )
            if follows:
                native.sizes.follow_equations()
            with (
                _scripts.unchanged(self.model),
                _inputs.elements_of(self.model, self._inputs),
                _autograd_functions.recorded(
                    self._opset, elements=functools.partial(_known, native)
                ) as notes,
            ):
                refusal, has_more = self._attempts.record(
                    native,
                    self._leaves,
                    sizes,
                    notes,
                    generators,
                    self.model,
                    self._structure,
                    self._names,
                    replaced,
                    self._forks,
                    self._says_so,
                    program,
                    structures,
                )
            if refusal is None and seeds.are_known(generators):
                break
            if refusal is None:
                continue
            equation = native.sizes.equation()
            if equation is None and (replaced.is_to_be_written_first() or has_more):
                continue
            if equation is None and first is None and native.sizes.has_data():
                first = refusal
                continue
            refusal = first or refusal
            loops = native.sizes.loop_symbols()
            if equation is None:
                raise StepAsideError(refusal.text, refusal.kind, loops)
            symbol, value, line = equation.symbol, equation.value, equation.source
            if equation.is_loop and not self._unrolls:
                raise StepAsideError(refusal.text, Kind.UNROLLED, loops)
            if not all(name.isidentifier() for name in symbols):
                reason = f"the program demands {symbol} == {value}"
                raise StepAsideError(reason if first is None else first.text)
            is_of_data = symbol not in symbols
            # For other sizes, the equation need not hold for the example.
            is_named = equation.is_loop or equation.is_branch
            is_fixed = bool(line) and not is_named and not fixes
            if symbol in identities or (others and not is_of_data) or is_fixed:
                raise StepAsideError(refusal.text, refusal.kind)
            if is_of_data:
                identities[symbol] = value
                continue
            if equation.is_branch:
                if self._has_another_way(symbol):
                    if not fixes:
                        raise StepAsideError(refusal.text, refusal.kind)
                    static.append({"condition": f"{symbol} == {value}", "source": line})
                line = ""
            sizes, symbols = _declared_sizes.related(sizes, symbols, symbol, value)
            if line:
                does = "a loop is unrolled" if equation.is_loop else "the program fixes the size"
                static.append(
                    {
                        "condition": f"{symbol} == {value}",
                        "source": line,
                        "note": f", where {does}",
                        "unrolls": equation.is_loop,
                    }
                )
        is_allowed = native.sizes.allows({name: self._symbols[name].example for name in others})
        if not (is_allowed or elsewhere or counts):
            raise StepAsideError("the program decides otherwise for the sizes of the example")
        guards = [
            {"condition": each.condition, "source": each.source} for each in native.sizes.guards()
        ]
        return Recorded(
            native=native,
            flatten=_leaves.flattener(self._leaves, sizes),
            sizes=_declared_sizes.varied(
                self._inputs, sizes, {name: self._symbols[name] for name in symbols}, native
            ),
            guards=static + guards,
            known=[(each.name, each.source) for each in native.known_elements()],
            tied=tied,
            dimensions=self._dimensions,
            warnings=notes,
            structure=structures[-1] if structures else None,
            unrolled=native.sizes.loop_steps(),
        )


def _doubled(size: int) -> int:
    return 2 * size


def _known(native: Capture, tensor: torch.Tensor) -> torch.Tensor | None:
    """The elements of a tensor that follows from constants and weights; None for others."""
    if native.varies(tensor) or _placeholders.lacks_elements(tensor):
        return None
    return native.elements(tensor, False)


def _are_same(first: list[Any], second: list[Any]) -> bool:
    try:
        torch.testing.assert_close(first, second, rtol=0, atol=0, equal_nan=True)
    except AssertionError:
        return False
    return True
