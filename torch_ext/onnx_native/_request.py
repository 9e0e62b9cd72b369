"""The request to torch.onnx.export: a program, example arguments, and dynamic sizes."""

import dataclasses
import warnings
from collections.abc import Sequence
from typing import Any

import torch

from onnx_native import _inputs, _jit, _shapes, _upstream

AnyInputs = _inputs.Inputs | _jit.Inputs


@dataclasses.dataclass
class Request:
    """The arguments of torch.onnx.export that describe the program, under the same names."""

    model: Any
    args: Any
    kwargs: dict[str, Any] | None
    dynamic_shapes: Any
    dynamic_axes: Any
    input_names: Sequence[str] | None
    output_names: Sequence[str] | None

    def inputs(self) -> AnyInputs:
        """Returns the inputs in the form that the capture accepts."""
        if isinstance(self.model, _upstream.ExportableModule):
            self._take_examples()
        if _jit.is_script(self.model):
            return self._of_script()
        if not isinstance(self.model, torch.export.ExportedProgram):
            inputs = self._of_module()
            if inputs is not None:
                return inputs
        shapes, specs = _shapes.without_arguments(self.dynamic_shapes)
        return _inputs.Inputs(self.args, self.kwargs, shapes, specs, [])

    def _take_examples(self) -> None:
        """Fills in the arguments that an ExportableModule provides."""
        if self.args or self.kwargs:
            return
        self.args, self.kwargs = self.model.example_arguments()
        if self.input_names is None:
            self.input_names = self.model.input_names()
        if self.output_names is None:
            self.output_names = self.model.output_names()
        if self.dynamic_shapes is None:
            self.dynamic_shapes = self.model.dynamic_shapes()

    def _split_keywords(self) -> None:
        """Moves a dict at the end of the arguments to the keyword arguments."""
        if not self.kwargs and self.args and isinstance(self.args[-1], dict):
            self.args, self.kwargs = self.args[:-1], self.args[-1]

    def _of_script(self) -> _jit.Inputs:
        if not isinstance(self.args, tuple):
            self.args = (self.args,)
        if self.args and not _jit.takes_dict(self.model, len(self.args)):
            self._split_keywords()
        shapes = self.dynamic_shapes
        if shapes is None and self.dynamic_axes is not None:
            arguments = [parameter.name for parameter in _jit.parameters(self.model)]
            shapes = _shapes.from_dynamic_axes(self.dynamic_axes, self.input_names, arguments)
        return _jit.Inputs(self.model, self.args, self.kwargs, shapes)

    def _of_module(self) -> _inputs.Inputs | None:
        """Returns None if ``dynamic_shapes`` does not match; torch.export then says why."""
        self._split_keywords()
        if self.dynamic_shapes is None and self.dynamic_axes is not None:
            self._convert_axes()
        _inputs.register_caches(self.model, self.args, self.kwargs)
        if not self.dynamic_shapes:
            return None
        return _inputs.prepare(self.model, self.args, self.kwargs, self.dynamic_shapes)

    def _convert_axes(self) -> None:
        warnings.warn(
            "# 'dynamic_axes' is not recommended when dynamo=True, "
            "and may lead to 'torch._dynamo.exc.UserError: Constraints violated.' "
            "Supply the 'dynamic_shapes' argument instead if export is unsuccessful.",
            UserWarning,
            stacklevel=7,
        )
        try:
            self.dynamic_shapes, self.args, self.kwargs = _upstream.from_dynamic_axes(
                self.model,
                self.args,
                self.kwargs,
                dynamic_axes=self.dynamic_axes,
                input_names=self.input_names,
                output_names=set(self.output_names or ()),
            )
        except Exception as error:
            raise RuntimeError(
                "# Failed to convert 'dynamic_axes' to 'dynamic_shapes'. "
                "Please provide 'dynamic_shapes' directly. "
                "Refer to the documentation for 'torch.export.export' for more information on "
                "dynamic shapes."
            ) from error
