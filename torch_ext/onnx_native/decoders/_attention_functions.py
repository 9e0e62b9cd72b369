"""transformers' attention functions, replaced by functions that have one form at all sizes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch

from onnx_native.decoders import _group_query_attention, _scaled_dot_product, _windows

# Where a configuration keeps the name of its attention function. set_attn_implementation would also
# change the configurations of parts that have another one.
_CHOSEN = "_attn_implementation_internal"


@contextlib.contextmanager
def replaced(model: torch.nn.Module, *, is_grouped: bool) -> Iterator[None]:
    """Replaces transformers' "sdpa" attention by a function that has one form at all sizes.

    transformers' own decides by the length of the sequence, and leaves out the mask of some.
    "eager" attention has one form already, and stays unless GroupQueryAttention replaces it; only
    its windows become those of ``_windows``. The name stays "sdpa", because some models compare it.
    """
    from transformers import AttentionInterface, AttentionMaskInterface

    ours = _group_query_attention if is_grouped else _scaled_dot_product
    functions = (
        (AttentionInterface, "sdpa", ours.attention),
        (AttentionMaskInterface, "sdpa", ours.mask),
        (AttentionMaskInterface, "eager", _windows.eager_mask),
    )
    before = [(table, name, table()[name]) for table, name, _ in functions]
    configs = {id(each): each for each in map(config, model.modules())}
    eager = [each for each in configs.values() if getattr(each, _CHOSEN, None) == "eager"]
    try:
        for table, name, function in functions:
            table.register(name, function)
        for each in eager if is_grouped else []:
            setattr(each, _CHOSEN, "sdpa")
        yield
    finally:
        for table, name, function in before:
            table.register(name, function)
        for each in eager:
            setattr(each, _CHOSEN, "eager")


def config(model: torch.nn.Module) -> Any:
    """Returns the configuration of a model of transformers; None for other modules."""
    return getattr(model, "config", None)
