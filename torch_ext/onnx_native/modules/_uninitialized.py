"""Memory that operators leave as it was: `torch.empty` and the like.

A model has zeros there, and so have the runs that it is compared with: else each of them has other
elements.
"""

from __future__ import annotations

import functools
from typing import Any

import torch

from onnx_native import _library
from onnx_native.upstream import _upstream


def zeros_for(function: Any, result: Any) -> Any:
    """Returns the result of an operator; if it has no particular elements, these become 0."""
    is_operator = isinstance(function, _upstream.OpOverload)  # only these are remembered
    is_empty = is_operator and _is_uninitialized(function)
    if is_empty and result.layout is torch.strided and not result.is_meta:
        result.untyped_storage().fill_(0)
    return result


@functools.cache
def _is_uninitialized(function: Any) -> bool:
    return _upstream.schema(function).name in _library.extension().uninitialized_operators()
