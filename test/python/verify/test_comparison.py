"""verify=True and onnx_native.compare find lowerings that are wrong."""

import json
import logging
import pathlib
import sys
from collections.abc import Iterator
from typing import Any

import onnx_native
import pytest
import torch
from models.zoo import BERT_SMALL
from onnx_native.program import _contents
from onnx_native.recording import _recorded_program
from onnx_native.routes import _torch_export
from torch import nn
from torch.onnx.verification import verify_onnx_program

X = torch.randn(3, 8, generator=torch.Generator().manual_seed(0))
BATCH = ({0: "batch"},)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(8, 8)
        self.norm = nn.LayerNorm(8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.norm(self.fc(x))
        return torch.relu(x) + 1  # the line that tests look for


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([Block(), Block()])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x).tanh()
        return x.sigmoid().softmax(-1)


class Convolution(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(4, 4, 3, padding=1)
        self.norm = nn.BatchNorm1d(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.norm(self.conv(x)))


@pytest.fixture
def net() -> Net:
    torch.manual_seed(0)
    return Net().eval()


@pytest.fixture
def lowerings() -> Iterator[Any]:
    """Registers wrong lowerings for the test."""
    keys = []

    def register(key: str, function: Any) -> None:
        onnx_native.lowering(key)(function)
        keys.append(key)

    yield register
    for key in keys:
        onnx_native.remove_lowering(key)


def export(model: nn.Module, *args: Any, **options: Any) -> Any:
    return torch.onnx.export(model, args, dynamo=True, **{"verbose": False, **options})


def line_of(text: str) -> int:
    lines = pathlib.Path(__file__).read_text().splitlines()
    return next(i for i, line in enumerate(lines, 1) if text in line)


def test_values_agree(net: Net) -> None:
    comparison = onnx_native.compare(export(net, X, dynamic_shapes=BATCH))
    assert comparison.first is None
    assert [row.name for row in comparison if row.status == "agrees"] == [
        *("linear", "layer_norm", "relu", "add", "tanh"),
        *("linear_1", "layer_norm_1", "relu_1", "add_1", "tanh_1", "sigmoid", "softmax"),
    ]
    assert "All 12 compared values agree" in str(comparison)


def test_output_with_the_name_of_another_call() -> None:
    class Products(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * 2 * 3 + 1

    comparison = onnx_native.compare(export(Products(), X, output_names=["mul_1"]))
    assert [(row.name, row.status) for row in comparison] == [
        *(("mul", "agrees"), ("mul_1", "fused"), ("add", "agrees"))
    ]


@pytest.mark.parametrize("captured", ["native", "TorchScript"])
def test_programs_that_torch_export_did_not_capture(captured: str, lowerings: Any) -> None:
    class Program(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(8, 8)
            self.rnn = nn.LSTM(8, 4, batch_first=True)
            self.register_buffer("steps", torch.zeros(8))

        def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
            y = self.fc(x)
            y[:, 0] += 1
            self.steps.add_(1)
            first, _ = y.chunk(2, -1)
            states, _ = self.rnn(y)
            largest, at = states.max(-1)
            zeros = torch.zeros(x.shape[0] * 2, dtype=torch.float64, device=x.device)
            return [torch.relu(first) * x.shape[0], largest, at, zeros + 1, self.steps + y]

    torch.manual_seed(0)
    x = torch.randn(3, 5, 8)
    model: Any = Program().eval()
    model = torch.jit.script(model) if captured == "TorchScript" else model
    lowerings("aten::relu", lambda b, x: b.op("LeakyRelu", x, alpha=0.1))
    program = export(model, x, dynamic_shapes=BATCH)
    assert program.export_report["capture"]["by"] == captured
    comparison = onnx_native.compare(program)
    assert [row.name for row in comparison.origins] == ["relu"]
    assert {row.status for row in comparison} <= {"agrees", "begins", "follows", "fused", "unused"}
    assert sum(row.status == "agrees" for row in comparison) > 8
    assert _contents.of(program).origin.exported is None
    assert onnx_native.compare(program, torch.randn(7, 5, 8)).first is not None
    if captured == "native":
        assert onnx_native.compare(program, sizes={"batch": 4}).first is not None


def test_bodies_of_recorded_programs_run() -> None:
    class Loops(nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            one = torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,))
            total, rows = scan(lambda a, b: (a + b, a * b), torch.zeros(8), x)
            return one + 1, total * 2, rows + 1

    scan = torch._higher_order_ops.scan
    comparison = onnx_native.compare(export(Loops(), X, dynamic_shapes=BATCH))
    assert comparison.first is None
    assert [row.name for row in comparison if row.status == "agrees"][-3:] == [
        *("add", "mul", "add_1"),
    ]


def test_calls_that_cannot_run_alone_are_named(net: Net) -> None:
    nowhere: Any = None

    def recorded() -> Any:
        _recorded_program.Builder().add_call("mine::operator", [], [], nowhere)

    program = export(torch.jit.trace(net, X), X)
    _contents.of(program).origin.recorded = recorded
    with pytest.raises(ValueError, match="mine::operator cannot be run call by call, so there is"):
        onnx_native.compare(program)
    program = export(net, X)
    _contents.of(program).origin.recorded = recorded  # torch.export captures this one
    assert onnx_native.compare(program).first is None


def test_loops_of_scripts_run() -> None:
    @torch.jit.script
    def powers(x: torch.Tensor, n: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        rows = []
        for i in range(int(n)):
            x = x * 2 + i
            rows.append(x)
        return x + 1, torch.stack(rows)

    comparison = onnx_native.compare(export(powers, X, torch.tensor(3)))
    assert comparison.first is None
    assert any(row.operator == "aten.add.Scalar" for row in comparison)


def test_wrong_lowering_is_named(net: Net, lowerings: Any) -> None:
    lowerings("aten::relu", lambda b, x: b.op("LeakyRelu", x, alpha=0.1))
    comparison = onnx_native.compare(export(net, X), X)
    assert [row.name for row in comparison.origins] == ["relu", "relu_1"]
    first = comparison.first
    assert first is not None
    line = line_of("torch.relu(x) + 1")
    assert (first.operator, first.node, first.onnx_operator) == (
        "aten.relu.default",
        "node_relu",
        "LeakyRelu",
    )
    assert (first.source, first.module) == (f"test_comparison.py:{line}", "blocks.0 (Block)")
    text = str(comparison)
    assert "A difference begins at relu: aten.relu.default differs by up to" in text
    assert f"at test_comparison.py:{line}, in blocks.0 (Block)" in text
    follows = [row.name for row in comparison if row.status == "follows"]
    assert follows[:3] == ["add", "tanh", "linear_1"]


def test_translation_table(net: Net) -> None:
    from onnxscript import opset18

    def wrong(x: Any) -> Any:
        return opset18.HardSigmoid(x)

    table = {torch.ops.aten.sigmoid.default: wrong}
    comparison = onnx_native.compare(export(net, X, custom_translation_table=table))
    assert [row.name for row in comparison.origins] == ["sigmoid"]


def test_two_wrong_lowerings(net: Net, lowerings: Any) -> None:
    lowerings("aten::relu", lambda b, x: b.op("LeakyRelu", x, alpha=0.1))
    lowerings("aten::sigmoid", lambda b, x: b.op("HardSigmoid", x))
    comparison = onnx_native.compare(export(net, X))
    assert [row.name for row in comparison.origins] == ["relu", "relu_1", "sigmoid"]


def test_wrong_value_in_a_fused_node(lowerings: Any) -> None:
    def wrong(b: Any, x: Any, weight: Any, bias: Any, *rest: Any) -> Any:
        doubled = b.op("Mul", weight, b.constant(torch.tensor(2.0)))
        return b.op("Conv", x, doubled, bias, pads=[1, 1], kernel_shape=[3])

    lowerings("aten::conv1d", wrong)
    program = export(Convolution().eval(), torch.randn(2, 4, 5))
    (first,) = onnx_native.compare(program).origins
    assert (first.name, first.onnx_operator) == ("batch_norm", "Conv")
    assert [inner.name for inner in first.includes] == ["conv1d"]
    assert "the node also computes conv1d" in str(onnx_native.compare(program))


def test_wrong_at_other_sizes(lowerings: Any, caplog: Any, capsys: Any) -> None:
    def only_three(b: Any, x: Any) -> Any:  # right for the three rows of the example
        rows = b.op("Gather", b.op("Shape", x), b.constant(torch.tensor(0)), axis=0)
        third = b.op("Div", b.cast(rows, torch.float32), b.constant(torch.tensor(3.0)))
        return b.op("Mul", b.op("Tanh", x), third)

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh())
    lowerings("aten::tanh", only_three)
    with caplog.at_level(logging.WARNING):
        program = export(model, X, dynamic_shapes=BATCH, verify=True, verbose=True)
    assert "Verify output accuracy... ❌" in capsys.readouterr().out
    assert "Output 'tanh_1' has a large" in caplog.text
    assert "at batch=4" in caplog.text
    assert "onnx_native.compare(program, sizes={'batch': 4})" in caplog.text
    accurate = {row["sizes"]: row["is_accurate"] for row in program.export_report["verification"]}
    assert accurate == {"batch=3": True, "batch=4": False, "batch=1": False}
    assert onnx_native.compare(program).first is None
    comparison = onnx_native.compare(program, sizes={"batch": 4})
    assert [row.name for row in comparison.origins] == ["tanh", "tanh_1"]
    other = onnx_native.compare(program, torch.randn(5, 8)).first
    assert other is not None
    assert other.name == "tanh"


class Decides(nn.Module):
    def forward(self, x: torch.Tensor, factor: float, dtype: torch.dtype) -> Any:
        scaled = x * factor if dtype is torch.float16 else x
        return {"scaled": scaled + 1 if x.shape[0] > 2 else scaled, "rows": x.shape[0]}


def test_native_captures_are_verified_beside_the_module(monkeypatch: Any) -> None:
    monkeypatch.delattr(_torch_export, "captured")  # by torch.export
    shapes = ({0: "batch"}, "factor", None)
    program = export(Decides(), X, 2.0, torch.float16, dynamic_shapes=shapes, verify=True)
    rows = program.export_report["verification"]
    assert all(row["is_accurate"] for row in rows)
    sizes = [3, 4, 1]  # on both ways
    assert [row["sizes"] for row in rows] == [f"batch={n}" for n in sizes for _ in range(2)]
    assert [row["shape"] for row in rows] == [shape for n in sizes for shape in ([n, 8], [])]


class Sizes(nn.Module):
    """torch.export records additions of sizes, which the native capture computes in Python."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        z = torch.cat([y, y]).view(x.shape[0] + x.shape[0], 8)
        return (z + 2) * (torch.arange(x.shape[0] + 3).sum() + 5)


class Writes(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("steps", torch.zeros(8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.steps.add_(1)
        y = x.exp()
        y[:, :2].mul_(3)
        x.relu_()
        return y.sigmoid() + x + self.steps


@pytest.mark.parametrize(("model", "shapes"), [(Sizes(), BATCH), (Writes(), None)])
@pytest.mark.captures("auto", "torch.export")
@pytest.mark.filterwarnings("ignore::torch.onnx.errors.OnnxExporterWarning")
def test_values_have_the_same_names(model: nn.Module, shapes: Any) -> None:
    before = {name: value.clone() for name, value in model.named_buffers()}
    x = X.clone()
    program = export(model, x, dynamic_shapes=shapes)
    comparison = onnx_native.compare(program, x)
    assert comparison.first is None, str(comparison)
    assert sum(row.status == "agrees" for row in comparison) > 2, str(comparison)
    assert torch.equal(x, X)
    assert all(torch.equal(value, before[name]) for name, value in model.named_buffers())


def test_operators_in_place_have_values(lowerings: Any) -> None:
    class InPlace(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = x * 2
            y.relu_()
            y += x
            return y.sigmoid()

    lowerings("aten::relu", lambda b, x: b.op("LeakyRelu", x, alpha=0.1))
    comparison = onnx_native.compare(export(InPlace(), X))
    assert comparison.first is not None
    assert comparison.first.name == "relu_"


def test_bert() -> None:
    program = export(
        BERT_SMALL.module(),
        kwargs=BERT_SMALL.example(),
        dynamic_shapes=BERT_SMALL.dynamic_shapes(),
        output_names=["hidden", "pooled"],
    )
    comparison = onnx_native.compare(program, BERT_SMALL.example((3, 27)), memory=1 << 18)
    assert comparison.first is None, str(comparison)
    agree = [row for row in comparison if row.status == "agrees"]
    assert len(agree) > 60
    assert {row.value for row in agree} >= {"hidden", "pooled"}
    assert verify_onnx_program(program, (), BERT_SMALL.example((1, 9)))


def test_verify_onnx_program_compares_intermediates(net: Net) -> None:
    results = verify_onnx_program(export(net, X), compare_intermediates=True)
    assert [result.name for result in results[:3]] == ["linear", "layer_norm", "relu"]
    assert len(results) == 12
    assert all(result.max_abs_diff < 1e-5 for result in results)


@pytest.mark.captures("auto", "torch.export")
def test_verify_onnx_program_pairs_the_same_values() -> None:
    results = verify_onnx_program(export(Sizes(), X, dynamic_shapes=BATCH), (X,), None, True)
    assert {"add", "cat", "sum_1"} <= {result.name for result in results}
    assert all(result.max_abs_diff < 1e-5 for result in results)


def test_random_values_are_not_compared() -> None:
    class Noise(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (x + torch.rand_like(x)).exp()

    comparison = onnx_native.compare(export(Noise(), X))
    assert {row.name: row.status for row in comparison} == {
        "rand_like": "random",
        "add": "agrees",
        "exp": "agrees",
    }


def test_memory_bounds_the_batches(net: Net, monkeypatch: Any) -> None:
    from onnx_native.verify import _comparison

    runs: list[list[str]] = []
    run = _comparison.Runtime.run

    def recorded(self: Any, feeds: Any, names: Any) -> Any:
        runs.append(list(names))
        return run(self, feeds, names)

    monkeypatch.setattr(_comparison.Runtime, "run", recorded)
    program = export(net, X)
    onnx_native.compare(program, memory=5 * X.nbytes)
    assert [len(names) for names in runs] == [5, 5, 2]


def test_file_for_model_explorer(net: Net, lowerings: Any, tmp_path: pathlib.Path) -> None:
    lowerings("aten::sigmoid", lambda b, x: b.op("HardSigmoid", x))
    program = export(net, X)
    onnx_native.compare(program).save(tmp_path / "differences.json")
    data = json.loads((tmp_path / "differences.json").read_text())
    (graph,) = data
    assert graph == program.model.graph.name
    results = data[graph]["results"]
    assert results.keys() <= {node.name for node in program.model.graph}
    assert [name for name, result in results.items() if result["value"] > 1] == ["node_sigmoid"]
    assert all(set(item) == {"value", "bgColor"} for item in data[graph]["thresholds"])


def test_data_frame(net: Net, monkeypatch: Any) -> None:
    comparison = onnx_native.compare(export(net, X))
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="pip install pandas"):
        comparison.to_dataframe()
    record = comparison.records()[0]
    assert record["name"] == "linear"
    assert record["own_absolute"] < 1e-5

    class Frames:
        class DataFrame:
            from_records = staticmethod(list)

    monkeypatch.setitem(sys.modules, "pandas", Frames)
    assert comparison.to_dataframe() == comparison.records()


def test_bad_input(net: Net, monkeypatch: Any) -> None:
    program = export(net, X, dynamic_shapes=BATCH)
    with pytest.raises(TypeError, match="expected the ONNXProgram of an export, got Net"):
        onnx_native.compare(net)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="the inputs do not fit the program"):
        onnx_native.compare(program, (X, X))
    with pytest.raises(ValueError, match="the inputs do not fit the program"):
        onnx_native.compare(program, torch.randn(3, 9))
    with pytest.raises(ValueError, match="no dynamic size rows; it has batch"):
        onnx_native.compare(program, sizes={"rows": 3})
    with pytest.raises(ValueError, match="leave out inputs"):
        onnx_native.compare(program, X, sizes={"batch": 3})
    with pytest.raises(ValueError, match="positive number of bytes"):
        onnx_native.compare(program, memory=0)
    scripted = export(torch.jit.trace(net, X), X)
    with pytest.raises(ValueError, match="sizes of a TorchScript program are not known"):
        onnx_native.compare(scripted, sizes={"batch": 3})
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(ImportError, match="pip install onnxruntime"):
        onnx_native.compare(program)
