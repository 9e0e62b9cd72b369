"""Functions of Python and PyTorch that would turn a symbolic number into a number.

A recorded program calls them with sizes: ``len(x)``, ``int(n * 0.5)``, ``max(n, 8)``,
``math.sqrt(n)``, ``range(0, n, 64)``, ``torch.tensor([h, w])``. The functions here keep the number
symbolic, and are the plain functions for everything else.
"""

from __future__ import annotations

import builtins
import dataclasses
import decimal
import functools
import inspect
import math
import numbers
import operator
import sys
import threading
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from types import FunctionType, ModuleType, TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from onnx_native import _library, _replaced, _undo
from onnx_native.numbers import (
    _calls_with_sizes,
    _counted_numbers,
    _functions_of_numpy,
    _stand_ins,
)

if TYPE_CHECKING:
    from onnx_native._C import Capture

# Numbers that the symbolic ones compare themselves with.
_KNOWN = (int, float, bool, *_calls_with_sizes.NUMBERS)
# Their classes in eager.
_EAGER: dict[Any, type] = {torch.SymInt: int, torch.SymFloat: float, torch.SymBool: bool}
_MOST_STEPS = 1024
# Functions of Python's math module of one number, whose results are floats.
_MATH_FUNCTIONS = ("cos", "exp", "log10", "log2", "sin", "sqrt", "tanh")


@dataclasses.dataclass
class Needs:
    """Where a program needs the functions, as failed attempts to record it have shown.

    Attributes:
        packages: The packages whose functions get sizes.
        attention: Whether attention gets a condition on sizes.
    """

    packages: set[str] = dataclasses.field(default_factory=set)
    attention: bool = False

    def learn(self, error: Exception) -> bool:
        """Learns from an exception; returns false if it says nothing new.

        A program may give sizes to a library (einx, kornia) that calls ``int`` or ``len``.
        """
        before = len(self.packages), self.attention
        traceback: TracebackType | None = error.__traceback__
        while traceback:
            name = str(traceback.tb_frame.f_globals.get("__name__", ""))
            self.packages |= {name.partition(".")[0]} - _NOT_OF_USERS
            traceback = traceback.tb_next
        self.attention |= isinstance(error, TypeError) and "not SymBool" in str(error)
        return before != (len(self.packages), self.attention)


