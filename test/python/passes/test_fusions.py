"""Fused operators: found in the model, and equal to eager and to the graph without them."""

from __future__ import annotations

import collections
import math
from collections.abc import Callable, Sequence
from typing import Any

import onnx
import onnx_native
import onnxruntime
import pytest
import torch
from models import running
from models.architecture import Architecture
from models.architectures.text import DECODED, FEW_HEADS, SMALL, TEXT, build
from torch import nn
from torch.export import Dim

MORE = [
    Architecture("cohere", build("CohereForCausalLM", **SMALL, use_cache=False), DECODED),
    Architecture("phi", build("PhiForCausalLM", **SMALL, use_cache=False), DECODED),
    Architecture("olmo2", build("Olmo2ForCausalLM", **FEW_HEADS, use_cache=False), DECODED),
    Architecture(
        "gemma3",
        build(
            "Gemma3ForCausalLM",
            config="Gemma3Text",
            sliding_window=8,
            **FEW_HEADS,
            use_cache=False,
        ),
        DECODED,
    ),
]
ARCHITECTURES = {each.name: each for each in [*TEXT, *MORE]}
FUSED = [
    "attention",
    "attention_cache",
    "gelu",
    "hard_swish",
    "layer_normalization",
    "merged_heads",
    "mish",
    "row_masks",
    "rms_normalization",
    "rotary_embedding",
]
SIZES = [(1, 1), (2, 7), (3, 12)]  # batch, sequence


class RmsNorm(nn.Module):
    """The spellings of Llama and T5, of Gemma, and with a quotient."""

    def __init__(self, spelling: str, dtype: torch.dtype) -> None:
        super().__init__()
        self.spelling = spelling
        self.weight = nn.Parameter(torch.linspace(-1, 2, 16).to(dtype))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = x.float()
        if self.spelling == "quotient":
            normal = wide / torch.sqrt((wide * wide).mean(-1, keepdim=True) + 1e-5)
        else:
            normal = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)
        if self.spelling == "gemma":
            return (normal * (1.0 + self.weight.float())).type_as(x)
        return self.weight * normal.to(x.dtype)


class LayerNorm(nn.Module):
    """Spelled out with a variance or with a power."""

    def __init__(self, spelling: str, dtype: torch.dtype) -> None:
        super().__init__()
        self.spelling = spelling
        self.weight = nn.Parameter(torch.linspace(-1, 2, 16).to(dtype))
        self.bias = nn.Parameter(torch.linspace(2, -1, 16).to(dtype))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = x.float()
        centered = wide - wide.mean(-1, keepdim=True)
        if self.spelling == "inverse":
            normal = centered * torch.rsqrt((centered * centered).mean(-1, keepdim=True) + 1e-5)
        else:
            normal = centered / (centered.pow(2).mean(-1, keepdim=True) + 1e-5).sqrt()
        return self.weight * normal.to(x.dtype) + self.bias


ACTIVATIONS: dict[str, tuple[str, int, Callable[[torch.Tensor], torch.Tensor]]] = {
    "erf": ("Gelu", 20, lambda x: x * 0.5 * (1 + torch.erf(x / math.sqrt(2)))),
    "tanh": (
        "Gelu",
        20,
        lambda x: (
            0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * torch.pow(x, 3))))
        ),
    ),
    "tanh of a product": (
        "Gelu",
        20,
        lambda x: 0.5 * x * (1 + torch.tanh(x * 0.7978845608 * (1 + 0.044715 * x * x))),
    ),
    "hard swish": ("HardSwish", 14, lambda x: x * nn.functional.relu6(x + 3) / 6),
    "hard sigmoid": ("HardSwish", 14, lambda x: x * nn.functional.hardsigmoid(x)),
    "mish": ("Mish", 18, lambda x: x * torch.tanh(nn.functional.softplus(x))),
}


class Activation(nn.Module):
    def __init__(self, name: str) -> None:
        super().__init__()
        self.function = ACTIVATIONS[name][2]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x)


