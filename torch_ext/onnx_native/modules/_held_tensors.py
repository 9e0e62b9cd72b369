"""The tensors that a module holds, whose elements an export must leave as they are.

A parameter is copied only if a run writes to it: weights are never held twice. A dispatch mode sees
the operator before it runs, wherever it is called from: Python, a script or a composite operator.
Other tensors are copied before.
"""

from __future__ import annotations

import collections
import functools
import itertools
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
import torch

from onnx_native import _undo, _warnings
from onnx_native.modules import _containers, _subclasses, _uninitialized
from onnx_native.upstream import _upstream

# What most containers have, and what are no tensors: containers come by themselves.
_OTHERS = frozenset((int, float, bool, str, type(None), dict, list, collections.OrderedDict))


class HeldTensors:
    """Tensors and arrays with what they were when this was made; with elements unless told not."""

    def __init__(
        self, model: Any, contents: Iterable[_containers.Contents], *, elements: bool = True
    ) -> None:
        self._has_elements = elements
        self._tensors: dict[int, _Tensor] = {}
        self._arrays: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        self._storages: dict[int, _Storage] = {}
        with torch.no_grad():
            if elements and isinstance(model, torch.nn.Module):  # else the contents have them all
                named = itertools.chain(model.named_parameters(), model.named_buffers())
                for name, tensor in named:
                    self._add(name, tensor)
            for each in contents:
                for key, value in each.was.items():
                    if type(value) not in _OTHERS:
                        self._add_value(str(key), value)

    @contextmanager
    def kept(self, *, is_eager: bool = True) -> Iterator[None]:
        """Gives the tensors their elements and the rest back at the end of a block.

        A warning names parameters that change unseen: through NumPy, or where the block is not a
        run in eager but a capture, which may not have the mode.
        """
        sums = {key: each.sum() for key, each in self._storages.items() if each.saved is None}

        def put_back() -> None:
            self.restore_rest()
            lost = []
            for key, storage in self._storages.items():
                if storage.saved is not None:
                    storage.restore()
                elif key in sums and storage.sum() != sums[key]:
                    lost.append(storage.name)
            if lost:
                _warnings.warn(
                    f"the module writes to {', '.join(lost)} through NumPy or other code that "
                    "PyTorch does not see, so that a run for the export has changed the elements"
                )

        mode = _HiddenSaving if _upstream.is_compiler_imported() else _Saving
        with _undo.at_end(put_back), mode(self._storages) if is_eager else nullcontext():
            yield

    def restore_rest(self) -> None:
        """Gives the tensors back what they had besides elements, and arrays their elements."""
        for tensor in self._tensors.values():
            tensor.restore()
        self.restore_arrays()

    def restore_arrays(self) -> None:
        """Gives NumPy's arrays their elements back."""
        for array, elements in self._arrays.values():
            if array.shape != elements.shape:
                array.resize(elements.shape, refcheck=False)
            if array.flags.writeable:
                array[...] = elements

    def restore_gradients(self) -> None:
        for tensor in self._tensors.values():
            tensor.restore_gradient()

    def _add_value(self, name: str, value: Any) -> None:
        if isinstance(value, torch.Tensor):
            self._add(name, value)
        elif isinstance(value, (tuple, frozenset)):
            for leaf in _containers.leaves(value):
                if isinstance(leaf, (torch.Tensor, np.ndarray)):
                    self._add_value(name, leaf)
        elif isinstance(value, np.ndarray) and value.dtype != object:
            self._arrays.setdefault(id(value), (value, value.copy()))

    def _add(self, name: str, value: torch.Tensor) -> None:
        if id(value) in self._tensors or _lacks_memory(value):
            return
        self._tensors[id(value)] = _Tensor(value)
        if not self._has_elements and type(value) in (torch.Tensor, torch.nn.Parameter):
            return
        for _, tensor in _subclasses.plain_tensors(name, value):
            self._tensors.setdefault(id(tensor), _Tensor(tensor))
            if not self._has_elements:
                continue
            for memory in _memory(tensor):
                storage = memory.untyped_storage()
                if storage.nbytes():
                    held = self._storages.setdefault(storage.data_ptr(), _Storage(name, storage))
                    if not isinstance(value, torch.nn.Parameter):
                        held.save()


