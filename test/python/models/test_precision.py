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

from models import running, test_torchao, zoo
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


def test_verification_knows_half_precision(tmp_path):
    module, x = Layers(64), torch.randn(3, 64)
    for keep_io_types in (True, False):
        with onnx_native.options(precision="float16", keep_io_types=keep_io_types):
            program = torch.onnx.export(
                module.eval(),
                (x,),
                dynamo=True,
                verbose=False,
                verify=True,
                report=True,
                artifacts_dir=tmp_path,
            )
        verified = program.export_report["verification"]
        assert [row["is_accurate"] for row in verified] == [True, True]
        compared = onnx_native.compare(program)
        assert compared.first is None
        assert len(compared) == 6
        wanted = torch.float32 if keep_io_types else torch.float16
        assert program(x)[0].dtype == wanted
    text = max(tmp_path.glob("*.md")).read_text()
    assert "3 nodes compute in half precision" in text
    assert "| `LayerNormalization` | 1 |" in text


def test_verification_finds_what_half_precision_does_not_explain():
    module, x = Layers(64).eval(), torch.randn(3, 64)
    with onnx_native.options(precision="float16"):
        program = torch.onnx.export(module, (x,), dynamo=True, verbose=False)
    other = Layers(64)
    program.apply_weights({"down.bias": other.down.bias + 0.2})
    compared = onnx_native.compare(program)
    assert [row.name for row in compared.origins] == ["linear_1"]


@torch.no_grad()
@pytest.mark.parametrize("route", ["traced", "program", "legacy"])
def test_routes(route, tmp_path):
    module, x = Layers(64).eval(), torch.randn(3, 64)
    path = tmp_path / "m.onnx"
    with onnx_native.options(precision="float16", legacy=True):
        if route == "traced":
            torch.onnx.export(torch.jit.trace(module, x), (x,), path, dynamo=True, verbose=False)
        elif route == "program":
            torch.onnx.export(
                torch.export.export(module, (x,)), (), path, dynamo=True, verbose=False
            )
        else:
            torch.onnx.export(module, (x,), str(path), dynamo=False)
    session = running.session(path)
    got = running.run(session, {session.get_inputs()[0].name: x})
    assert worst_error(got, running.eager(module, {"x": x})) < 2e-3
    halves = [each for each in onnx.load(path).graph.initializer if each.data_type == 10]
    assert len(halves) == 4


@torch.no_grad()
@pytest.mark.parametrize("config", ["int8", "intx4-groups"])
def test_quantized_weights_are_dequantized_to_half(config, tmp_path):
    module, x = test_torchao.quantized(config), torch.randn(5, 64)
    path = tmp_path / "m.onnx"
    with onnx_native.options(precision="float16"):
        torch.onnx.export(module, (x,), path, dynamo=True, opset_version=21, verbose=False)
    onnx.checker.check_model(path, full_check=True)
    model = onnx.load(path)
    kinds = [node.op_type for node in model.graph.node]
    assert kinds.count("DequantizeLinear") == kinds.count("MatMul") == kinds.count("Cast") == 2
    stored = {each.name: each.data_type for each in model.graph.initializer}
    assert onnx.TensorProto.FLOAT not in stored.values()
    session = running.session(path, optimized=False)
    got = running.run(session, {session.get_inputs()[0].name: x})
    assert worst_error(got, [module(x)]) < 2e-3


@torch.no_grad()
def test_quantized_activations_stay_as_they_are(tmp_path):
    module, x = test_torchao.quantized("int8-dynamic"), torch.randn(5, 64)
    results = []
    for precision in ("program", "float16"):
        path = tmp_path / f"{precision}.onnx"
        with onnx_native.options(precision=precision):
            torch.onnx.export(module, (x,), path, dynamo=True, opset_version=21, verbose=False)
        session = running.session(path, optimized=False)
        results += running.run(session, {session.get_inputs()[0].name: x})
        kinds = [node.op_type for node in onnx.load(path).graph.node]
        assert kinds.count("MatMulInteger") == 2
    assert torch.equal(*results)


