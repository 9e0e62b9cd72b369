"""Weights that are quantized at export: equal to ONNX Runtime's quantizer, bit for bit."""

import itertools
import logging
import pathlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
import onnx_native
import onnxruntime
import pytest
import safetensors.torch
import torch
from onnx import numpy_helper
from onnxruntime.quantization.matmul_nbits_quantizer import (
    DefaultWeightOnlyQuantConfig,
    MatMulNBitsQuantizer,
)
from onnxruntime.quantization.quant_utils import QuantFormat

TYPES = {"MatMulNBits", "DequantizeLinear"}
LEVELS = (
    onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL,
    onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL,
)


class Layers(torch.nn.Module):
    """Products with transposed and other weights, and rows that end within a block."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first = torch.nn.Linear(100, 56)
        self.second = torch.nn.Linear(56, 34, bias=False)
        self.last = torch.nn.Parameter(torch.randn(34, 20))
        # Ties, equal elements, and no element but zero.
        with torch.no_grad():
            self.first.weight[1] = (self.first.weight[1] * 20).round() / 4
            self.first.weight[2] = 0
            self.first.weight[3] = self.first.weight[3].abs()
            self.second.weight[0, :16] = 0.25

    def forward(self, x):
        return torch.relu(self.second(torch.relu(self.first(x)))) @ self.last


@pytest.fixture
def quiet() -> Iterator[None]:
    logging.disable(logging.WARNING)
    yield
    logging.disable(logging.NOTSET)


def export(module: Any, path: pathlib.Path, x: torch.Tensor, opset: int = 21, **options: Any):
    with onnx_native.options(**options):
        return torch.onnx.export(
            module.eval(), (x,), path, dynamo=True, verbose=False, opset_version=opset
        )


def runs(path: pathlib.Path, x: torch.Tensor) -> list[torch.Tensor]:
    """What ONNX Runtime computes without and with its optimizations."""
    results = []
    for level in LEVELS:
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = level
        options.add_session_config_entry("session.qdq_matmulnbits_accuracy_level", "0")
        session = onnxruntime.InferenceSession(path, options)
        name = session.get_inputs()[0].name
        results.append(torch.from_numpy(session.run(None, {name: x.numpy()})[0]))
    return results


def quantized(model: onnx.ModelProto) -> list[list[onnx.TensorProto]]:
    """The initializers of each quantized weight."""
    constants = {each.name: each for each in model.graph.initializer}
    return [
        [constants[name] for name in node.input if name in constants]
        for node in model.graph.node
        if node.op_type in TYPES
    ]


def dequantized(node: onnx.NodeProto, constants: dict[str, np.ndarray]) -> torch.Tensor:
    """The matrix [K, N] that a node stands for."""
    inputs = [constants[name] for name in node.input if name in constants]
    numbers = {each.name: each for each in node.attribute}
    size = numbers["block_size"].i
    if node.op_type == "DequantizeLinear":
        codes = inputs[0].astype(np.float32)
        zeros = inputs[2].astype(np.float32) if len(inputs) > 2 else 0 * inputs[1]
        scales, zeros = (np.repeat(each, size, 0)[: len(codes)] for each in (inputs[1], zeros))
        return torch.from_numpy((codes - zeros) * scales.astype(np.float32))
    bits, rows = numbers["bits"].i, numbers["K"].i

    def unpacked(packed: np.ndarray) -> np.ndarray:
        flat = packed.reshape(len(packed), -1)
        pairs = np.stack([flat & 15, flat >> 4], -1) if bits == 4 else flat
        return pairs.reshape(len(flat), -1).astype(np.float32)

    codes, scales = unpacked(inputs[0]), inputs[1].astype(np.float32)
    zeros = np.full_like(scales, 1 << (bits - 1))
    if len(inputs) > 2:
        zeros = unpacked(inputs[2])[:, : scales.shape[1]]
    values = (codes - np.repeat(zeros, size, 1)) * np.repeat(scales, size, 1)
    return torch.from_numpy(values[:, :rows].T.copy())


def dequantized_weights(path: pathlib.Path) -> list[torch.Tensor]:
    model = onnx.load(path)
    constants = {each.name: numpy_helper.to_array(each) for each in model.graph.initializer}
    return [dequantized(node, constants) for node in model.graph.node if node.op_type in TYPES]


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("precision", ["program", "float16"])
@pytest.mark.parametrize(
    ("target", "dtype"),
    [("onnxruntime-cpu", "int4"), ("onnxruntime-cpu", "int8"), ("onnx", "int4")],
)
def test_equal_to_onnx_runtimes_quantizer(tmp_path, precision, target, dtype):
    module, x = Layers(), torch.randn(2, 5, 100)
    plain, path = tmp_path / "plain.onnx", tmp_path / "m.onnx"
    export(module, plain, x, target=target, precision=precision)
    for size, symmetric in itertools.product((16, 32, 128), (True, False)):
        asked = settings(dtype, block_size=size, symmetric=symmetric)
        export(module, path, x, target=target, precision=precision, quantize_weights=asked)
        quantizer = MatMulNBitsQuantizer(
            onnx.load(plain),
            algo_config=DefaultWeightOnlyQuantConfig(
                block_size=size,
                is_symmetric=symmetric,
                bits=int(dtype[3:]),
                quant_format=QuantFormat.QDQ if target == "onnx" else QuantFormat.QOperator,
            ),
        )
        quantizer.process()
        expected = quantized(quantizer.model.model)
        assert len(expected) == 3
        for ours, theirs in zip(quantized(onnx.load(path)), expected, strict=True):
            for one, other in zip(ours, theirs, strict=True):
                assert (one.data_type, one.dims) == (other.data_type, other.dims)
                elements = [numpy_helper.to_array(each).tobytes() for each in (one, other)]
                assert elements[0] == elements[1]


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("dtype", ["int4", "int8"])
@pytest.mark.parametrize("target", ["onnxruntime-cpu", "onnx"])
def test_the_model_computes_what_eager_does_with_the_dequantized_weights(
    tmp_path, target, dtype, symmetric
):
    module, x, path = Layers(), torch.randn(2, 5, 100), tmp_path / "m.onnx"
    asked = settings(dtype, symmetric=symmetric)
    program = export(module, path, x, target=target, quantize_weights=asked)
    onnx.checker.check_model(str(path), full_check=True)
    assert set(program.export_report["quantized_weights"]) == {
        "first.weight",
        "second.weight",
        "last",
    }
    assert not program.export_report["unquantized_weights"]
    first, second, last = dequantized_weights(path)
    error = 0.15 if dtype == "int4" else 0.01
    for got, weight in zip(
        (first, second, last),
        (module.first.weight.T, module.second.weight.T, module.last),
        strict=True,
    ):
        assert (got - weight).norm() < error * weight.norm()
    with torch.no_grad():
        module.first.weight.copy_(first.T)
        module.second.weight.copy_(second.T)
        module.last.copy_(last)
    for got in runs(path, x):
        torch.testing.assert_close(got, module(x).detach(), rtol=1e-4, atol=1e-4)


@pytest.mark.filterwarnings("ignore:ONNX Runtime's CPU provider has no kernel")
def test_bfloat16_weights_are_quantized_in_float32(tmp_path):
    module, x, path = Layers(), torch.randn(2, 5, 100), tmp_path / "m.onnx"
    export(module, path, x, opset=22, precision="bfloat16", quantize_weights="int4")
    got = [numpy_helper.to_array(one[1]) for one in quantized(onnx.load(path))]
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(parameter.bfloat16())
    export(module, path, x, quantize_weights="int4")
    rounded = quantized(onnx.load(path))
    for scales, (_, expected) in zip(got, rounded, strict=True):
        expected = torch.from_numpy(numpy_helper.to_array(expected).copy()).bfloat16()
        assert torch.equal(torch.from_numpy(scales.astype(np.float32)), expected.float())


class Tied(torch.nn.Module):
    """A head that may be the table of the embedding."""

    def __init__(self, is_tied: bool = True) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed = torch.nn.Embedding(50, 64)
        self.fc = torch.nn.Linear(64, 64)
        self.lm_head = torch.nn.Linear(64, 50, bias=False)
        if is_tied:
            self.lm_head.weight = self.embed.weight

    def forward(self, tokens):
        return self.lm_head(torch.tanh(self.fc(self.embed(tokens))))


TOKENS = torch.arange(14).view(2, 7)


def operators(path: pathlib.Path) -> list[str]:
    return [node.op_type for node in onnx.load(path).graph.node]


def stored(path: pathlib.Path) -> dict[str, tuple[int, ...]]:
    return {each.name: tuple(each.dims) for each in onnx.load(path).graph.initializer}


def settings(dtype: Any = "int8", **others: Any) -> onnx_native.WeightQuantization:
    return onnx_native.WeightQuantization(dtype, **others)


@pytest.mark.parametrize("precision", ["program", "float16"])
@pytest.mark.parametrize("target", ["onnx", "onnxruntime-cpu"])
def test_a_tied_embedding_stays_a_table(tmp_path, target, precision):
    module, path = Tied(), tmp_path / "m.onnx"
    program = export(
        module, path, TOKENS, target=target, precision=precision, quantize_weights="int8"
    )
    report = program.export_report
    assert set(report["quantized_weights"]) == {"embed.weight", "fc.weight"}
    assert report["unquantized_weights"] == {"embed.weight": "an embedding"}
    assert stored(path)["embed.weight"] == (50, 64)
    assert "GatherElements" not in operators(path)
    expected = module(TOKENS).detach()
    for got in runs(path, TOKENS):
        assert (got - expected).norm() < 0.02 * expected.norm()


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("precision", ["program", "float16"])
def test_a_tied_embedding_shares_the_codes_of_the_head(tmp_path, precision, symmetric):
    module, path = Tied(), tmp_path / "m.onnx"
    program = export(
        module,
        path,
        TOKENS,
        target="onnxruntime-cpu",
        precision=precision,
        quantize_weights=settings(embeddings=True, symmetric=symmetric),
    )
    report = program.export_report
    assert report["quantized_weights"]["embed.weight"] == "MatMulNBits, GatherBlockQuantized"
    assert not report["unquantized_weights"]
    names = [name for name in stored(path) if name.endswith("_Q8")]
    assert names == ["fc.weight.T_Q8", "embed.weight.T_Q8"]
    with torch.no_grad():
        fc, head = dequantized_weights(path)
        module.fc.weight.copy_(fc.T)
        module.embed.weight.copy_(head.T)
    limit = 1e-4 if precision == "program" else 1e-2
    for got in runs(path, TOKENS):
        torch.testing.assert_close(got, module(TOKENS).detach(), rtol=limit, atol=limit)


def test_an_embedding_of_its_own(tmp_path):
    module, path = Tied(is_tied=False), tmp_path / "m.onnx"
    export(
        module,
        path,
        TOKENS,
        target="onnxruntime-cpu",
        quantize_weights=settings("int4", embeddings=True),
    )
    assert stored(path)["embed.weight_Q4"] == (50, 32)
    assert "Reshape" not in operators(path)
    model = onnx.load(path)
    constants = {each.name: numpy_helper.to_array(each) for each in model.graph.initializer}
    codes, scales = constants["embed.weight_Q4"], constants["embed.weight_scales"]
    table = np.stack([codes & 15, codes >> 4], -1).reshape(50, 64).astype(np.float32) - 8
    with torch.no_grad():
        fc, head = dequantized_weights(path)
        module.embed.weight.copy_(torch.from_numpy(table * np.repeat(scales, 32, 1)))
        module.fc.weight.copy_(fc.T)
        module.lm_head.weight.copy_(head.T)
    for got in runs(path, TOKENS):
        torch.testing.assert_close(got, module(TOKENS).detach(), rtol=1e-4, atol=1e-4)


def test_other_targets_and_sizes_keep_embeddings(tmp_path):
    path = tmp_path / "m.onnx"
    program = export(Tied(), path, TOKENS, quantize_weights=settings(embeddings=True))
    (reason,) = program.export_report["unquantized_weights"].values()
    assert reason == "an embedding; the target has no operator for its blocks"
    wide = settings(embeddings=True, block_size=128)
    program = export(Tied(), path, TOKENS, target="onnxruntime-cpu", quantize_weights=wide)
    (reason,) = program.export_report["unquantized_weights"].values()
    assert reason == "an embedding of 64 elements, which are no whole blocks"


@pytest.mark.parametrize("excluded", ["lm_head", ("embed.weight",), ("*head", "emb??.*")])
def test_weights_left_out_by_name(tmp_path, excluded):
    path = tmp_path / "m.onnx"
    program = export(Tied(), path, TOKENS, quantize_weights=settings(excluded=excluded))
    report = program.export_report
    assert set(report["quantized_weights"]) == {"fc.weight"}
    assert report["unquantized_weights"] == {"embed.weight": "left out by name"}
    # Stored once.
    assert "embed.weight.T" in stored(path)
    assert "embed.weight" not in stored(path)


class Others(torch.nn.Module):
    """Matrices that are no weights of products that can be quantized."""

    def __init__(self) -> None:
        super().__init__()
        self.stack = torch.nn.Parameter(torch.randn(3, 32, 32))
        self.wide = torch.nn.Parameter(torch.randn(32, 32).double())
        self.basis = torch.nn.Buffer(torch.randn(32, 32))
        self.fc = torch.nn.Linear(32, 32)

    def forward(self, x):
        y = (x @ self.basis) @ self.stack + (x.double() @ self.wide).float()
        return y + self.fc(x) + x @ torch.eye(32).roll(1, 0)


def test_the_report_says_why_others_stay(tmp_path):
    x = torch.randn(3, 4, 32)
    program = export(Others(), tmp_path / "m.onnx", x, quantize_weights="int4")
    report = program.export_report
    assert set(report["quantized_weights"]) == {"fc.weight"}
    assert report["unquantized_weights"] == {
        "basis": "a buffer",
        "stack": "a tensor with 3 axes",
        "wide": "has the dtype f64",
    }


@pytest.mark.parametrize("options", [{"optimize": False}, {"weights": "module"}])
@pytest.mark.parametrize("target", ["onnx", "onnxruntime-cpu"])
def test_transposes_of_weights_are_looked_through(tmp_path, target, options):
    module, path = Tied(), tmp_path / "m.onnx"
    optimize = options.pop("optimize", True)
    with onnx_native.options(target=target, quantize_weights="int8", **options):
        torch.onnx.export(
            module.eval(),
            (TOKENS,),
            path,
            dynamo=True,
            verbose=False,
            opset_version=21,
            optimize=optimize,
        )
    assert "Transpose" not in operators(path)
    expected = module(TOKENS).detach()
    for got in runs(path, TOKENS):
        assert (got - expected).norm() < 0.02 * expected.norm()


def test_the_runtimes_operator_needs_no_new_opset(tmp_path):
    path = tmp_path / "m.onnx"
    export(Tied(), path, TOKENS, opset=17, target="onnxruntime-cpu", quantize_weights="int8")
    assert operators(path).count("MatMulNBits") == 2


def test_an_edited_model_has_the_quantized_weights(tmp_path):
    path, edited = tmp_path / "m.onnx", tmp_path / "edited.onnx"
    program = export(Tied(), path, TOKENS, quantize_weights="int4")
    program.model.doc_string = "edited"
    program.save(edited)
    for one, other in zip(runs(path, TOKENS), runs(edited, TOKENS), strict=True):
        assert torch.equal(one, other)


def test_new_weights_are_quantized(tmp_path):
    path, applied = tmp_path / "m.onnx", tmp_path / "applied.onnx"
    program = export(Tied(), path, TOKENS, quantize_weights="int8")
    other = Tied(is_tied=False)
    other.embed.weight.data.mul_(-0.5)
    other.lm_head.weight = other.embed.weight
    program.apply_weights(other.state_dict())
    program.save(applied)
    export(other, path, TOKENS, quantize_weights="int8")
    for one, wanted in zip(runs(applied, TOKENS), runs(path, TOKENS), strict=True):
        assert torch.equal(one, wanted)


@pytest.mark.parametrize(
    ("options", "cause"),
    [
        ({"opset": 20, "quantize_weights": "int4"}, "opset 20 cannot dequantize weights in blocks"),
        ({"quantize_weights": settings(block_size=24)}, "cannot have 24 elements; choose a power"),
        ({"quantize_weights": settings(block_size=8)}, "cannot have 8 elements; choose a power of"),
        ({"quantize_weights": settings(accuracy_level=5)}, "there is no accuracy level 5"),
        (
            {"quantize_weights": settings(excluded=("lm_haed",))},
            "names lm_haed, but the program runs no module and has no weight of this name; names "
            "like it are lm_head",
        ),
    ],
)
def test_bad_settings(tmp_path, options, cause):
    with pytest.raises(torch.onnx.errors.OnnxExporterError, match=cause):
        export(Tied(), tmp_path / "m.onnx", TOKENS, **options)


def test_an_unknown_dtype_is_an_error():
    with (
        pytest.raises(ValueError, match="takes one of 'none', 'int4', 'int8', not 'int5'"),
        onnx_native.options(quantize_weights="int5"),
    ):
        pass


def test_elements_that_are_not_finite_are_an_error(tmp_path):
    module = Tied()
    module.fc.weight.data[3, 5] = float("inf")
    with pytest.raises(onnx_native.ExportError, match=r"fc\.weight has elements that are not"):
        export(module, tmp_path / "m.onnx", TOKENS, quantize_weights="int4")


def test_verification_shows_differences_without_a_judgment(tmp_path, caplog):
    with onnx_native.options(quantize_weights="int4"):
        program = torch.onnx.export(
            Tied().eval(), (TOKENS,), dynamo=True, verbose=False, opset_version=21, verify=True
        )
    (row,) = program.export_report["verification"]
    assert row["is_accurate"]
    assert row["absolute"] > 0
    assert "The weights of the model are quantized" in caplog.text


@pytest.mark.parametrize("target", ["onnx", "onnxruntime-cpu"])
def test_weights_of_a_checkpoint_are_quantized_when_they_are_written(tmp_path, target):
    module, path, later = Tied(), tmp_path / "m.onnx", tmp_path / "later.onnx"
    checkpoint = tmp_path / "weights.safetensors"
    safetensors.torch.save_model(module, checkpoint)
    asked = settings("int4", embeddings=True)
    export(module, path, TOKENS, target=target, quantize_weights=asked)
    with torch.device("meta"):
        empty = Tied()
    with onnx_native.options(target=target, quantize_weights=asked):
        program = torch.onnx.export(
            empty.eval(), (TOKENS.to("meta"),), dynamo=True, verbose=False, opset_version=21
        )
    program.save(later, checkpoint=checkpoint)
    for one, other in zip(runs(later, TOKENS), runs(path, TOKENS), strict=True):
        assert torch.equal(one, other)


def test_several_models_share_quantized_weights(tmp_path):
    module = Tied().eval()
    with onnx_native.options(
        target="onnxruntime-cpu", quantize_weights=settings("int4", embeddings=True)
    ):
        onnx_native.export_many(
            {
                "one": onnx_native.Part(module, (TOKENS,)),
                "two": onnx_native.Part(module, (TOKENS[:1],)),
            },
            tmp_path,
        )
    codes = [
        {
            each.name: (each.external_data[1].value)
            for each in onnx.load(tmp_path / file, load_external_data=False).graph.initializer
            if each.external_data
        }
        for file in ("one.onnx", "two.onnx")
    ]
    assert codes[0]
    assert codes[0] == codes[1]


class Branches(torch.nn.Module):
    """Products in a branch, and of a weight that is used outside of it too."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first = torch.nn.Linear(64, 64)
        self.second = torch.nn.Linear(64, 64)

    def forward(self, x):
        x = torch.relu(self.first(x))
        return torch.cond(x.sum() > 0, self.second, lambda x: self.first(x) + 1, (x,))


@pytest.mark.parametrize("functions", [False, True])
@pytest.mark.parametrize("target", ["onnx", "onnxruntime-cpu"])
def test_products_in_branches_and_functions(tmp_path, target, functions):
    module, path, x = Branches(), tmp_path / "m.onnx", torch.randn(3, 64)
    program = export(module, path, x, target=target, functions=functions, quantize_weights="int8")
    assert set(program.export_report["quantized_weights"]) == {"first.weight", "second.weight"}
    assert not [
        name for name, shape in stored(path).items() if shape == (64, 64) and "_Q" not in name
    ]
    for sign in (1, -1):
        with torch.no_grad():
            module.first.bias.fill_(sign * 10.0)
        export(module, path, x, target=target, functions=functions, quantize_weights="int8")
        expected = module(x).detach()
        for got in runs(path, x):
            assert (got - expected).norm() < 0.02 * expected.norm()


def test_a_warning_says_that_nothing_was_quantized(tmp_path):
    module = torch.nn.Conv1d(4, 4, 3)
    with pytest.warns(UserWarning, match="no weight was quantized"):
        export(module, tmp_path / "m.onnx", torch.randn(2, 4, 9), quantize_weights="int4")
