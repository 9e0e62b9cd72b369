"""transformers' attention functions, replaced by functions that have one form at all sizes."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch

from onnx_native import _replaced, _undo
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
    of_thread = [
        (table, name, _replaced.in_this_thread(function, table()[name]))
        for table, name, function in functions
    ]

    def register(entries: Sequence[tuple[Any, str, Any]]) -> None:
        for table, name, function in entries:
            table.register(name, function)

    with (
        _undo.at_end(functools.partial(register, before), of_process=True),
        choosing("sdpa", model.modules(), ("eager",) if is_grouped else ()),
    ):
        register(of_thread)
        yield


def choosing(
    name: str, modules: Iterable[torch.nn.Module], others: Sequence[str]
) -> contextlib.AbstractContextManager[None]:
    """Chooses an attention function for modules that have one of the others."""
    configs = {id(each): each for each in map(config, modules)}
    return _replaced.attributes(
        [
            (each, _CHOSEN, name)
            for each in configs.values()
            if getattr(each, _CHOSEN, None) in others
        ]
    )


def config(model: torch.nn.Module) -> Any:
    """Returns the configuration of a model of transformers; None for other modules."""
    return getattr(model, "config", None)