class Rotary(nn.Module):
    """Rotates 2 heads of 8 elements: all elements or the first ones, by halves or by neighbors."""

    inverse: torch.Tensor

    def __init__(self, rotated: int, per_sequence: bool, neighbors: bool = False) -> None:
        super().__init__()
        self.neighbors = neighbors
        self.rotated = rotated
        self.per_sequence = per_sequence
        self.register_buffer("inverse", 0.1 ** torch.linspace(0, 1, rotated // 2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        heads = x.view(*x.shape[:2], 2, 8).transpose(1, 2)
        return self.rotate(heads, x)

    def rotate(self, heads: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        length = x.shape[1]
        positions = torch.arange(length)[None]
        if self.per_sequence:
            positions = positions + x[:, :, 0].long()
        angles = positions[..., None].float() * self.inverse
        if self.neighbors:
            angles = torch.repeat_interleave(angles, 2, dim=-1)
        else:
            angles = torch.cat((angles, angles), -1)
        cos, sin = angles.cos().to(x.dtype)[:, None], angles.sin().to(x.dtype)[:, None]
        first, rest = heads[..., : self.rotated], heads[..., self.rotated :]
        half = self.rotated // 2
        if self.neighbors:
            turned = torch.stack((-first[..., 1::2], first[..., ::2]), -1).flatten(-2)
        else:
            turned = torch.cat((-first[..., half:], first[..., :half]), -1)
        result = first * cos + turned * sin
        return result if self.rotated == 8 else torch.cat((result, rest), -1)


class RotarySpelling(nn.Module):
    """Rotates 2 heads of 8 elements as public code does, before the heads come first or after."""

    def __init__(self, spelling: str) -> None:
        super().__init__()
        self.spelling = spelling
        angles = torch.outer(torch.arange(64).float(), 0.1 ** torch.linspace(0, 1, 4))
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)
        turns = torch.polar(torch.ones_like(angles), angles)
        self.register_buffer("turns", turns, persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        heads = x.view(*x.shape[:2], 2, 8)
        rotated = getattr(self, self.spelling)(heads, x.shape[1]).transpose(1, 2)
        return rotated * 1  # scores

    def complex(self, x: torch.Tensor, length: int) -> torch.Tensor:
        numbers = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
        turned = numbers * self.turns[:length].view(1, length, 1, 4)
        return torch.view_as_real(turned).flatten(3).type_as(x)

    def pairs(self, x: torch.Tensor, length: int) -> torch.Tensor:
        real, imaginary = x.float().reshape(*x.shape[:-1], -1, 2).unbind(-1)
        cos, sin = (table[:length].view(1, length, 1, 4) for table in (self.cos, self.sin))
        turned = (real * cos - imaginary * sin, real * sin + imaginary * cos)
        return torch.stack(turned, -1).flatten(3).type_as(x)

    def neighbors(self, x: torch.Tensor, length: int) -> torch.Tensor:
        cos, sin = (
            table[:length][None, :, None].repeat_interleave(2, 3) for table in (self.cos, self.sin)
        )
        turned = torch.stack((-x[..., 1::2], x[..., ::2]), -1).flatten(-2)
        return x * cos + turned * sin

    def halves(self, x: torch.Tensor, length: int) -> torch.Tensor:
        x = x.transpose(1, 2)
        cos, sin = (torch.cat((table, table), -1)[:length] for table in (self.cos, self.sin))
        turned = torch.cat((-x[..., 4:], x[..., :4]), -1)
        return (x * cos + turned * sin).transpose(1, 2)

    def first_half(self, x: torch.Tensor, length: int) -> torch.Tensor:
        angles = torch.outer(torch.arange(length).float(), 0.1 ** torch.linspace(0, 1, 2))
        cos, sin = (torch.cat((each, each), -1)[:, None] for each in (angles.cos(), angles.sin()))
        first = x[..., :4]
        turned = torch.cat((-first[..., 2:], first[..., :2]), -1)
        return torch.cat((first * cos + turned * sin, x[..., 4:]), -1)


class Attention(Rotary):
    """ONNX's Attention of rotated heads."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        query, key, value = (
            (factor * x).view(*x.shape[:2], 2, 8).transpose(1, 2) for factor in (2, 3, 1)
        )
        result, *_ = torch.onnx.ops.attention(self.rotate(query, x), self.rotate(key, x), value)
        return result.transpose(1, 2).reshape(x.shape)


class SpelledAttention(nn.Module):
    """Of 2 heads of 8 elements, the scale at the scores or at the query."""

    def __init__(self, at_query: bool) -> None:
        super().__init__()
        self.at_query = at_query

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        query, key, value = (
            (factor * x).view(*x.shape[:2], 2, 8).transpose(1, 2) for factor in (0.2, 0.3, 1)
        )
        if self.at_query:
            scores = (query * 8**-0.5) @ key.transpose(-1, -2)
        else:
            scores = query @ key.transpose(-1, -2) / math.sqrt(8)
        return (scores.softmax(-1) @ value).transpose(1, 2).reshape(x.shape)


LOWEST = torch.finfo(torch.float32).min


class MaskedAttention(nn.Module):
    """Of 2 heads of 8 elements, with a learned bias of each distance, a mask that closes all rows
    of the first sequence, both, or a number in the place of masked scores."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self.bias = nn.Embedding(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        length = x.shape[1]
        query, key, value = (
            (factor * x).view(*x.shape[:2], 2, 8).transpose(1, 2) for factor in (0.2, 0.3, 1)
        )
        scores = query @ key.transpose(-1, -2) / math.sqrt(8)
        distance = torch.arange(length) - torch.arange(length)[:, None]
        if "bias" in self.kind:
            scores = scores + self.bias(distance.clamp(0, 3)).permute(2, 0, 1)[None]
        open_keys = x[:, None, None, :, 0] > x[:1, None, None, :, 0]
        open_keys = open_keys.expand(-1, 1, length, -1)
        if "mask" in self.kind:
            scores = scores + torch.where(open_keys, 0.0, LOWEST)
        if self.kind == "where":
            scores = torch.where(open_keys, scores, LOWEST)
        return (scores.softmax(-1) @ value).transpose(1, 2).reshape(x.shape)


def export(
    module: nn.Module, args: tuple[Any, ...], opset: int, **options: Any
) -> torch.onnx.ONNXProgram:
    dynamic = {0: Dim("batch", min=1, max=64), 1: Dim("length", min=1, max=64)}
    with onnx_native.options(**options):
        program = torch.onnx.export(
            module.eval(),
            args,
            dynamo=True,
            verbose=False,
            opset_version=opset,
            dynamic_shapes=(dynamic,),
        )
    assert program is not None
    # ONNX Runtime registers this contrib operator in ai.onnx, so the checker rejects it.
    if not operators(program)["SimplifiedLayerNormalization"]:
        onnx.checker.check_model(program.model_proto, full_check=True)
    return program


def operators(program: torch.onnx.ONNXProgram) -> collections.Counter[str]:
    return collections.Counter(node.op_type for node in program.model_proto.graph.node)


def run(program: torch.onnx.ONNXProgram, args: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(
        program.model_proto.SerializeToString(), options, ["CPUExecutionProvider"]
    )
    feeds = {i.name: a.numpy() for i, a in zip(session.get_inputs(), args, strict=True)}
    return [torch.from_numpy(result) for result in session.run(None, feeds)]


def check(
    module: nn.Module,
    dtype: torch.dtype,
    opset: int,
    operator: str,
    count: int = 1,
    target: str = "onnx",
) -> None:
    """Compares the model with eager and with the model without fusions."""
    example = (torch.randn(2, 5, 16).to(dtype),)
    fused = export(module, example, opset, target=target)
    plain = export(module, example, opset, disabled_passes=FUSED)
    assert operators(fused)[operator] == count
    assert operators(plain)[operator] == 0
    for batch, length in SIZES:
        x = (3 * torch.randn(batch, length, 16)).to(dtype)
        # Eager rounds each product to 16 bits, fused operators only their result.
        atol = 4 * 2**-11 * x.abs().max().item()
        tolerance = {"rtol": 2e-3, "atol": atol} if dtype == torch.float16 else {}
        [result], [without] = run(fused, [x]), run(plain, [x])
        torch.testing.assert_close(result, module(x), **tolerance)
        torch.testing.assert_close(result, without, **tolerance)


OPSETS = [20, 23, running.newest_opset()]
DTYPES = [torch.float32, torch.float16]


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("spelling", ["llama", "gemma", "quotient"])
def test_rms_normalization(spelling, dtype, opset):
    check(RmsNorm(spelling, dtype), dtype, opset, "RMSNormalization", int(opset >= 23))


def test_before_opset_23_the_norm_has_the_form_that_onnx_runtime_fuses(tmp_path):
    program = export(RmsNorm("llama", torch.float32), (torch.randn(2, 3, 16),), 20)
    found = operators(program)
    assert (found["Pow"], found["Div"], found["Reciprocal"]) == (1, 1, 0)
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
    onnxruntime.InferenceSession(program.model_proto.SerializeToString(), options)
    optimized = onnx.load(options.optimized_model_filepath)
    assert [node.op_type for node in optimized.graph.node] == ["SimplifiedLayerNormalization"]


@pytest.mark.parametrize("opset", [17, *OPSETS])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("spelling", ["llama", "gemma", "quotient"])
def test_rms_normalization_for_onnx_runtime(spelling, dtype, opset):
    operator = "RMSNormalization" if opset >= 23 else "SimplifiedLayerNormalization"
    target = "onnxruntime-cpu"
    check(RmsNorm(spelling, dtype), dtype, opset, operator, int(opset >= 18), target=target)


@pytest.mark.parametrize("opset", OPSETS)
def test_without_a_target_all_operators_are_standard(opset):
    program = export(RmsNorm("llama", torch.float32), (torch.randn(2, 3, 16),), opset)
    for node in program.model_proto.graph.node:
        assert node.domain == ""
        assert onnx.defs.has(node.op_type)
    assert [each.domain for each in program.model_proto.opset_import] == [""]


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("per_sequence", [False, True])
@pytest.mark.parametrize("neighbors", [False, True])
@pytest.mark.parametrize("rotated", [8, 4])
def test_rotary_embedding(rotated, neighbors, per_sequence, dtype, opset):
    check(
        Rotary(rotated, per_sequence, neighbors), dtype, opset, "RotaryEmbedding", int(opset >= 23)
    )


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize("target", ["onnx", "onnxruntime-cpu"])
@pytest.mark.parametrize("spelling", ["complex", "pairs", "neighbors", "halves", "first_half"])
def test_rotary_embedding_as_public_code_spells_it(spelling, target, opset):
    module = RotarySpelling(spelling)
    count = int(opset >= 23 or target == "onnxruntime-cpu")
    check(module, torch.float32, opset, "RotaryEmbedding", count, target=target)


@pytest.mark.parametrize("opset", [17, *OPSETS])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("per_sequence", [False, True])
@pytest.mark.parametrize("neighbors", [False, True])
@pytest.mark.parametrize("rotated", [8, 4])
def test_rotary_embedding_for_onnx_runtime(rotated, neighbors, per_sequence, dtype, opset):
    module = Rotary(rotated, per_sequence, neighbors)
    check(module, dtype, opset, "RotaryEmbedding", target="onnxruntime-cpu")


@pytest.mark.parametrize("opset", [17, *OPSETS])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("spelling", ["inverse", "quotient"])
def test_layer_normalization(spelling, dtype, opset):
    check(LayerNorm(spelling, dtype), dtype, opset, "LayerNormalization")


@pytest.mark.parametrize("opset", [18, *OPSETS])
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations(name, opset):
    operator, since, _ = ACTIVATIONS[name]
    check(Activation(name), torch.float32, opset, operator, int(opset >= since))


# ONNX Runtime has no kernel of Attention after opset 24.
@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize("at_query", [False, True])
def test_attention(at_query, opset):
    check(SpelledAttention(at_query), torch.float32, opset, "Attention", int(opset == 23))


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize("kind", ["bias", "mask", "bias and mask", "where"])
def test_masked_attention(kind, opset):
    check(MaskedAttention(kind), torch.float32, opset, "Attention", int(opset == 23))


def test_attention_takes_finite_weights_only(tmp_path):
    program = export(MaskedAttention("bias"), (torch.randn(2, 5, 16),), 23)
    other, x = MaskedAttention("bias").eval(), torch.randn(2, 5, 16)
    program.apply_weights(other.state_dict())
    torch.testing.assert_close(run(program, [x])[0], other(x))
    program.apply_weights({"bias.weight": torch.full((4, 2), -torch.inf)})
    with pytest.raises(onnx_native.ExportError, match=r"numbers of at most 1e.30 in bias\.weight"):
        program.save(tmp_path / "model.onnx")


def test_attention_in_float16_stays_spelled_out():
    program = export(SpelledAttention(False), (torch.randn(2, 5, 16).half(),), 23)
    assert operators(program)["Attention"] == 0


def test_heads_are_not_transposed_for_attention():
    module, args = Attention(8, True), (torch.randn(2, 5, 16),)
    program = export(module, args, 23)
    assert operators(program)["Attention"] == 1
    assert operators(program)["Transpose"] == 0
    plain = export(module, args, 23, disabled_passes=FUSED)
    assert operators(plain)["Transpose"] > 0
    for batch, length in SIZES:
        x = torch.randn(batch, length, 16)
        [result], [without] = run(program, [x]), run(plain, [x])
        torch.testing.assert_close(result, module(x))
        torch.testing.assert_close(result, without)


def test_the_report_counts_what_a_pass_changed_and_a_pass_is_switched_off():
    module, args = RmsNorm("llama", torch.float32), (torch.randn(2, 3, 16),)
    assert export(module, args, 23).export_report["passes"]["rms_normalization"] == 1
    plain = export(module, args, 23, disabled_passes="rms_normalization")
    assert "rms_normalization" not in plain.export_report["passes"]
    with pytest.raises(torch.onnx.OnnxExporterError, match="there is no pass named rms;"):
        export(module, args, 23, disabled_passes=["rms"])


# Norms and rotations in 2 layers of each model.
IN_TRANSFORMERS = [
    ("llama", 5, 4),
    ("llama_cache", 5, 4),
    ("mistral", 5, 4),
    ("qwen2", 5, 4),
    ("qwen3_cache", 9, 4),
    ("gemma2", 9, 4),
    ("phi3", 5, 4),
    ("gpt_neox", 0, 4),
    ("t5", 12, 0),
    ("cohere", 0, 4),
    ("phi", 0, 4),
    ("olmo2", 9, 4),
    ("gemma3", 13, 4),
]


@pytest.mark.parametrize(("name", "norms", "rotations"), IN_TRANSFORMERS)
@pytest.mark.parametrize(
    ("opset", "target", "norm"),
    [
        (23, "onnx", "RMSNormalization"),
        (20, "onnxruntime-cpu", "SimplifiedLayerNormalization"),
    ],
)
def test_transformers(name, norms, rotations, opset, target, norm):
    architecture = ARCHITECTURES[name]
    module = architecture.module()
    with onnx_native.options(target=target):
        program = architecture.export(module, opset_version=opset)
    found = operators(program)
    assert (found[norm], found["RotaryEmbedding"]) == (norms, rotations)
    for which in (0, 1):
        example = architecture.example(which)
        expected = running.eager(module, example)
        running.assert_same(run(program, list(example.values())), expected)
