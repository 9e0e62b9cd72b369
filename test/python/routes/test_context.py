"""Exports inside context managers: the same model as outside, or eager's numbers."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import onnx
import pytest
import torch
from onnx_native import _library
from torch._subclasses.fake_tensor import FakeTensorMode


class Network(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.conv = torch.nn.Conv1d(1, 2, 3)
        self.norm = torch.nn.BatchNorm1d(2)
        self.register_buffer("shift", torch.arange(4.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.linear(x) + self.shift + torch.zeros(4) + torch.arange(4) * torch.tensor(2.0)
        z = self.norm(self.conv(y[:, None])).softmax(-1)
        filled = torch.empty_like(z).fill_(2.0)
        filled[:, 0] = torch.full((1,), 3.0)
        return z @ z.mT + filled[:, :, :2] + torch.cat([z, z]).cumsum(0).sum()


class Regions(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = self.linear(x)
        with torch.no_grad():
            z = self.linear(x)
        return y.float() + z


@contextmanager
def default_device(device: str) -> Iterator[None]:
    torch.set_default_device(device)
    try:
        yield
    finally:
        torch.set_default_device(None)


@contextmanager
def deterministic() -> Iterator[None]:
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


CONTEXTS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "autocast bfloat16": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    "autocast float16": lambda: torch.autocast("cpu", dtype=torch.float16),
    "autocast off": lambda: torch.autocast("cpu", enabled=False),
    "inference_mode": torch.inference_mode,
    "no_grad": torch.no_grad,
    "enable_grad": torch.enable_grad,
    "device cpu": lambda: torch.device("cpu"),
    "device meta": lambda: torch.device("meta"),
    "default device cpu": lambda: default_device("cpu"),
    "default device meta": lambda: default_device("meta"),
    "fake": FakeTensorMode,
    "deterministic": deterministic,
    "anomaly": lambda: torch.autograd.set_detect_anomaly(True),
}
ROUTES = ["module", "program", "script", "trace"]
EACH_CAPTURE = pytest.mark.captures("auto", "torch.export")


def model_of(module: torch.nn.Module, route: str, x: torch.Tensor) -> Any:
    if route == "script":
        return torch.jit.script(module)
    if route == "trace":
        return torch.jit.trace(module, x)
    if route == "program":
        shapes = ({0: torch.export.Dim("n")},)
        return torch.export.export(module, (x,), dynamic_shapes=shapes)
    return module


def export(model: Any, x: torch.Tensor) -> Any:
    program = torch.onnx.export(model, (x,), dynamo=True, verbose=False, dynamic_shapes=({0: "n"},))
    assert program is not None
    onnx.checker.check_model(program.model_proto, full_check=True)
    return program


def without_origins(program: Any) -> list[str]:
    graph = program.model_proto.graph
    for node in graph.node:
        del node.metadata_props[:]
    return [str(node) for node in graph.node] + [str(value) for value in graph.output]


@EACH_CAPTURE
@pytest.mark.filterwarnings("ignore:Anomaly Detection")
@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("context", CONTEXTS)
def test_the_same_as_outside(context: str, route: str) -> None:
    module, x = Network().eval(), torch.randn(3, 4)
    model = model_of(module, route, x)
    outside = export(model, x)
    with CONTEXTS[context]():
        inside = export(model, x)
        # The context is still active.
        assert torch.is_autocast_enabled("cpu") == ("autocast" in context and "off" not in context)
        assert torch.is_inference_mode_enabled() == (context == "inference_mode")
        assert (torch.get_default_device().type == "meta") == context.endswith("meta")
    assert without_origins(inside) == without_origins(outside)
    torch.testing.assert_close(inside(x)[0], module(x).detach(), rtol=1e-4, atol=1e-5)


@EACH_CAPTURE
@pytest.mark.filterwarnings("ignore:Anomaly Detection")
@pytest.mark.parametrize("context", CONTEXTS)
def test_regions_of_the_module_stay(context: str) -> None:
    module, x = Regions().eval(), torch.randn(3, 4)
    with CONTEXTS[context]():
        program = export(module, x)
    torch.testing.assert_close(program(x)[0], module(x).detach(), rtol=1e-2, atol=1e-2)
    casts = [node.op_type for node in program.model_proto.graph.node].count("Cast")
    assert casts >= 2


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("module", [Network(), Regions()], ids=["network", "regions"])
def test_programs_captured_under_autocast(
    module: torch.nn.Module, dtype: torch.dtype, tmp_path: pathlib.Path
) -> None:
    if isinstance(module, Regions) and dtype is torch.float16:
        dtype = torch.bfloat16
    module, x = module.eval(), torch.randn(3, 4)
    with torch.autocast("cpu", dtype=dtype), torch.no_grad():
        captured = torch.export.export(module, (x,), dynamic_shapes=({0: torch.export.Dim("n")},))
        expected = module(x)
    result = export(captured, x)(x)[0]
    assert result.dtype == expected.dtype
    torch.testing.assert_close(result, expected, rtol=3e-2, atol=3e-2)
    torch.export.save(captured, tmp_path / "model.pt2")
    target = tmp_path / "model.onnx"
    code = _library.extension().command_line([str(tmp_path / "model.pt2"), "-o", str(target)])
    assert code == 0
    assert len(onnx.load(target).graph.node) > 0


@EACH_CAPTURE
def test_inference_tensors() -> None:
    with torch.inference_mode():
        module, x = Network().eval(), torch.randn(3, 4)
        program = export(module, x)
        torch.testing.assert_close(program(x)[0], module(x), rtol=1e-4, atol=1e-5)


@EACH_CAPTURE
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_an_export_in_the_middle_of_training(dtype: torch.dtype) -> None:
    module = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU()).to(dtype)
    optimizer = torch.optim.SGD(module.parameters())
    x = torch.randn(3, 4, dtype=dtype)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=dtype is torch.float32):
        loss = module(x).float().sum()
        program = export(module.eval(), x)
    loss.backward()
    torch.testing.assert_close(program(x)[0], module(x).detach(), rtol=1e-4, atol=1e-5)
    optimizer.step()


class Recurrent(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = torch.nn.LSTM(3, 2)
        self.gru = torch.nn.GRU(3, 2)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.lstm(x)[0], self.gru(x)[0]


@EACH_CAPTURE
@pytest.mark.parametrize("order", [[True, False], [False, True]], ids=["dynamic first", "last"])
def test_captures_before_do_not_matter(order: list[bool]) -> None:
    model = Recurrent().eval()
    for is_dynamic in order:
        x = torch.randn(4, 2, 3) if is_dynamic else torch.randn(4, 0, 3)
        program = torch.onnx.export(
            model,
            (x,),
            dynamo=True,
            dynamic_shapes=({0: torch.export.Dim("length")},) if is_dynamic else None,
            verbose=False,
        )
        assert program is not None
        dims = program.model_proto.graph.input[0].type.tensor_type.shape.dim
        assert dims[0].dim_param == ("length" if is_dynamic else "")


class Mixed(torch.nn.Module):
    """Operators that autocast runs in half precision, in float32, or not at all."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.dtype = dtype

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        with torch.autocast("cpu", dtype=self.dtype):
            y = self.linear(x)
            return y, (y + 1).softmax(-1), x @ x.t(), torch.cat([y, x])


