"""The request to torch.onnx.export: a program, example arguments, and dynamic sizes."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import torch
from torch.export import AdditionalInputs, ShapesCollection

from onnx_native import _libraries, _warnings
from onnx_native.request import _arguments, _checks, _dynamic_axes, _inputs, _jit, _shapes
from onnx_native.upstream import _upstream

AnyInputs = _inputs.Inputs | _jit.ScriptInputs


@dataclasses.dataclass
class Request:
    """The arguments of torch.onnx.export that describe the program, under the same names.

    Attributes:
        floats: The dtype of inputs that are Python floats.
    """

    model: Any
    args: Any
    kwargs: dict[str, Any] | None
    dynamic_shapes: Any
    dynamic_axes: Any
    input_names: Any
    output_names: Any
    floats: torch.dtype = torch.float32

    def inputs(self) -> AnyInputs:
        """Returns the inputs in the form that the capture accepts, for the program in `model`."""
        with _checks.no_cycle("the example has a container"):
            return self._flattened()

    def _flattened(self) -> AnyInputs:
        self.model = _arguments.unwrapped(self.model)
        self.input_names = _names("input", self.input_names)
        self.output_names = _names("output", self.output_names)
        if isinstance(self.model, _upstream.ExportableModule):
            self._take_examples()
        if _jit.is_script(self.model):
            return self._of_script()
        if not isinstance(self.model, torch.export.ExportedProgram):
            inputs = self._of_module()
            if inputs is not None:
                return inputs
        shapes, specs = _shapes.without_arguments(self.dynamic_shapes)
        return _inputs.Inputs(self.args, self.kwargs, shapes, specs, fit=False)

    def _take_examples(self) -> None:
        """Fills in the arguments that an ExportableModule provides."""
        if self.args or self.kwargs:
            return
        self.args, self.kwargs = self.model.example_arguments()
        if not self.input_names:
            self.input_names = _names("input", self.model.input_names())
        if not self.output_names:
            self.output_names = _names("output", self.model.output_names())
        if self.dynamic_shapes is None:
            self.dynamic_shapes = self.model.dynamic_shapes()

    def _of_script(self) -> _jit.ScriptInputs:
        self.args = _jit.positional(self.model, self.args)
        has_keywords = not self.kwargs and self.args and isinstance(self.args[-1], dict)
        if has_keywords and not _jit.takes_dict(self.model, len(self.args)):
            self.args, self.kwargs = self.args[:-1], self.args[-1]
        shapes = self.dynamic_shapes
        if shapes is None and self.dynamic_axes is not None:
            shapes = _dynamic_axes.of_script(
                self.dynamic_axes,
                _jit.arguments(self.model, self.args, self.kwargs),
                self.input_names,
                self.output_names,
            )
        return _jit.ScriptInputs(self.model, self.args, self.kwargs, shapes)

    def _of_module(self) -> _inputs.Inputs | None:
        """Returns None if ``dynamic_shapes`` does not match; torch.export then says why."""
        self.args, self.kwargs = _arguments.of_call(self.model, self.args, self.kwargs)
        leaves = _upstream.pytree.tree_leaves((self.args, self.kwargs))
        _libraries.register_caches(self.model, leaves)
        if self.dynamic_shapes is None and self.dynamic_axes is not None:
            self._convert_axes()
        if isinstance(self.dynamic_shapes, ShapesCollection):
            self.dynamic_shapes = self.dynamic_shapes.dynamic_shapes(
                self.model, self.args, self.kwargs
            )
        if isinstance(self.dynamic_shapes, AdditionalInputs):
            return None  # torch.export verifies the program with them
        self.dynamic_shapes = self._by_parameters(self.dynamic_shapes)
        return _inputs.prepare(self.model, self.args, self.kwargs, self.dynamic_shapes, self.floats)

    def _by_parameters(self, shapes: Any) -> Any:
        """Returns ``dynamic_shapes`` with parameters for the names of inputs."""
        try:
            return _dynamic_axes.by_parameters(
                self.model, self.args, self.kwargs, shapes, self.input_names
            )
        except TypeError:  # the arguments do not match the parameters
            return shapes

    def _convert_axes(self) -> None:
        _warnings.warn(
            "# 'dynamic_axes' is not recommended when dynamo=True, "
            "and may lead to 'torch._dynamo.exc.UserError: Constraints violated.' "
            "Supply the 'dynamic_shapes' argument instead if export is unsuccessful.",
            UserWarning,
        )
        try:
            self.dynamic_shapes = _dynamic_axes.to_dynamic_shapes(
                self.model,
                self.args,
                self.kwargs,
                self.dynamic_axes,
                self.input_names,
                self.output_names,
            )
        except TypeError as error:
            raise RuntimeError(
                "# Failed to convert 'dynamic_axes' to 'dynamic_shapes'. "
                "Please provide 'dynamic_shapes' directly. "
                "Refer to the documentation for 'torch.export.export' for more information on "
                f"dynamic shapes. {error}"
            ) from error


def _names(kind: str, names: Sequence[str] | str | None) -> list[str]:
    """Checks the names of inputs or outputs."""
    if isinstance(names, str):
        names = [names]
    result = list(names or ())
    for name in result:
        if not isinstance(name, str):
            raise TypeError(f"{kind}_names must be strings, but has {name!r}")
        if not name:
            raise ValueError(
                f"an {kind} name is empty: {kind}_names is {result}; ONNX gives an empty name "
                "another meaning"
            )
    duplicates = [name for i, name in enumerate(result) if name in result[:i]]
    if duplicates:
        raise ValueError(f"{kind.capitalize()} names cannot be duplicated: {duplicates}")
    return result
