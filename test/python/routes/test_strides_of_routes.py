"""Programs that ask how computed tensors lie in memory are right or refused, on each route."""

from __future__ import annotations

import linecache
import textwrap
from collections.abc import Callable
from typing import Any

import onnx_native
import pytest
import torch
from models.calling import Calling
from models.running import assert_same

Tensor = torch.Tensor
Program = Callable[[Tensor], Tensor]
# Of an input x [n, m, 4, 6]. z is x.transpose(1, 3), c is x.permute(0, 3, 1, 2).
OPERATORS = """
torch.batch_norm(z, None, None, torch.zeros(6), torch.ones(6), False, 0.1, 1e-5, False)
torch.conv2d(c, torch.ones(2, 6, 3, 1))
torch.conv2d(x.permute(0, 2, 1, 3)[:, :1], torch.ones(2, 1, 1, 1))
torch.conv_transpose2d(x.permute(0, 2, 1, 3), torch.ones(4, 2, 2, 2))
torch.conv1d(x[:, 0].transpose(1, 2), torch.ones(2, 6, 1))
torch.nn.functional.pad(c, [1, 1])
torch.nn.functional.pad(c, [1, 1], mode="reflect")
torch.nn.functional.pad(c, [1, 1, 0, 1], mode="replicate")
torch.matmul(x.transpose(2, 3), x)
torch.matmul(torch.ones(5, 4), x)
x.permute(3, 0, 2, 1).sum(1)
c.mean([2, 3], keepdim=True)
torch.cat([x.transpose(1, 2), x.transpose(1, 2)], 1)
torch.stack([c, c], 1)
torch.nn.functional.max_pool2d(c, [1, 2])
torch.nn.functional.avg_pool2d(c, [1, 2])
torch.nn.functional.adaptive_avg_pool2d(c, [2, 2])
torch.nn.functional.interpolate(c, scale_factor=2.0)
torch.einsum("nmij,nmkj->nikm", [x, x])
torch.nn.functional.scaled_dot_product_attention(z, z, z)
z.softmax(1)
z.cumsum(1)
z.sort(1)[0]
torch.nn.functional.layer_norm(x.transpose(2, 3), [4])
torch.nn.functional.group_norm(c, 2)
torch.nn.functional.linear(x.transpose(2, 3), torch.ones(3, 4))
c.roll(1, 2)
c.flip([1])
z.index_select(1, torch.tensor([1, 0]))
z + x[:1, :1, :, :1].expand(1, 6, 4, 1)
z.repeat(1, 2, 1, 1)
x[:, :1].expand(-1, 3, -1, -1) * 2
""".strip().splitlines()
QUESTIONS = (
    "return y + 1 if y.is_contiguous() else y * 2 + 10",
    "return y * 0.5 + y.stride(0) + 10 * y.stride(-1) + 0.1 * y.stride(1)",
    "y.contiguous().add_(1)\nreturn y",
    "y.reshape(-1).add_(1)\nreturn y",
)
TEXTS = [
    f"z = x.transpose(1, 3)\nc = x.permute(0, 3, 1, 2)\ny = {text}\n{QUESTIONS[i % len(QUESTIONS)]}"
    for i, text in enumerate(OPERATORS)
]
SIZES = ((2, 3), (3, 5), (1, 3), (2, 1), (1, 1))


def source(text: str) -> str:
    return "def program(x: Tensor) -> Tensor:\n" + textwrap.indent(text, "    ") + "\n"


def plain(text: str) -> Program:
    code, file = source(text), f"<program {hash(text)}>"
    linecache.cache[file] = (len(code), None, code.splitlines(keepends=True), file)
    names: dict[str, Any] = {"torch": torch, "Tensor": Tensor}
    exec(compile(code, file, "exec"), names)
    program: Program = names["program"]
    return program


def image(size: tuple[int, int]) -> Tensor:
    return torch.randn(*size, 4, 6, generator=torch.Generator().manual_seed(sum(size)))


def assert_right_or_refused(module: Any, program: Program, capture: str) -> None:
    sizes_of_x = {0: "n", 1: "m"}
    try:
        with onnx_native.options(capture=capture):
            model = torch.onnx.export(
                module,
                (image(SIZES[0]),),
                dynamo=True,
                verbose=False,
                dynamic_shapes=((sizes_of_x,),) if isinstance(module, Calling) else (sizes_of_x,),
            )
    except torch.onnx.OnnxExporterError:
        return
    assert model is not None
    guards = model.export_report["capture"]["guards"]
    for size in SIZES:
        named = dict(zip("nm", size, strict=True))
        if not all(eval(guard["condition"], named) for guard in guards):
            continue
        try:
            expected = program(image(size))
        except RuntimeError:  # a view that eager refuses
            continue
        assert_same(model(image(size)), [expected])


@pytest.mark.parametrize("text", TEXTS)
def test_native(text: str) -> None:
    assert_right_or_refused(Calling(plain(text)), plain(text), "native")


@pytest.mark.parametrize("text", TEXTS)
def test_torchscript(text: str) -> None:
    script = torch.jit.CompilationUnit(source(text)).program
    assert_right_or_refused(script, script, "auto")


@pytest.mark.parametrize("text", TEXTS[::4])
def test_torch_export(text: str) -> None:
    assert_right_or_refused(Calling(plain(text)), plain(text), "torch.export")


def test_torch_export_names_sizes_of_1() -> None:
    def program(x: Tensor) -> Tensor:
        y = torch.einsum("nmij->mnij", [x])
        return y + 1 if y.is_contiguous() else y * 2

    with onnx_native.options(capture="torch.export"):
        model = torch.onnx.export(
            Calling(program),
            (image(SIZES[0]),),
            dynamo=True,
            verbose=False,
            dynamic_shapes=(({0: "n", 1: "m"},),),
        )
    assert model is not None
    guards = model.export_report["capture"]["guards"]
    assert sorted(guard["condition"] for guard in guards) == ["m != 1", "n != 1"]
    assert guards[0]["source"].startswith("test_strides_of_routes.py:")


def test_torch_export_names_sizes_that_a_layout_needs() -> None:
    def program(x: Tensor) -> Tensor:
        y = x[:, :2]  # contiguous only where the size is 2
        return y + 1 if y.is_contiguous() else y * 2

    with onnx_native.options(capture="torch.export"):
        model = torch.onnx.export(
            Calling(program),
            (torch.randn(3, 2),),
            dynamo=True,
            verbose=False,
            dynamic_shapes=(({1: "m"},),),
        )
    assert model is not None
    conditions = [guard["condition"] for guard in model.export_report["capture"]["guards"]]
    assert [m for m in range(1, 6) if all(eval(text, {"m": m}) for text in conditions)] == [2]
