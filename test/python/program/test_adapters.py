"""Weights as inputs with defaults, which ONNX Runtime's adapters replace while it runs."""

import pathlib
from typing import Any

import numpy as np
import onnx
import onnx_native
import onnxruntime as ort
import pytest
import torch
from onnx import numpy_helper


class Adapted(torch.nn.Module):
    """A linear layer with two matrices of low rank beside it, as LoRA has them."""

    def __init__(self, rank: int = 4) -> None:
        super().__init__()
        self.base = torch.nn.Linear(16, 32)
        self.lora_A = torch.nn.Linear(16, rank, bias=False)
        self.lora_B = torch.nn.Linear(rank, 32, bias=False)

    def forward(self, x):
        return self.base(x) + self.lora_B(self.lora_A(x)) * 0.5


class Model(torch.nn.Module):
    def __init__(self, rank: int = 4) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first = Adapted(rank)
        self.last = torch.nn.Linear(32, 16)
        self.second = Adapted(rank)

    def forward(self, x):
        return self.second(self.last(torch.relu(self.first(x))))


X = torch.randn(3, 5, 16)
NAMES = [
    f"{layer}.{matrix}.weight" for layer in ("first", "second") for matrix in ("lora_A", "lora_B")
]


def export(module: Any, path: pathlib.Path, **options: Any) -> Any:
    with onnx_native.options(adapters=("*.lora_?",), **options):
        program = torch.onnx.export(
            module.eval(),
            (X,),
            path,
            dynamo=True,
            verbose=False,
            opset_version=21,
            dynamic_shapes=({0: "batch", 1: "length"},),
        )
    onnx.checker.check_model(str(path), full_check=True)
    return program


def run(session: ort.InferenceSession, adapter: pathlib.Path | None = None) -> torch.Tensor:
    options = ort.RunOptions()
    if adapter is not None:
        loaded = ort.LoraAdapter()
        loaded.Load(str(adapter))
        options.add_active_adapter(loaded)
    return torch.from_numpy(session.run(None, {"x": X.numpy()}, options)[0])


def without_adapters(module: Model) -> torch.Tensor:
    for layer in (module.first, module.second):
        torch.nn.init.zeros_(layer.lora_B.weight)
    return module(X).detach()


