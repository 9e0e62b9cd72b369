"""Modules that stay float32, by name, in a model of half precision."""

import pathlib
from typing import Any

import numpy as np
import onnx
import onnx.reference
import onnx_native
import onnxruntime
import pytest
import torch
from onnx import numpy_helper


class Feed(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = torch.nn.Linear(64, 128)
        self.down = torch.nn.Linear(128, 64)

    def forward(self, x):
        return self.down(torch.relu(self.up(x)))


class Language(torch.nn.Module):
    """An embedding, two blocks and a head that may be tied."""

    def __init__(self, is_tied: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed = torch.nn.Embedding(100, 64)
        self.blocks = torch.nn.ModuleList([Feed(), Feed()])
        self.norm = torch.nn.LayerNorm(64)
        self.lm_head = torch.nn.Linear(64, 100, bias=False)
        if is_tied:
            self.lm_head.weight = self.embed.weight

    def forward(self, tokens):
        x = self.embed(tokens)
        for block in self.blocks:
            x = x + block(x)
        return self.lm_head(self.norm(x))


TOKENS = torch.arange(14).view(2, 7)


def export(module: Any, path: pathlib.Path, **options: Any) -> onnx.ModelProto:
    with onnx_native.options(precision="float16", **options):
        torch.onnx.export(
            module.eval(), (TOKENS,), path, dynamo=True, verbose=False, opset_version=21
        )
    onnx.checker.check_model(str(path), full_check=True)
    return onnx.load(path)


def dtypes(model: onnx.ModelProto) -> dict[str, np.dtype]:
    return {each.name: numpy_helper.to_array(each).dtype for each in model.graph.initializer}


def run(path: pathlib.Path) -> torch.Tensor:
    session = onnxruntime.InferenceSession(path)
    (name,) = (each.name for each in session.get_inputs())
    return torch.from_numpy(session.run(None, {name: TOKENS.numpy()})[0])


def test_weights_of_named_modules_stay_float32(tmp_path):
    module, path = Language(), tmp_path / "m.onnx"
    found = dtypes(export(module, path, float32_modules=("lm_head", "blocks.1")))
    assert found["lm_head.weight.T"] == np.float32
    assert found["blocks.1.up.weight.T"] == found["blocks.1.down.weight.T"] == np.float32
    assert found["blocks.0.up.weight.T"] == found["embed.weight"] == np.float16
    expected = module(TOKENS).detach()
    assert (run(path) - expected).abs().max() < 2e-3 * expected.abs().max()


def test_patterns_name_modules(tmp_path):
    found = dtypes(export(Language(), tmp_path / "m.onnx", float32_modules="blocks.?.down"))
    for name, dtype in found.items():
        if name.endswith("weight.T"):
            assert (dtype == np.float32) == ("down" in name)


def test_all_modules_in_float32_are_the_program(tmp_path):
    module, path = Language(), tmp_path / "m.onnx"
    model = export(module, path, float32_modules=["*"])
    assert np.dtype(np.float16) not in dtypes(model).values()
    torch.testing.assert_close(run(path), module(TOKENS).detach())


def test_a_tied_weight_is_stored_once_in_float32(tmp_path):
    module, path = Language(is_tied=True), tmp_path / "m.onnx"
    found = dtypes(export(module, path, float32_modules="lm_head"))
    (table,) = [dtype for name, dtype in found.items() if name.startswith("embed")]
    assert table == np.float32
    assert not any(name.startswith("lm_head") for name in found)
    expected = module(TOKENS).detach()
    assert (run(path) - expected).abs().max() < 2e-3 * expected.abs().max()


class Large(torch.nn.Module):
    """A block whose results float16 does not hold, as those of some large models."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed = torch.nn.Embedding(100, 64)
        self.feed = Feed()
        self.norm = torch.nn.LayerNorm(64)
        self.feed.down.weight.data.mul_(5e5)

    def forward(self, tokens):
        x = self.embed(tokens)
        return self.norm(x + self.feed(x))


def test_results_of_a_float32_module_may_be_too_large_for_half(tmp_path):
    """onnx's own evaluator runs the models: ONNX Runtime computes their products in float32."""
    module, path = Large(), tmp_path / "m.onnx"
    expected = module(TOKENS).detach()

    def evaluated(**options: Any) -> torch.Tensor:
        evaluator = onnx.reference.ReferenceEvaluator(export(module, path, **options))
        (got,) = evaluator.run(None, {"tokens": TOKENS.numpy()})
        return torch.from_numpy(got)

    with np.errstate(over="ignore", invalid="ignore"):
        assert not torch.isfinite(evaluated()).all()
    got = evaluated(float32_modules="feed.down")
    assert dtypes(onnx.load(path))["feed.up.weight.T"] == np.float16
    assert (got - expected).abs().max() < 1e-2 * expected.abs().max()


def test_quantized_weights_of_a_float32_module(tmp_path):
    module, path = Language(), tmp_path / "m.onnx"
    found = dtypes(export(module, path, float32_modules="lm_head", quantize_weights="int8"))
    assert found["lm_head.weight.T_scales"] == np.float32
    assert found["blocks.0.up.weight.T_scales"] == np.float16
    expected = module(TOKENS).detach()
    assert (run(path) - expected).norm() < 2e-2 * expected.norm()


def test_an_unknown_module_is_an_error(tmp_path):
    with pytest.raises(
        torch.onnx.errors.OnnxExporterError,
        match=r"float32_modules names lm_haed, .*; names like it are lm_head",
    ):
        export(Language(), tmp_path / "m.onnx", float32_modules=("lm_haed",))
