"""The plain numbers of a program in a recording at a counted length: what it decides on them.

A loop over a size counts with integers, which no symbol follows: ``for t in range(n): if t > 99``.
While a length is counted, ``range``, ``enumerate``, ``len`` and the sizes of tensors give integers
that tell the recording each comparison, so that it holds for other lengths only if they hold there.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch.overrides import TorchFunctionMode

from onnx_native import _library, _undo
from onnx_native.numbers import _stand_ins

if TYPE_CHECKING:
    from onnx_native._C import Capture

_SHAPE: Any = torch.Tensor.shape
_SIZES = {_SHAPE.__get__, torch.Tensor.size, torch.Tensor.numel, torch.Tensor.__len__}


class Counted:
    """The integers of one recording; nothing if the recording counts no length."""

    def __init__(self, native: Capture) -> None:
        self._native = native
        self._is_active = native.sizes.counts()

    def functions(self, of_steps: Any, length: Callable[[Any], Any]) -> dict[str, Any]:
        """Python's functions that return such integers, by their names.

        Args:
            of_steps: The stand-in of ``range`` in other recordings.
            length: That of ``len``.
        """
        if not self._is_active:
            return {}
        number = self.number

        def in_range(*bounds: Any) -> Any:
            if len(bounds) == 3 and type(bounds[2]) is int and bounds[2] > 1:
                start, stop, step = bounds
                count = self._counted((stop - start + step - 1) // step)
                if isinstance(count, int):
                    return [start + number(i) * step for i in range(count)]
            numbers = [self._counted(bound) for bound in bounds]
            if not all(isinstance(each, int) for each in numbers):
                return of_steps(*bounds)
            return [number(each) for each in range(*map(operator.index, numbers))]

        def in_order(items: Any, start: int = 0) -> Iterator[Any]:
            for i, item in enumerate(items, start):
                yield number(i), item

        return {
            "range": _stand_ins.StandIn(range, in_range),
            "enumerate": _stand_ins.StandIn(enumerate, in_order),
            "len": _stand_ins.StandIn(len, lambda value, /: number(length(value))),
        }

    def methods(self) -> list[tuple[Any, str, Any]]:
        """Methods of tensors that return such integers."""
        if not self._is_active:
            return []
        plain = torch.Tensor.tolist

        def to_list(tensor: Any) -> Any:
            found = plain(tensor)
            has_length = any(type(each) is torch.SymInt for each in tensor.shape)
            return self._numbers(found) if has_length and self._is_active else found

        return [(torch.Tensor, "tolist", functools.wraps(plain)(to_list))]

    def _numbers(self, value: Any) -> Any:
        """A list with such integers."""
        if isinstance(value, list):
            return list(map(self._numbers, value))
        if type(value) in (float, complex):
            self._native.note_refusal("the program makes a list of numbers, which are no integers")
        return self.number(value)

    def _counted(self, bound: Any) -> Any:
        if type(bound) is not torch.SymInt:
            return bound
        number = self._native.sizes.count(bound)
        return bound if number is None else number

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Makes the sizes of tensors such integers too, while the program runs."""
        if not self._is_active:
            yield
            return

        def end() -> None:
            self._is_active = False

        with _undo.at_end(end), _Sizes(self):
            yield

    def number(self, value: Any) -> Any:
        """An integer that tells its comparisons; other values as they are."""
        return _Number.of(value, self) if type(value) is int and self._is_active else value

    def tell(self, difference: int, relation: str, holds: bool) -> None:
        """Tells the recording a decision: difference <relation> 0."""
        if self._is_active:
            kind = getattr(_library.extension().Relation, relation)
            self._native.sizes.note_comparison(difference, kind, holds)

    def use(self, *numbers: Any) -> None:
        """Tells the recording that the program uses such numbers in an unknown way."""
        for number in numbers:
            if self._is_active and isinstance(number, _Number):
                self._native.sizes.note_use(int.__pos__(number))


class _Sizes(TorchFunctionMode):
    """Makes the sizes of tensors integers that tell their comparisons."""

    def __init__(self, counted: Counted) -> None:
        super().__init__()
        self._counted = counted

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        result = function(*args, **(kwargs or {}))
        if function not in _SIZES:
            return result
        if isinstance(result, torch.Size):
            return torch.Size([self._counted.number(each) for each in result])
        return self._counted.number(result)


