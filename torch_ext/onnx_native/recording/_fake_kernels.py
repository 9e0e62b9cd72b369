"""Fake kernels of custom operators in a native capture.

PyTorch refuses sizes that depend on data where it runs a fake kernel on other than fake tensors.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

from onnx_native import _replaced
from onnx_native.upstream import _upstream

if TYPE_CHECKING:
    from onnx_native._C import Capture


class _Context:
    """What ``torch.library.get_ctx()`` returns in a fake kernel."""

    def __init__(self, native: Capture) -> None:
        self._native = native

    def new_dynamic_size(self, *, min: int = 0, max: int | None = None) -> int | torch.SymInt:
        """Returns a size that depends on data; the bounds are inclusive."""
        if isinstance(min, torch.SymInt) or isinstance(max, torch.SymInt):
            raise ValueError("the bounds of a size that depends on data must be numbers")
        if min < 0 or (max is not None and max < min):
            raise ValueError(f"wrong bounds of a size that depends on data: {min}, {max}")
        return self._native.sizes.add(min, max)

    def create_unbacked_symint(self, *, min: int = 2, max: int | None = None) -> int | torch.SymInt:
        """The former name of ``new_dynamic_size``."""
        return self.new_dynamic_size(min=min, max=max)


@contextmanager
def recorded(native: Capture) -> Iterator[None]:
    """Gives fake kernels in this thread a context that makes sizes of the recording."""
    thread = threading.get_ident()
    context = _Context(native)
    plain = _upstream.fake_impl.set_ctx_getter

    def set_getter(getter: Callable[[], Any]) -> Any:
        ours = threading.get_ident() == thread and native.runs_fake_kernel()
        return plain((lambda: context) if ours else getter)

    with _replaced.attributes([(_upstream.fake_impl, "set_ctx_getter", set_getter)]):
        yield