@contextmanager
def kept_symbolic(native: Capture, model: torch.nn.Module, needs: Needs) -> Iterator[None]:
    """Replaces the functions while a program is recorded, for the thread that records it.

    Functions without a module are replaced as globals of the user's modules: PyTorch's compiler
    makes tables of ``builtins`` when it is imported.
    """
    own_functions = _functions_of(model)
    needs.packages |= {"__main__"} | {_package_of(each) for each in own_functions} - _NOT_OF_USERS
    is_recorded = _library.extension().is_recorded
    thread = threading.get_ident()

    def length(value: Any, /) -> Any:
        if isinstance(value, torch.Tensor) and is_recorded(value) and value.dim() > 0:
            return value.shape[0]
        return len(value)

    def quotient_and_remainder(a: Any, b: Any, /) -> Any:
        return (a // b, a % b) if _is_symbolic(a, b) else divmod(a, b)

    def is_instance(value: Any, kinds: Any, /) -> bool:
        kind = _EAGER.get(type(value))
        return isinstance(value, kinds) or (kind is not None and issubclass(kind, kinds))

    classes = {int: _number_class(int, native), float: _number_class(float, native)}
    plain = {new: each for each, new in classes.items()}

    def is_subclass(kind: Any, kinds: Any, /) -> bool:
        return issubclass(kind, kinds) or issubclass(plain.get(kind, kind), kinds)

    of_steps = _range_class(native, thread)
    in_globals = {
        "divmod": _stand_ins.StandIn(divmod, quotient_and_remainder),
        "float": classes[float],
        "int": classes[int],
        "isinstance": _stand_ins.StandIn(isinstance, is_instance),
        "issubclass": _stand_ins.StandIn(issubclass, is_subclass),
        "len": _stand_ins.StandIn(len, length),
        "max": _stand_ins.StandIn(max, _extremum(max, native, torch.sym_max, operator.gt)),
        "min": _stand_ins.StandIn(min, _extremum(min, native, torch.sym_min, operator.lt)),
        "range": of_steps,
        "type": _type_class({**classes, range: of_steps}),
    }
    counted = _counted_numbers.Counted(native)
    in_globals.update(counted.functions(of_steps, length))
    of_user = _globals_of_user(own_functions, needs.packages)
    functions = [
        (owner, name, _stand_ins.StandIn(getattr(owner, name), function))
        for owner, name, function in (
            *((math, name, _math_function(native, name)) for name in _MATH_FUNCTIONS),
            (math, "log", _logarithm(native)),
            *(_calls_with_sizes.attention() if needs.attention else ()),
        )
    ]
    methods = [
        (torch.SymInt, "bit_length", _bit_length),
        (torch.SymInt, "imag", property(lambda _: 0)),
        (torch.SymFloat, "imag", property(lambda _: 0.0)),
        *((kind, "real", property(_itself)) for kind in (torch.SymInt, torch.SymFloat)),
        *(
            (kind, name, _comparing(getattr(kind, name)))
            for kind in (torch.SymInt, torch.SymFloat)
            for name in ("__eq__", "__ne__")
        ),
        *((kind, *each) for kind in (torch.SymInt, torch.SymFloat) for each in _divisions(kind)),
        *_calls_with_sizes.replacements(),
        *_functions_of_numpy.replacements(),
        *counted.methods(),
    ]
    pairs = [
        *((getattr(builtins, name), new) for name, new in in_globals.items()),
        *((getattr(owner, name), new) for owner, name, new in functions),
    ]
    of_model = {id(each.__globals__): each.__globals__ for each in own_functions}.values()
    classes_of_model = _classes_of(model)
    values: list[Any] = [*own_functions]
    for each in (*of_model, *map(vars, classes_of_model)):
        values += each.values()
    containers = [
        each
        for each in values  # no globals, as in __builtins__
        if type(each) is list or (type(each) is dict and "__name__" not in each)
    ]
    with (
        _stand_ins.in_globals(of_user, in_globals),
        _stand_ins.held(
            pairs,
            of_user,
            [*of_model, *map(vars, model.modules()), *containers],
            classes_of_model,
            {id(each): each for each in values if type(each) is FunctionType}.values(),
        ),
        _replaced.attributes([*functions, *methods]),
        _elements_counted(),
        _calls_with_sizes.Mode(),
        counted.watched(),
    ):
        yield


@contextmanager
def _elements_counted() -> Iterator[None]:
    """Lets ``x.shape.numel()`` multiply sizes: its own loop makes numbers of them."""
    plain = torch.Size.numel
    set_attribute = functools.partial(_library.extension().set_attribute, torch.Size, "numel")

    def numel(self: torch.Size) -> Any:
        return math.prod(self) if _is_symbolic(*self) else plain(self)

    with _undo.at_end(lambda: set_attribute(plain), of_process=True):
        set_attribute(functools.update_wrapper(numel, plain))
        yield


def _globals_of_user(
    functions: Iterable[FunctionType], packages: Collection[str]
) -> list[dict[str, Any]]:
    """The globals of the Python modules of some packages, and those of functions in them."""
    # A file that was executed need not be among the imported modules.
    run = [each.__globals__ for each in functions if _package_of(each) in packages]
    imported = _by_package()
    found = [names for package in packages for names in imported.get(package, ())]
    return list({id(names): names for names in (*found, *run)}.values())


def _functions_of(model: torch.nn.Module) -> list[FunctionType]:
    """The functions that a model consists of: the forwards of its modules, and their attributes."""
    found: list[Any] = []
    kinds = set()
    for module in model.modules():
        if type(module) not in kinds:
            kinds.add(type(module))
            found.append(inspect.getattr_static(type(module), "forward", None))
        found += vars(module).values()
    return [inspect.unwrap(each) for each in found if isinstance(each, FunctionType)]


def _classes_of(model: torch.nn.Module) -> list[type]:
    """The classes of a model's modules, PyTorch's left out."""
    kinds = {kind for module in model.modules() for kind in type(module).__mro__}
    return [kind for kind in kinds if kind.__module__.partition(".")[0] not in _NOT_OF_USERS]


_NOT_OF_USERS = {"", "builtins", "numpy", "onnx_native", "torch", *sys.stdlib_module_names}
_NOT_OF_USERS -= {"__main__"}


def _package_of(function: Any) -> str:
    """The package of a function."""
    return str(function.__globals__.get("__name__", "")).partition(".")[0]


_seen: dict[str, Any] = {}
_globals: dict[str, list[dict[str, Any]]] = {}


def _by_package() -> dict[str, list[dict[str, Any]]]:
    """The globals of the imported modules by their package."""
    global _seen, _globals
    modules = dict(sys.modules)
    # Thousands of modules: the same objects as in the last capture are told by their identities.
    if len(modules) != len(_seen) or any(map(operator.is_not, modules.values(), _seen.values())):
        found: dict[str, list[dict[str, Any]]] = {}
        for name, module in modules.items():
            if isinstance(module, ModuleType):
                found.setdefault(name.partition(".")[0], []).append(vars(module))
        _seen, _globals = modules, found
    return _globals


def _is_symbolic(*values: Any) -> bool:
    return any(type(value) in _calls_with_sizes.NUMBERS for value in values)


def _extremum(
    plain: Callable[..., Any],
    native: Capture,
    of_two: Callable[[Any, Any], Any],
    beats: Callable[[Any, Any], Any],
) -> Callable[..., Any]:
    """``max`` or ``min``. Numbers of different classes are compared, which a guard notes, because
    the class of the result depends on the sizes."""

    def of_floats(a: Any, b: Any) -> Any:
        if any(isinstance(number, float) and math.isnan(number) for number in (a, b)):
            return a  # nothing is more or less than NaN
        symbolic = [number for number in (a, b) if _is_symbolic(number)]
        if not any(native.sizes.depends_on_data(number.node) for number in symbolic):
            return of_two(a, b)
        # Not a number may come from data, and wins only if it is first.
        first, second = (
            number.node if _is_symbolic(number) else symbolic[0].node.wrap_float(number)
            for number in (a, b)
        )
        return torch.SymFloat(native.sizes.choice(beats(b, a).node, second, first))

    @functools.wraps(plain)
    def extremum(*items: Any, **options: Any) -> Any:
        if options or (len(items) == 1 and isinstance(items[0], torch.Tensor)):
            return plain(*items, **options)
        if len(items) == 1:
            items = tuple(items[0])
        if len(items) > 1 and _is_symbolic(*items):
            kinds = {_EAGER.get(type(item), type(item)) for item in items}
            if kinds == {int}:
                return functools.reduce(of_two, items)
            if kinds == {float}:
                return functools.reduce(of_floats, items)
        return plain(items)

    return extremum


def _bit_length(self: Any) -> Any:
    """``int.bit_length`` of a size. The logarithm of a number below 2**45 rounds to an integer only
    if the number is a power of 2."""
    size = abs(self)
    return math.floor(math.log2(torch.sym_max(size, 1))) + torch.sym_min(size, 1)


def _itself(number: Any) -> Any:
    return number


def _divisions(kind: Any) -> Iterator[tuple[str, Callable[..., Any]]]:
    """``//`` and ``%`` of a symbolic number, by name, which follow Python's floats: the remainder
    is exact. PyTorch rounds the quotient first, and has no remainder of floats."""
    floats = (float, torch.SymFloat)
    is_recorded = _library.extension().is_recorded_node

    def divide(plain: Callable[..., Any], function: str, is_reflected: bool) -> Callable[..., Any]:
        @functools.wraps(plain)
        def division(self: Any, other: Any) -> Any:
            is_of_floats = isinstance(self, floats) or isinstance(other, floats)
            if not is_of_floats or not isinstance(other, _KNOWN) or not is_recorded(self.node):
                return plain(self, other)
            if isinstance(other, (int, float)) and other == 0 and not is_reflected:
                getattr(operator, function)(0.0, 0.0)  # raises Python's error
            number = torch.sym_float(self).node
            other = torch.sym_float(other)
            other = other.node if isinstance(other, torch.SymFloat) else number.wrap_float(other)
            if not is_reflected:
                return torch.SymFloat(getattr(number, function)(other))
            return torch.SymFloat(getattr(other, function)(number))

        return division

    for function in ("floordiv", "mod"):
        for name, is_reflected in ((f"__{function}__", False), (f"__r{function}__", True)):
            yield name, divide(getattr(kind, name), function, is_reflected)


def _comparing(plain: Callable[..., Any]) -> Callable[..., Any]:
    """``==`` or ``!=`` of a symbolic number and one that its class does not know: members of an
    enum, complex numbers, fractions."""

    @functools.wraps(plain)
    def compare(self: Any, other: Any) -> Any:
        kinds: tuple[Any, ...] = (int, float)
        if isinstance(other, complex) and other.imag == 0:
            other = other.real
        if isinstance(other, int):
            other = int.__pos__(other)  # plain
        if isinstance(other, (numbers.Number, decimal.Decimal)) and type(other) not in _KNOWN:
            other = next((kind(other) for kind in kinds if _is_exact(kind, other)), other)
        return plain(self, other)

    return compare


def _is_exact(kind: Any, number: Any) -> bool:
    try:
        return bool(kind(number) == number)
    except (TypeError, ValueError, OverflowError):
        return False


def _math_function(native: Capture, name: str) -> Callable[..., Any]:
    plain = getattr(math, name)

    @functools.wraps(plain)
    def function(value: Any, /) -> Any:
        if not _is_symbolic(value):
            return plain(value)
        return torch.SymFloat(native.sizes.math_function(name, value.node))

    return function


def _logarithm(native: Capture) -> Callable[..., Any]:
    natural = _math_function(native, "log")
    plain = math.log

    @functools.wraps(plain)
    def log(value: Any, /, *base: Any) -> Any:
        if len(base) != 1 or not _is_symbolic(value, *base):
            return plain(value, *base) if base else natural(value)
        return natural(value) / natural(*base)

    return log


def _range_class(native: Capture, thread: int) -> Any:
    """A ``range`` that counts the steps of the example if a guard can say that they are as many."""

    class Meta(type):
        def __instancecheck__(cls, instance: Any) -> bool:
            return isinstance(instance, range)

        def __subclasscheck__(cls, subclass: Any) -> bool:
            return issubclass(subclass, range)

    class Range(metaclass=Meta):
        def __new__(cls, *bounds: Any) -> Any:
            symbolic = [bound for bound in bounds if type(bound) is torch.SymInt]
            if not symbolic or threading.get_ident() != thread:
                return range(*bounds)
            steps = _steps(native, *bounds) if len(bounds) < 4 else None
            if steps is None:
                size = _library.extension().text_of_size(symbolic[0])
                native.refuse_loop(symbolic[0], f"a Python int or a loop needs the number {size}")
            return steps

    return Range


def _number_class(plain: type, native: Capture) -> Any:
    """An ``int`` or ``float`` whose calls keep a number symbolic, and that sizes are instances of.

    It equals the plain class in tables and as a dtype of NumPy. PyTorch does not accept it as a
    dtype: the capture steps aside.
    """
    is_recorded = _library.extension().is_recorded
    instances = (plain, *(kind for kind, eager in _EAGER.items() if eager is plain))

    class Meta(type):
        def __instancecheck__(cls, instance: Any) -> bool:
            return isinstance(instance, instances)

        def __subclasscheck__(cls, subclass: Any) -> bool:
            return subclass is cls or issubclass(subclass, instances)

        def __getattribute__(cls, name: str) -> Any:
            return np.dtype(plain) if name == "dtype" else getattr(plain, name)

        def __eq__(cls, other: Any) -> bool:
            return other is cls or other is plain

        def __hash__(cls) -> int:
            return hash(plain)

        def __call__(cls, *arguments: Any, **options: Any) -> Any:
            value = arguments[0] if len(arguments) == 1 and not options else None
            if isinstance(value, torch.Tensor) and is_recorded(value) and value.numel() == 1:
                value = value.item()
            if type(value) not in (torch.SymInt, torch.SymFloat):
                return plain(*arguments, **options) if value is None else plain(value)
            if plain is float:
                return torch.sym_float(value)
            if isinstance(value, torch.SymFloat):
                return torch.SymInt(native.sizes.math_function("trunc", value.node))
            return value

    class Number(metaclass=Meta):
        pass

    return Number


def _type_class(classes: dict[Any, Any]) -> Any:
    """A ``type`` that says ``int`` of a size, as eager does: ``type(n) is int``."""

    class Meta(type):
        def __instancecheck__(cls, instance: Any) -> bool:
            return isinstance(instance, type)

        def __subclasscheck__(cls, subclass: Any) -> bool:
            return issubclass(subclass, type)

        def __getattribute__(cls, name: str) -> Any:
            return getattr(type, name)

        def __call__(cls, *arguments: Any, **options: Any) -> Any:
            kind: Any = type(*arguments, **options)
            if len(arguments) != 1:
                return kind
            kind = _EAGER.get(kind, kind)
            return classes.get(kind, kind)

    class Type(metaclass=Meta):
        pass

    return Type


def _steps(native: Capture, *bounds: Any) -> list[Any] | None:
    """The numbers in a range; None if their count is a dynamic size."""
    start, stop, step = (0, *bounds, 1) if len(bounds) == 1 else (*bounds, 1)[:3]
    if isinstance(step, torch.SymInt):
        return _steps_of_size(native, start, stop, step)
    if not isinstance(step, int) or step <= 0:
        return None
    count = (stop - start + step - 1) // step
    if isinstance(count, int):
        return [start + i * step for i in range(count)]
    number = native.sizes.example(count)
    if number is None or not 0 <= number <= _MOST_STEPS:
        return None
    if not native.sizes.is_guarded_to_be(count, number):
        return None
    return [start + i * step for i in range(number)]


def _steps_of_size(native: Capture, start: Any, stop: Any, step: torch.SymInt) -> list[Any] | None:
    """The numbers in a range whose step is a dynamic size: ``range(0, n, n)``."""
    count = native.sizes.example((stop - start + step - 1) // step) if step > 0 else None
    if count is None or not 0 <= count <= _MOST_STEPS:
        return None
    if not start + count * step >= stop or (count > 0 and not start + (count - 1) * step < stop):
        return None  # the numbers depend on data
    return [start + i * step for i in range(count)]
