"""What one can do with a program: calls in any form, options of saving, copies, values inside."""

from __future__ import annotations

import copy
import io
import pathlib
import pickle
from typing import Any

import numpy as np
import onnx
import onnx_native
import onnxruntime as ort
import pytest
import torch
from torch import Tensor, nn

pytestmark = pytest.mark.captures("auto", "torch.export")


class Nested(nn.Module):
    """Takes and returns nested tensors; the parameters have defaults."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 3)

    def forward(self, x: Tensor, others: dict[str, Tensor], scale: Tensor | None = None) -> Any:
        y = self.linear(x) + others["b"] - others["a"]
        if scale is not None:
            y = y * scale
        return {"y": y, "parts": [others["a"] + 1, None, (x.sum(0),)]}


def others(seed: int = 0) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {name: torch.randn(3, generator=generator) for name in ("a", "b")}


@pytest.fixture
def module() -> Nested:
    torch.manual_seed(0)
    return Nested().eval()


@pytest.fixture
def program(module: Nested) -> Any:
    x, scale = torch.randn(2, 4), torch.randn(3)
    kwargs = {"others": others(), "scale": scale}
    return torch.onnx.export(module, (x,), kwargs=kwargs, verbose=False)


def expected(module: Nested, *args: Any, **kwargs: Any) -> list[Tensor]:
    with torch.no_grad():
        result = module(*args, **kwargs)
    return [result["y"], result["parts"][0], result["parts"][2][0]]


def test_calls_like_the_module(module: Nested, program: Any) -> None:
    x, scale = torch.randn(2, 4), torch.randn(3)
    truth = expected(module, x, others(1), scale)
    for args, kwargs in (
        ((x,), {"others": others(1), "scale": scale}),
        ((x,), {"scale": scale, "others": others(1)}),
        ((x, others(1), scale), {}),
        ((x, others(1)), {"scale": scale}),
        ((), {"scale": scale, "x": x, "others": others(1)}),
    ):
        for result in (program(*args, **kwargs), program.call_reference(x, others(1), scale)):
            torch.testing.assert_close(list(result), truth, rtol=1e-4, atol=1e-5)


def test_surplus_arguments(program: Any) -> None:
    x = torch.randn(2, 4)
    with pytest.raises(ValueError, match="the model has 4 inputs"):
        program(x, others(), torch.randn(3), x, x)


def test_values_inside(module: Nested, program: Any) -> None:
    x, scale = torch.randn(2, 4), torch.randn(3)
    name = next(
        node.outputs[0].name
        for node in program.model.graph
        if node.op_type in ("Gemm", "MatMul", "Add")
    )
    (value,) = program.compute_values([name], (x,), {"others": others(1), "scale": scale})
    assert value.shape == (2, 3)
    with pytest.raises(ValueError, match="'absent' not found"):
        program.compute_values(["absent"], (x,), {"others": others(), "scale": scale})
    results = program(x, others(1), scale)
    truth = expected(module, x, others(1), scale)
    torch.testing.assert_close(list(results), truth, rtol=1e-4, atol=1e-5)


def test_copies(module: Nested, program: Any) -> None:
    x, scale = torch.randn(2, 4), torch.randn(3)
    program(x, others(), scale)
    copied = copy.copy(program)
    truth = expected(module, x, others(), scale)
    for _ in range(2):
        torch.testing.assert_close(list(copied(x, others(), scale)), truth, rtol=1e-4, atol=1e-5)
        copied.release()
    with pytest.raises(TypeError, match=r"cannot be copied deeply.*copy\.copy"):
        copy.deepcopy(program)
    with pytest.raises(TypeError, match=r"cannot be pickled.*save"):
        pickle.dumps(program)
    assert len(program.model.clone().graph.initializers) == len(program.model.graph.initializers)


SAVED = [
    (include, as_inputs, external)
    for include in (True, False)
    for as_inputs in (True, False)
    for external in (None, True, False)
]


@pytest.mark.parametrize(("include", "as_inputs", "external"), SAVED)
def test_options_of_saving(
    module: Nested,
    program: Any,
    tmp_path: pathlib.Path,
    include: bool,
    as_inputs: bool,
    external: bool | None,
) -> None:
    """Without its weights, a model runs with the weights as inputs, and needs nothing else."""
    path = tmp_path / "model.onnx"
    program.save(
        path,
        include_initializers=include,
        keep_initializers_as_inputs=as_inputs,
        external_data=external,
    )
    proto = onnx.load(path)
    weights = {"linear.bias", *(n for n in module.state_dict() if n != "linear.bias")}
    stored = {tensor.name.removesuffix(".T") for tensor in proto.graph.initializer}
    inputs = [value.name for value in proto.graph.input]
    assert weights <= stored if include else not weights & stored
    assert inputs[:4] == ["x", "others_a", "others_b", "scale"]
    assert {name.removesuffix(".T") for name in inputs[4:]} == (weights if as_inputs else set())
    if not include and not as_inputs:
        return
    x, scale = torch.randn(2, 4), torch.randn(3)
    values = [x, *others().values(), scale]
    feeds = {name: value.numpy() for name, value in zip(inputs, values, strict=False)}
    if not include:
        for name in inputs[4:]:
            weight = module.state_dict()[name.removesuffix(".T")]
            feeds[name] = np.ascontiguousarray(
                (weight.T if name.endswith(".T") else weight).numpy()
            )
    session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    truth = expected(module, x, others(), scale)
    for result, tensor in zip(session.run(None, feeds), truth, strict=True):
        np.testing.assert_allclose(result, tensor.numpy(), rtol=1e-4, atol=1e-5)


def test_weights_left_out_come_later(module: Nested, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "model.onnx"
    x, scale = torch.randn(2, 4), torch.randn(3)
    program = torch.onnx.export(
        module, (x, others(), scale), path, export_params=False, verbose=False
    )
    assert program is not None
    other = Nested().eval()
    program.apply_weights(other.state_dict())
    program.save(path)
    truth = expected(other, x, others(), scale)
    torch.testing.assert_close(list(program(x, others(), scale)), truth, rtol=1e-4, atol=1e-5)
    assert {"linear.bias"} <= {tensor.name for tensor in onnx.load(path).graph.initializer}


def test_weights_after_optimization(module: Nested) -> None:
    x, scale = torch.randn(2, 4), torch.randn(3)
    program = torch.onnx.export(module, (x, others(), scale), verbose=False)
    assert program is not None
    program.optimize()
    other = Nested().eval()
    program.apply_weights(other.state_dict())
    truth = expected(other, x, others(), scale)
    torch.testing.assert_close(list(program(x, others(), scale)), truth, rtol=1e-4, atol=1e-5)


def test_sessions(program: Any, module: Nested) -> None:
    given: list[Any] = []

    def initializer(model: Any) -> ort.InferenceSession:
        given.append(model)
        return ort.InferenceSession(model, providers=["CPUExecutionProvider"])

    x, scale = torch.randn(2, 4), torch.randn(3)
    program.initialize_inference_session(initializer)
    program(x, others(), scale)
    program(x, others(), scale)
    program.release()
    program(x, others(), scale)
    assert len(given) == 1
    assert isinstance(given[0], bytes)


def test_axes_are_renamed() -> None:
    program = torch.onnx.export(
        nn.ReLU(), (torch.randn(2, 3),), dynamic_shapes=({0: "batch"},), verbose=False
    )
    assert program is not None
    program.rename_axes({"batch": "n"})
    program.rename_axes({program.model.graph.inputs[0].shape[0]: "rows"})  # type: ignore[index]
    stream = io.BytesIO(program.model_proto.SerializeToString())
    (output,) = onnx.load(stream).graph.output
    assert output.type.tensor_type.shape.dim[0].dim_param == "rows"
    assert program(torch.randn(5, 3))[0].shape == (5, 3)


def test_more_than_a_file_can_hold(tmp_path: pathlib.Path, monkeypatch: Any) -> None:
    """As if the limit of 2 GiB were smaller."""
    from onnx_native.program import _contents

    monkeypatch.setattr(_contents, "_LARGEST_MESSAGE", 1000)
    monkeypatch.setattr(_contents, "_REST_OF_MESSAGE", 0)
    module, x = nn.Linear(64, 64).eval(), torch.randn(2, 64)
    path = tmp_path / "model.onnx"
    with pytest.warns(torch.onnx.errors.OnnxExporterWarning, match="saved as external data"):
        program = torch.onnx.export(module, (x,), path, external_data=False, verbose=False)
    assert program is not None
    assert (tmp_path / "model.onnx.data").exists()
    session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    (result,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    np.testing.assert_allclose(result, module(x).detach().numpy(), rtol=1e-4, atol=1e-5)
    assert program.model_proto.graph.initializer
    with onnx_native.disabled():
        theirs = torch.onnx.export(module, (x,), verbose=False)
    assert theirs is not None
    assert len(theirs.model_proto.graph.initializer) == 2
