"""Towers in the forward of a model, which has no method for their features.

The forward ends them by putting features in the places of tokens, with `masked_scatter`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from onnx_native.decoders import _tower_inputs, _towers


@dataclasses.dataclass
class InlineTower(_towers.Tower):
    """A tower in the forward of its owner."""

    token: int = 0

    def run(self, inputs: Mapping[str, torch.Tensor]) -> Any:
        return _run(self.owner, self.token, inputs)

    def merged(
        self, ids: torch.Tensor, embeds: torch.Tensor, features: Mapping[_towers.Path, torch.Tensor]
    ) -> torch.Tensor:
        """Puts features in the places of tokens."""
        return embeds.masked_scatter((ids == self.token)[..., None], *features.values())

    def program_merges(self) -> bool:
        """Returns whether the program merges its features in the same way."""
        [features] = dict(_towers.units(self.output)).values()
        rows = features.shape[:-1].numel()
        ids = _ids(self.token, rows, features.device)
        owner: Any = self.owner
        with torch.no_grad():
            with contextlib.suppress(_MergedError), _Catching(merges=True) as caught:
                _forward(owner, ids, self.inputs.tensors)
            merged = self.merged(ids, owner.get_input_embeddings()(ids), {(): features})
        return caught.merged is not None and _towers.are_close(merged, caught.merged)


def find(model: Any, modality: str, given: Sequence[Mapping[str, Any]]) -> InlineTower | None:
    """Returns the tower of a modality; None: the model has none.

    Raises:
        ValueError: No examples of its arguments are known, or given.
    """
    decoder = model.get_decoder()
    is_whole = any(decoder is each for each in _towers.owners(model))
    text = {} if is_whole else inspect.signature(decoder.forward).parameters
    every = inspect.signature(model.forward).parameters
    parameters = {name: each for name, each in every.items() if name not in text}
    if not any(name in parameters for name in _tower_inputs.mains(modality)):
        return None
    if given and not any(name in given[0] for name in _tower_inputs.mains(modality)):
        return None
    token = _towers.token(model, modality)

    def run(inputs: Mapping[str, torch.Tensor]) -> Any:
        return _run(model, token, inputs)

    inputs = _tower_inputs.find(model, modality, parameters, run, given)
    if inputs is None:
        return None
    tower = InlineTower(modality, model, inputs, run(inputs.tensors), [], token=token)
    if not tower.program_merges():
        raise ValueError(
            f"{type(model).__name__} has no {_towers.method_of(modality)}, and its forward puts "
            "features elsewhere than in the places of tokens; inputs={} exports its texts alone"
        )
    return tower


class _MergedError(Exception):
    """The program has merged features."""


class _Catching(TorchFunctionMode):
    """Stops a program where it merges features.

    Attributes:
        features: The features.
        merged: The embeddings with them.
    """

    def __init__(self, *, merges: bool = False) -> None:
        super().__init__()
        self._merges = merges
        self.features: torch.Tensor | None = None
        self.merged: torch.Tensor | None = None

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if function is not torch.Tensor.masked_scatter:
            return function(*args, **(kwargs or {}))
        self.features = args[2]
        if self._merges:
            self.merged = function(*args)
        raise _MergedError


def _run(model: Any, token: int, inputs: Mapping[str, torch.Tensor]) -> dict[str, Any]:
    device = next(iter(inputs.values())).device
    with _towers.without_checks(), contextlib.suppress(_MergedError), _Catching() as caught:
        _forward(model, _ids(token, 2, device), inputs)
    if caught.features is None:
        raise ValueError(f"{type(model).__name__} does not merge features with masked_scatter")
    return {"pooler_output": caught.features}


def _forward(model: Any, ids: torch.Tensor, inputs: Mapping[str, torch.Tensor]) -> None:
    model(input_ids=ids, attention_mask=torch.ones_like(ids), use_cache=False, **inputs)


def _ids(token: int, count: int, device: torch.device) -> torch.Tensor:
    return torch.full((1, count), token, device=device)
