"""A step of a model as an export: its inputs with their dynamic axes, and its outputs."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch.export import Dim

from onnx_native.decoders import _attention_functions
from onnx_native.together import _together

if TYPE_CHECKING:
    from onnx_native.program._program import ONNXProgram

PAST_KEY, PAST_VALUE = "past_key_values.%d.key", "past_key_values.%d.value"
PRESENT_KEY, PRESENT_VALUE = "present.%d.key", "present.%d.value"
CROSS_PAST_KEY, CROSS_PAST_VALUE = "past_key_cross_%d", "past_value_cross_%d"
CROSS_PRESENT_KEY, CROSS_PRESENT_VALUE = "present_key_cross_%d", "present_value_cross_%d"

# Sizes of the example. A present length of one or a past length of zero would make the model
# decide by them.
BATCH, SEQUENCE, PAST, SOURCE = 2, 4, 3, 5

OUTPUTS = {
    "logits": "logits",
    "present_key_names": PRESENT_KEY,
    "present_value_names": PRESENT_VALUE,
}

# Runs the forward of a model with named inputs and returns its outputs.
Run = Callable[[Callable[..., Any], dict[str, torch.Tensor]], list[torch.Tensor]]
Layers = list[tuple[torch.Tensor, torch.Tensor]]  # the keys and values of each layer


class Signature:
    """The inputs of a model with their example values and dynamic axes, and its outputs."""

    def __init__(self) -> None:
        self.inputs: dict[str, torch.Tensor] = {}
        self.axes: list[dict[int, Any]] = []
        self.outputs: list[str] = []

    def add(self, name: str, value: torch.Tensor, **axes: Any) -> None:
        """Adds an input. ``axis0=size`` makes the first axis dynamic."""
        self.inputs[name] = value
        self.axes.append({int(axis.removeprefix("axis")): size for axis, size in axes.items()})

    def add_cache(self, layers: Layers, names: tuple[str, str], length: int, **axes: Any) -> None:
        """Adds inputs for keys and values like those of ``layers``, but of another length."""
        for i, layer in enumerate(layers):
            for name, like in zip(names, layer, strict=True):
                shape = (BATCH, like.shape[1], length, like.shape[3])
                self.add(name % i, like.new_zeros(shape), **axes)

    def add_outputs(self, names: tuple[str, str], count: int) -> None:
        self.outputs += [name % i for i in range(count) for name in names]


class StepSizes:
    """The dynamic sizes of a model. Only the past may be empty; the total is past and present."""

    def __init__(self) -> None:
        self.batch = Dim("batch_size", min=1)
        self.sequence: Any = Dim("sequence_length", min=1)
        self.past = Dim("past_sequence_length")
        self.source = Dim("encoder_sequence_length", min=1)
        self.total: Any = f"{self.past.__name__} + {self.sequence.__name__}"


def _module(
    model: torch.nn.Module, names: list[str], run: Run, *, is_grouped: bool
) -> torch.nn.Module:
    """Returns a module whose argument is the list of a signature's inputs.

    It is a copy of the model that shares its weights, which keep their names.
    """
    step = copy.copy(model)

    def forward(inputs: list[torch.Tensor]) -> list[torch.Tensor]:
        named = dict(zip(names, inputs, strict=True))
        if torch.compiler.is_dynamo_compiling():  # the export around it has replaced them
            return run(model.forward, named)
        with _attention_functions.replaced(model, is_grouped=is_grouped):
            return run(model.forward, named)

    step.forward = forward
    return step


def export(
    model: torch.nn.Module,
    signature: Signature,
    run: Run,
    arguments: dict[str, Any],
    *,
    is_grouped: bool = False,
) -> ONNXProgram:
    """Exports a step of a model."""
    names = list(signature.inputs)
    with _attention_functions.replaced(model, is_grouped=is_grouped):
        return _together.export(
            _module(model, names, run, is_grouped=is_grouped),
            (list(signature.inputs.values()),),
            dynamic_shapes=[signature.axes],
            input_names=names,
            output_names=signature.outputs,
            **arguments,
        )


def logits_kept(logits: torch.Tensor, last_only: bool) -> torch.Tensor:
    return logits[:, -1:] if last_only else logits