class InFloat32(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        half = x.bfloat16()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return torch.cdist(half, half)


class WithoutEffect(torch.nn.Module):
    """Regions that leave the dtypes of CPU tensors as they are."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", enabled=False):
            y = self.linear(x)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            y = self.linear(y)
        with torch.autocast("cpu", dtype=torch.float32):
            return self.linear(y)


WRONG_RECORDS = {
    "bfloat16": Mixed(torch.bfloat16),
    "float16": Mixed(torch.float16),
    "float32": InFloat32(),
}


@pytest.mark.parametrize("name", WRONG_RECORDS)
def test_dtypes_that_a_strict_capture_records_wrongly(name: str, tmp_path: pathlib.Path) -> None:
    module, x = WRONG_RECORDS[name].eval(), torch.randn(3, 4)
    captured = torch.export.export(module, (x,), strict=True)
    with pytest.raises(torch.onnx.errors.OnnxExporterError, match=r"inside torch\.autocast"):
        torch.onnx.export(captured, dynamo=True, verbose=False)
    torch.export.save(captured, tmp_path / "model.pt2")
    archive, target = str(tmp_path / "model.pt2"), str(tmp_path / "model.onnx")
    assert _library.extension().command_line([archive, "-o", target]) != 0
    for remedy in (
        torch.export.export(module, (x,), strict=False),
        captured.run_decompositions({}),
    ):
        program: Any = torch.onnx.export(remedy, dynamo=True, verbose=False)
        expected = module(x)
        expected = expected if isinstance(expected, tuple) else (expected,)
        for result, wanted in zip(program(x), expected, strict=True):
            assert result.dtype == wanted.dtype
            torch.testing.assert_close(result, wanted, rtol=3e-2, atol=3e-2)


@pytest.mark.filterwarnings("ignore:.*autocast")
@pytest.mark.filterwarnings("ignore:User provided device_type")
@pytest.mark.parametrize("strict", [True, False])
def test_autocast_without_effect(strict: bool) -> None:
    module, x = WithoutEffect().eval(), torch.randn(3, 4)
    captured = torch.export.export(module, (x,), strict=strict)
    program: Any = torch.onnx.export(captured, dynamo=True, verbose=False)
    torch.testing.assert_close(program(x)[0], module(x), rtol=1e-4, atol=1e-5)
