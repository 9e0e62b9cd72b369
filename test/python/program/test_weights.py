"""Weights that change between export and save: the model follows them, or fails."""

from __future__ import annotations

import copy
import pathlib
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnx_ir
import onnx_native
import onnxruntime as ort
import pytest
import torch
from onnx_native import _library

ExportError = _library.extension().ExportError


def export(module: Any, *args: torch.Tensor, **options: Any) -> Any:
    program = torch.onnx.export(module, args, dynamo=True, verbose=False, **options)
    assert program is not None
    return program


def run(model: str | bytes, x: torch.Tensor) -> torch.Tensor:
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(model, options)
    return torch.from_numpy(session.run(None, {session.get_inputs()[0].name: x.numpy()})[0])


def saved(program: Any, folder: pathlib.Path, way: str, x: torch.Tensor) -> torch.Tensor:
    if way == "model_proto":
        return run(program.model_proto.SerializeToString(), x)
    if way == "model":
        program.model  # noqa: B018
        return run(program.model_proto.SerializeToString(), x)
    path = str(folder / "model.onnx")
    program.save(path, external_data=way == "external")
    return run(path, x)


WAYS = ["save", "external", "model_proto", "model"]
WIDE = 200


def linear() -> torch.nn.Linear:
    torch.manual_seed(0)
    return torch.nn.Linear(WIDE, WIDE)


def of_source(module: torch.nn.Module, source: str, x: torch.Tensor) -> Any:
    if source == "trace":
        return torch.jit.trace(module, x)
    if source == "script":
        return torch.jit.script(module)
    if source == "program":
        return torch.export.export(module, (x,))
    return module


def replace_data(module: torch.nn.Linear) -> None:
    module.weight.data = torch.zeros(1)


