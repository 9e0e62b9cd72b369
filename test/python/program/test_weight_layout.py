"""Matrices that only products use are stored transposed, under "<name>.T"."""

from __future__ import annotations

import copy
import pathlib
import subprocess
import sys
from typing import Any

import onnx
import onnx_native
import pytest
import torch
from models import running
from program.test_weights import WAYS, export, of_source, run, saved


class Net(torch.nn.Module):
    """Weights of equal sizes on both sides, so that a wrong layout is no error of shapes."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(48, 48)
        self.second = torch.nn.Linear(48, 48, bias=False)
        self.own = torch.nn.Parameter(torch.randn(48, 48) / 7)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.first(x).tanh()) @ self.own


class Tied(torch.nn.Module):
    def __init__(self, flat: bool = False) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(300, 40)
        self.head = torch.nn.Linear(40, 300, bias=False)
        self.head.weight = self.embedding.weight
        self.flat = flat

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        hidden = self.embedding(ids)
        return self.head(hidden.mean(1) if self.flat else hidden)


class Two(torch.nn.Module):
    """One matrix in products of two and of three dimensions, and its embedding as another name."""

    def __init__(self) -> None:
        super().__init__()
        self.a = torch.nn.Linear(40, 40)
        self.b = torch.nn.Linear(40, 40)
        self.b.weight = self.a.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.a(x) + self.b(x[:, 0])[:, None]


def names(program: Any) -> dict[str, list[int]]:
    return {one.name: list(one.dims) for one in program.model_proto.graph.initializer}


def matrices(program: Any) -> dict[str, list[int]]:
    return {name: sizes for name, sizes in names(program).items() if len(sizes) == 2}


def operators(program: Any) -> list[str]:
    return [node.op_type for node in program.model_proto.graph.node]


def replace_by_zeros(program: Any) -> None:
    """Replaces the matrices and vectors of a model, so that it has them instead of the program."""
    from onnx_ir.tensor_adapters import TorchTensor

    for graph in program.model.graphs():
        for name, value in graph.initializers.items():
            if value.dtype.is_floating_point() and value.shape.rank() > 0:
                value.const_value = TorchTensor(torch.zeros(tuple(value.shape)), name)


@pytest.fixture
def net() -> Net:
    torch.manual_seed(0)
    return Net().eval()


@pytest.fixture
def x() -> torch.Tensor:
    torch.manual_seed(1)
    return torch.randn(2, 3, 48)


@pytest.mark.parametrize("source", ["module", "program", "trace", "script"])
@pytest.mark.parametrize("opset", [13, 20, 23])
def test_no_transpose_is_left(net: Net, x: torch.Tensor, source: str, opset: int) -> None:
    program = export(of_source(net, source, x), x, opset_version=opset)
    onnx.checker.check_model(program.model_proto, full_check=True)
    assert "Transpose" not in operators(program)
    assert set(matrices(program)) == {"first.weight.T", "second.weight.T", "own"}
    torch.testing.assert_close(program(x)[0], net(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("way", WAYS)
def test_dtypes(net: Net, x: torch.Tensor, dtype: torch.dtype, way: str, tmp_path: Any) -> None:
    net, x = net.to(dtype), x.to(dtype)
    program = export(net, x, opset_version=20, dynamic_shapes=({0: "batch", 1: "sequence"},))
    assert {"first.weight.T", "second.weight.T", "own"} <= set(names(program))
    assert "Transpose" not in operators(program)
    if way == "model":
        assert program.model
    if way != "model_proto":
        path = tmp_path / "m.onnx"
        program.save(path, external_data=way == "external")
        onnx.checker.check_model(str(path), full_check=True)
        stored = {one.name: one for one in onnx.load(path).graph.initializer}["first.weight.T"]
        plain = onnx.numpy_helper.to_array(stored).astype("float64")
        assert (plain == net.first.weight.detach().double().numpy().T).all()
    tolerance = 1e-4 if dtype in (torch.float32, torch.float64) else 4e-2
    for sizes in ((2, 3), (1, 1), (5, 2)):
        given = torch.randn(*sizes, 48).to(dtype)
        torch.testing.assert_close(program(given)[0], net(given), rtol=tolerance, atol=tolerance)


def test_the_modules_layout_on_request(net: Net, x: torch.Tensor) -> None:
    with onnx_native.options(weights="module"):
        program = export(net, x)
    assert operators(program).count("Transpose") == 2
    assert {"first.weight", "second.weight", "own"} <= set(names(program))
    torch.testing.assert_close(program(x)[0], net(x), rtol=1e-4, atol=1e-5)


def test_without_optimization_the_layout_is_the_modules(net: Net, x: torch.Tensor) -> None:
    assert "first.weight" in names(export(net, x, optimize=False))


def test_products_of_matrices_stay_gemms(net: Net, x: torch.Tensor) -> None:
    program = export(net.first, x[0])
    assert operators(program) == ["Gemm"]
    assert names(program) == {"weight": [48, 48], "bias": [48]}


@pytest.mark.parametrize("options", [{"target": "tpu"}, {"weights": "flat"}])
def test_unknown_options(options: dict[str, Any]) -> None:
    (name, value), *_ = options.items()
    with pytest.raises(ValueError, match=f"{name}= takes one of .*, not '{value}'"):  # noqa: SIM117
        with onnx_native.options(**options):
            raise AssertionError("not reached")


@pytest.mark.parametrize("target", ["onnx", "onnxruntime-cpu"])
def test_targets_compute_the_same(net: Net, x: torch.Tensor, target: str) -> None:
    with onnx_native.options(target=target):
        program = export(net, x)
    torch.testing.assert_close(program(x)[0], net(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("edited", [False, True])
def test_a_state_dict_applies_as_it_is(
    net: Net, x: torch.Tensor, way: str, edited: bool, tmp_path: Any
) -> None:
    program = export(net, x)
    if edited:
        replace_by_zeros(program)
    torch.manual_seed(5)
    other = Net().eval()
    program.apply_weights(other.state_dict())
    torch.testing.assert_close(saved(program, tmp_path, way, x), other(x), rtol=1e-4, atol=1e-5)


def test_weights_change_in_place(net: Net, x: torch.Tensor, tmp_path: pathlib.Path) -> None:
    program = export(net, x)
    with torch.no_grad():
        net.first.weight.mul_(2).add_(0.1)
    torch.testing.assert_close(saved(program, tmp_path, "save", x), net(x), rtol=1e-4, atol=1e-5)


def test_without_weights(net: Net, x: torch.Tensor, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "m.onnx"
    program = export(net, x, f=path, export_params=False, keep_initializers_as_inputs=True)
    model = onnx.load(path)
    assert not model.graph.initializer
    inputs = {
        one.name: [size.dim_value for size in one.type.tensor_type.shape.dim]
        for one in model.graph.input
    }
    assert inputs["first.weight.T"] == [48, 48]
    other = Net().eval()
    program.apply_weights(other.state_dict())
    torch.testing.assert_close(program(x)[0], other(x), rtol=1e-4, atol=1e-5)


def test_weights_as_inputs(net: Net, x: torch.Tensor, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "m.onnx"
    export(net, x, f=path, keep_initializers_as_inputs=True)
    assert {"first.weight.T", "own"} <= {one.name for one in onnx.load(path).graph.input}
    torch.testing.assert_close(run(str(path), x), net(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize("source", ["module", "trace"])
def test_an_embedding_and_its_head_are_stored_once(source: str, flat: bool, tmp_path: Any) -> None:
    torch.manual_seed(0)
    module, ids = Tied(flat).eval(), torch.randint(0, 300, (2, 5))
    program = export(of_source(module, source, ids), ids, dynamic_shapes=({0: "b", 1: "s"},))
    onnx.checker.check_model(program.model_proto, full_check=True)
    ((name, sizes),) = matrices(program).items()
    assert name in ("embedding.weight.T", "head.weight.T")
    assert sizes == [40, 300]
    for path, external in ((tmp_path / "in.onnx", False), (tmp_path / "out.onnx", True)):
        program.save(path, external_data=external)
        assert sum(f.stat().st_size for f in tmp_path.glob(f"{path.stem}*")) < 1.5 * 300 * 40 * 4
    for given in ((2, 5), (1, 1), (3, 2)):
        ids = torch.randint(0, 300, given)
        torch.testing.assert_close(program(ids)[0], module(ids), rtol=1e-4, atol=1e-5)
    other = Tied(flat).eval()
    state = other.state_dict() if source == "module" else {name[:-2]: other.head.weight.detach()}
    program.apply_weights(state)
    torch.testing.assert_close(program(ids)[0], other(ids), rtol=1e-4, atol=1e-5)


def test_a_matrix_of_two_products_is_stored_once(x: torch.Tensor) -> None:
    module, x = Two().eval(), torch.randn(2, 3, 40)
    program = export(module, x)
    assert list(matrices(program)) in (["a.weight.T"], ["b.weight.T"])
    assert not any(
        one.name == "transB" for node in program.model_proto.graph.node for one in node.attribute
    )
    torch.testing.assert_close(program(x)[0], module(x), rtol=1e-4, atol=1e-5)


class Cross(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = torch.nn.MultiheadAttention(48, 4, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        memory = x.flip(1)[:, :2]
        return self.attention(x, memory, memory, need_weights=False)[0]


@pytest.mark.parametrize("edited", [False, True])
def test_packed_matrices_are_stored_in_parts(x: torch.Tensor, edited: bool, tmp_path: Any) -> None:
    module = Cross().eval()
    program = export(module, x)
    onnx.checker.check_model(program.model_proto, full_check=True)
    parts = {"attention.in_proj_weight[0:48].T", "attention.in_proj_weight[48:144].T"}
    assert parts <= set(names(program))
    torch.testing.assert_close(program(x)[0], module(x), rtol=1e-4, atol=1e-5)
    if edited:
        replace_by_zeros(program)
    other = Cross().eval()
    program.apply_weights(other.state_dict())
    torch.testing.assert_close(saved(program, tmp_path, "save", x), other(x), rtol=1e-4, atol=1e-5)


class Stack(torch.nn.Module):
    """Matrices in one parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.stack = torch.nn.Parameter(torch.randn(3, 48, 48) / 7)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for matrix in self.stack.split(1):
            x = torch.nn.functional.linear(x, matrix.squeeze(0)).tanh()
        return x