class _Number(int):
    """An integer that tells its comparisons."""

    counted: Counted

    @classmethod
    def of(cls, value: int, counted: Counted) -> _Number:
        number = cls(value)
        number.counted = counted
        return number

    def __hash__(self) -> int:
        self.counted.use(self)
        return int.__hash__(self)

    def __bool__(self) -> bool:
        return bool(self != 0)

    def __index__(self) -> int:
        return int.__pos__(self)

    def __pos__(self) -> Any:
        return self

    def __neg__(self) -> Any:
        return self.counted.number(int.__neg__(self))

    def __abs__(self) -> Any:
        return self if self >= 0 else -self

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _linear(name: str) -> Callable[[_Number, Any], Any]:
    """A sum or a product, which grows evenly with the steps or fits no rule."""
    plain = getattr(int, name)
    function = getattr(operator, name.replace("__r", "__"))
    is_reflected = name.startswith("__r")

    def method(self: _Number, other: Any) -> Any:
        if _is_integer(other):
            return self.counted.number(plain(self, int.__pos__(other)))
        number = int.__pos__(self)
        if not isinstance(other, (torch.SymInt, torch.SymFloat, torch.Tensor)):
            self.counted.use(self)
        return function(other, number) if is_reflected else function(number, other)

    return method


def _division(name: str) -> Callable[[_Number, Any], Any]:
    """A quotient or a remainder, which tells between which numbers the quotient is exact."""
    function = getattr(operator, name.replace("__r", "__"))
    is_reflected = name.startswith("__r")

    def method(self: _Number, other: Any) -> Any:
        if not _is_integer(other):
            self.counted.use(self)
            number = int.__pos__(self)
            return function(other, number) if is_reflected else function(number, other)
        a, b = int.__pos__(self), int.__pos__(other)
        if is_reflected:
            a, b = b, a
        quotient, remainder = divmod(a, b)
        if b > 0:
            self.counted.tell(quotient * b - a, "LESS_EQUAL", True)
            self.counted.tell(a - quotient * b - b, "LESS", True)
        else:
            self.counted.use(self, other)
        return self.counted.number(quotient if "floordiv" in name else remainder)

    return method


def _comparison(name: str, relation: str, is_swapped: bool, is_negated: bool) -> Any:
    function = getattr(operator, name)

    def method(self: _Number, other: Any) -> Any:
        if not isinstance(other, int):
            if isinstance(other, (float, complex)):
                self.counted.use(self)
            elif not isinstance(other, (torch.SymInt, torch.SymFloat, torch.Tensor)):
                return NotImplemented
            return function(int.__pos__(self), other)
        difference = int.__sub__(self, int.__pos__(other))
        truth = function(difference, 0)
        self.counted.tell(
            -difference if is_swapped else difference, relation, bool(truth) != is_negated
        )
        return truth

    return method


def _lost(name: str) -> Callable[..., Any]:
    """What makes another kind of number, whose uses are not known."""
    plain = getattr(int, name)

    def method(self: _Number, *others: Any) -> Any:
        self.counted.use(self, *others)
        return plain(self, *others)

    return method


def _quotient(name: str) -> Callable[[_Number, Any], Any]:
    """A quotient, which is an expression of sizes if the other number is one."""
    function, lost = operator.truediv, _lost(name)

    def method(self: _Number, other: Any) -> Any:
        if not isinstance(other, (torch.SymInt, torch.SymFloat, torch.Tensor)):
            return lost(self, other)
        number = int.__pos__(self)
        return function(other, number) if name.startswith("__r") else function(number, other)

    return method


for _name in ("add", "sub", "mul"):
    setattr(_Number, f"__{_name}__", _linear(f"__{_name}__"))
    setattr(_Number, f"__r{_name}__", _linear(f"__r{_name}__"))
for _name in ("floordiv", "mod"):
    setattr(_Number, f"__{_name}__", _division(f"__{_name}__"))
    setattr(_Number, f"__r{_name}__", _division(f"__r{_name}__"))
for _arguments in (
    ("__eq__", "EQUAL", False, False),
    ("__ne__", "EQUAL", False, True),
    ("__lt__", "LESS", False, False),
    ("__le__", "LESS_EQUAL", False, False),
    ("__gt__", "LESS", True, False),
    ("__ge__", "LESS_EQUAL", True, False),
):
    setattr(_Number, _arguments[0], _comparison(*_arguments))
for _name in ("pow", "lshift", "rshift", "and", "or", "xor"):
    setattr(_Number, f"__{_name}__", _lost(f"__{_name}__"))
    setattr(_Number, f"__r{_name}__", _lost(f"__r{_name}__"))
for _name in ("__truediv__", "__rtruediv__"):
    setattr(_Number, _name, _quotient(_name))
for _name in ("float", "int", "invert", "round", "floor", "ceil", "trunc"):
    setattr(_Number, f"__{_name}__", _lost(f"__{_name}__"))