REPLACED: dict[str, Callable[[torch.nn.Linear], Any]] = {
    "half": lambda m: m.half(),
    "double": lambda m: m.double(),
    "to": lambda m: m.to(torch.bfloat16),
    "data": replace_data,
    "delete": lambda m: delattr(m, "weight"),
    "parameter": lambda m: setattr(m, "weight", torch.nn.Parameter(torch.zeros(WIDE, WIDE))),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("change", REPLACED)
def test_other_storage(change: str, way: str, tmp_path: pathlib.Path) -> None:
    module, x = linear(), torch.randn(3, WIDE)
    expected = module(x).detach()
    program = export(module, x)
    REPLACED[change](module)
    torch.testing.assert_close(saved(program, tmp_path, way, x), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("source", ["trace", "script", "program"])
def test_other_storage_of_other_sources(source: str, tmp_path: pathlib.Path) -> None:
    module, x = linear(), torch.randn(3, WIDE)
    expected = module(x).detach()
    exported = of_source(module, source, x)
    program = export(exported, x)
    module.half()
    if source in ("trace", "script"):
        exported.half()
    result = saved(program, tmp_path, "save", x)
    torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("size", [0, 8])
def test_smaller_storage(size: int, way: str, tmp_path: pathlib.Path) -> None:
    module, x = linear(), torch.randn(3, WIDE)
    program = export(module, x)
    module.weight.untyped_storage().resize_(size)
    with pytest.raises(ExportError, match="the memory of weight was released or resized"):
        saved(program, tmp_path, way, x)
    assert not list(tmp_path.iterdir())


def test_smaller_storage_after_the_model_was_made() -> None:
    module, x = linear(), torch.randn(3, WIDE)
    program = export(module, x)
    assert program.model
    module.weight.untyped_storage().resize_(0)
    with pytest.raises(onnx_ir.serde.SerdeError) as caught:
        program.model_proto  # noqa: B018
    assert "the memory of weight was released" in "".join(traceback.format_exception(caught.value))


def test_moved_storage(tmp_path: pathlib.Path) -> None:
    module, x = linear(), torch.randn(3, WIDE)
    expected = module(x).detach()
    program = export(module, x)
    module.weight.untyped_storage().resize_(1 << 24)
    torch.testing.assert_close(saved(program, tmp_path, "save", x), expected, rtol=1e-4, atol=1e-5)


def test_a_view_of_a_smaller_storage() -> None:
    class View(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.base = torch.nn.Parameter(torch.randn(600))
            self.register_buffer("part", self.base.detach()[500:].view(10, 10).T)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x @ self.part

    module, x = View(), torch.randn(3, 10)
    program = export(module, x)
    torch.testing.assert_close(program(x)[0], module(x), rtol=1e-4, atol=1e-5)
    module.base.untyped_storage().resize_(2000)
    with pytest.raises(ExportError, match="the memory of part was released"):
        program.model_proto  # noqa: B018


class Network(torch.nn.Module):
    """A model with constants that depend on weights in several ways."""

    def __init__(self, bias: bool = True) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 8, 3, bias=bias)
        self.norm = torch.nn.BatchNorm2d(8)
        self.scale = torch.nn.Parameter(torch.randn(8, 1, 1))
        self.depthwise = torch.nn.Conv2d(8, 8, 3, groups=8)
        self.norm2 = torch.nn.BatchNorm2d(8, affine=False)
        self.register_buffer("mask", torch.rand(8, 1, 1) > 0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(self.conv(x)) * (self.scale.abs() + 1)
        y = y + self.scale[:4].reshape(-1).sum() + self.mask.to(torch.float32)
        return self.norm2(self.depthwise(y.relu()))


def randomize(module: torch.nn.Module, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for tensor in (*module.parameters(), *module.buffers()):
            if tensor.is_floating_point():
                tensor.copy_(torch.rand(tensor.shape, generator=generator) + 0.1)
            elif tensor.dtype is torch.bool:
                tensor.copy_(torch.rand(tensor.shape, generator=generator) > 0.5)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("way", [*WAYS, "call"])
@pytest.mark.parametrize("how", ["in_place", "before", "after"])
@pytest.mark.filterwarnings("ignore:Weight '.*num_batches_tracked' not found")
def test_new_values(how: str, way: str, bias: bool, tmp_path: pathlib.Path) -> None:
    module, x = Network(bias).eval(), torch.randn(2, 3, 9, 9)
    randomize(module, 1)
    program = export(module, x)
    operators = [node.op_type for node in program.model_proto.graph.node]
    assert "BatchNormalization" not in operators
    target = module if how == "in_place" else copy.deepcopy(module)
    if how == "after":
        assert program.model
    if way == "call":
        program(x)
    randomize(target, 2)
    if how != "in_place":
        program.apply_weights(target.state_dict())
    elif way == "call":
        program.release()
    result = program(x)[0] if way == "call" else saved(program, tmp_path, way, x)
    torch.testing.assert_close(result, target(x).detach(), rtol=1e-3, atol=1e-4)


def test_new_values_of_an_edited_model() -> None:
    from onnx_ir.tensor_adapters import TorchTensor

    module, x = linear(), torch.randn(3, WIDE)
    program = export(module, x)
    initializers = program.model.graph.initializers
    initializers["weight"].const_value = TorchTensor(torch.zeros(WIDE, WIDE), "weight")
    other = torch.nn.Linear(WIDE, WIDE)
    program.apply_weights(other.state_dict())
    torch.testing.assert_close(program(x)[0], other(x).detach(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("source", ["trace", "script"])
def test_new_values_in_torchscript(source: str) -> None:
    module, x = Network().eval(), torch.randn(2, 3, 9, 9)
    program = export(of_source(module, source, x), x)
    other = copy.deepcopy(module)
    randomize(other, 3)
    state = {k: v for k, v in other.state_dict().items() if "num_batches" not in k}
    program.apply_weights(state)
    torch.testing.assert_close(program(x)[0], other(x).detach(), rtol=1e-3, atol=1e-4)


def test_equal_small_weights_stay_apart() -> None:
    class Two(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = torch.nn.Parameter(torch.ones(3))
            self.b = torch.nn.Parameter(torch.ones(3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * (self.a + 1) - (self.b + 1)

    module, x = Two(), torch.randn(2, 3)
    program = export(module, x)
    program.apply_weights({"b": torch.full((3,), 5.0)})
    torch.testing.assert_close(program(x)[0], (x * 2 - 6))


def test_new_values_of_another_layout() -> None:
    module, x = linear(), torch.randn(3, WIDE)
    program = export(module, x)
    weight = torch.randn(WIDE, WIDE).T
    program.apply_weights({"weight": weight})
    expected = torch.nn.functional.linear(x, weight, module.bias.detach())
    torch.testing.assert_close(program(x)[0], expected, rtol=1e-4, atol=1e-4)


def test_tied_weights() -> None:
    class Tied(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = torch.nn.Linear(40, 40, bias=False)
            self.b = torch.nn.Linear(40, 40, bias=False)
            self.b.weight = self.a.weight

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.b(self.a(x))

    module, x = Tied(), torch.randn(2, 40)
    program = export(module, x)
    torch.testing.assert_close(program(x)[0], module(x).detach(), rtol=1e-4, atol=1e-5)
    weight = torch.randn(40, 40)
    program.apply_weights({"a.weight": weight, "b.weight": weight})
    torch.testing.assert_close(program(x)[0], x @ weight.T @ weight.T, rtol=1e-4, atol=1e-3)
    with pytest.raises(ValueError, match=r"\.weight is the same tensor as"):
        program.apply_weights({"a.weight": weight, "b.weight": weight + 1})
    program.apply_weights({"b.weight": weight + 1})
    other = (weight + 1).T
    torch.testing.assert_close(program(x)[0], x @ other @ other, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("value", [torch.zeros(1), torch.zeros(WIDE, WIDE, dtype=torch.float64)])
def test_new_values_that_do_not_fit(value: torch.Tensor) -> None:
    module, x = linear(), torch.randn(3, WIDE)
    program = export(module, x)
    with pytest.raises(ExportError, match="the new value of weight"):
        program.apply_weights({"bias": torch.zeros(WIDE), "weight": value})
    torch.testing.assert_close(program(x)[0], module(x).detach(), rtol=1e-4, atol=1e-5)


def test_an_unknown_name_is_a_warning() -> None:
    program = export(linear(), torch.randn(3, WIDE))
    with pytest.warns(torch.onnx.errors.OnnxExporterWarning, match="Weight 'other' not found"):
        program.apply_weights({"other": torch.zeros(1)})


class Counted(torch.nn.Module):
    """A buffer whose value determines a shape."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.tensor([2]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        count = int(self.count.item())
        return x.repeat(count) if count < 3 else x


@pytest.mark.parametrize("change", ["in_place", "apply_weights"])
def test_values_that_the_structure_depends_on(change: str) -> None:
    module, x = Counted(), torch.randn(4)
    program = export(torch.jit.script(module), x)
    torch.testing.assert_close(program(x)[0], module(x))
    assert program.model_proto.graph.output[0].type.tensor_type.shape.dim[0].dim_value == 8
    message = "the values of count have changed"
    if change == "in_place":
        module.count.add_(1)
        with pytest.raises(ExportError, match=message):
            program.model_proto  # noqa: B018
    else:
        with pytest.raises(ExportError, match=message):
            program.apply_weights({"count": torch.tensor([3])})
    if change == "apply_weights":
        torch.testing.assert_close(program(x)[0], module(x))


def test_training_may_go_on() -> None:
    module, x = (
        torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4)),
        torch.ones(3, 4),
    )
    program = export(module.eval(), x)
    module.train()(torch.randn(3, 4))
    module.eval()
    result = run(program.model_proto.SerializeToString(), x)
    torch.testing.assert_close(result, module(x).detach(), rtol=1e-4, atol=1e-5)


def test_the_text_shows_the_values_of_now() -> None:
    module, x = torch.nn.Linear(2, 1, bias=False), torch.randn(3, 2)
    program = export(module, x)
    program.apply_weights({"weight": torch.tensor([[7.5, 8.5]])})
    assert "7.5" in repr(program)
    assert np.array_equal(
        onnx.numpy_helper.to_array(program.model_proto.graph.initializer[0]), [[7.5, 8.5]]
    )
    assert onnx_native.__name__
