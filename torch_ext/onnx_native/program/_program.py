"""The result of a native export."""

from __future__ import annotations

import os
import pathlib
import tempfile
import textwrap
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from onnx_native import _warnings
from onnx_native.program import _calls, _checkpoint, _contents, _origin, _saving
from onnx_native.upstream import _upstream

if TYPE_CHECKING:
    import onnx
    import onnx_ir as ir
    import onnxruntime as ort

    from onnx_native._C import Program, WeightPlace


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
        origin: _origin.Origin,
        capture: _origin.CaptureReport,
        *,
        is_silent: bool,
    ) -> None:
        # Not super().__init__(): it takes a model.
        self._contents = _contents.ProgramContents(native, origin, is_silent=is_silent)
        report = native.report()
        self.export_report: dict[str, Any] = report
        report["capture"] = capture.as_dict()
        report["seconds"] = {"capture": capture.seconds, **report["seconds"]}
        self._capture_strategy = capture.name
        self.initial_state: dict[str, torch.Tensor] = {}
        self.state_outputs: dict[str, str] = {}
        for each in native.state():
            self.state_outputs[each.input] = each.output
            if each.initial is not None:
                self.initial_state[each.input] = each.initial.detach().clone()
        self.state: dict[str, torch.Tensor] = self.initial_state
        self._inference_session: ort.InferenceSession | None = None
        self._tempdir: tempfile.TemporaryDirectory | None = None

    def __copy__(self) -> ONNXProgram:
        """Returns a program that shares this one's weights and model."""
        copied = ONNXProgram.__new__(ONNXProgram)
        own = {
            "_contents": self._contents.copied(),
            "_inference_session": None,  # made again by the first call
            "_tempdir": None,
        }
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

    @property
    def exported_program(self) -> torch.export.ExportedProgram | None:  # type: ignore[override]
        origin = self._contents.origin
        if origin.exported is None and origin.capture is not None:
            origin.exported = self._captured_again(origin.capture)
            origin.capture = None
        return origin.exported

    @exported_program.setter
    def exported_program(self, program: torch.export.ExportedProgram | None) -> None:
        self._contents.origin.exported = program

    def _captured_again(
        self, capture: Callable[[], torch.export.ExportedProgram]
    ) -> torch.export.ExportedProgram:
        """Returns what torch.export captures, with the model's names."""
        captured = capture()
        try:
            proto = self._contents.proto_without_weights()
        except ImportError:  # of the onnx package
            return captured
        from onnx_native.replay import _program_names

        _program_names.rename(captured, proto.graph.node)
        return captured

    @property
    def model(self) -> ir.Model:
        """The model as an onnx_ir object, which shares the weights' memory."""
        self._contents.edited = self._contents.model()
        return self._contents.edited

    @model.setter
    def model(self, model: ir.Model) -> None:
        self._contents.edited = model

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
        known = set(self._contents.native.set_weights(self._contents.untied(state_dict)))
        known |= self._contents.origin.tied.keys() | self._contents.replace_edited(state_dict)
        for name, tensor in state_dict.items():
            if name in self.initial_state:
                self.initial_state[name] = tensor.detach().clone()
            if name not in known:
                _warnings.warn(f"Weight '{name}' not found in the model. Skipped applying.")
        self.release()

    @property
    def model_proto(self) -> onnx.ModelProto:
        """The model as a ``ModelProto``, weights included."""
        return self._contents.proto()

    def __repr__(self) -> str:
        captured = str(self._contents.origin.exported)
        return (
            f"ONNXProgram(\n    model=\n{textwrap.indent(self._contents.text(), ' ' * 8)}\n    ,\n"
            f"    exported_program=\n{textwrap.indent(captured, ' ' * 8)}\n)\n"
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Sequence[torch.Tensor]:
        """Runs the model in ONNX Runtime with the arguments of the captured program."""
        import onnxruntime as ort

        if self._inference_session is None:
            self.initialize_inference_session()
        session: Any = self._inference_session
        options = ort.RunOptions()
        options.log_severity_level = 3
        inputs = _calls.feeds(self, *_calls.arranged(self, args, kwargs))
        outputs = session.run_with_ort_values(None, inputs, run_options=options)
        return tuple(map(_calls.to_tensor, outputs))

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
        if self._contents.weight_bytes() > _upstream.LARGE_MODEL_THRESHOLD:
            self._tempdir = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
            path = os.path.join(self._tempdir.name, "model.onnx")
            self.save(path, external_data=True)
            self._inference_session = initializer(path)
        elif self._contents.edited is None:
            self._inference_session = initializer(self._contents.native.serialize())
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
                that the checkpoint lacks, go to ``<destination>.data``. See docs/large-models.md.

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
        if external_data is False and include_initializers and self._contents.is_too_large():
            _warnings.warn(
                f"The weights have {self._contents.weight_bytes()} bytes; protobuf allows at most "
                f"2 GiB, so they are saved as external data in {path.name}.data"
            )
            external_data = True
        is_native = (
            self._contents.edited is None
            and include_initializers
            and not keep_initializers_as_inputs
        )
        places = {}
        if checkpoint is not None:
            if not is_native:
                raise ValueError(
                    "a checkpoint is for a model with weights that was not edited: save it before "
                    "the first access to program.model, without other options"
                )
            opened = _checkpoint.Checkpoint(checkpoint)
            places = self._contents.places_in(opened)
            opened.require_some(places)
            opened.put_beside(path)
            external_data = True
        if is_native:
            self._save_natively(path, external_data, places)
            return
        with self._contents.arranged_model(
            include_initializers, keep_initializers_as_inputs
        ) as model:
            size = _upstream.count_initializer_size(model.graph)
            is_large = size > _upstream.LARGE_MODEL_THRESHOLD
            # Without weights the few constants stay in the model.
            _saving.save(model, path, is_large or bool(external_data and include_initializers))

    def _save_natively(
        self,
        path: pathlib.Path,
        external_data: bool | None,
        places: dict[str, WeightPlace],
    ) -> None:
        from onnx_native.program import _progress

        size = self._contents.native.weight_bytes
        with (
            _saving.io_errors(),
            _progress.saving(path, size, shown=not self._contents.is_silent) as progress,
        ):
            self._contents.native.save(
                path, external_data=external_data, progress=progress, places=places
            )
