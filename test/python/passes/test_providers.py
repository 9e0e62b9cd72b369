"""The kernels of ONNX Runtime's providers, and the warnings of nodes that a provider lacks.

The CPU provider runs here. Where it loads a model, the table of its kernels must have them all.
"""

from __future__ import annotations

import pathlib
import warnings
from typing import Any

import onnx_native
import onnxruntime
import pytest
import torch
from models.loading import loaded
from torch import nn

ROOM = pathlib.Path(__file__).parents[3] / "csrc" / "onnx"
PROVIDERS = ("onnxruntime-cpu", "onnxruntime-cuda", "onnxruntime-webgpu")


def test_the_table_holds_the_kernels_of_the_installed_onnxruntime() -> None:
    """If this fails, write the table again: generate_provider_kernels.py cpu."""
    generator = loaded(ROOM / "generate_provider_kernels.py")
    first, *rows = (ROOM / "providers_cpu.inc").read_text().splitlines()
    assert first.endswith(f"ONNX Runtime {onnxruntime.__version__}.")
    assert generator.table("cpu") == rows


class Norm(nn.Module):
    """A root mean square norm, as transformers' models have it."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(32))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x.float()
        y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-6)
        return self.weight * y.to(x.dtype)


class Images(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.Hardswish(), nn.MaxPool2d(2),
            nn.Conv2d(8, 8, 3, groups=8), nn.GroupNorm(2, 8), nn.Mish(),
            nn.Upsample(scale_factor=2), nn.AdaptiveAvgPool2d(2), nn.Flatten(),
            nn.Linear(32, 4), nn.Softmax(-1),
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)  # type: ignore[no-any-return]


class Tokens(nn.Module):
    """Embeddings, attention with a causal mask, and a norm."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(64, 32)
        self.norm, self.project, self.head = Norm(), nn.Linear(32, 96), nn.Linear(32, 64)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.norm(self.embedding(ids))
        q, k, v = self.project(x).unflatten(-1, (3, 4, 8)).permute(2, 0, 3, 1, 4)
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.head(self.norm(y.transpose(1, 2).flatten(2)))  # type: ignore[no-any-return]


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.gru = nn.LSTM(3, 8, bidirectional=True), nn.GRU(16, 4)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y, _ = self.lstm(x[0])
        return self.gru(y)[0].topk(2).values, x.sort(-1).indices


IDS = torch.randint(0, 64, (2, 5))
IMAGES = torch.rand(2, 3, 8, 8)
MODELS: list[tuple[nn.Module, torch.Tensor]] = [
    (Images(), IMAGES), (Tokens(), IDS), (Recurrent(), torch.rand(2, 4, 5, 3))
]  # fmt: skip


def export(
    model: nn.Module, x: torch.Tensor, opset: int = 20, **options: Any
) -> tuple[onnx_native.ONNXProgram, list[str]]:
    """Exports a model; returns it with the lines of warnings."""
    with warnings.catch_warnings(record=True) as seen, onnx_native.options(**options):
        warnings.simplefilter("always")
        program = torch.onnx.export(
            model.eval(),
            (x,),
            dynamo=True,
            opset_version=opset,
            dynamic_shapes=({0: "batch"},),
            verbose=False,
        )
    return program, [str(each.message) for each in seen]


def ops_of(program: onnx_native.ONNXProgram) -> set[str]:
    return {node.op_type for node in program.model_proto.graph.node}


@pytest.mark.parametrize("precision", ["program", "float16"])
@pytest.mark.parametrize("opset", [13, 17, 20, 22, 23, 24])
@pytest.mark.parametrize(("model", "x"), MODELS)
def test_a_model_that_loads_has_all_kernels(
    model: nn.Module, x: torch.Tensor, opset: int, precision: str
) -> None:
    program, said = export(model, x, opset, target="onnxruntime-cpu", precision=precision)
    model_bytes = program.model_proto.SerializeToString()
    onnxruntime.InferenceSession(model_bytes, providers=["CPUExecutionProvider"])
    assert program.export_report["missing_kernels"] == []
    assert said == []


class Sampled(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.grid_sample(x, x[..., :2], align_corners=False)


def test_a_model_that_does_not_load_lacks_a_kernel() -> None:
    program, said = export(Sampled(), torch.rand(1, 1, 4, 4).double(), target="onnxruntime-cpu")
    assert [each.partition("\n")[0] for each in program.export_report["missing_kernels"]] == [
        "GridSample of f64"
    ]
    assert len(said) == 1
    assert said[0].startswith("ONNX Runtime's CPU provider has no kernel for GridSample of f64")


class Counted(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x * 2 + 1).cumsum(0) * x.shape[0]


def test_nodes_that_a_provider_lacks_are_named_with_their_lines() -> None:
    program, said = export(Counted(), IDS, target="onnxruntime-webgpu")
    lacking = program.export_report["missing_kernels"]
    assert [each.partition(" ")[0] for each in lacking] == ["Mul", "Add", "CumSum"]
    (text,) = said
    assert "WebGPU provider has no kernel for Mul of i64, i64\n  at test_providers.py" in text
    assert text.count("computes it on the CPU") == len(lacking)
    program, said = export(Counted(), IDS, target="onnxruntime-cuda")
    assert program.export_report["missing_kernels"] == said == []


@pytest.mark.parametrize("target", PROVIDERS)
@pytest.mark.parametrize("opset", [20, 23])
def test_a_decoder_has_kernels_everywhere(target: str, opset: int) -> None:
    program, said = export(Tokens(), IDS, opset, target=target)
    assert program.export_report["missing_kernels"] == said == []
    assert ("SimplifiedLayerNormalization" in ops_of(program)) == (opset < 23)
    assert ("Attention" in ops_of(program)) == (opset == 23 and target != "onnxruntime-webgpu")


@pytest.mark.parametrize("target", PROVIDERS)
def test_quantized_weights_are_those_of_the_runtime(target: str) -> None:
    program, _ = export(Tokens(), IDS, target=target, quantize_weights="int4")
    assert "MatMulNBits" in ops_of(program)
    assert program.export_report["missing_kernels"] == []


@pytest.mark.parametrize("target", PROVIDERS)
def test_what_a_provider_lacks_in_bfloat16_stays_float32(target: str) -> None:
    """The WebGPU provider has no kernel of bfloat16, the CPU provider next to none."""
    program, said = export(Tokens(), IDS, target=target, precision="bfloat16")
    assert program.export_report["missing_kernels"] == said == []
    assert (program.export_report["half_nodes"] > 10) == (target == "onnxruntime-cuda")


def test_other_targets_have_no_provider() -> None:
    program, _ = export(Counted(), IDS)
    assert program.export_report["missing_kernels"] == []
    with pytest.raises(ValueError, match="onnxruntime-webgpu"):
        export(Counted(), IDS, target="onnxruntime-dml")
