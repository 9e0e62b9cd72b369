"""Examples of what the tower of a model takes, with their dynamic axes.

transformers' processors have the same names for the same things, such as `pixel_values`. Sizes are
those of the configuration. Two examples of different sizes tell which axes are dynamic.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.export import Dim

# Images or sounds of the examples: a fixed one, and two that tell which axes are dynamic.
_COUNTS = (1, 2, 3)
# Parts of images that some processors cut.
_PARTS = (2, 3, 5)
_MAINS = {
    "image": ("pixel_values", "image_pixel_values", "image_patches"),
    "audio": ("input_features", "audio_input_features", "input_values"),
}
_LABELS = {"image": "num_images", "audio": "num_sounds"}

Run = Callable[[Mapping[str, torch.Tensor]], Any]
Tensors = dict[str, torch.Tensor]


@dataclasses.dataclass
class TowerInputs:
    """Arguments of a tower.

    Attributes:
        tensors: Examples; the first one has the pixels or the sound.
        axes: Their dynamic axes.
        fixed: Examples for a tower that takes no others: one image where that is known.
    """

    tensors: Tensors
    axes: dict[str, dict[int, Any]]
    fixed: Tensors


def mains(modality: str) -> tuple[str, ...]:
    """Returns the names of arguments with pixels or with sounds."""
    return _MAINS[modality]


def find(
    model: Any,
    modality: str,
    parameters: Mapping[str, Any],
    run: Run,
    given: Sequence[Mapping[str, Any]],
) -> TowerInputs | None:
    """Returns examples for the parameters of a tower; None: nothing of this kind is given.

    Raises:
        ValueError: The sizes are not known.
    """
    main = next((name for name in _MAINS[modality] if name in parameters), None)
    if given:
        return _of_given(given, main, parameters, run)
    like = next(model.parameters())
    if like.is_meta:
        raise ValueError(
            f"{type(model).__name__} is on the meta device, and its {modality} tower is found by "
            "running it: load the model; checkpoint= still saves no copy of the weights"
        )
    tried: list[str] = []
    of_counts = (_candidates(model.config, modality, main, parameters, n) for n in _COUNTS)
    for candidates in zip(*of_counts, strict=True):
        one, first, second = (
            {name: _made(kind, sizes, like) for name, (kind, sizes) in each.items()}
            for each in candidates
        )
        error = _failure(run, first) or _failure(run, second)
        if error is None:
            return TowerInputs(first, _axes(first, second, _LABELS[modality]), one)
        tried.append(f"{_shapes(first)}: {type(error).__name__}: {error}")
    raise ValueError(
        f"the {modality} inputs of {type(model).__name__} are not known: get_{modality}_features "
        f"takes {', '.join(parameters)}, and failed for {'; '.join(tried) or 'nothing'}. Pass what "
        "the model's processor returns: export_decoder(model, folder, inputs=processor(...)); "
        "inputs={} exports the texts alone"
    )


def _of_given(
    given: Sequence[Mapping[str, Any]],
    main: str | None,
    parameters: Mapping[str, Any],
    run: Run,
) -> TowerInputs | None:
    """Returns the first example, with the axes along which another one differs.

    A single example stands also for its images twice.
    """
    pair: list[Tensors] = [
        {name: each[name] for name in parameters if isinstance(each.get(name), torch.Tensor)}
        for each in given[:2]
    ]
    if main not in pair[0]:
        return None
    if len(pair) == 1:
        twice = {name: torch.cat([each, each]) for name, each in pair[0].items()}
        pair.append(twice if _failure(run, twice) is None else pair[0])
    first = {main: pair[0][main], **pair[0]}
    return TowerInputs(first, _axes(first, pair[1]), first)


def _candidates(
    config: Any, modality: str, main: str | None, parameters: Mapping[str, Any], count: int
) -> Iterator[dict[str, tuple[str, list[int]]]]:
    """Yields the kinds and sizes of the tensors that so many images or sounds may have."""
    if main is None:
        return
    tower = _part(config, modality)
    if modality == "audio":
        bands = _setting(tower, "num_mel_bins", "n_mels", "feature_size", "input_dim") or 80
        positions = _setting(tower, "max_source_positions")
        masks = [name for name in parameters if name.endswith("mask")]
        for frames in ([2 * positions] if positions else []) + [3000, 64]:
            sounds = {main: ("noise", [count, bands, frames])}
            yield sounds | {name: ("ones", [count, frames]) for name in masks}
        return
    channels = _setting(tower, "num_channels", "in_channels", "in_chans") or 3
    patch = _first(_setting(tower, "patch_size", "spatial_patch_size") or 14)
    grid = next((name for name in parameters if name.endswith("image_grid_thw")), None)
    if grid is not None:
        side = 2 * (_setting(tower, "spatial_merge_size") or 1)
        size = channels * (_setting(tower, "temporal_patch_size") or 1) * patch**2
        patches = sum(height * width for _, height, width in _grids(count, side))
        yield {main: ("noise", [patches, size]), grid: ("grid", [count, side])}
    side = _first(_setting(tower, "image_size") or _setting(config, "image_size") or 0)
    if "spatial_shapes" in parameters:
        cells = [count, 4 * (_setting(config, "downsample_factor") or 1)]
        yield {
            main: ("noise", [count, cells[1] ** 2, channels * patch**2]),
            "spatial_shapes": ("sides", cells),
            "pixel_attention_mask": ("ones", [count, cells[1] ** 2]),
        }
    if not side:
        return
    sizes: dict[str, tuple[str, list[int]]] = {}
    if getattr(parameters.get("image_sizes"), "default", None) is inspect.Parameter.empty:
        sizes["image_sizes"] = ("sides", [count, side])
    yield {main: ("noise", [count, channels, side, side])} | sizes
    for parts in _PARTS if sizes else ():  # an image and its parts
        yield {main: ("noise", [count, parts, channels, side, side])} | sizes
    yield {main: ("noise", [1, count, channels, side, side])} | sizes


def _made(kind: str, sizes: list[int], like: torch.Tensor) -> torch.Tensor:
    if kind == "grid":
        return torch.tensor(_grids(*sizes), device=like.device)
    if kind == "sides":
        count, side = sizes
        return torch.full([count, 2], side, device=like.device)
    if kind == "ones":
        return torch.ones(sizes, dtype=torch.int64, device=like.device)
    # Not constant: some programs leave out images that are all zeros.
    numbers = torch.arange(math.prod(sizes), dtype=torch.float32, device=like.device)
    return torch.sin(numbers).reshape(sizes).to(like.dtype)


def _grids(count: int, side: int) -> list[list[int]]:
    """Returns frames, height and width of images of different sizes."""
    return [[1, side * (1 + i % 2), side * (1 + i)] for i in range(count)]


def _failure(run: Run, tensors: Tensors) -> Exception | None:
    try:
        with torch.no_grad():
            run(tensors)
    except Exception as error:
        return error
    return None


def _axes(first: Tensors, second: Tensors, items: str | None = None) -> dict[str, dict[int, Any]]:
    """Returns the axes that differ; those that differ in the same way have the same size."""
    sizes: dict[tuple[int, int], Any] = {}
    axes: dict[str, dict[int, Any]] = {name: {} for name in first}
    for name, tensor in first.items():
        for axis, pair in enumerate(zip(tensor.shape, second[name].shape, strict=True)):
            if pair[0] != pair[1]:
                label = f"num_{name}" if axis == 0 else f"{name}_{axis}"
                if items is not None and pair == _COUNTS[1:]:
                    label = items
                axes[name][axis] = sizes.setdefault(pair, Dim(label, min=1))
    return axes


def _part(config: Any, modality: str) -> Any:
    """Returns the configuration of a tower, or that of the whole model."""
    names = ("vision_config",) if modality == "image" else ("audio_config", "encoder_config")
    return next((getattr(config, name) for name in names if hasattr(config, name)), config)


def _setting(config: Any, *names: str) -> Any:
    found = (getattr(config, name, None) for name in names)
    return next((value for value in found if value is not None), None)


def _first(value: Any) -> int:
    return int(value[0] if isinstance(value, (list, tuple)) else value)


def _shapes(tensors: Tensors) -> str:
    return ", ".join(f"{name} {list(each.shape)}" for name, each in tensors.items())