@pytest.mark.parametrize("edited", [False, True])
def test_stacked_matrices_are_stored_in_parts(x: torch.Tensor, edited: bool, tmp_path: Any) -> None:
    module = Stack().eval()
    program = export(module, x)
    assert set(names(program)) == {"stack[0].T", "stack[1].T", "stack[2].T"}
    torch.testing.assert_close(program(x)[0], module(x), rtol=1e-4, atol=1e-5)
    if edited:
        replace_by_zeros(program)
    other = Stack().eval()
    program.apply_weights(other.state_dict())
    torch.testing.assert_close(saved(program, tmp_path, "save", x), other(x), rtol=1e-4, atol=1e-5)


class Branches(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a = torch.nn.Linear(40, 40)
        self.b = torch.nn.Linear(40, 40)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, self.positive, self.negative, (x,))

    def positive(self, x: torch.Tensor) -> torch.Tensor:
        return self.b(self.a(x))

    def negative(self, x: torch.Tensor) -> torch.Tensor:
        return self.a(x) * 2


class Repeated(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a = torch.nn.Linear(40, 40)

    def forward(self, x: torch.Tensor, times: torch.Tensor) -> torch.Tensor:
        for _ in range(int(times)):
            x = self.a(x).tanh()
        return x


def test_matrices_of_branches() -> None:
    module, x = Branches().eval(), torch.randn(2, 3, 40)
    program = export(module, x)
    assert set(matrices(program)) == {"a.weight.T", "b.weight.T"}
    for given in (x.abs(), -x.abs()):
        torch.testing.assert_close(program(given)[0], module(given), rtol=1e-4, atol=1e-5)


def test_matrices_of_loops() -> None:
    module, x = Repeated().eval(), torch.randn(2, 3, 40)
    program = export(torch.jit.script(module), x, torch.tensor(2))
    assert "a.weight.T" in names(program)
    for times in (torch.tensor(0), torch.tensor(3)):
        expected = module(x, times)
        torch.testing.assert_close(program(x, times)[0], expected, rtol=1e-4, atol=1e-5)


def test_matrices_of_functions(net: Net, x: torch.Tensor) -> None:
    layers = torch.nn.Sequential(*(copy.deepcopy(net) for _ in range(3))).eval()
    with onnx_native.options(functions={Net}):
        program = export(layers, x)
    (function,) = program.model_proto.functions
    assert set(function.input) >= {"first.weight.T", "second.weight.T", "own"}
    assert {"0.first.weight.T", "2.second.weight.T"} <= set(names(program))
    torch.testing.assert_close(program(x)[0], layers(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("layout", ["runtime", "module"])
def test_the_command_line_takes_the_options(
    net: Net, x: torch.Tensor, layout: str, tmp_path: Any
) -> None:
    torch.export.save(torch.export.export(net, (x,)), tmp_path / "m.pt2")
    files = [tmp_path / "m.pt2", "-o", tmp_path / "m.onnx"]
    options = ["--weights", layout, "--target", "onnxruntime-cpu"]
    subprocess.run([sys.executable, "-m", "onnx_native", *files, *options], check=True)
    stored = {one.name for one in onnx.load(tmp_path / "m.onnx").graph.initializer}
    assert ("first.weight.T" in stored) == (layout == "runtime")
    result = running.run(running.session(tmp_path / "m.onnx", optimized=False), {"x": x})
    torch.testing.assert_close(result[0], net(x).detach(), rtol=1e-4, atol=1e-5)
