"""Models that read images or sounds, exported as towers, embedding and decoder."""

from __future__ import annotations

import pathlib
import sys
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import onnx
import onnx_native
import pytest
import torch
from models import multimodal, stateful
from onnx_native.decoders import _towers

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "examples"))

import describe

STEPS = 6
# A list with the features of each image, images in one list, masks that see whole images or a
# prefix, images of different sizes in one sequence, in windows, and for several layers, and sounds
# whose features a method makes or the forward.
IMAGES = ("Llava", "SmolVLM", "Gemma3", "PaliGemma", "Qwen2_5_VL", "Qwen3VL")
MODELS = (*IMAGES, "Voxtral", "Qwen2Audio")


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
        tokens, logits = stateful.eager(model, ids, mask, STEPS, **given)
        got, scores = multimodal.described(runtime, ids, mask, STEPS, given, positions)
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


def test_a_tower_that_takes_one_image(tmp_path: pathlib.Path) -> None:
    """The program loops over images of sizes that it computes."""
    made = multimodal.make("LlavaNext")
    with pytest.warns(torch.onnx.errors.OnnxExporterWarning, match="takes pixel_values") as found:
        onnx_native.export_decoder(made[0], tmp_path)
    assert "image_sizes = [[16, 16]]" in str(found[0].message)
    assert_describes("LlavaNext", made, tmp_path, [0], [1], [2])
    given = {key: each.numpy() for key, each in made[1](1)[0].items()}
    given["image_sizes"] = given["image_sizes"] // 2
    features = describe.Describer(tmp_path).features(given)["image_features"]
    assert np.isnan(features).all()


def test_what_a_processor_returns(tmp_path: pathlib.Path) -> None:
    """Sizes that differ between examples are dynamic; one example stands for its images twice."""
    made = multimodal.make("AudioFlamingo3")
    masked = [multimodal.asked("AudioFlamingo3", *made, [count])[2] for count in (2, 3)]
    for inputs in (masked, masked[0]):
        exported = export(made[0], tmp_path, inputs=inputs)
        assert_describes("AudioFlamingo3", made, tmp_path, [0], [1], [3], [1, 1])
    found = sizes(exported.programs["speech.onnx"].model_proto.graph.input)
    assert found["input_features"] == ["num_input_features", 8, 32]


def test_as_many_tokens_as_features(tmp_path: pathlib.Path) -> None:
    export(multimodal.make("Llava")[0], tmp_path)
    embedding = describe.Describer(tmp_path).embedding
    ids = np.array([[1, multimodal.PLACE, multimodal.PLACE, 5]])
    for rows in (1, 3):
        given = {"input_ids": ids, "image_features": np.ones((rows, 32), np.float32)}
        with pytest.raises(Exception, match=r"assert|ScatterND"):
            describe.run(embedding, given)


def test_features_that_a_program_merges_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    of_program = _towers.Tower.features

    def features(self: Any, output: Any) -> dict[str, torch.Tensor]:
        return {name: each.flip(0) for name, each in of_program(self, output).items()}

    monkeypatch.setattr(_towers.Tower, "features", features)
    with pytest.raises(ValueError, match="does not merge the image features of several inputs"):
        onnx_native.export_decoder(multimodal.make("Llava")[0])


def test_unknown_inputs() -> None:
    model = multimodal.make("Llava")[0]
    model.config.vision_config.image_size = 20  # not that of the weights
    with pytest.raises(ValueError, match=r"the image inputs .* not known: .*inputs=processor"):
        onnx_native.export_decoder(model)
    model.config.image_token_id = None
    with pytest.raises(ValueError, match="has no image_token_id or image_token_index"):
        onnx_native.export_decoder(model, inputs=multimodal.pixels(2)[0])
    assert list(onnx_native.export_decoder(model, inputs={}).programs) == ["model.onnx"]


def test_the_configuration_of_onnxruntime_genai() -> None:
    config = export(multimodal.make("Qwen2_5_VL")[0], None).genai_config["model"]
    assert config["type"] == "qwen2_5_vl"
    assert config["image_token_id"] == multimodal.PLACE
    assert config["vision_start_token_id"] == multimodal.START
    assert config["vision"]["inputs"] == {
        "pixel_values": "pixel_values",
        "image_grid_thw": "image_grid_thw",
    }
    assert config["vision"]["spatial_merge_size"] == 2
    assert config["embedding"]["filename"] == "embedding.onnx"
    assert config["decoder"]["inputs"]["inputs_embeds"] == "inputs_embeds"
    assert export(multimodal.make("Llava")[0], None).genai_config["model"]["type"] == "gemma3"
    # It gives no types of tokens, and no features for several layers.
    for name in ("Gemma3", "Qwen3VL"):
        assert export(multimodal.make(name)[0], None).genai_config is None


def test_a_checkpoint(tmp_path: pathlib.Path) -> None:
    model, images = multimodal.make("SmolVLM")
    model.save_pretrained(tmp_path / "checkpoint")
    checkpoint = tmp_path / "checkpoint" / "model.safetensors"
    loaded = type(model).from_pretrained(tmp_path / "checkpoint").eval()
    with onnx_native.options(weights="module"):
        export(loaded, tmp_path / "folder", checkpoint=checkpoint)
    for file in ("vision.onnx", "embedding.onnx", "model.onnx"):
        model_of_file = onnx.load(tmp_path / "folder" / file, load_external_data=False)
        places = {
            each.value
            for weight in model_of_file.graph.initializer
            for each in weight.external_data
            if each.key == "location"
        }
        assert "model.safetensors" in {pathlib.Path(place).name for place in places}
    assert_describes("SmolVLM", (model, images), tmp_path / "folder", [0], [2])
    with torch.device("meta"):
        empty = multimodal.make("SmolVLM")[0]
    with pytest.raises(ValueError, match="on the meta device"):
        onnx_native.export_decoder(empty, checkpoint=checkpoint)


def test_other_threads_run_such_models_meanwhile() -> None:
    """An export replaces transformers' functions for its own thread. (Models that return hidden
    states use a global variable of transformers while PyTorch exports.)"""
    name = "Qwen2_5_VL"
    (model, inputs), (exported, _) = multimodal.make(name), multimodal.make(name)
    ids, mask, given, _ = multimodal.asked(name, model, inputs, [2])
    stop = threading.Event()

    def logits() -> torch.Tensor:
        with torch.no_grad():
            return model(input_ids=ids, attention_mask=mask, **given).logits

    expected = logits()

    def differences() -> list[float]:
        found = [0.0]
        while not stop.is_set():
            found.append(float((logits() - expected).abs().max()))
        return found

    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(differences)
        export(exported, None)
        stop.set()
        found = other.result()
    assert len(found) > 1
    assert max(found) < 1e-5
