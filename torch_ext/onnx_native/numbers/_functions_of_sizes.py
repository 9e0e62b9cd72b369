"""Functions of Python and PyTorch that would turn a symbolic number into a number.

A recorded program calls them with sizes: ``len(x)``, ``int(n * 0.5)``, ``max(n, 8)``,
``math.sqrt(n)``, ``range(0, n, 64)``, ``torch.tensor([h, w])``. The functions here keep the number
symbolic, and are the plain functions for everything else.
"""

from __future__ import annotations

import functools
import inspect
import math
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
from onnx_native.numbers import _calls_with_sizes, _functions_of_numpy
from onnx_native.upstream import _upstream

if TYPE_CHECKING:
    from onnx_native._C import Capture

_NUMBERS = (torch.SymInt, torch.SymFloat, torch.SymBool)
# Their classes in eager.
_EAGER: dict[Any, type] = {torch.SymInt: int, torch.SymFloat: float, torch.SymBool: bool}
_MOST_STEPS = 1024
# Functions of Python's math module of one number, whose results are floats.
_MATH_FUNCTIONS = ("cos", "exp", "log10", "log2", "sin", "sqrt", "tanh")


@contextmanager
def kept_symbolic(
    native: Capture, model: torch.nn.Module, packages: Collection[str]
) -> Iterator[None]:
    """Replaces the functions while a program is recorded, for the thread that records it.

    Functions without a module are replaced as globals of the user's modules: PyTorch's compiler
    makes tables of ``builtins`` when it is imported.

    Args:
        native: The recording.
        model: The program.
        packages: The packages whose functions get sizes.
    """
    is_recorded = _library.extension().is_recorded
    thread = threading.get_ident()
    tensor: Any = torch.Tensor
    plain_new_tensor = tensor.new_tensor

    def length(value: Any, /) -> Any:
        if isinstance(value, torch.Tensor) and is_recorded(value) and value.dim() > 0:
            return value.shape[0]
        return len(value)

    def quotient_and_remainder(a: Any, b: Any, /) -> Any:
        return (a // b, a % b) if _is_symbolic(a, b) else divmod(a, b)

    def new_tensor(self: Any, data: Any, *, dtype: Any = None, **options: Any) -> Any:
        if not is_recorded(self):
            return plain_new_tensor(self, data, dtype=dtype, **options)
        return torch.tensor(data, dtype=self.dtype if dtype is None else dtype, **options)

    classes = {int: _number_class(int, native), float: _number_class(float, native)}
    in_globals = {
        "divmod": quotient_and_remainder,
        "float": classes[float],
        "int": classes[int],
        "len": length,
        "max": _extremum(max, native, torch.sym_max, operator.gt),
        "min": _extremum(min, native, torch.sym_min, operator.lt),
        "range": _range_class(native, thread),
        "type": _type_class(classes),
    }
    of_user = _globals_of_user(model, packages)
    functions = [
        *((math, name, _math_function(native, name)) for name in _MATH_FUNCTIONS),
        (math, "log", _logarithm(native)),
        (torch, "tensor", _tensor_of(torch.tensor, is_recorded)),
        (torch, "as_tensor", _tensor_of(torch.as_tensor, is_recorded)),
        *_calls_with_sizes.replacements(),
    ]
    methods = [
        (torch.SymInt, "bit_length", _bit_length),
        (tensor, "new_tensor", functools.wraps(plain_new_tensor)(new_tensor)),
        *_functions_of_numpy.replacements(),
    ]
    holders = [*of_user, *map(vars, model.modules())]
    with (
        _in_globals(of_user, in_globals),
        _held(
            holders,
            [*classes.items(), *((getattr(owner, name), new) for owner, name, new in functions)],
        ),
        _replaced.attributes([*functions, *methods]),
    ):
        yield


@contextmanager
def _held(
    holders: Iterable[dict[str, Any]], functions: Iterable[tuple[Any, Callable[..., Any]]]
) -> Iterator[None]:
    """Replaces functions, given as (plain, new), where modules imported or keep them by a name.

    They may be called there, or compared: ``self.pool is torch.nn.functional.max_pool2d``. Keys of
    tables and default arguments are not replaced.
    """
    by_plain = {id(plain): (plain, new) for plain, new in functions}
    found = [
        (names, name, *by_plain[id(value)])
        for names in holders
        for name, value in list(names.items())  # another thread may import
        if id(value) in by_plain
    ]

    def put_back() -> None:
        for names, name, plain, new in found:
            if names.get(name) is new:
                names[name] = plain

    with _undo.at_end(put_back, of_process=True):
        for names, name, _, new in found:
            names[name] = new
        yield


@contextmanager
def _in_globals(namespaces: Iterable[dict[str, Any]], functions: dict[str, Any]) -> Iterator[None]:
    """Adds functions to the globals of modules that do not define them. A model may have hundreds
    of modules."""
    changed: list[tuple[dict[str, Any], dict[str, Any]]] = []

    def put_back() -> None:
        for names, new in changed:
            for name in new:
                names.pop(name, None)

    with _undo.at_end(put_back, of_process=True):
        for names in namespaces:
            new = functions
            if not names.keys().isdisjoint(functions):
                new = {name: value for name, value in functions.items() if name not in names}
            changed.append((names, new))
            names.update(new)
        yield


def packages_of(model: torch.nn.Module) -> set[str]:
    """Returns the packages with code of a model."""
    return {"__main__"} | {_package_of(each) for each in _functions_of(model)} - _NOT_OF_USERS


def _globals_of_user(model: torch.nn.Module, packages: Collection[str]) -> list[dict[str, Any]]:
    """The globals of the Python modules of some packages."""
    functions = _functions_of(model)
    # A file that was executed need not be among the imported modules.
    run = [each.__globals__ for each in functions if _package_of(each) in packages]
    imported = [names for package in packages for names in _by_package().get(package, ())]
    return list({id(names): names for names in (*imported, *run)}.values())


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


_NOT_OF_USERS = {"", "builtins", "numpy", "onnx_native", "torch", *sys.stdlib_module_names}
_NOT_OF_USERS -= {"__main__"}


def packages_between(error: Exception) -> set[str]:
    """Returns the packages between the program and an exception.

    A program may give sizes to a library (einx, kornia) that calls ``int`` or ``len``.
    """
    packages = set()
    traceback: TracebackType | None = error.__traceback__
    while traceback:
        name = str(traceback.tb_frame.f_globals.get("__name__", ""))
        packages.add(name.partition(".")[0])
        traceback = traceback.tb_next
    return packages - _NOT_OF_USERS


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
    return any(type(value) in _NUMBERS for value in values)


def _extremum(
    plain: Callable[..., Any],
    native: Capture,
    of_two: Callable[[Any, Any], Any],
    beats: Callable[[Any, Any], Any],
) -> Callable[..., Any]:
    """``max`` or ``min``. Numbers of different classes are compared, which a guard notes, because
    the class of the result depends on the sizes."""

    def of_floats(a: Any, b: Any) -> Any:
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
            return issubclass(subclass, instances)

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


# Tensors of numbers.


def _tensor_of(plain: Callable[..., Any], is_recorded: Callable[[Any], bool]) -> Callable[..., Any]:
    """``torch.tensor`` or ``torch.as_tensor``, which makes tensors of symbolic numbers too."""

    def holds_symbol(data: Any) -> bool:
        if isinstance(data, (list, tuple)):
            return any(map(holds_symbol, data))
        return type(data) in _NUMBERS or (isinstance(data, torch.Tensor) and is_recorded(data))

    @functools.wraps(plain)
    def make(data: Any, *args: Any, dtype: torch.dtype | None = None, **options: Any) -> Any:
        if args or isinstance(data, torch.Tensor) or not holds_symbol(data):
            return plain(data, *args, dtype=dtype, **options)
        return _stacked(data, dtype or _dtype_of(_upstream.pytree.tree_leaves(data)))

    return make


def _dtype_of(leaves: list[Any]) -> torch.dtype:
    """The dtype of a tensor of these numbers and tensors."""
    dtypes = []
    for leaf in leaves:
        if isinstance(leaf, torch.Tensor):
            dtypes.append(leaf.dtype)
        elif isinstance(leaf, (bool, torch.SymBool)):
            dtypes.append(torch.bool)
        elif isinstance(leaf, (int, torch.SymInt)):
            dtypes.append(torch.int64)
        else:
            dtypes.append(torch.get_default_dtype())
    return functools.reduce(torch.promote_types, dtypes)


def _stacked(data: Any, dtype: torch.dtype) -> torch.Tensor:
    if isinstance(data, (list, tuple)):
        return torch.stack([_stacked(item, dtype) for item in data])
    if isinstance(data, torch.Tensor):
        return data.reshape(()).to(dtype)
    return torch.scalar_tensor(data, dtype=dtype)
