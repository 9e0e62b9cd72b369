"""Decoders with states: convolutions, state spaces and linear attentions, alone or with keys."""

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
from models import stateful
from onnx_native.decoders import _steps

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "examples"))

import generate

STEPS = 8
# A scan over tokens, chunks of 16 and of 64 tokens, convolutions alone, layers with keys and
# states, states in the modules, and a cache of the model's own.
MODELS: dict[str, dict[str, Any]] = {
    "Mamba": {"num_hidden_layers": 1},
    "Bamba": {"num_hidden_layers": 2},
    "Qwen3_5": stateful.layers(stateful.LINEAR, stateful.FULL),
    "Lfm2": stateful.layers("conv", stateful.FULL),
    "FalconH1": {"num_hidden_layers": 1},
    "RecurrentGemma": {"num_hidden_layers": 2, "block_types": ["recurrent", "attention"]},
    "MiniMax": stateful.layers(stateful.FULL, stateful.LINEAR),
}


def export(model: Any, folder: pathlib.Path | None, **arguments: Any) -> Any:
    """Exports without a warning: the model is right for all sizes."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", torch.onnx.errors.OnnxExporterWarning)
        return onnx_native.export_decoder(model, folder, **arguments)


def assert_generates(model: Any, folder: pathlib.Path, *, padded: bool = True) -> None:
    runtime = generate.Decoder(folder)
    for batch, length in ((1, 1), (1, 70), (3, 5) if padded else (1, 5)):
        ids, mask = stateful.prompts(batch, length)
        tokens, logits = stateful.eager(model, ids, mask, STEPS)
        got, scores = runtime.generate(ids.numpy(), mask.numpy(), STEPS)
        torch.testing.assert_close(torch.from_numpy(scores), logits, atol=1e-3, rtol=1e-4)
        np.testing.assert_array_equal(got, tokens.numpy())


@pytest.mark.parametrize("name", MODELS)
def test_tokens(name: str, tmp_path: pathlib.Path) -> None:
    model = stateful.make(name, **MODELS[name])
    report = export(model, tmp_path, opset_version=21).programs["model.onnx"].export_report
    assert report["capture"]["by"] == "native"
    assert report["capture"]["guards"] == []
    onnx.checker.check_model(str(tmp_path / "model.onnx"), full_check=True)
    assert_generates(model, tmp_path)


def sizes(values: Any) -> dict[str, list[Any]]:
    return {
        value.name: [size.dim_param or size.dim_value for size in value.type.tensor_type.shape.dim]
        for value in values
    }


def test_inputs_and_outputs() -> None:
    graph = export(stateful.make("Lfm2"), None).programs["model.onnx"].model_proto.graph
    batch, past = "batch_size", "past_sequence_length"
    found = sizes(graph.input)
    assert found["attention_mask"] == [batch, f"{past} + sequence_length"]
    assert found["past_key_values.0.conv_state"] == [batch, 32, 3]
    assert found["past_key_values.1.key"] == [batch, 2, past, 8]
    names = [value.name.removeprefix("present.") for value in graph.output[1:]]
    assert names == ["0.conv_state", "1.key", "1.value", "2.conv_state"]
    assert sizes(graph.output)["present.0.conv_state"] == [batch, 32, 3]


def in_two_steps(folder: pathlib.Path, ids: np.ndarray, cut: int) -> np.ndarray:
    """Returns the logits of a second step that takes several tokens."""
    runtime = generate.Decoder(folder)
    past = runtime.empty_past(len(ids))
    for step in (ids[:, :cut], ids[:, cut:]):
        start = 0 if step.shape[1] == cut else cut
        mask = np.ones((len(ids), (start if runtime.grows else 0) + step.shape[1]), np.int64)
        positions = np.arange(start, start + step.shape[1])[None].repeat(len(ids), 0)
        feeds = {"input_ids": step, "attention_mask": mask, "position_ids": positions}
        logits, past = runtime.step(feeds, past)
    return logits


@pytest.mark.parametrize("name", ["Bamba", "Mamba"])
def test_a_step_of_several_tokens(name: str, tmp_path: pathlib.Path) -> None:
    """A program whose scan starts from zeros has no logits there, rather than wrong ones."""
    model = stateful.make(name, **MODELS[name])
    graph = export(model, tmp_path).programs["model.onnx"].model_proto.graph
    ids = stateful.prompts(2, 20)[0]
    logits = in_two_steps(tmp_path, ids.numpy(), 13)
    if name == "Mamba":
        # Nothing grows, and the states hold no padding.
        assert sizes(graph.input)["attention_mask"] == ["batch_size", "sequence_length"]
        assert np.isnan(logits).all()
    else:
        torch.testing.assert_close(torch.from_numpy(logits), model(ids).logits[:, 13:])


def test_one_token_at_a_time(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So are models whose loops no capture has, such as xLSTM. Its export takes too long here."""
    export_step = _steps.export

    def of_one_token(model: Any, signature: Any, *arguments: Any, **options: Any) -> Any:
        if signature.inputs["input_ids"].shape[1] != 1:
            raise torch.onnx.OnnxExporterError("a loop")
        return export_step(model, signature, *arguments, **options)

    monkeypatch.setattr(_steps, "export", of_one_token)
    model = stateful.make("Lfm2", **MODELS["Lfm2"])
    with pytest.warns(torch.onnx.errors.OnnxExporterWarning, match="takes one token at a time"):
        exported = onnx_native.export_decoder(model, tmp_path)
    assert exported.genai_config is None
    found = sizes(exported.programs["model.onnx"].model_proto.graph.input)
    assert found["input_ids"] == ["batch_size", 1]
    assert found["attention_mask"] == ["batch_size", "past_sequence_length + 1"]
    assert_generates(model, tmp_path, padded=False)  # no step of one token reads a mask


def test_the_configuration_of_onnxruntime_genai() -> None:
    decoder = export(stateful.make("Bamba"), None).genai_config["model"]["decoder"]
    assert decoder["num_hidden_layers"] == 3
    assert decoder["layer_types"] == ["linear_attention", "full_attention", "linear_attention"]
    assert decoder["inputs"]["past_conv_names"] == "past_key_values.%d.conv_state"
    assert decoder["outputs"]["present_recurrent_names"] == "present.%d.recurrent_state"
    # Its layers have keys and states.
    assert export(stateful.make("FalconH1", **MODELS["FalconH1"]), None).genai_config is None


def test_a_checkpoint(tmp_path: pathlib.Path) -> None:
    """A model on the meta device has no elements to find out what its states are."""
    model = stateful.make("Lfm2")
    model.save_pretrained(tmp_path / "checkpoint")
    with torch.device("meta"):
        empty = stateful.make("Lfm2")
        other = stateful.make("Rwkv")
    checkpoint = tmp_path / "checkpoint" / "model.safetensors"
    with onnx_native.options(weights="module"):
        export(empty, tmp_path / "folder", checkpoint=checkpoint)
    assert not list((tmp_path / "folder").glob("*.data"))
    assert_generates(model, tmp_path / "folder")
    rescaled = stateful.make("Rwkv", num_hidden_layers=2)
    with pytest.raises(ValueError, match="changes its weights"):
        onnx_native.export_decoder(rescaled, None, checkpoint=checkpoint)
    with pytest.raises(ValueError, match=r"state.* do not begin with zeros, or .* meta device"):
        export(other, None)
