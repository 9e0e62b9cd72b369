"""The towers of a model: what makes features of images or of sounds.

A model of transformers has a method for each kind, `get_image_features` or `get_audio_features`.
The towers are found by these names and by running them.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import inspect
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from onnx_native import _library, _undo, _warnings
from onnx_native.decoders import _packed_images, _tower_inputs

MODALITIES = ("image", "audio")
# Calls that make a list of a tensor, one part for each image.
_UNBINDS = (torch.Tensor.unbind, torch.unbind)
_SPLITS = (*_UNBINDS, torch.Tensor.split, torch.split)
# What these return besides; `list` asks for the length of a tensor too.
_LENGTHS: dict[Any, Any] = {torch.Tensor.tolist: (), torch.Tensor.__len__: 1}

_CHECKS = "TRANSFORMERS_DISABLE_TORCH_CHECK"

# Where features are in the output of a tower, such as ("deepstack_features", 0).
Path = tuple[Any, ...]


@dataclasses.dataclass
class Tower:
    """A method that makes features.

    Attributes:
        modality: ``"image"`` or ``"audio"``.
        owner: The module with the method.
        inputs: Examples of its arguments with their dynamic axes.
        output: What it returns for the examples.
        modules: The modules that the method may call.
        is_packed: Whether the tower has a form without loops over images, see ``_packed_images``.
        is_whole: Whether the method keeps the features of all images together when it is exported,
            where the program makes a list with a tensor for each.
        names: The names of the features that the model reads, by their places in the output.
    """

    modality: str
    owner: torch.nn.Module
    inputs: _tower_inputs.TowerInputs
    output: Any
    modules: list[torch.nn.Module]
    is_packed: bool = False
    is_whole: bool = False
    names: dict[Path, str] = dataclasses.field(default_factory=dict)

    @property
    def method(self) -> str:
        return method_of(self.modality)

    @property
    def main(self) -> str:
        """The argument with the pixels or with the sound."""
        return next(iter(self.inputs.tensors))

    def run(self, inputs: Mapping[str, torch.Tensor]) -> Any:
        method: Any = getattr(self.owner, self.method)
        with contextlib.ExitStack() as stack:
            if self.is_packed:
                patches = inputs[self.main].shape[0]
                stack.enter_context(_packed_images.packed(self.modules, patches))
            if self.is_whole:
                stack.enter_context(_Whole(inspect.unwrap(method).__code__))
            return method(**inputs, return_dict=True)

    def features(self, output: Any) -> dict[str, torch.Tensor]:
        """Returns the features that the model reads, by their names."""
        found = dict(units(output))
        return {name: self.formed(joined(found[path])) for path, name in self.names.items()}

    def formed(self, features: torch.Tensor) -> torch.Tensor:
        """Returns features as the exported models have them, ``[tokens, size]``."""
        return features.flatten(0, -2)

    def output_with(self, features: Mapping[Path, torch.Tensor]) -> Any:
        """Returns an output of the method with other features."""
        made = copy.copy(self.output)
        for field in made:
            value = _with(made[field], (field,), features)
            if value is not made[field]:
                made[field] = value
        return made


def method_of(modality: str) -> str:
    return f"get_{modality}_features"


def find(model: Any, given: Sequence[Mapping[str, Any]]) -> list[Tower]:
    """Returns the towers of a model, whose features are not named yet.

    Args:
        model: A model of transformers.
        given: What the model's processor returns for texts with images or sounds; it may be empty.

    Raises:
        ValueError: No examples of the arguments of a tower are known, or given.
    """
    towers = []
    for modality in MODALITIES:
        name = method_of(modality)
        owner = next((each for each in owners(model) if hasattr(each, name)), None)
        if owner is None:
            continue

        method: Any = getattr(owner, name)

        def run(inputs: Mapping[str, torch.Tensor], method: Any = method) -> Any:
            return method(**inputs, return_dict=True)

        parameters = inspect.signature(method).parameters
        inputs = _tower_inputs.find(model, modality, parameters, run, given)
        if inputs is None:
            continue
        language = set(model.get_decoder().modules())
        modules = [module for module in owner.modules() if module not in language]
        tower = Tower(modality, owner, inputs, run(inputs.tensors), modules)
        tower.is_packed = "image_grid_thw" in inputs.tensors and _is_same(tower, is_packed=True)
        tower.is_whole = _is_same(tower, is_packed=tower.is_packed, is_whole=True)
        towers.append(tower)
    return towers


def token(model: Any, modality: str) -> int:
    """Returns the token that stands for a part of an image or of a sound.

    Raises:
        ValueError: The configuration has none.
    """
    names = [f"{modality}_token_id", f"{modality}_token_index"]
    for name in names:
        found = getattr(model.config, name, None)
        if found is not None:
            return int(found)
    raise ValueError(
        f"the configuration of {type(model).__name__} has no {' or '.join(names)}, so the places "
        f"of {modality} features in a text are not known: set config.{names[0]}; or inputs={{}} "
        "exports the texts alone"
    )


def owners(model: Any) -> tuple[torch.nn.Module, torch.nn.Module]:
    """Returns the modules that may have the methods: the model without its head, and the model."""
    return model.base_model, model


def _is_same(tower: Tower, *, is_packed: bool, is_whole: bool = False) -> bool:
    """Returns whether a tower has the same features in another form."""
    other = dataclasses.replace(tower, is_packed=is_packed, is_whole=is_whole)
    try:
        with torch.no_grad():
            output = other.run(tower.inputs.tensors)
    except Exception:
        return False  # the program has no such form
    expected, found = dict(units(tower.output)), dict(units(output))
    return expected.keys() == found.keys() and all(
        are_close(joined(found[path]), joined(value)) for path, value in expected.items()
    )


def are_close(found: torch.Tensor, expected: torch.Tensor) -> bool:
    if found.shape != expected.shape:
        return False
    allowed = torch.finfo(torch.float32).eps ** 0.5 * expected.float().abs().max()
    return bool((found.float() - expected.float()).abs().max() <= allowed)


class _Whole(TorchFunctionMode):
    """Leaves features of all images together, where a method makes a list of them.

    The list then has one tensor, with as many rows as those of the program have together. Only
    calls in the method itself count, not those of the modules that it calls.
    """

    def __init__(self, code: Any) -> None:
        super().__init__()
        self._code = code

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if function in _SPLITS and self._is_called_by_method():
            if function not in _UNBINDS:
                return (args[0],)
            # A list of numbers is only for a split.
            return (args[0].flatten(0, 1),) if args[0].ndim > 1 else ()
        if function in _LENGTHS and self._is_called_by_method():
            return _LENGTHS[function]
        return function(*args, **(kwargs or {}))

    def _is_called_by_method(self) -> bool:
        frame: Any = _warnings.frame_outside(_library.NOT_OF_USER)
        codes = (frame.f_code, frame.f_back and frame.f_back.f_code)  # a comprehension has its own
        return self._code in codes


def units(output: Any) -> Iterator[tuple[Path, Any]]:
    """Yields the features in an output: tensors, and lists with one tensor for each image."""
    for field, value in output.items():
        yield from _units(value, (field,))


def _units(value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    if isinstance(value, torch.Tensor) or _is_split(value):
        yield path, value
    elif isinstance(value, (list, tuple)):
        for i, each in enumerate(value):
            yield from _units(each, (*path, i))


def _is_split(value: Any) -> bool:
    return (
        isinstance(value, (list, tuple))
        and len(value) > 0
        and all(isinstance(each, torch.Tensor) and each.ndim == 2 for each in value)
        and len({each.shape[1] for each in value}) == 1
    )


def joined(unit: Any) -> torch.Tensor:
    if isinstance(unit, torch.Tensor):
        return unit
    return unit[0] if len(unit) == 1 else torch.cat(list(unit))


def _with(value: Any, path: Path, features: Mapping[Path, torch.Tensor]) -> Any:
    if path in features:
        return features[path] if isinstance(value, torch.Tensor) else type(value)([features[path]])
    if isinstance(value, (list, tuple)) and not _is_split(value):
        return type(value)(_with(each, (*path, i), features) for i, each in enumerate(value))
    return value


@contextlib.contextmanager
def without_checks() -> Iterator[None]:
    """Turns off transformers' checks of how many tokens there are for the features."""
    before = os.environ.get(_CHECKS)

    def put_back() -> None:
        os.environ.pop(_CHECKS, None)
        if before is not None:
            os.environ[_CHECKS] = before

    with _undo.at_end(put_back, of_process=True):
        os.environ[_CHECKS] = "1"
        yield