def test_adapters_are_swapped_while_the_model_runs(tmp_path):
    module, path = Model(), tmp_path / "m.onnx"
    program = export(module, path)
    assert program.export_report["adapters"] == NAMES
    session = ort.InferenceSession(path)
    assert [each.name for each in session.get_inputs()] == ["x"]
    assert [each.name for each in session.get_overridable_initializers()] == NAMES
    expected = {}
    for number in range(2):
        with torch.no_grad():
            for name in NAMES:
                module.get_parameter(name).copy_(torch.randn(module.get_parameter(name).shape))
        expected[number] = module(X).detach()
        onnx_native.save_adapter(program, module.state_dict(), tmp_path / f"{number}.onnx_adapter")
    base = without_adapters(module)
    for number in (0, 1, 0):
        got = run(session, tmp_path / f"{number}.onnx_adapter")
        torch.testing.assert_close(got, expected[number], rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(run(session), base, rtol=1e-5, atol=1e-5)


def test_the_program_runs_without_adapters(tmp_path):
    module = Model()
    program = export(module, tmp_path / "m.onnx")
    torch.testing.assert_close(program(X)[0], without_adapters(module), rtol=1e-5, atol=1e-5)
    program.model.doc_string = "edited"
    torch.testing.assert_close(program(X)[0], without_adapters(module), rtol=1e-5, atol=1e-5)
    program.save(tmp_path / "edited.onnx")
    session = ort.InferenceSession(tmp_path / "edited.onnx")
    assert [each.name for each in session.get_inputs()] == ["x"]


def test_adapters_of_lower_rank(tmp_path):
    path, small = tmp_path / "m.onnx", Model(rank=2)
    program = export(Model(), path)
    axes = {"*lora_A*": 0, "*lora_B*": 1}
    weights = {name: small.state_dict()[name] for name in NAMES}
    adapter = tmp_path / "small.onnx_adapter"
    with pytest.raises(ValueError, match=r"first\.lora_A\.weight has the shape \[2, 16\], and the"):
        onnx_native.save_adapter(program, weights, adapter)
    onnx_native.save_adapter(program, weights, adapter, rank_axes=axes)
    small.first.base = small.last = small.second.base = torch.nn.Identity()
    same = Model()
    small.first.base, small.last, small.second.base = same.first.base, same.last, same.second.base
    got = run(ort.InferenceSession(path), adapter)
    torch.testing.assert_close(got, small(X).detach(), rtol=1e-4, atol=1e-4)
    large = {name: value for name, value in Model(rank=8).state_dict().items() if name in NAMES}
    with pytest.raises(ValueError, match="export the adapter of the largest rank"):
        onnx_native.save_adapter(program, large, adapter, rank_axes=axes)


@pytest.mark.parametrize("target", ["onnx", "onnxruntime-cpu"])
def test_half_precision_and_quantized_weights(tmp_path, target):
    module, path, adapter = Model(), tmp_path / "m.onnx", tmp_path / "a.onnx_adapter"
    program = export(
        module,
        path,
        target=target,
        precision="float16",
        quantize_weights=onnx_native.WeightQuantization("int8", block_size=16),
    )
    assert set(program.export_report["quantized_weights"]) == {
        "first.base.weight",
        "last.weight",
        "second.base.weight",
    }
    initializers = {each.name: each for each in onnx.load(path).graph.initializer}
    for name in NAMES:
        zeros = numpy_helper.to_array(initializers[name])
        assert zeros.dtype == np.float16
        assert not zeros.any()
    onnx_native.save_adapter(program, module.state_dict(), adapter)
    session, expected = ort.InferenceSession(path), module(X).detach()
    assert (run(session, adapter) - expected).norm() < 2e-2 * expected.norm()
    base = without_adapters(module)
    assert (run(session) - base).norm() < 2e-2 * base.norm()


def test_a_data_file_has_zeros_of_one_size_once(tmp_path):
    class Many(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = torch.nn.ModuleList(
                torch.nn.Linear(512, 512, bias=False) for _ in range(4)
            )

        def forward(self, x):
            for layer in self.layers:
                x = layer(x)
            return x

    with onnx_native.options(adapters=["layers"]):
        program = torch.onnx.export(Many(), (torch.randn(1, 512),), dynamo=True, verbose=False)
    program.save(tmp_path / "m.onnx", external_data=True)
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) < 1.1 * 512 * 512 * 4


@pytest.mark.parametrize("precision", ["program", "float16"])
def test_verification_has_the_adapters_of_the_module(precision):
    with onnx_native.options(adapters=("*.lora_?",), precision=precision):
        program = torch.onnx.export(
            Model().eval(), (X,), dynamo=True, verbose=False, opset_version=21, verify=True
        )
    assert [row["is_accurate"] for row in program.export_report["verification"]] == [True]
    assert "begins" not in {row.status for row in onnx_native.compare(program)}


@pytest.mark.parametrize("functions", [False, True])
@pytest.mark.parametrize("capture", ["native", "torch.export"])
def test_both_captures_and_functions(tmp_path, capture, functions):
    module, path, adapter = Model(), tmp_path / "m.onnx", tmp_path / "a.onnx_adapter"
    program = export(module, path, capture=capture, functions=functions)
    assert program.export_report["capture"]["by"] == capture
    onnx_native.save_adapter(program, module.state_dict(), adapter)
    session = ort.InferenceSession(path)
    torch.testing.assert_close(run(session, adapter), module(X).detach(), rtol=1e-4, atol=1e-4)


def test_errors(tmp_path):
    module = Model()
    with (
        onnx_native.options(adapters=["lora_C"]),
        pytest.raises(
            torch.onnx.errors.OnnxExporterError, match="adapters names lora_C, but the program"
        ),
    ):
        torch.onnx.export(module, (X,), dynamo=True, verbose=False)
    plain = torch.onnx.export(module.eval(), (X,), dynamo=True, verbose=False)
    with pytest.raises(ValueError, match="the program has no adapters"):
        onnx_native.save_adapter(plain, module.state_dict(), tmp_path / "a.onnx_adapter")
    program = export(module, tmp_path / "m.onnx")
    with pytest.raises(ValueError, match=r"no value for first\.lora_A\.weight, nor for 3 others"):
        onnx_native.save_adapter(program, {}, tmp_path / "a.onnx_adapter")