class Masked(torch.nn.Module):
    """Attention with a mask of the lowest number."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value = (torch.nn.Linear(32, 32) for _ in range(3))

    def forward(self, x, mask):
        heads = [
            layer(x).unflatten(-1, (4, 8)).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        ]
        bias = (1 - mask.float())[:, None, None, :] * torch.finfo(torch.float32).min
        return torch.nn.functional.scaled_dot_product_attention(*heads, attn_mask=bias)


@pytest.mark.parametrize("opset", [18, 23, 24])
@pytest.mark.parametrize("keep_io_types", [True, False])
def test_masks_of_the_lowest_number(opset, keep_io_types, tmp_path):
    torch.manual_seed(0)
    module = Masked().eval()
    inputs = {"x": torch.randn(2, 5, 32), "mask": torch.tensor([[1, 1, 1, 0, 0], [0] * 5])}
    path = tmp_path / "m.onnx"
    with onnx_native.options(precision="float16", keep_io_types=keep_io_types):
        torch.onnx.export(
            module, (), path, kwargs=inputs, dynamo=True, opset_version=opset, verbose=False
        )
    onnx.checker.check_model(path, full_check=True)
    expected = running.eager(module, inputs)
    if not keep_io_types:
        inputs["x"], expected = inputs["x"].half(), [expected[0].half()]
    assert worst_error(running.run(running.session(path), inputs), expected) < 2e-3


class Rotated(torch.nn.Module):
    """Angles of positions and of times, beside layers."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(64, 64)
        self.register_buffer("frequencies", 1e4 ** -(torch.arange(32) / 32))

    def forward(self, x, positions, time):
        angles = positions[:, None] * self.frequencies
        angles = torch.cat([angles, angles], -1)
        h = self.layer(x)
        turned = h * angles.cos() + h.roll(32, -1) * angles.sin()
        steps = torch.sin(time[:, None] * self.frequencies)
        return self.layer(turned), torch.cat([steps, steps.cos()], -1)


def test_angles_of_large_positions(tmp_path):
    module = Rotated().eval()
    inputs = {
        "x": torch.randn(5, 64),
        "positions": torch.tensor([0, 1, 2049, 30001, 70001]),
        "time": torch.tensor([999.7, 123.45]),
    }
    path = tmp_path / "m.onnx"
    with onnx_native.options(precision="float16"):
        torch.onnx.export(module, (), path, kwargs=inputs, dynamo=True, verbose=False)
    got = running.run(running.session(path), inputs)
    assert worst_error(got, running.eager(module, inputs)) < 2e-3


class Repeated(torch.nn.Module):
    """A layer in a loop, and one in a branch."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.outer = torch.nn.Linear(48, 48), torch.nn.Linear(48, 48)

    def forward(self, x):
        def step(count, h):
            return count + 1, torch.tanh(self.inner(h)) + h

        start = torch.tensor(0), self.outer(x)
        _, h = torch.ops.higher_order.while_loop(lambda count, _: count < 40, step, start, ())
        return torch.cond(h.sum() > 0, lambda h: self.outer(h).relu(), torch.exp, (h,))


def test_loops_and_branches(tmp_path):
    torch.manual_seed(0)
    module, x = Repeated(), torch.randn(3, 48)
    program = export(module, x, tmp_path / "m.onnx", precision="float16")
    onnx.checker.check_model(tmp_path / "m.onnx", full_check=True)
    got = running.run(running.session(tmp_path / "m.onnx"), {"x": x})
    assert worst_error(got, running.eager(module, {"x": x})) < TOLERANCE
    assert program.export_report["half_nodes"] >= 4


def test_state_has_the_types_of_inputs():
    class Decaying(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(16, 16)
            self.register_buffer("mean", torch.full((16,), 0.3))

        def forward(self, x):
            self.mean.mul_(0.5).add_(self.layer(x).mean(0))
            return x + self.mean

    x = torch.randn(4, 16)
    with onnx_native.options(precision="float16", keep_io_types=False, state=True):
        program = torch.onnx.export(Decaying().eval(), (x,), dynamo=True, verbose=False)
    assert program.state["mean"].dtype == torch.float16
    assert program(x)[0].dtype == torch.float16
    assert program.state["mean"].dtype == torch.float16
