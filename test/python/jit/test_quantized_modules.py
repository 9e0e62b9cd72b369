"""Modules that torch.ao.quantization quantizes, traced and scripted."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from models import running
from torch import nn
from torch.ao import quantization as ao


class Arithmetic(nn.Module):
    """Convolutions, and operators with a scale and a zero point of their own."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.ReLU())
        self.second = nn.Conv2d(8, 8, 3, padding=2, dilation=2, groups=4, bias=False)
        self.activation = nn.Hardswish()
        self.leaky = nn.LeakyReLU(0.1)
        self.sums = nn.quantized.FloatFunctional()
        self.pool = nn.AdaptiveAvgPool2d((2, 2))
        self.last = nn.Linear(64, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        y = self.activation(self.second(x))
        x = self.sums.add(x, y)
        x = self.sums.cat([x, self.leaky(y)], 1)
        return self.last(torch.flatten(self.pool(x), 1))


class Products(nn.Module):
    """Operators whose results keep the scale, and those whose scale is fixed."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3)
        self.norm = nn.BatchNorm2d(8)
        self.product = nn.quantized.FloatFunctional()
        self.sigmoid = nn.Hardsigmoid()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.norm(self.first(x)).relu()
        gate = self.sigmoid(x.mean((2, 3), keepdim=True))
        x = self.product.mul(x, gate)
        x = nn.functional.max_pool2d(x, 2).permute(0, 2, 3, 1).reshape(x.size(0), -1)
        return torch.tanh(x)


class Lines(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv1d(4, 6, 3, stride=2)
        self.back = nn.ConvTranspose1d(6, 4, 3, stride=2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.back(self.first(x))


class Volumes(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv3d(2, 4, 2)
        self.activation = nn.ELU()
        self.norm = nn.LayerNorm(3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(self.activation(self.first(x)))


# Engines that lack the kernels, or compute something else, are left out.
STATIC: list[tuple[Callable[[], nn.Module], tuple[int, ...], list[str]]] = [
    (Arithmetic, (2, 3, 12, 12), ["x86", "fbgemm", "qnnpack"]),
    (Products, (2, 3, 8, 8), ["x86", "fbgemm", "qnnpack"]),
    (Lines, (2, 4, 9), ["fbgemm"]),
    (Volumes, (2, 2, 4, 4, 4), ["fbgemm"]),
]
ENGINES = [e for e in ("fbgemm", "qnnpack") if e in torch.backends.quantized.supported_engines]
CASES = [
    (make, shape, engine)
    for make, shape, engines in STATIC
    for engine in engines
    if engine in torch.backends.quantized.supported_engines
]


def quantized(module: nn.Module, example: torch.Tensor, engine: str) -> nn.Module:
    torch.backends.quantized.engine = engine
    wrapped = ao.QuantWrapper(module.eval())
    config = ao.get_default_qconfig(engine)
    # Kernels for transposed convolutions of weights per channel do not exist.
    whole = ao.QConfig(activation=config.activation, weight=ao.default_weight_observer)
    wrapped.qconfig = whole if isinstance(module, Lines) else config
    if isinstance(module, Arithmetic):
        ao.fuse_modules(module, [["first.0", "first.1"]], inplace=True)
    prepared = ao.prepare(wrapped)
    for _ in range(3):
        prepared(example)
    return ao.convert(prepared)


def exported_with(
    module: nn.Module, example: tuple[torch.Tensor, ...], route: str, shapes: Any
) -> onnx.ModelProto:
    with torch.no_grad():
        program = (
            torch.jit.trace(module, example) if route == "traced" else torch.jit.script(module)
        )
    result = torch.onnx.export(program, example, dynamo=True, dynamic_shapes=shapes, verbose=False)
    assert result is not None
    model = result.model_proto
    onnx.checker.check_model(model, full_check=True)
    return model


def exported(module: nn.Module, example: torch.Tensor, route: str) -> onnx.ModelProto:
    return exported_with(module, (example,), route, ({0: "batch"},))


def run(model: onnx.ModelProto, example: torch.Tensor, options: Any = None) -> np.ndarray:
    content = model.SerializeToString()
    if options:
        session = onnxruntime.InferenceSession(content, options)
    else:  # the integer kernels saturate on processors that lack VNNI
        session = running.session(content, optimized=False)
    (result,) = session.run(None, {session.get_inputs()[0].name: example.numpy()})
    return result


@pytest.fixture(autouse=True)
def engine_is_restored() -> Any:
    before = torch.backends.quantized.engine
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    torch.backends.quantized.engine = before


@pytest.mark.parametrize("route", ["traced", "scripted"])
@pytest.mark.parametrize(("make", "shape", "engine"), CASES)
def test_static(
    make: Callable[[], nn.Module], shape: tuple[int, ...], route: str, engine: str
) -> None:
    torch.manual_seed(0)
    example = torch.randn(shape)
    module = quantized(make(), example, engine)
    model = exported(module, example, route)
    for size in (2, 3):
        inputs = torch.randn(size, *shape[1:])
        with torch.no_grad():
            expected = module(inputs).numpy()
        got = run(model, inputs)
        assert got.shape == expected.shape
        # Rounding to the nearest step may differ by one where a sum is between two.
        step = np.unique(expected)
        smallest = np.diff(step)[np.diff(step) > 1e-6].min()
        assert np.abs(got - expected).max() <= 2.5 * smallest
        assert (np.abs(got - expected) < smallest / 2).mean() > 0.8


def test_weights_stay_integers(tmp_path: Any) -> None:
    torch.manual_seed(0)
    example = torch.randn(2, 3, 12, 12)
    module = quantized(Arithmetic(), example, "x86")
    model = exported(module, example, "traced")
    weights = {each.name: each.data_type for each in model.graph.initializer}
    for name in ("module.first.0.weight", "module.second.weight", "module.last.weight"):
        assert weights[name] == onnx.TensorProto.INT8
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
    run(model, example, options)
    types = [node.op_type for node in onnx.load(tmp_path / "optimized.onnx").graph.node]
    assert {"QLinearConv", "QLinearAdd", "QGemm"} <= set(types)
    assert not {"Conv", "Gemm", "MatMul"} & set(types)


@pytest.mark.parametrize("dtype", [torch.qint8, torch.float16])
@pytest.mark.parametrize("route", ["traced", "scripted"])
def test_dynamic(route: str, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    plain = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)).eval()
    module = ao.quantize_dynamic(plain, {nn.Linear}, dtype=dtype)
    example = torch.randn(3, 16)
    model = exported(module, example, route)
    for inputs in (example, torch.randn(7, 16) * 4, torch.zeros(1, 16), torch.rand(2, 16) + 1):
        np.testing.assert_allclose(
            run(model, inputs), module(inputs).detach().numpy(), rtol=1e-3, atol=1e-3
        )


@pytest.mark.parametrize("optimized", [False, True])
@pytest.mark.parametrize("engine", ENGINES)
def test_dynamic_products_of_extremes_do_not_saturate(engine: str, optimized: bool) -> None:
    torch.backends.quantized.engine = engine
    layer = nn.Linear(64, 8)
    nn.init.constant_(layer.weight, 1.0)
    with torch.no_grad():
        layer.weight[:, :16] = -1.0  # neighbors in a sum have the same sign
    module = ao.quantize_dynamic(nn.Sequential(layer).eval(), {nn.Linear}, dtype=torch.qint8)
    example = torch.ones(2, 64)
    session = running.session(
        exported(module, example, "traced").SerializeToString(), optimized=optimized
    )
    (got,) = session.run(None, {session.get_inputs()[0].name: example.numpy()})
    np.testing.assert_allclose(got, module(example).detach().numpy(), rtol=1e-5)


class Sorted(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.quantize_per_tensor(x, 0.1, 0, torch.quint8).sort(1)[0].dequantize()


def test_an_operator_without_a_rule_is_refused() -> None:
    with pytest.raises(
        torch.onnx.errors.OnnxExporterError, match="aten::sort of quantized tensors"
    ):
        exported(Sorted(), torch.randn(2, 3), "scripted")


class Recurrent(nn.Module):
    """A network whose sequence and batch may have any length."""

    def __init__(self, kind: type[nn.RNNBase], **settings: Any) -> None:
        super().__init__()
        self.rnn = kind(8, 6, **settings)
        self.head = nn.Linear(12 if settings.get("bidirectional") else 6, 3)

    def forward(self, x: torch.Tensor) -> Any:
        y, state = self.rnn(x)
        return self.head(y), state


SETTINGS: list[dict[str, Any]] = [{}, {"batch_first": True, "num_layers": 2, "bidirectional": True}]


def check_dynamic(
    module: nn.Module, route: str, shapes: Any, *examples: tuple[torch.Tensor, ...]
) -> onnx.ModelProto:
    model = exported_with(module, examples[0], route, shapes)
    session = running.session(model.SerializeToString(), optimized=False)
    names = [each.name for each in session.get_inputs()]
    for example in examples:
        with torch.no_grad():
            expected = torch.utils._pytree.tree_leaves(module(*example))
        got = session.run(None, {n: x.numpy() for n, x in zip(names, example, strict=True)})
        for one, other in zip(got, expected, strict=True):
            np.testing.assert_allclose(one, other.numpy(), rtol=1e-5, atol=1e-5)
    return model


@pytest.mark.parametrize("route", ["traced", "scripted"])
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
def test_recurrent(
    kind: type[nn.RNNBase], settings: dict[str, Any], engine: str, route: str
) -> None:
    torch.manual_seed(0)
    torch.backends.quantized.engine = engine
    plain = Recurrent(kind, **settings).eval()
    module = ao.quantize_dynamic(plain, {kind, nn.Linear}, dtype=torch.qint8)
    shapes = ({0: torch.export.Dim("a"), 1: torch.export.Dim("b")},)
    examples = (torch.randn(5, 4, 8),), (torch.randn(3, 2, 8),)
    model = check_dynamic(module, route, shapes, *examples)
    weights = {each.name: each.data_type for each in model.graph.initializer}
    assert onnx.TensorProto.INT8 in (
        weights.get("rnn.weight_hh_l0"),
        weights.get("rnn.weight_hh_l0.T"),
    )


def test_recurrent_of_float16_weights() -> None:
    torch.manual_seed(0)
    torch.backends.quantized.engine = "fbgemm"
    module = ao.quantize_dynamic(Recurrent(nn.LSTM).eval(), {nn.LSTM}, dtype=torch.float16)
    check_dynamic(module, "traced", None, (torch.randn(5, 4, 8),))


class Cell(nn.Module):
    def __init__(self, kind: Callable[[int, int], nn.Module]) -> None:
        super().__init__()
        self.cell = kind(8, 6)

    def forward(self, x: torch.Tensor) -> Any:
        return self.cell(x)


@pytest.mark.parametrize("kind", [nn.LSTMCell, nn.GRUCell, nn.RNNCell])
def test_cells(kind: Any) -> None:
    torch.manual_seed(0)
    module = ao.quantize_dynamic(Cell(kind).eval(), {kind}, dtype=torch.qint8)
    shapes = ({0: torch.export.Dim("n")},)
    check_dynamic(module, "scripted", shapes, (torch.randn(3, 8),), (torch.randn(2, 8),))


class PackedSequence(Recurrent):
    def forward(self, x: torch.Tensor) -> Any:
        packed = nn.utils.rnn.pack_padded_sequence(x, torch.tensor([3, 2]))
        return self.rnn(packed)[1]


def test_recurrent_networks_of_packed_sequences_are_refused() -> None:
    module = ao.quantize_dynamic(PackedSequence(nn.GRU).eval(), {nn.GRU}, dtype=torch.qint8)
    with pytest.raises(torch.onnx.errors.OnnxExporterError, match="packed sequences; pad them"):
        check_dynamic(module, "traced", None, (torch.randn(3, 2, 8),))


class Bags(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.EmbeddingBag(20, 8, mode="sum")

    def forward(self, indices: torch.Tensor, offsets: torch.Tensor, rows: torch.Tensor) -> Any:
        return self.table(indices, offsets), self.table(rows)


@pytest.mark.parametrize("bits", [4, 8])
def test_embedding_bags(bits: int) -> None:
    torch.manual_seed(0)
    module = Bags().eval()
    configs = {
        4: ao.float_qparams_weight_only_qconfig_4bit,
        8: ao.float_qparams_weight_only_qconfig,
    }
    module.table.qconfig = configs[bits]
    ao.convert(ao.prepare(module, inplace=True), inplace=True)
    inputs = torch.randint(0, 20, (7,)), torch.tensor([0, 2, 2, 5]), torch.randint(0, 20, (3, 4))
    shapes = ({0: torch.export.Dim("n")}, {}, {})
    more = (torch.randint(0, 20, (9,)), *inputs[1:])
    model = check_dynamic(module, "traced", shapes, inputs, more)
    weights = {each.name: each for each in model.graph.initializer}
    assert weights["table.weight"].data_type == onnx.TensorProto.UINT8
    assert list(weights["table.weight"].dims) == [20, bits]


def test_embedding() -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Embedding(20, 8)).eval()
    module[0].qconfig = ao.float_qparams_weight_only_qconfig
    ao.convert(ao.prepare(module, inplace=True), inplace=True)
    shapes = ({0: torch.export.Dim("n")},)
    inputs = (torch.randint(0, 20, (3, 4)),), (torch.randint(0, 20, (2, 4)),)
    check_dynamic(module, "scripted", shapes, *inputs)


class Questions(nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = torch.quantize_per_tensor(x, 0.25, 3, torch.qint8)
        return y.dequantize() * y.q_zero_point() + y.q_scale(), x


@pytest.mark.parametrize("route", ["traced", "scripted"])
def test_scales_and_ties(route: str) -> None:
    x = torch.arange(-40, 41).reshape(1, -1) / 8  # half of them between two steps
    program = (
        torch.jit.trace(Questions(), x) if route == "traced" else torch.jit.script(Questions())
    )
    result = torch.onnx.export(program, (x,), dynamo=True, verbose=False)
    assert result is not None
    torch.testing.assert_close(result(x)[0], Questions()(x)[0])
