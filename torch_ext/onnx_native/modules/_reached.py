"""The names that the functions of a program use: globals of their files, and parts of classes."""

from __future__ import annotations

import dis
import functools
import os
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Set
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any

from onnx_native.modules import _containers

_METHODS = ("forward", "__call__")  # those that PyTorch calls
_MOST_FUNCTIONS = 2000
_MOST_REMEMBERED = 16
_WRITES_GLOBAL = {dis.opmap["STORE_GLOBAL"], dis.opmap["DELETE_GLOBAL"]}
_WRITES_ATTRIBUTE = dis.opmap["STORE_ATTR"]
_WALKED = (FunctionType, type, ModuleType)
_OWN = __name__.partition(".")[0]
# Where Python, packages, PyTorch and this package are: each may be in a folder of its own.
_INSTALLED = tuple(
    {os.path.join(path, "") for name, path in sysconfig.get_paths().items() if "lib" in name}
    | {
        os.path.join(os.path.dirname(sys.modules[name].__file__ or ""), "")
        for name in (_OWN, "torch")
    }
)
_PYTHON = frozenset(sys.stdlib_module_names) - {"__main__"}
_remembered: dict[frozenset[type], Reached] = {}


class Reached:
    """What a program may reach from the methods of some classes, by name.

    A method may be called that has a name which a function uses. So this finds too much, but it
    walks the files of the program's modules only, and those of the user that they reach: installed
    packages have thousands of functions.

    Attributes:
        functions: The functions, those of the classes included.
        classes: The classes.
    """

    def __init__(self, classes: Iterable[type], functions: Iterable[Any]) -> None:
        self.functions: dict[int, FunctionType] = {}
        self.classes: dict[int, type] = {}
        self._names: set[str] = set()
        self._modules: dict[int, ModuleType] = {}
        # By the identity of the namespace and the name: the namespace, and what was walked there.
        self._globals: dict[tuple[int, str], tuple[dict[str, Any], Any]] = {}
        self._parts: list[tuple[type, str, Any]] = []
        self._written: dict[int, tuple[dict[str, Any], set[str]]] = {}
        self._written_attributes: set[str] = set()
        self._open: list[FunctionType] = []
        bases = {each for kind in classes for each in kind.__mro__ if _is_above_pytorch(each)}
        self._files = {each.__module__ for each in bases}
        self.classes.update((id(each), each) for each in bases)
        self._add_names(_METHODS)
        for function in functions:
            self._add(function)
        while self._open and len(self.functions) < _MOST_FUNCTIONS:
            self._walk(self._open.pop())

    def globals(self) -> Iterator[tuple[dict[str, Any], str]]:
        """Yields the globals that the functions use, as (namespace, name)."""
        for (_, name), (namespace, _) in self._globals.items():
            yield namespace, name

    def written(self) -> Iterator[tuple[dict[str, Any], set[str], bool]]:
        """Yields the globals that they write, as (namespace, names, whether it is of the user)."""
        of_modules = ((vars(module), self._written_attributes) for module in self._modules.values())
        for namespace, names in (*self._written.values(), *of_modules):
            yield namespace, names, is_of_user(str(namespace.get("__name__", "")))

    def is_current(self) -> bool:
        """Whether all names stand for the same functions and classes as before."""
        return all(
            _walked(namespace.get(name)) is value
            for (_, name), (namespace, value) in self._globals.items()
        ) and all(vars(kind).get(name) is value for kind, name, value in self._parts)

    def may_be_remembered(self) -> bool:
        """Whether files keep all of it alive, so that no weight is."""
        return all(
            namespace is vars(sys.modules.get(namespace.get("__name__", ""), self))
            for namespace, _ in self._globals.values()
        ) and not any("<locals>" in each.__qualname__ for each in self.classes.values())

    def _add(self, value: Any) -> None:
        """Adds what a name stands for."""
        if isinstance(value, FunctionType):
            if id(value) not in self.functions and self._is_of_program(value):
                self.functions[id(value)] = value
                self._open.append(value)
        elif isinstance(value, ModuleType):
            if id(value) not in self._modules and self._is_of_program(value):
                self._modules[id(value)] = value
                self._add_globals(vars(value), self._names)
        elif isinstance(value, (staticmethod, classmethod)):
            self._add(value.__func__)
        elif isinstance(value, property):
            for each in (value.fget, value.fset):
                self._add(each)
        elif isinstance(value, type):
            for kind in value.__mro__:
                self._add_class(kind)

    def _is_of_program(self, value: Any) -> bool:
        name = value.__name__ if isinstance(value, ModuleType) else value.__module__
        return name in self._files or is_of_user(name or "")

    def _add_class(self, kind: type) -> None:
        if id(kind) not in self.classes and self._is_of_program(kind):
            self.classes[id(kind)] = kind
            for name in list(vars(kind)):
                if name in self._names or name.startswith("__"):
                    self._add_part(kind, name)

    def _add_part(self, kind: type, name: str) -> None:
        value = vars(kind)[name]
        if isinstance(value, (FunctionType, staticmethod, classmethod, property)):
            self._parts.append((kind, name, value))
            self._add(value)

    def _add_names(self, names: Iterable[str]) -> None:
        """Adds what has these names in the classes and modules."""
        new = set(names) - self._names
        if not new:
            return
        self._names |= new
        for kind in list(self.classes.values()):
            for name in new & vars(kind).keys():
                self._add_part(kind, name)
        for module in list(self._modules.values()):
            self._add_globals(vars(module), new)

    def _add_globals(self, namespace: dict[str, Any], names: Iterable[str]) -> None:
        for name in namespace.keys() & names:
            key = id(namespace), name
            if key not in self._globals:
                value = _walked(namespace[name])
                self._globals[key] = namespace, value
                self._add(value)

    def _walk(self, function: FunctionType) -> None:
        for cell in function.__closure__ or ():
            self._add(_contents(cell))
        namespace = function.__globals__
        for code in _codes(function.__code__):
            operations = set(code.co_code[::2])
            if not operations.isdisjoint(_WRITES_GLOBAL):
                _, names = self._written.setdefault(id(namespace), (namespace, set()))
                names.update(_operands(code, _WRITES_GLOBAL))
            if _WRITES_ATTRIBUTE in operations:
                self._written_attributes.update(_operands(code, {_WRITES_ATTRIBUTE}))
            self._add_globals(namespace, code.co_names)
            self._add_names(code.co_names)


