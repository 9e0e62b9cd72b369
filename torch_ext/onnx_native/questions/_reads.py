"""Watches what a recorded program does to tensors and sizes outside of PyTorch's dispatcher."""

from __future__ import annotations

import copy
import functools
import math
import operator
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.utils.dlpack

from onnx_native import _library, _replaced
from onnx_native.numbers import _indexing
from onnx_native.questions import _assertions, _cached_calls, _handlers, _messages
from onnx_native.upstream import _upstream

if TYPE_CHECKING:
    from onnx_native._C import Capture

# What reads the memory of a tensor, or the number behind a size.
_READS: tuple[tuple[Any, str], ...] = (
    (
        torch.Tensor,
        "__array__ __dlpack__ _is_view data_ptr is_conj is_neg "
        "is_set_to numpy storage tolist untyped_storage",
    ),
    (torch.utils.dlpack, "to_dlpack"),
)
# Those that read the elements of other tensors.
_READS_ELEMENTS = ("__array__", "__dlpack__", "numpy", "to_dlpack", "tolist")
# Those whose result is a copy, if the elements are known.
_COPIES_ELEMENTS = ("__array__", "numpy", "tolist")
_MOST_ITEMS = 16
# In a recording whose loops run a few times: the steps may have lists of their own.
_MOST_ITEMS_OF_STEPS = 320
_MATH_FUNCTIONS = ("round", "sqrt", "sym_sqrt", "trunc")
# What PyTorch looks for to tell its own symbolic numbers from others.
_FIELDS_OF_TORCH_EXPORT = ("constant", "expr", "fx_node", "hint", "pytype", "shape_env")


