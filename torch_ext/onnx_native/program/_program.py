"""The result of a native export."""

from __future__ import annotations

import os
import pathlib
import tempfile
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch.export.graph_signature import ConstantArgument, InputKind

from onnx_native import _warnings
from onnx_native.modules import _eager
from onnx_native.program import _checkpoint, _saving, _stored_weights
from onnx_native.replay import _replay
from onnx_native.upstream import _upstream

if TYPE_CHECKING:
    import onnx
    import onnx_ir as ir
    import onnxruntime as ort

    from onnx_native._C import Program

# ONNX numbers of the element types that NumPy does not have.
_ONNX_TYPES = {
    torch.bfloat16: 16,
    torch.float8_e4m3fn: 17,
    torch.float8_e4m3fnuz: 18,
    torch.float8_e5m2: 19,
    torch.float8_e5m2fnuz: 20,
}


_LARGEST_MESSAGE = 2**31 - 1  # protobuf's limit, in bytes
_REST_OF_MESSAGE = 2**26  # enough for what is not weights


class ONNXProgram(torch.onnx.ONNXProgram):
    """An exported program, saved and run natively until ``model`` is first accessed.

    The first access creates ``model``, which shares the program's weights. From then on the program
    saves and runs ``model``, so edits to it take effect.

    Attributes:
        exported_program: The program as torch.export captures it, on demand if it was captured
            natively; None for TorchScript.
        export_report: Seconds per stage, counts of ATen operators and nodes, warnings.
        initial_state: The values that the state buffers had at the export, by the names of their
            inputs. See docs/state.md.
        state: The values that calls pass to those inputs; initially ``initial_state``.
        state_outputs: For each input that the program updates, the output with its new value.
    """

    def __init__(
        self,
        native: Program,
        exported_program: torch.export.ExportedProgram | None,
        flatten: Callable[[Any, Any], Sequence[Any]] | None = None,
        tied: dict[str, str] | None = None,
        capture: Callable[[], torch.export.ExportedProgram] | None = None,
    ) -> None:
        # Not super().__init__(): it takes a model.
        self._native = native
        self._model: ir.Model | None = None
        self._weight_type: type = type(None)
        self._numbers: dict[str, int] = {}  # of weights, by the names of initializers
        self._constants: set[str] = set()  # initializers of the model that are not weights
        self._exported_program = exported_program
        self._capture = capture  # makes the exported program on demand
        self._flatten = flatten  # maps (args, kwargs) to the inputs if there is no captured program
        self.export_report: dict[str, Any] = native.report()
        self.initial_state: dict[str, torch.Tensor] = {}
        self.state_outputs: dict[str, str] = {}
        for each in native.state():
            self.state_outputs[each.input] = each.output
            if each.initial is not None:
                self.initial_state[each.input] = each.initial.detach().clone()
        self.state: dict[str, torch.Tensor] = self.initial_state
        self._tied = (tied or {}) if exported_program is None else _tied(exported_program)
        self._inference_session: ort.InferenceSession | None = None
        self._tempdir: tempfile.TemporaryDirectory | None = None
        self._capture_strategy: str | None = None
        self._arrange: Callable[[Any, Any], tuple[Any, Any]] | None = None
        # If torch.export did not capture the program:
        self.eager: _eager.Eager | None = None
        self.recorded: Callable[[], _replay.Replay] | None = None  # records it again
        self.is_silent = False

    def __copy__(self) -> ONNXProgram:
        """Returns a program that shares this one's weights and model."""
        copied = ONNXProgram.__new__(ONNXProgram)
        own = {"_inference_session": None, "_tempdir": None}  # made again by the first call
        copied.__dict__.update({**vars(self), **own})
        return copied

    def __deepcopy__(self, memo: Any) -> ONNXProgram:
        raise TypeError(
            "an ONNXProgram cannot be copied deeply: it refers to the module's weights. Use "
            "copy.copy(program), or program.model.clone() for a model to edit"
        )

    def __reduce__(self) -> Any:
        raise TypeError(
            "an ONNXProgram cannot be pickled: it refers to the module's weights. Use "
            "program.save(path) and onnx.load(path), or send program.model_proto"
        )

    def called_like(self, arrange: Callable[[Any, Any], tuple[Any, Any]]) -> None:
        """Sets how calls pass the arguments that the export had."""
        self._arrange = arrange

    def captured_with(
        self,
        strategy: str | None,
        seconds: float,
        reason: str | None = None,
        guards: Sequence[dict[str, str]] = (),
        dimensions: Mapping[str, str] | None = None,
    ) -> None:
        """Records how the program was captured, how long that took, and why not natively.

        Args:
            strategy: What captured the program.
            seconds: How long that took.
            reason: Why the native capture did not.
            guards: Conditions on sizes that the program evaluates, and their source lines.
            dimensions: The dimension of an input that each symbol of the conditions names.
        """
        # torch.onnx.testing asks for the name of PyTorch's first strategy.
        self._capture_strategy = (
            "TorchExportNonStrictStrategy" if strategy == "native" else strategy
        )
        self.export_report["capture"] = {
            "by": strategy if strategy in ("native", "TorchScript") else "torch.export",
            "reason": reason,
            "guards": list(guards),
            "dimensions": dict(dimensions or {}),
        }
        self.export_report["seconds"] = {"capture": seconds, **self.export_report["seconds"]}

    @property
    def output_dtypes(self) -> list[torch.dtype]:
        """The dtypes of the model's outputs; those of the parts for complex ones."""
        dtypes: list[torch.dtype] = self._native.output_dtypes
        return dtypes

    @property
    def exported_program(self) -> torch.export.ExportedProgram | None:  # type: ignore[override]
        if self._exported_program is None and self._capture is not None:
            self._exported_program = self._captured_again(self._capture)
            self._capture = None
        return self._exported_program

    @exported_program.setter
    def exported_program(self, program: torch.export.ExportedProgram | None) -> None:
        self._exported_program = program

    def _captured_again(
        self, capture: Callable[[], torch.export.ExportedProgram]
    ) -> torch.export.ExportedProgram:
        """Returns what torch.export captures, with the model's names."""
        captured = capture()
        try:
            import onnx
        except ImportError:
            return captured
        from onnx_native.replay import _program_names

        content, _ = self._native.serialize_without_weights()
        _program_names.rename(captured, onnx.ModelProto.FromString(content).graph.node)
        return captured

    @property
    def model(self) -> ir.Model:
        """The model as an onnx_ir object, which shares the weights' memory."""
        if self._model is None:
            self._model = self._make_model()
        return self._model

    @model.setter
    def model(self, model: ir.Model) -> None:
        self._model = model

    def _make_model(self) -> ir.Model:
        import onnx
        import onnx_ir as ir
        from onnx_ir.tensor_adapters import TorchTensor

        native = self._native

        class Weight(TorchTensor):
            """A weight of the program, looked up each time its elements are read."""

            def __init__(self, number: int, name: str) -> None:
                super().__init__(native.weight(number), name)
                self._number = number
                self._raw = None

            @property
            def raw(self) -> torch.Tensor:  # type: ignore[override]
                return native.weight(self._number).cpu()

        content, weights = native.serialize_without_weights()
        model = ir.serde.deserialize_model(onnx.ModelProto.FromString(content))
        stored = {  # also in branches and loops
            name: value for graph in model.graphs() for name, value in graph.initializers.items()
        }
        for name, number in weights:
            stored[name].const_value = Weight(number, name)
        self._constants = model.graph.initializers.keys() - {name for name, _ in weights}
        self._weight_type = Weight
        self._numbers = dict(weights)
        return model

    def apply_weights(self, state_dict: dict[str, torch.Tensor]) -> None:
        """Replaces values of weights; see ``torch.onnx.ONNXProgram.apply_weights``.

        Constants that the export computed from weights, such as a convolution fused with its
        normalization, are recomputed.

        Args:
            state_dict: The new values, by the weights' names in the module. The model may store
                them transposed, as ``<name>.T``.

        Raises:
            ExportError: A new value has another dtype or shape, or the structure of the model
                depends on the old value. No weight is changed then.
        """
        known = set(self._native.set_weights(self._untied(state_dict)))
        known |= self._tied.keys()
        stored = {} if self._model is None else _stored_weights.of_model(self._model, self._native)
        for name, tensor in state_dict.items():
            if name in self.initial_state:
                self.initial_state[name] = tensor.detach().clone()
            for initializer in stored.get(name, ()):
                self._replace_edited(initializer, name, tensor)
            if name not in known and name not in stored:
                _warnings.warn(f"Weight '{name}' not found in the model. Skipped applying.")
        self.release()

    def _replace_edited(
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

    @property
    def model_proto(self) -> onnx.ModelProto:
        """The model as a ``ModelProto``, weights included."""
        import onnx

        if self._model is not None or self._is_too_large():
            import onnx_ir as ir

            model = self._model if self._model is not None else self._make_model()
            return ir.serde.serialize_model(model)
        return onnx.ModelProto.FromString(self._native.serialize())

    def _is_too_large(self) -> bool:
        """Whether the model with its weights exceeds the size of a protobuf message."""
        return self._weight_bytes() > _LARGEST_MESSAGE - _REST_OF_MESSAGE

    def without_weights(self) -> tuple[onnx.ModelProto, int]:
        """The model without its weights, and the bytes of the weights."""
        import onnx

        text, _ = self._native.serialize_without_weights()
        return onnx.ModelProto.FromString(text), self._native.weight_bytes

    def text(self) -> str:
        """Returns the model as text, with types instead of values for the weights."""
        return self._native.text() if self._model is None else str(self._model)

    def __repr__(self) -> str:
        captured = str(self._exported_program)
        return (
            f"ONNXProgram(\n    model=\n{textwrap.indent(self.text(), ' ' * 8)}\n    ,\n"
            f"    exported_program=\n{textwrap.indent(captured, ' ' * 8)}\n)\n"
        )

    def _input_names(self) -> list[str]:
        if self._model is None:
            return self._native.input_names
        return [str(value.name) for value in self._model.graph.inputs]

    def _weight_bytes(self) -> int:
        if self._model is None:
            return self._native.weight_bytes
        return _upstream.count_initializer_size(self._model.graph)

    def __call__(self, *args: Any, **kwargs: Any) -> Sequence[torch.Tensor]:
        """Runs the model in ONNX Runtime with the arguments of the captured program."""
        import onnxruntime as ort

        if self._inference_session is None:
            self.initialize_inference_session()
        session: Any = self._inference_session
        options = ort.RunOptions()
        options.log_severity_level = 3
        inputs = self.feeds(*self.arranged(args, kwargs))
        outputs = session.run_with_ort_values(None, inputs, run_options=options)
        return tuple(map(to_tensor, outputs))

    def feeds(self, args: Any, kwargs: Any) -> dict[str, ort.OrtValue]:
        """Returns the values of the model's inputs for arguments arranged as the export's."""
        names = self._input_names()
        values = self._flat_inputs(args, kwargs)
        taken = len(names) - len(self.initial_state)
        if len(values) > taken:
            raise ValueError(
                f"the model has {taken} inputs, {names[:taken]}, but the arguments have "
                f"{len(values)} tensors and numbers"
            )
        inputs = dict(zip(names, map(_to_ort_value, values), strict=False))
        return inputs | {name: _to_ort_value(self.state[name]) for name in self.initial_state}

    def arranged(self, args: Any, kwargs: Any) -> tuple[Any, Any]:
        """Returns the arguments of a call in the form of the export's."""
        return (args, kwargs) if self._arrange is None else self._arrange(args, kwargs)

    def _flat_inputs(self, args: Any, kwargs: Any) -> Sequence[Any]:
        """Returns the values of the model's inputs, without None and specialized constants."""
        if self._flatten is not None:
            return _upstream.process_args(tuple(self._flatten(args, kwargs)), {})
        flat, _ = _upstream.pytree.tree_flatten((args, kwargs))
        if self._exported_program is not None:
            specs = [
                spec
                for spec in self._exported_program.graph_signature.input_specs
                if spec.kind is InputKind.USER_INPUT
            ]
            if len(specs) == len(flat):
                flat = [
                    value
                    for value, spec in zip(flat, specs, strict=True)
                    if not isinstance(spec.arg, ConstantArgument)
                ]
        return _upstream.process_args(tuple(flat), {})

    def _untied(self, state_dict: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Returns the values with tied weights under the names that the program uses."""
        values = dict(state_dict)
        for name, original in self._tied.items():
            if name not in values:
                continue
            value = values.pop(name)
            if not torch.equal(values.setdefault(original, value), value):
                raise ValueError(
                    f"{name} is the same tensor as {original} in the program, but the new values "
                    "differ; export the module again"
                )
        return values

    def initialize_inference_session(
        self,
        initializer: Callable[
            [str | bytes], ort.InferenceSession
        ] = _upstream.ort_session_initializer,
    ) -> None:
        """Creates the ONNX Runtime session for calls.

        Args:
            initializer: Creates a session from a path or from the model's bytes.
        """
        if self._weight_bytes() > _upstream.LARGE_MODEL_THRESHOLD:
            self._tempdir = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
            path = os.path.join(self._tempdir.name, "model.onnx")
            self.save(path, external_data=True)
            self._inference_session = initializer(path)
        elif self._model is None:
            self._inference_session = initializer(self._native.serialize())
        else:
            self._inference_session = initializer(self.model_proto.SerializeToString())

    def save(
        self,
        destination: str | os.PathLike,
        *,
        include_initializers: bool = True,
        keep_initializers_as_inputs: bool = False,
        external_data: bool | None = None,
        checkpoint: _checkpoint.AnyPaths | None = None,
    ) -> None:
        """Saves the model; see ``torch.onnx.ONNXProgram.save``.

        The file and its external data file appear completely or not at all.

        Args:
            destination: The path of the file.
            include_initializers: Whether to save the weights.
            keep_initializers_as_inputs: Whether to list the weights as inputs too.
            external_data: Whether to store large weights in ``<destination>.data``, or in another
                file if a model with other weights is replaced (docs/names.md). None: only if the
                model is too large for one file.
            checkpoint: ``.safetensors`` files with the weights, or their ``.index.json``. The
                model gets their values and refers to these files, which are linked into its folder
                if they are elsewhere. Weights that the model stores in another layout, and those
                that the checkpoint lacks, go to ``<destination>.data``. See docs/weights.md.

        Raises:
            TypeError: The destination is not a file path.
            FileNotFoundError: The folder does not exist.
            OSError: Writing failed.
        """
        if not isinstance(destination, (str, os.PathLike)):
            raise TypeError(f"the destination must be a file path, not {type(destination)}")
        path = pathlib.Path(destination)
        if not path.absolute().parent.is_dir():
            raise FileNotFoundError(
                f"the folder to save the ONNX model in does not exist: {str(destination)!r}"
            )
        if external_data is False and include_initializers and self._is_too_large():
            _warnings.warn(
                f"The weights have {self._weight_bytes()} bytes; protobuf allows at most 2 GiB, so "
                f"they are saved as external data in {path.name}.data"
            )
            external_data = True
        places = {}
        if checkpoint is not None:
            if self._model is not None or not include_initializers or keep_initializers_as_inputs:
                raise ValueError(
                    "a checkpoint is for a model with weights that was not edited: save it before "
                    "the first access to program.model, without other options"
                )
            places = self._places_in(_checkpoint.Checkpoint(checkpoint), path)
            external_data = True
        if self._model is None and include_initializers and not keep_initializers_as_inputs:
            self._save_natively(path, external_data, places)
            return
        with self._arranged_model(include_initializers, keep_initializers_as_inputs) as model:
            size = _upstream.count_initializer_size(model.graph)
            is_large = size > _upstream.LARGE_MODEL_THRESHOLD
            # Without weights the few constants stay in the model.
            _saving.save(model, path, is_large or bool(external_data and include_initializers))

    def content(
        self, *, include_initializers: bool = True, keep_initializers_as_inputs: bool = False
    ) -> bytes:
        """Returns the bytes that :meth:`save` writes, all in one file."""
        if include_initializers and not keep_initializers_as_inputs:
            return self.model_proto.SerializeToString()
        import onnx_ir as ir

        with self._arranged_model(include_initializers, keep_initializers_as_inputs) as model:
            return ir.serde.serialize_model(model).SerializeToString()

    @contextmanager
    def _arranged_model(self, include: bool, as_inputs: bool) -> Iterator[ir.Model]:
        """The model, for a while without its weights, or with the weights as inputs."""
        model = self._model if self._model is not None else self._make_model()
        with _saving.with_initializers(model.graph, include, as_inputs, kept=self._constants):
            yield model

    def _places_in(
        self, checkpoint: _checkpoint.Checkpoint, path: pathlib.Path
    ) -> dict[str, tuple[str, int]]:
        """Gives the program the weights of a checkpoint; returns the files and offsets of them."""
        known = set(self._native.set_weights(self._untied(dict(checkpoint))))
        if not known:
            raise ValueError(
                "the checkpoint has no weight of the program; the first of its names is "
                f"{next(iter(checkpoint), None)!r}"
            )
        checkpoint.put_beside(path)
        places = {self._tied.get(name, name): place for name, place in checkpoint.places.items()}
        return {
            name: (place.file.name, place.offset) for name, place in places.items() if name in known
        }

    def _save_natively(
        self,
        path: pathlib.Path,
        external_data: bool | None,
        places: dict[str, tuple[str, int]],
    ) -> None:
        from onnx_native.program import _progress

        size = self._native.weight_bytes
        with (
            _saving.io_errors(),
            _progress.saving(path, size, shown=not self.is_silent) as progress,
        ):
            self._native.save(path, external_data=external_data, progress=progress, places=places)


def _tied(program: torch.export.ExportedProgram) -> dict[str, str]:
    """Maps each tied weight to the name under which the program holds its tensor."""
    signature = program.graph_signature
    inputs = signature.inputs_to_parameters | signature.inputs_to_buffers
    held = {
        inputs[node.name]: node
        for node in program.graph.nodes
        if node.op == "placeholder" and node.name in inputs and node.users
    }
    names: dict[int, str] = {}
    for name in held:
        tensor = program.state_dict.get(name)
        if tensor is not None:
            names.setdefault(id(tensor), name)
    return {
        name: names[id(tensor)]
        for name, tensor in program.state_dict.items()
        if name not in held and id(tensor) in names
    }


def to_tensor(value: ort.OrtValue) -> torch.Tensor:
    """Supports uint64: NumPy has two types for it, and torch accepts one of them."""
    if value.data_type() == "tensor(uint64)":
        return torch.from_numpy(value.numpy().view("uint64"))
    return _upstream.from_ort_value(value)


def _to_ort_value(value: Any) -> ort.OrtValue:
    import numpy as np
    import onnxruntime as ort

    if isinstance(value, torch.Tensor):
        onnx_type = _ONNX_TYPES.get(value.dtype)
        if onnx_type is None:
            return ort.OrtValue.ortvalue_from_numpy(value.numpy(force=True))
        bits = torch.uint16 if value.dtype is torch.bfloat16 else torch.uint8
        return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(
            value.contiguous().view(bits).numpy(force=True), onnx_element_type=onnx_type
        )
    dtype = np.float32 if isinstance(value, float) else None
    return ort.OrtValue.ortvalue_from_numpy(np.array(value, dtype=dtype))
