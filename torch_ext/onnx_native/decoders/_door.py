"""The door between what a model makes of its inputs and its language model.

A model that takes images embeds its tokens, puts features in the places of image tokens, and calls
its language model. What it passes there besides the attention mask, positions and cache is cut: it
is the output of the embedding, and the input of the decoder.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from onnx_native import _replaced
from onnx_native.decoders import _towers

EMBEDS = "inputs_embeds"
# Arguments that a decoder computes in each step.
_OF_STEP = {"attention_mask", "position_ids", "past_key_values", "use_cache", "cache_position"}


class ReachedError(Exception):
    """The program has called its language model.

    Attributes:
        arguments: The arguments of the call, by their names.
    """

    def __init__(self, arguments: dict[str, Any]) -> None:
        super().__init__("the language model was called")
        self.arguments = arguments


class Door:
    """Runs a model up to its language model, or from there on.

    Attributes:
        decoder: The language model.
        rows: The rows of positions that each token has; None: it has one position.
    """

    def __init__(self, model: Any, towers: Sequence[_towers.Tower]) -> None:
        """Finds the language model.

        Raises:
            ValueError: The model has none.
        """
        self._model = model
        self._towers = towers
        self.decoder: Any = model.get_decoder()
        self.rows = 3 if hasattr(model.base_model, "get_rope_index") else None
        if self.decoder in (model, model.base_model):
            raise ValueError(
                f"the language model of {type(model).__name__} was not found: get_decoder() "
                "returns the whole model; export its parts with onnx_native.export_many"
            )

    def passed(
        self,
        forward: Any,
        arguments: Mapping[str, Any],
        features: Mapping[str, Mapping[_towers.Path, torch.Tensor]] | None = None,
    ) -> dict[str, Any]:
        """Returns what a model passes to its language model.

        Args:
            forward: The model's forward.
            arguments: Its arguments besides those of the towers.
            features: The features by modality and place; None: no images and no sounds.
        """

        def reached(*args: Any, **kwargs: Any) -> Any:
            raise ReachedError(_bound(signature, args, kwargs))

        signature = inspect.signature(self.decoder.forward)
        if self.rows is not None:
            # The program would compute them from the sizes of images.
            ids = arguments["input_ids"]
            arguments = {**arguments, "position_ids": ids.new_zeros(self.rows, *ids.shape)}
        with self.answering(features) as examples, _method_of(self.decoder, "forward", reached):
            try:
                forward(**arguments, **examples)
            except ReachedError as error:
                return error.arguments
        raise ValueError(
            f"{type(self._model).__name__} does not call its language model, "
            f"{type(self.decoder).__name__}"
        )

    @contextlib.contextmanager
    def replaced(self, given: Mapping[str, Any]) -> Iterator[None]:
        """Gives other arguments to the language model."""
        forward = self.decoder.forward
        signature = inspect.signature(forward)

        def replacing(*args: Any, **kwargs: Any) -> Any:
            return forward(**{**_bound(signature, args, kwargs), **given})

        with _method_of(self.decoder, "forward", replacing):
            yield

    @contextlib.contextmanager
    def answering(
        self, features: Mapping[str, Mapping[_towers.Path, torch.Tensor]] | None
    ) -> Iterator[dict[str, torch.Tensor]]:
        """Makes the towers return features; yields examples of the towers' arguments."""
        examples: dict[str, torch.Tensor] = {}
        with contextlib.ExitStack() as stack:
            stack.enter_context(_towers.without_checks())  # the embedding has its own
            for tower in self._towers:
                holders = [
                    each for each in _towers.owners(self._model) if hasattr(each, tower.method)
                ]
                if not features or tower.modality not in features or not holders:
                    continue
                answer = _constantly(tower.output_with(features[tower.modality]))
                for owner in holders:
                    stack.enter_context(_method_of(owner, tower.method, answer))
                examples |= tower.inputs.tensors
            yield examples


def extras(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what a language model gets besides embeddings, mask, positions and cache."""
    return {
        name: value
        for name, value in arguments.items()
        if name not in _OF_STEP | {EMBEDS} and any(True for _ in tensors(name, value))
    }


def tensors(name: str, value: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """Yields the tensors of an argument and their names, such as ``deepstack_embeds.0``."""
    if isinstance(value, torch.Tensor):
        yield name, value
    elif isinstance(value, (list, tuple)):
        for i, each in enumerate(value):
            yield from tensors(f"{name}.{i}", each)


def rebuilt(name: str, value: Any, named: Mapping[str, torch.Tensor]) -> Any:
    """Returns an argument with other tensors, by the names of ``tensors``."""
    if isinstance(value, torch.Tensor):
        return named[name]
    if isinstance(value, (list, tuple)):
        return [rebuilt(f"{name}.{i}", each, named) for i, each in enumerate(value)]
    return value


def _bound(signature: inspect.Signature, args: Any, kwargs: Any) -> dict[str, Any]:
    bound = dict(signature.bind_partial(*args, **kwargs).arguments)
    for name, parameter in signature.parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            bound |= bound.pop(name, {})
    return bound


def _constantly(value: Any) -> Any:
    return lambda *args, **kwargs: value


def _method_of(
    module: torch.nn.Module, name: str, function: Any
) -> contextlib.AbstractContextManager[None]:
    """Replaces a method of a module for calls of this thread."""
    plain = getattr(module, name)
    return _replaced.attributes([(module, name, _replaced.in_this_thread(function, plain))])