@contextmanager
def watched(native: Capture, notes: list[str]) -> Iterator[None]:
    """Refuses programs that try to read elements. The program may catch the exception.

    Numbers that the program reads from tensors become symbols of the recording. Calls that fail for
    some elements are no refusals: `notes` gets those whose exceptions the program may catch.
    """
    new: list[tuple[Any, str, Any]] = []
    for kind, names in _READS:
        for name in names.split():
            new.append((kind, name, _noting(native, getattr(kind, name), name)))
    tensor: Any = torch.Tensor
    extension = _library.extension()
    getitem, setitem = tensor.__getitem__, tensor.__setitem__
    item, data, truth = tensor.item, tensor.data, tensor.__bool__
    is_recorded, plain_round = extension.is_recorded, torch.SymInt.__round__
    plain_hash, plain_equal = torch.SymInt.__hash__, torch.equal
    plain_narrow, plain_set, plain_deepcopy = tensor.narrow, tensor.set_, tensor.__deepcopy__
    plain_reduce = _noting(native, tensor.__reduce_ex__, "__reduce_ex__")
    thread = threading.get_ident()

    def replace_data(self: Any, to: Any) -> None:
        if threading.get_ident() != thread:
            data.__set__(self, to)
        elif to is not self:
            native.replace(self, to)

    def replace_memory(self: Any, *source: Any, **named: Any) -> Any:
        if threading.get_ident() != thread or not is_recorded(self):
            return plain_set(self, *source, **named)
        contents = source[0] if source else named.get("source")
        if len(source) + len(named) != 1 or not isinstance(contents, torch.Tensor):
            native.note_refusal("the program calls set_ of a Tensor with a storage or with sizes")
            return self
        native.replace(self, contents)
        return self

    def deep_copied(self: Any, memo: dict[Any, Any]) -> Any:
        if threading.get_ident() != thread or not is_recorded(self):
            return plain_deepcopy(self, memo)
        if id(self) in memo:
            return memo[id(self)]
        memory = ("memory of a recorded tensor", extension.memory_of(self))
        if native.with_gradients() or memory in memo:
            native.note_refusal("the program calls __deepcopy__ of a Tensor")
        memo[memory] = self
        copied = memo[id(self)] = native.deep_copy(self)
        copied.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return copied

    def reduced(self: Any, protocol: Any) -> Any:
        recorded = threading.get_ident() == thread and is_recorded(self)
        is_copy = recorded and sys._getframe(1).f_code is copy.copy.__code__
        if not is_copy or native.with_gradients():
            return plain_reduce(self, protocol)
        return shallow_copied, (self,)

    def shallow_copied(self: Any) -> Any:
        copied = self.detach()  # shares the memory, as in eager
        copied.__dict__.update(self.__dict__)
        return copied

    def read_data(self: Any) -> Any:
        contents = data.__get__(self)
        if threading.get_ident() == thread:
            native.note_alias(contents)
        return contents

    def read_item(self: Any) -> Any:
        plain = type(self) in (torch.Tensor, torch.nn.Parameter)
        return native.item(self) if plain and threading.get_ident() == thread else item(self)

    def is_true(self: Any) -> bool:
        if threading.get_ident() == thread and is_recorded(self) and self.dim() == 0:
            asking = sys._getframe(1)
            answer = _assertions.expected(asking)
            holds = answer is not None and native.varies(self)
            if holds and not _handlers.may_catch(asking, AssertionError):
                return bool(answer)
        return bool(truth(self))

    def get(self: Any, index: Any) -> Any:
        if threading.get_ident() != thread:
            return getitem(self, index)
        return _indexing.get(getitem, self, index)

    def put(self: Any, index: Any, to: Any) -> None:
        if threading.get_ident() != thread:
            setitem(self, index, to)
        else:
            _indexing.put(getitem, setitem, self, index, to)

    def narrow(input: Any, dim: Any, start: Any, length: Any) -> Any:
        if threading.get_ident() != thread:
            return plain_narrow(input, dim, start, length)
        return _indexing.narrow(plain_narrow, input, dim, start, length)

    def equal(input: Any, other: Any) -> Any:
        has_recorded = is_recorded(input) or is_recorded(other)
        if threading.get_ident() != thread or not has_recorded or input.dtype != other.dtype:
            return plain_equal(input, other)
        if input is other:
            return True
        return input.shape == other.shape and bool((input == other).all())

    def hashed(self: Any) -> Any:
        recorded = threading.get_ident() == thread and is_recorded(self)
        # Libraries such as einops catch the TypeError and call the function without its cache.
        if recorded and not _cached_calls.is_made_by(sys._getframe(1)):
            native.note_refusal("the program calls __hash__ of a SymInt")
        return plain_hash(self)

    def rounded(self: Any, digits: Any = None) -> Any:
        if digits is not None and digits < 0 and is_recorded(self):
            native.note_refusal("the program rounds a size to tens")
        return plain_round(self, digits)

    def missing(self: Any, name: str) -> Any:
        if name == "abs":
            return lambda: self.sym_max(self.neg())
        if name == "is_integer":
            return lambda: self.eq(self.floor().sym_float())
        if name in _MATH_FUNCTIONS:
            return lambda digits=None: _computed(native, self, name, digits)
        if not name.startswith("_") and name not in _FIELDS_OF_TORCH_EXPORT:
            native.note_refusal(f"the program calls {name} of a symbolic number")
        raise AttributeError(f"a number of a native capture has no attribute {name!r}")

    new += [
        (_upstream.SymNode, "__getattr__", missing),
        (torch.SymInt, "__repr__", _showing(torch.SymInt.__repr__, extension.text_of_size)),
        (tensor, "__repr__", _showing(tensor.__repr__, _text_of_tensor)),
        (tensor, "__format__", _showing(tensor.__format__, _text_of_tensor)),
        (torch.SymInt, "__hash__", hashed),
        (torch.SymInt, "__round__", rounded),
        (tensor, "data", property(read_data, replace_data)),
        (tensor, "set_", functools.wraps(plain_set)(replace_memory)),
        (tensor, "__deepcopy__", functools.wraps(plain_deepcopy)(deep_copied)),
        (tensor, "__reduce_ex__", functools.wraps(tensor.__reduce_ex__)(reduced)),
        (tensor, "__bool__", is_true),
        (tensor, "item", functools.wraps(item)(read_item)),
        (tensor, "__getitem__", functools.wraps(getitem)(get)),
        (tensor, "__setitem__", functools.wraps(setitem)(put)),
        (tensor, "equal", functools.wraps(tensor.equal)(equal)),
        (torch, "equal", functools.wraps(torch.equal)(equal)),
        (tensor, "narrow", functools.wraps(plain_narrow)(narrow)),
        (torch, "narrow", functools.wraps(torch.narrow)(narrow)),
    ]
    with _replaced.attributes(new):
        yield
    notes += _handlers.warnings(native.lines())