def reached(classes: Iterable[type], functions: Iterable[Any] = ()) -> Reached:
    """Returns what a program reaches from the methods of some classes that PyTorch calls.

    Args:
        classes: The classes of its modules and objects.
        functions: Functions that are called besides the methods.
    """
    key = frozenset(classes)
    found = _remembered.get(key)
    if found is not None and not functions and found.is_current():
        return found
    found = Reached(key, functions)
    if not functions and found.may_be_remembered():
        while len(_remembered) >= _MOST_REMEMBERED:
            _remembered.pop(next(iter(_remembered)), None)
        _remembered[key] = found
    return found


def _walked(value: Any) -> Any:
    """What is walked of a value: itself, or its class."""
    return value if isinstance(value, _WALKED) else type(value)


def _is_above_pytorch(kind: type) -> bool:
    """Whether a class is one of the user or of a package that makes modules, but not PyTorch's.

    Those of this package are wrappers: what its functions reach includes the export itself.
    """
    package = kind.__module__.partition(".")[0]
    return _containers.is_of_user(kind) and package not in _PYTHON and package != _OWN


@functools.lru_cache(maxsize=4096)
def is_of_user(name: str) -> bool:
    """Whether a module, given by its name, is neither Python's nor in an installed package."""
    file = getattr(sys.modules.get(name), "__file__", None)
    return name not in sys.builtin_module_names and not (file or "").startswith(_INSTALLED)


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _codes(each)


def _operands(code: CodeType, operations: Set[int]) -> Iterator[str]:
    """The names that instructions with these numbers have."""
    return (each.argval for each in dis.get_instructions(code) if each.opcode in operations)


def _contents(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # empty
        return None
