"""Watches what a recorded program asks about tensors and sizes besides their elements.

A recorded tensor has no memory, gradients or legacy class, and a size is not an int. The program
gets the answers of eager where there are some; else it is refused.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any

import torch

from onnx_native import _library, _replaced, _undo

if TYPE_CHECKING:
    from onnx_native._C import Capture

# Attributes that a recorded tensor does not have as eager does.
_ATTRIBUTES = "_base _version"
# Attributes that it does not have once the program computes with gradients.
_OF_GRADIENTS = "grad_fn is_leaf requires_grad"
# What isinstance() in the user's code sees as the class of a size: isinstance(size, int) is true.
_CLASSES = ((torch.SymInt, int), (torch.SymBool, bool), (torch.SymFloat, float))
# Classes that do not know recorded tensors: isinstance(x, torch.FloatTensor).
_LEGACY = "BFloat16 Bool Byte Char Double Float Half Int Long Short"


def _is_of_user(frame: FrameType) -> bool:
    """Whether a frame runs the user's code."""
    return not frame.f_code.co_filename.startswith(_library.NOT_OF_USER)


@contextmanager
def watched(native: Capture) -> Iterator[None]:
    """Answers like eager, or refuses the program."""
    extension = _library.extension()
    is_recorded, is_node = extension.is_recorded, extension.is_recorded_node

    def attribute(name: str, is_wrong: Callable[[], bool]) -> Any:
        descriptor = getattr(torch.Tensor, name)

        def read(self: Any) -> Any:
            if is_wrong() and is_recorded(self):
                native.note_refusal(f"the program reads {name} of a Tensor")
            return descriptor.__get__(self)

        return property(read, getattr(descriptor, "__set__", None))

    def getattribute(eager: type) -> Any:
        def read(self: Any, name: str) -> Any:
            if (
                name == "__class__"
                and is_node(object.__getattribute__(self, "node"))
                and _is_of_user(sys._getframe(1))
            ):
                return eager
            return object.__getattribute__(self, name)

        return read

    changed: list[tuple[Any, str, Any]] = [
        *((torch.Tensor, name, attribute(name, lambda: True)) for name in _ATTRIBUTES.split()),
        *(
            (torch.Tensor, name, attribute(name, native.with_gradients))
            for name in _OF_GRADIENTS.split()
        ),
        *((kind, "__getattribute__", getattribute(eager)) for kind, eager in _CLASSES),
    ]
    with _replaced.attributes(changed), _known_classes():
        yield


class _Legacy(type):
    """A class in place of ``torch.FloatTensor`` or the like, which knows recorded tensors."""

    dtype: torch.dtype

    def __instancecheck__(cls, instance: Any) -> bool:
        is_tensor = isinstance(instance, torch.Tensor)
        return is_tensor and instance.dtype is cls.dtype and instance.device.type == "cpu"

    def __call__(cls, *args: Any) -> torch.Tensor:
        """Makes a tensor of elements, or of a size with any elements."""
        first = args[0] if len(args) == 1 else None
        if isinstance(first, (list, tuple)) and not isinstance(first, torch.Size):
            return torch.tensor(first, dtype=cls.dtype)
        if isinstance(first, torch.Tensor):
            if not isinstance(first, cls):
                raise TypeError(f"torch.{cls.__name__} expects a tensor of {cls.dtype}")
            return first
        return torch.empty(*(args or (0,)), dtype=cls.dtype)


@contextmanager
def _known_classes() -> Iterator[None]:
    """Gives the user's code classes such as ``torch.FloatTensor`` that know recorded tensors."""
    names = vars(torch)
    classes = {f"{kind}Tensor": names[f"{kind}Tensor"] for kind in _LEGACY.split()}
    known = {
        name: _Legacy(name, (), {"dtype": eager.dtype, "__module__": "torch"})
        for name, eager in classes.items()
    }
    lookup = names["__getattr__"]
    plain = torch.Tensor.type
    thread = threading.get_ident()

    def found(name: str) -> Any:
        if name not in classes:
            return lookup(name)
        is_ours = threading.get_ident() == thread and _is_of_user(sys._getframe(1))
        return (known if is_ours else classes)[name]

    def converted(self: Any, dtype: Any = None, *args: Any, **kwargs: Any) -> Any:
        return plain(self, getattr(dtype, "dtype", dtype), *args, **kwargs)

    def put_back() -> None:
        names.update(classes)
        names["__getattr__"] = lookup

    with _undo.at_end(put_back, of_process=True):
        names["__getattr__"] = found
        for name in classes:
            del names[name]
        with _replaced.attributes([(torch.Tensor, "type", converted)]):
            yield