def _noting(native: Capture, method: Any, name: str) -> Callable[..., Any]:
    """The method, which refuses the recording if it is called in this thread."""
    is_recorded = _library.extension().is_recorded
    thread = threading.get_ident()

    @functools.wraps(method)
    def read(self: Any, *args: Any, **kwargs: Any) -> Any:
        if threading.get_ident() == thread:
            shares_memory = name != "tolist"
            if is_recorded(self):
                if name in _COPIES_ELEMENTS and not native.varies(self):
                    with _upstream.unrecorded():
                        return _read_only(
                            method(native.elements(self, shares_memory), *args, **kwargs)
                        )
                if name == "tolist" and _has_few_items(native, self):
                    return _items(self)
                native.note_refusal(f"the program calls {name} of a {type(self).__name__}")
            elif name in _READS_ELEMENTS and isinstance(self, torch.Tensor):
                elements = native.elements(self, shares_memory)
                if name in _COPIES_ELEMENTS:
                    with _upstream.unrecorded():
                        return _read_only(method(elements, *args, **kwargs))
        return method(self, *args, **kwargs)

    return read


def _read_only(elements: Any) -> Any:
    """The elements; writes to an array would be lost."""
    if isinstance(elements, np.ndarray):
        elements.flags.writeable = False
    return elements


def _has_few_items(native: Capture, tensor: Any) -> bool:
    """Whether the tensor may be a list of sizes."""
    if tensor.dtype not in (torch.int32, torch.int64):
        return False
    if any(type(size) is torch.SymInt for size in tensor.shape):
        return True  # as many as a loop has steps
    # operator.index() makes a plain integer, whose comparison is none of the program.
    sizes = [
        operator.index(n) if isinstance(n, int) else native.sizes.example(n) for n in tensor.shape
    ]
    known = [size for size in sizes if size is not None]
    most = _MOST_ITEMS_OF_STEPS if native.sizes.counts() else _MOST_ITEMS
    return len(known) == len(sizes) and math.prod(known) <= most


def _items(tensor: Any) -> Any:
    """Nested lists of the numbers in a tensor."""
    return [_items(part) for part in tensor.unbind(0)] if tensor.dim() else tensor.item()


def _computed(native: Capture, node: Any, function: str, digits: Any) -> Any:
    """A function of a symbolic number, as a node."""
    if digits is not None:
        native.note_refusal("the program rounds a symbolic number to digits")
    return native.sizes.math_function(function.removeprefix("sym_"), node)


def _showing(plain: Any, text_of: Callable[[Any], str]) -> Callable[..., str]:
    """The text of a value of the recording, which has no number, where it is only shown."""
    is_recorded = _library.extension().is_recorded
    thread = threading.get_ident()

    @functools.wraps(plain)
    def text(self: Any, *args: Any, **kwargs: Any) -> str:
        recorded = threading.get_ident() == thread and is_recorded(self)
        if recorded and _messages.is_only_shown(sys._getframe(1)):
            return text_of(self)
        result: str = plain(self, *args, **kwargs)
        return result

    return text


def _text_of_tensor(tensor: Any) -> str:
    extension = _library.extension()
    sizes = [str(n) if isinstance(n, int) else extension.text_of_size(n) for n in tensor.shape]
    return f"tensor(..., size=({', '.join(sizes)}), dtype={tensor.dtype})"
