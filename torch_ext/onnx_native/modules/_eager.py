"""The model in eager, beside which its ONNX model is verified."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from onnx_native.modules import _differences, _loop_copies, _module_state
from onnx_native.request import _checks, _inputs, _sizes
from onnx_native.upstream import _upstream


@dataclasses.dataclass
class Eager:
    """A model that was not captured by torch.export, and the arguments that it was exported with.

    Attributes:
        model: The module or function of the user.
        inputs: The arguments. They may have tensors and text in place of numbers and constants.
        sizes: The dynamic sizes that the exported program allows; None if they are not known.
    """

    model: Any
    inputs: _inputs.Inputs
    sizes: _sizes.Sizes | None = None

    @property
    def example(self) -> tuple[Any, dict[str, Any]]:
        """The arguments as (args, kwargs)."""
        return self.inputs.arguments

    def outputs(
        self, args: Any, kwargs: dict[str, Any], *, keeps_attributes: bool = False
    ) -> list[Any]:
        """Returns the tensors and numbers that the model returns; its state stays as it is.

        With `keeps_attributes`, attributes that are no numbers stay as the run leaves them.
        """
        with _inputs.elements_of(self.model, self.inputs), _loop_copies.inserted():
            values = _module_state.results(
                self.model, self.model, args, kwargs, keeps_attributes=keeps_attributes
            )
        return list(filter(_differences.is_value, leaves_of(values)))


def leaves_of(results: Any) -> list[Any]:
    """Returns what is in the results, also in containers that pytree does not know."""
    with _checks.no_cycle("the module returns a container"):
        return list(_leaves_of(results))


def _leaves_of(results: Any) -> Iterator[Any]:
    for leaf in _upstream.pytree.tree_leaves(results):
        if isinstance(leaf, Mapping):
            yield from _leaves_of(list(leaf.values()))
        elif isinstance(leaf, (list, tuple)):
            yield from _leaves_of(list(leaf))
        elif dataclasses.is_dataclass(leaf) and not isinstance(leaf, type):
            fields = dataclasses.fields(leaf)
            yield from _leaves_of([getattr(leaf, field.name) for field in fields])
        else:
            yield leaf
