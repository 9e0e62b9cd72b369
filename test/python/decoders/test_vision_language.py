"""Models that read images or sounds, exported as towers, embedding and decoder."""

from __future__ import annotations

import pathlib
import sys
import warnings
from typing import Any

import numpy as np
import onnx
import onnx_native
import pytest
import torch
from models import multimodal

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "examples"))

import describe

STEPS = 6
# A list with the features of each image, images in one list, masks that see whole images or a
# prefix, images of different sizes in one sequence, in windows, and for several layers, and sounds.
MODELS = ("Llava", "SmolVLM", "Gemma3", "PaliGemma", "Qwen2_5_VL", "Qwen3VL", "Voxtral")


def export(model: Any, folder: pathlib.Path | None, **arguments: Any) -> Any:
    """Exports without a warning: the model is right for all sizes."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", torch.onnx.errors.OnnxExporterWarning)
        return onnx_native.export_decoder(model, folder, **arguments)


def assert_describes(name: str, made: Any, folder: pathlib.Path, *counts: list[int]) -> None:
    model, inputs = made
    runtime = describe.Describer(folder)
    for count in counts:
        ids, mask, given, positions = multimodal.asked(name, model, inputs, count)
        tokens, logits = multimodal.eager(model, ids, mask, STEPS, given)
        got, scores = runtime.describe(
            ids.numpy(),
            mask.numpy(),
            STEPS,
            given={key: each.numpy() for key, each in given.items()},
            positions=None if positions is None else positions.numpy(),
        )
        torch.testing.assert_close(torch.from_numpy(scores), logits, atol=1e-3, rtol=1e-4)
        np.testing.assert_array_equal(got, tokens.numpy())


@pytest.mark.parametrize("name", MODELS)
def test_tokens(name: str, tmp_path: pathlib.Path) -> None:
    made = multimodal.make(name)
    exported = export(made[0], tmp_path, opset_version=21)
    for file, program in exported.programs.items():
        report = program.export_report["capture"]
        assert (report["by"], report["guards"]) == ("native", [])
        onnx.checker.check_model(str(tmp_path / file), full_check=True)
    assert len(list(tmp_path.glob("*.data"))) == 1
    texts = [[0], [1], [2], [3]]
    assert_describes(name, made, tmp_path, *texts, *([] if name == "SmolVLM" else [[1, 2]]))


def sizes(values: Any) -> dict[str, list[Any]]:
    return {
        value.name: [size.dim_param or size.dim_value for size in value.type.tensor_type.shape.dim]
        for value in values
        if not value.name.startswith(("past_key_values", "present"))
    }


def test_inputs_and_outputs() -> None:
    programs = export(multimodal.make("Gemma3")[0], None).programs
    assert list(programs) == ["vision.onnx", "embedding.onnx", "model.onnx"]
    vision, embedding, decoder = (each.model_proto.graph for each in programs.values())
    step = ["batch_size", "sequence_length"]
    total = ["batch_size", "past_sequence_length + sequence_length"]
    assert sizes(vision.input) == {"pixel_values": ["num_images", 3, 16, 16]}
    assert sizes(vision.output) == {"image_features": ["4*num_images", 32]}
    assert sizes(embedding.input) == {"input_ids": step, "image_features": ["num_image_tokens", 32]}
    assert sizes(embedding.output) == {"inputs_embeds": [*step, 32]}
    assert sizes(decoder.input) == {
        "inputs_embeds": [*step, 32],
        "token_type_ids": total,
        "attention_mask": total,
        "position_ids": step,
    }


def test_one_buffer_for_past_and_present(tmp_path: pathlib.Path) -> None:
    made = multimodal.make("Llava")
    exported = export(made[0], tmp_path, target="onnxruntime-cpu")
    graph = exported.programs["model.onnx"].model_proto.graph
    assert sum(node.op_type == "GroupQueryAttention" for node in graph.node) == 2
    assert_describes("Llava", made, tmp_path, [0], [2], [1, 2])