class _Tensor:
    """A tensor, and what it had besides elements."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self._tensor = tensor
        # A subclass may lack the operators; the plain tensors in it are held too.
        self._alias = None
        if type(tensor).__torch_dispatch__ is _PLAIN:
            self._alias = tensor.detach()
        self._needs_grad = tensor.requires_grad
        self._grad = tensor.grad if tensor.is_leaf else None

    def restore(self) -> None:
        tensor = self._tensor
        if tensor.requires_grad != self._needs_grad:
            if not tensor.is_leaf:
                tensor.detach_()
            tensor.requires_grad_(self._needs_grad)
        alias = self._alias
        if (
            alias is not None
            and tensor.layout is torch.strided
            and not (tensor.dtype is alias.dtype and _is_set_to(tensor, alias))
        ):
            tensor.data = alias
        self.restore_gradient()

    def restore_gradient(self) -> None:
        if self._tensor.is_leaf and self._tensor.grad is not self._grad:
            self._tensor.grad = self._grad


def _is_set_to(tensor: torch.Tensor, other: torch.Tensor) -> bool:
    """As ``tensor.is_set_to(other)``, for which some devices copy the elements."""
    if tensor.device.type == "cpu":
        return tensor.is_set_to(other)
    first, second = (
        (x.untyped_storage().data_ptr(), x.storage_offset(), x.shape, x.stride())
        for x in (tensor, other)
    )
    return first == second


class _Storage:
    """Memory of tensors.

    Attributes:
        name: The name of a tensor that lies there.
        saved: The elements that it had, once they are copied.
    """

    def __init__(self, name: str, storage: torch.UntypedStorage) -> None:
        self.name = name
        self.saved: torch.UntypedStorage | None = None
        self._storage = storage

    def save(self) -> None:
        if self.saved is None:
            self.saved = self._storage.clone()

    def restore(self) -> None:
        assert self.saved is not None
        if self._storage.nbytes() != self.saved.nbytes():
            self._storage.resize_(self.saved.nbytes())
        self._storage.copy_(self.saved)

    def sum(self) -> int:
        """A number that differs after most changes of the elements."""
        elements = torch.empty(0, dtype=torch.uint8, device=self._storage.device)
        elements.set_(self._storage)  # type: ignore[call-overload]
        count = elements.numel() // 8 * 8
        words, rest = elements[:count].view(torch.int64), elements[count:]
        return int(words.sum()) + int(rest.sum())


# Its kernel calls operators that autocast has rules for.
_CALLS_OTHERS = (torch.ops.aten._transformer_encoder_layer_fwd.default,)
_PLAIN = torch.Tensor.__torch_dispatch__


class _Saving(_upstream.TorchDispatchMode):  # type: ignore[misc]
    """Saves the elements of storages before an operator writes to them; fills empty ones."""

    supports_higher_order_operators = True

    def __init__(self, storages: dict[int, _Storage]) -> None:
        super().__init__()
        self._storages = storages

    @classmethod
    def is_infra_mode(cls) -> bool:
        """Whether PyTorch's compiler need not know of the mode."""
        return True

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Whether to hide the mode from TorchDynamo, which imports it: that takes seconds."""
        return False

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if any(kind.__torch_dispatch__ is not _PLAIN for kind in types):
            return NotImplemented  # the subclass runs operators on plain tensors, which come here
        kwargs = kwargs or {}
        if isinstance(function, _upstream.OpOverload):
            for place, name in _written(function):
                value = args[place] if place < len(args) else kwargs.get(name)
                for tensor in value if isinstance(value, (list, tuple)) else [value]:
                    self._save(tensor)
            if function.namespace != "aten" or function in _CALLS_OTHERS:
                with _upstream.autocast_of_caller():
                    return function(*args, **kwargs)
        return _uninitialized.zeros_for(function, function(*args, **kwargs))

    def _save(self, value: Any) -> None:
        if not isinstance(value, torch.Tensor) or _lacks_memory(value):
            return
        for memory in _memory(value):
            held = self._storages.get(memory.untyped_storage().data_ptr())
            if held is not None:
                held.save()


class _HiddenSaving(_Saving):
    """The same for programs that TorchDynamo may compile: it must not compile the mode too."""

    __torch_dispatch__ = _Saving.__torch_dispatch__

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return True


@functools.cache
def _written(function: Any) -> list[tuple[int, str]]:
    """The arguments that an operator writes to: (place, name)."""
    schema = _upstream.schema(function)
    # Older operators do not declare that they update the statistics.
    is_undeclared = "batch_norm" in schema.name
    return [
        (place, argument.name)
        for place, argument in enumerate(schema.arguments)
        if (argument.alias_info is not None and argument.alias_info.is_write)
        or (is_undeclared and argument.name.startswith("running_"))
    ]


def _memory(tensor: torch.Tensor) -> list[torch.Tensor]:
    """The tensors in whose memory the elements of a plain tensor are."""
    if tensor.layout is torch.strided:
        return [tensor]
    if tensor.layout is torch.sparse_coo:
        return [tensor.detach().indices(), tensor.detach().values()]
    if tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        return [tensor.crow_indices(), tensor.col_indices(), tensor.values()]
    if tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
        return [tensor.ccol_indices(), tensor.row_indices(), tensor.values()]
    return []  # of a library, such as MKL-DNN, and without a way to its memory


def _lacks_memory(tensor: torch.Tensor) -> bool:
    return tensor.is_meta or _upstream.is_fake(tensor) or torch.nn.parameter.is_lazy(tensor)
