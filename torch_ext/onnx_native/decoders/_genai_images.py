"""Describes a model that reads images to onnxruntime-genai."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from onnx_native.decoders import _towers

# The types of onnxruntime-genai for images and tokens with one position, and with three. They tell
# it how to count positions, and whose processor of images it has.
_TYPE, _TYPE_OF_THREE = "gemma3", "qwen2_5_vl"
_PIXELS, _GRID, _FEATURES = "pixel_values", "image_grid_thw", "image_features"


def described(
    config: dict[str, Any], model: Any, towers: Sequence[_towers.Tower], *, rows: int | None
) -> dict[str, Any] | None:
    """Returns genai_config.json for a model with images; None: onnxruntime-genai has none for it.

    Args:
        config: The configuration of the decoder.
        model: The model.
        towers: Its towers.
        rows: The rows of positions that each token has.
    """
    whole = model.config
    if [tower.modality for tower in towers] != ["image"]:
        return None
    [tower] = towers
    inputs = {name: name for name in tower.inputs.tensors}
    if list(tower.names.values()) != [_FEATURES] or tower.main != _PIXELS:
        return None
    described = dict(config["model"])
    if rows is None:
        described["type"] = _TYPE
    else:
        merge = getattr(getattr(whole, "vision_config", None), "spatial_merge_size", None)
        start = getattr(whole, "vision_start_token_id", None)
        if merge is None or start is None or not _counts_in_grids(model, merge, start):
            return None
        described |= {"type": _TYPE_OF_THREE, "vision_start_token_id": start}
        described["video_token_id"] = getattr(whole, "video_token_id", -1)
    described["image_token_id"] = _towers.token(model, "image")
    described["vision"] = {
        "filename": "vision.onnx",
        "inputs": inputs,
        "outputs": {_FEATURES: _FEATURES},
    }
    if rows is not None:
        described["vision"] |= {
            "spatial_merge_size": merge,
            "patch_size": whole.vision_config.patch_size,
            "tokens_per_second": getattr(whole.vision_config, "tokens_per_second", 1),
        }
    described["embedding"] = {
        "filename": "embedding.onnx",
        "inputs": {"input_ids": "input_ids", _FEATURES: _FEATURES},
        "outputs": {"inputs_embeds": "inputs_embeds"},
    }
    return {**config, "model": described}


def _counts_in_grids(model: Any, merge: int, start: int) -> bool:
    """Returns whether a model counts positions as onnxruntime-genai does.

    The tokens of an image have its row and column. The text goes on after the largest of them.
    """
    place = _towers.token(model, "image")
    text = next(i for i in range(1, 99) if i not in (place, start))
    grids = [(1, 2, 3), (1, 4, 1)]
    ids: list[int] = [text]
    expected: list[list[int]] = [[0] * 3]
    for _, height, width in grids:
        ids += [start, *[place] * (height * width), text]
        first = max(expected[-1]) + 1
        cells = [[0, row, column] for row in range(height) for column in range(width)]
        image = [[first + 1 + n for n in cell] for cell in cells]
        expected += [[first] * 3, *image, [max(map(max, image)) + 1] * 3]
    row = torch.tensor([ids])
    positions = model.base_model.get_rope_index(
        row,
        mm_token_type_ids=(row == place).int(),
        image_grid_thw=torch.tensor([[t, h * merge, w * merge] for t, h, w in grids]),
        attention_mask=torch.ones_like(row),
    )[0]
    return bool(torch.equal(positions[:, 0].T.cpu(), torch.tensor(expected)))
