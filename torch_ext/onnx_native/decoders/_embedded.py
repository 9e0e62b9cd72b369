"""A decoder that takes embeddings in place of tokens."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch.export import Dim

from onnx_native.decoders import _door, _kept_tensors, _steps, _windows
from onnx_native.upstream import _upstream

# Arguments that tell which tokens are those of images.
_TYPES = ("token_type_ids", "mm_token_type_ids")


class Embedded:
    """What a decoder takes in place of tokens.

    Attributes:
        rows: The rows of positions that each token has; None: it has one position.
        types: The argument that tells the tokens of images from others; None: the decoder treats
            them all alike.
    """

    def __init__(
        self,
        model: Any,
        door: _door.Door,
        text: int,
        absent: Mapping[str, Any],
        examples: tuple[Mapping[str, Any], Mapping[str, Any]],
    ) -> None:
        """Finds out what a language model takes.

        Args:
            model: The model.
            door: Its language model.
            text: A token that does not stand for a part of an image.
            absent: Features of no image, see ``Door.passed``.
            examples: What it gets for two inputs of different sizes.
        """
        self._model = model
        self._door = door
        self._text = text
        self._absent = absent
        self._embeds = examples[0][_door.EMBEDS]
        self._extras = _door.extras(examples[0])
        self._axes = _axes(*examples)
        self.rows = door.rows
        self._broadcasts = False
        self._masks, self._selected = self._selections(examples)
        self.types = self._types()
        positions = examples[0].get("position_ids")
        self._offset = 0
        if isinstance(positions, torch.Tensor) and positions.ndim == 2:
            self._offset = int(positions.min())  # some programs count from 1

    def _selections(self, examples: tuple[Mapping[str, Any], ...]) -> tuple[list[str], list[str]]:
        """Returns the masks of image tokens, and what has a row for each of them."""
        selected = [name for name, axes in self._axes.items() if "rows" in axes.values()]
        every = [_named(_door.extras(each)) for each in examples]

        def selects(mask: str) -> bool:
            return all(
                int(each[mask].sum()) == each[row].shape[0] for each in every for row in selected
            )

        masks = [
            name for name, value in every[0].items() if value.dtype is torch.bool and selects(name)
        ]
        return masks, selected

    def _types(self) -> str | None:
        """Finds the argument by comparing masks with it and without it."""
        ids = torch.full((2, 5), self._text, device=self._embeds.device)
        arguments = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "use_cache": False}
        types = torch.zeros_like(ids)
        types[:, 1:3] = 1

        def masks(given: Mapping[str, Any]) -> dict[str, torch.Tensor]:
            passed = self._door.passed(self._model.forward, given, self._absent)
            return dict(_tensors(passed["attention_mask"]))

        for name in _TYPES:
            if not _kept_tensors.takes(self._model, name):
                continue
            with torch.no_grad():
                found, others = masks(arguments), masks(arguments | {name: types})
                if _are_equal(found, others):
                    continue
                with contextlib.suppress(Exception), _windows.broadcasting():
                    self._broadcasts = _are_equal(others, masks(arguments | {name: types}))
                return name
        return None

    @property
    def takes_embeddings_alone(self) -> bool:
        """Whether the decoder takes nothing else of the embedding, and no types of tokens."""
        return not self._extras and self.types is None

    @property
    def length(self) -> int:
        """The length of the example."""
        return self._embeds.shape[1]

    def add_inputs(self, signature: _steps.Signature, sizes: _steps.StepSizes) -> None:
        """Adds the inputs for the new tokens besides their mask and positions."""
        known = {"batch": sizes.batch, "sequence": sizes.sequence, "rows": Dim("num_image_tokens")}

        def add(name: str, value: torch.Tensor, axes: Mapping[int, str]) -> None:
            named = {f"axis{axis}": known[size] for axis, size in axes.items()}
            signature.add(name, value.detach().clone(), **named)

        add(_door.EMBEDS, self._embeds, {0: "batch", 1: "sequence"})
        if self.types is not None:
            kinds = torch.zeros(self._embeds.shape[0], _steps.PAST + self.length)
            kinds = kinds.to(self._embeds.device, torch.int64)
            signature.add(self.types, kinds, axis0=sizes.batch, axis1=sizes.total)
        for name, value in _named(self._extras).items():
            add(name, value, self._axes[name])

    def entered(
        self, forward: Callable[..., Any], inputs: dict[str, torch.Tensor]
    ) -> Callable[..., Any]:
        """Takes embeddings out of the inputs of a step, and puts tokens in their place.

        Returns:
            A function that runs the model with the tokens; its language model gets the embeddings.
        """
        embeds = inputs.pop(_door.EMBEDS)
        named = {name: inputs.pop(name) for name in _named(self._extras)}
        for mask in self._masks:
            for name in self._selected:
                _upstream.check(named[mask].nonzero().shape[0] == named[name].shape[0])
        given = {key: _door.rebuilt(key, value, named) for key, value in self._extras.items()} | {
            _door.EMBEDS: embeds
        }
        inputs["input_ids"] = torch.full_like(embeds[..., 0], self._text, dtype=torch.int64)
        if "position_ids" in inputs and self._offset:
            inputs["position_ids"] = inputs["position_ids"] + self._offset

        def run(**arguments: Any) -> Any:
            with self._door.replaced(given):
                if self.types is None:
                    return forward(**arguments)
                # Some programs look at these only where there are images.
                broadcasting = _windows.broadcasting if self._broadcasts else contextlib.nullcontext
                with self._door.answering(self._absent) as examples, broadcasting():
                    return forward(**arguments, **examples)

        return run


def _named(extras: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    return dict(each for key, value in extras.items() for each in _door.tensors(key, value))


def _axes(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, dict[int, str]]:
    """Returns the dynamic axes of what a language model gets, as ``SIZES`` tells them."""
    embeds = (first[_door.EMBEDS].shape, second[_door.EMBEDS].shape)
    kinds = {
        (embeds[0][0], embeds[1][0]): "batch",
        (embeds[0][1], embeds[1][1]): "sequence",
    }
    axes: dict[str, dict[int, str]] = {}
    for key, value in _door.extras(first).items():
        others = dict(_door.tensors(key, second[key]))
        for name, tensor in _door.tensors(key, value):
            pairs = enumerate(zip(tensor.shape, others[name].shape, strict=True))
            changed = {axis: pair for axis, pair in pairs if pair[0] != pair[1]}
            axes[name] = {axis: kinds.get(pair, "rows") for axis, pair in changed.items()}
    return axes


def _are_equal(masks: Mapping[str, torch.Tensor], others: Mapping[str, torch.Tensor]) -> bool:
    return all(torch.equal(mask, others[key]) for key, mask in masks.items())


def _tensors(masks: Any) -> Iterator[tuple[str, torch.Tensor]]:
    if isinstance(masks, dict):
        for key, value in masks.items():
            yield from _door.tensors(key, value)
    else:
        yield from _door.tensors("attention_mask", masks)
