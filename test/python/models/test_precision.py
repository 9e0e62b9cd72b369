"""Models exported in half precision: checked, run, and compared with float32 eager."""

import os
import pathlib
import re

import numpy as np
import onnx
import onnx.reference
import onnx_native
import pytest
import torch

from models import running, zoo
from models.architectures import ARCHITECTURES

# Of the largest number of an output. Half precision has 11 bits, and errors add up over the layers.
TOLERANCE = 1e-2


def worst_error(got: list[torch.Tensor], expected: list[torch.Tensor]) -> float:
    """Returns the largest error, relative to the largest number of the output."""
    worst = 0.0
    for one, other in zip(got, expected, strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        finite = torch.isfinite(other)
        assert torch.equal(torch.isfinite(one), finite)
        difference = (one.double() - other.double())[finite].abs()
        if difference.numel():
            worst = max(worst, (difference.max() / other[finite].abs().max().clamp(min=1)).item())
    return worst


NAMES = (
    *("bert", "bloom", "clip", "convnext", "diffusers_unet_condition", "gemma2", "gpt2_cache"),
    *("llama", "mamba", "mixtral", "nn_gru", "nn_lstm", "swinv2", "t5", "vit", "whisper"),
)


@pytest.mark.parametrize("name", NAMES)
def test_architectures_in_float16(name):
    model = ARCHITECTURES[name]
    module = model.module()
    with zoo.scratch_folder() as folder:
        path = folder / "m.onnx"
        with onnx_native.options(precision="float16"):
            program = model.export(module, f=path, external_data=True)
        onnx.checker.check_model(str(path), full_check=True)
        assert program.export_report["half_nodes"] > 0
        session = running.session(path)
        for which in (0, 1):
            inputs = model.example(which)
            got = running.run(session, inputs)
            assert worst_error(got, running.eager(module, inputs)) < TOLERANCE


class Layers(torch.nn.Module):
    """Two layers, a normalization and a softmax."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.up = torch.nn.Linear(size, 4 * size)
        self.down = torch.nn.Linear(4 * size, size)
        self.norm = torch.nn.LayerNorm(size)

    def forward(self, x):
        h = self.norm(x + self.down(torch.relu(self.up(x))))
        return torch.softmax(h, -1), h


def export(module, x, path, **options):
    with onnx_native.options(**options):
        return torch.onnx.export(
            module.eval(),
            (x,),
            path,
            dynamo=True,
            dynamic_shapes=({0: "batch"},),
            external_data=True,
            verbose=False,
        )


def test_weights_are_half_in_the_file(tmp_path):
    module, x = Layers(64), torch.randn(3, 64)
    program = export(module, x, tmp_path / "m.onnx", precision="float16")
    onnx.checker.check_model(tmp_path / "m.onnx", full_check=True)
    model = onnx.load(tmp_path / "m.onnx")
    stored = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    assert {name: value.dtype for name, value in stored.items()} == {
        "up.weight": np.float16,
        "up.bias": np.float16,
        "down.weight": np.float16,
        "down.bias": np.float16,
        "norm.weight": np.float32,
        "norm.bias": np.float32,
    }
    np.testing.assert_array_equal(stored["up.weight"], module.up.weight.detach().half().numpy())
    assert os.path.getsize(tmp_path / "m.onnx.data") < 2 * 64 * 64 * 8 + 10000
    assert program.export_report["half_nodes"] == 3
    assert program.export_report["float32_nodes"] == {
        "Add": 1,
        "LayerNormalization": 1,
        "Softmax": 1,
    }
    got = running.run(running.session(tmp_path / "m.onnx"), {"x": x})
    assert [one.dtype for one in got] == [torch.float32] * 2
    assert worst_error(got, running.eager(module, {"x": x})) < 2e-3


def test_inputs_and_outputs_may_be_half(tmp_path):
    module, x = Layers(64), torch.randn(3, 64)
    export(module, x, tmp_path / "m.onnx", precision="float16", keep_io_types=False)
    onnx.checker.check_model(tmp_path / "m.onnx", full_check=True)
    got = running.run(running.session(tmp_path / "m.onnx"), {"x": x.half()})
    assert [one.dtype for one in got] == [torch.float16] * 2
    expected = [one.half() for one in running.eager(module, {"x": x})]
    assert worst_error(got, expected) < 2e-3


def test_bfloat16(tmp_path):
    """ONNX Runtime's CPU provider has no product of bfloat16: onnx's own evaluator runs it."""
    module, x = Layers(64), torch.randn(3, 64)
    export(module, x, tmp_path / "m.onnx", precision="bfloat16")
    onnx.checker.check_model(tmp_path / "m.onnx", full_check=True)
    model = onnx.load(tmp_path / "m.onnx")
    dtypes = {tensor.name: tensor.data_type for tensor in model.graph.initializer}
    assert dtypes["up.weight"] == onnx.TensorProto.BFLOAT16
    got = onnx.reference.ReferenceEvaluator(model).run(None, {"x": x.numpy()})
    expected = running.eager(module, {"x": x})
    assert worst_error([torch.from_numpy(one) for one in got], expected) < 2e-2


def test_bfloat16_for_onnxruntime_runs_there(tmp_path):
    module, x = Layers(64), torch.randn(3, 64)
    options = {"precision": "bfloat16", "target": "onnxruntime-cpu"}
    program = export(module, x, tmp_path / "m.onnx", **options)
    got = running.run(running.session(tmp_path / "m.onnx"), {"x": x})
    assert worst_error(got, running.eager(module, {"x": x})) < 2e-2
    assert program.export_report["half_nodes"] == 0
    model = onnx.load(tmp_path / "m.onnx")
    dtypes = {tensor.name: tensor.data_type for tensor in model.graph.initializer}
    assert dtypes["up.weight"] == onnx.TensorProto.BFLOAT16
    assert "Gemm" in program.export_report["float32_nodes"]


def test_unknown_precisions_are_errors():
    with (
        pytest.raises(ValueError, match="precision= takes one of 'program', 'float16'"),
        onnx_native.options(precision="half"),
    ):
        pass


def test_weights_that_change_afterwards(tmp_path):
    module, x = Layers(64), torch.randn(3, 64)
    with onnx_native.options(precision="float16"):
        program = torch.onnx.export(module.eval(), (x,), dynamo=True, verbose=False)
    other = Layers(64)
    program.apply_weights(other.state_dict())
    program.save(tmp_path / "m.onnx")
    got = running.run(running.session(tmp_path / "m.onnx"), {"x": x})
    assert worst_error(got, running.eager(other, {"x": x})) < 2e-3
    with torch.no_grad():
        other.up.weight[0, 0] = 1e6
    program.apply_weights(other.state_dict())
    with pytest.raises(onnx_native.ExportError, match=r"up\.weight now has elements outside"):
        program.save(tmp_path / "m.onnx")


def test_the_docs_list_the_operators():
    root = pathlib.Path(__file__).parents[3]
    source = (root / "csrc/passes/precision_roles.cpp").read_text()
    rows = re.findall(r"add\(Role::(\w+),\s*\{(.*?)\}\);", source, re.DOTALL)
    assert len(rows) == 8
    page = (root / "docs/precision.md").read_text().split("## What stays float32")[1]
    table = [line.split("|")[2] for line in page.splitlines() if line.startswith("| ")][2:]
    for (role, listed), documented in zip(rows, table, strict=True):
        operators = set(re.findall(r'"(\w+)"', listed))
        assert operators <= set(re.findall(r"\w+", documented)), role
        assert operators <= {schema.name for schema in onnx.defs.get_all_schemas()}, role
