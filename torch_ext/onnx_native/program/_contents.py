"""What an ONNXProgram is made of, for the rooms of the package."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch

from onnx_native import _library
from onnx_native.program import _checkpoint, _origin, _saving, _stored_weights
from onnx_native.replay import _replay
from onnx_native.upstream import _upstream

if TYPE_CHECKING:
    import onnx
    import onnx_ir as ir

    from onnx_native._C import Program, WeightPlace
    from onnx_native.program._program import ONNXProgram

_LARGEST_MESSAGE = 2**31 - 1  # protobuf's limit, in bytes
_REST_OF_MESSAGE = 2**26  # enough for what is not weights


class ProgramContents:
    """The model, as C++ has it or as the user edits it, and what it was exported from.

    Attributes:
        native: The model as it was exported.
        origin: What it was exported from.
        is_silent: Whether the export prints nothing.
        edited: The model that takes its place, once the user has accessed it.
    """

    def __init__(self, native: Program, origin: _origin.Origin, *, is_silent: bool) -> None:
        self.native = native
        self.origin = origin
        self.is_silent = is_silent
        self.edited: ir.Model | None = None
        self._weight_type: type = type(None)
        self._numbers: dict[str, int] = {}  # of weights, by the names of initializers
        self._constants: set[str] = set()  # initializers of the model that are not weights

    def copied(self) -> ProgramContents:
        """Returns contents with the same model."""
        copied = copy.copy(self)
        copied.origin = copy.copy(self.origin)
        return copied

    def input_names(self) -> list[str]:
        """Returns the names of the model's inputs without defaults."""
        if self.edited is None:
            return self.native.input_names
        graph = self.edited.graph
        names = [str(value.name) for value in graph.inputs]
        return [name for name in names if name not in graph.initializers]

    def weight_bytes(self) -> int:
        """Returns the size of all weights in bytes."""
        if self.edited is None:
            return self.native.weight_bytes
        return _upstream.count_initializer_size(self.edited.graph)

    def is_too_large(self) -> bool:
        """Whether the model with its weights exceeds the size of a protobuf message."""
        return self.weight_bytes() > _LARGEST_MESSAGE - _REST_OF_MESSAGE

    def text(self) -> str:
        """Returns the model as text, with types instead of values for the weights."""
        return self.native.text() if self.edited is None else str(self.edited)

    def model(self) -> ir.Model:
        """Returns the edited model, or one that shares the weights of the native one."""
        return self._made() if self.edited is None else self.edited

    def _made(self) -> ir.Model:
        import onnx
        import onnx_ir as ir
        from onnx_ir.tensor_adapters import TorchTensor

        native = self.native

        class Weight(TorchTensor):
            """A weight of the program, looked up each time its elements are read."""

            def __init__(self, number: int, name: str) -> None:
                super().__init__(native.weight(number), name)
                self._number = number
                self._raw = None

            @property
            def raw(self) -> torch.Tensor:  # type: ignore[override]
                return native.weight(self._number).cpu()

        content, names = native.serialize_without_weights()
        model = ir.serde.deserialize_model(onnx.ModelProto.FromString(content))
        stored = {  # also in branches and loops
            name: value for graph in model.graphs() for name, value in graph.initializers.items()
        }
        for number, name in enumerate(names):
            stored[name].const_value = Weight(number, name)
        self._constants = model.graph.initializers.keys() - set(names)
        self._weight_type = Weight
        self._numbers = {name: number for number, name in enumerate(names)}
        return model

    @contextmanager
    def arranged_model(self, include: bool, as_inputs: bool) -> Iterator[ir.Model]:
        """The model, for a while without its weights, or with the weights as inputs."""
        model = self.model()
        with _saving.with_initializers(model.graph, include, as_inputs, kept=self._constants):
            yield model

    def proto(self) -> onnx.ModelProto:
        """Returns the model with its weights."""
        import onnx

        if self.edited is not None or self.is_too_large():
            import onnx_ir as ir

            return ir.serde.serialize_model(self.model())
        return onnx.ModelProto.FromString(self.native.serialize())

    def proto_without_weights(self) -> onnx.ModelProto:
        """Returns the model as it was exported, without its weights."""
        import onnx

        content, _ = self.native.serialize_without_weights()
        return onnx.ModelProto.FromString(content)

    def content(self, *, include_initializers: bool, keep_initializers_as_inputs: bool) -> bytes:
        """Returns the bytes that ONNXProgram.save writes, all in one file."""
        if include_initializers and not keep_initializers_as_inputs:
            return self.proto().SerializeToString()
        import onnx_ir as ir

        with self.arranged_model(include_initializers, keep_initializers_as_inputs) as model:
            return ir.serde.serialize_model(model).SerializeToString()

    def untied(self, state_dict: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Returns the values with tied weights under the names that the program uses.

        Raises:
            ValueError: Tied weights have different values.
        """
        values = dict(state_dict)
        for name, original in self.origin.tied.items():
            if name not in values:
                continue
            value = values.pop(name)
            if not torch.equal(values.setdefault(original, value), value):
                raise ValueError(
                    f"{name} is the same tensor as {original} in the program, but the new values "
                    "differ; export the module again"
                )
        return values

    def places_in(self, checkpoint: _checkpoint.Checkpoint) -> dict[str, WeightPlace]:
        """Gives the program the weights of a checkpoint; returns where those that it has are."""
        known = set(self.native.set_weights(self.untied(dict(checkpoint))))
        places = {
            self.origin.tied.get(name, name): place for name, place in checkpoint.places.items()
        }
        place_of = _library.extension().WeightPlace
        return {
            name: place_of(place.file.name, place.offset)
            for name, place in places.items()
            if name in known
        }

    def replace_edited(self, state_dict: dict[str, torch.Tensor]) -> set[str]:
        """Gives the weights of an edited model new values; returns the names that it has."""
        if self.edited is None:
            return set()
        stored = _stored_weights.of_model(self.edited, self.native)
        for name in stored.keys() & state_dict.keys():
            for initializer in stored[name]:
                self._replace(initializer, name, state_dict[name])
        return set(stored)

    def _replace(
        self, initializer: _stored_weights.Initializer, weight: str, tensor: torch.Tensor
    ) -> None:
        """Gives an initializer the new value of a weight, unless the program does."""
        from onnx_ir.tensor_adapters import TorchTensor

        value = initializer.value
        if isinstance(value.const_value, self._weight_type):
            return
        key = str(value.name)
        if key in self._numbers and len(initializer.layout.parts) == 1:
            # The model may store the weight scaled, not only in another layout.
            native = self._weight_type(self._numbers[key], key)
            if native.shape == value.shape:
                value.const_value = native
                return
        new = initializer.with_weight(weight, tensor)
        if new is not None:
            value.const_value = TorchTensor(new, key)


def of(program: ONNXProgram) -> ProgramContents:
    """Returns the contents of a program, which users do not see."""
    contents: ProgramContents = vars(program)["_contents"]
    return contents


def replay(program: ONNXProgram) -> _replay.Replay:
    """Returns the program that a model was exported from, to run call by call.

    Raises:
        ValueError: There is no captured program.
    """
    return _replay.of(of(program).origin.recorded, lambda: program.exported_program)
