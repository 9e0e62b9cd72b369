"""Every combination of view and write: writes to the base or the view, then reads both.

A program is correct, also at sizes of 1, or fails with the error that is named here.
"""

from __future__ import annotations

import textwrap
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx_native
import pytest
import torch
from models.running import assert_same
from ops.checking import session

# Views of a 3-D tensor `y` (n, m, 4) that owns its memory.
VIEWS = {
    "alias": "y.detach()",
    "as_strided": "y.as_strided([2, 2], [2, 1], 0)",
    "as_strided_of_a_view": "y[0].as_strided([2], [1])",
    "as_strided_overlaps": "y.as_strided([2, 2], [1, 1], 0)",
    "atleast_3d": "torch.atleast_3d(y[0])",
    "broadcast_tensors": "torch.broadcast_tensors(y, y[0])[0]",
    "chunk": "y.chunk(2, 2)[1]",
    "clone": "y.clone()",
    "contiguous": "y.contiguous()",
    "contiguous_diagonal": "y.diagonal(0, 1, 2).contiguous()",
    "contiguous_expanded": "y[:, :, :1].expand(-1, -1, 3).contiguous()",
    "contiguous_slice": "y[:, :1].contiguous()",
    "contiguous_transpose": "y.transpose(0, 1).contiguous()",
    "diagonal": "y.diagonal(1, 1, 2)",
    "dropout": "torch.dropout(y, 0.5, False)",
    "einsum_of_one": 'torch.einsum("abc->cab", y)',
    "einsum_of_two": 'torch.einsum("abc,abc->ab", y, y)',
    "einsum_sums": 'torch.einsum("abc->ab", y)',
    "expand": "y.unsqueeze(0).expand(2, -1, -1, -1)",
    "expand_as_itself": "y.expand_as(y)",
    "flatten": "y.flatten()",
    "flatten_transpose": "y.transpose(0, 1).flatten()",
    "flatten_some": "y.transpose(1, 2).flatten(0, 1)",
    "index": "y[:, torch.tensor([0])]",
    "meshgrid": 'torch.meshgrid([y[0, 0], y[0, 0]], indexing="xy")[0]',
    "contiguous_meshgrid": 'torch.meshgrid([y[0, 0], y[0, 0]], indexing="ij")[0].contiguous()',
    "movedim": "y.movedim(0, 2)",
    "mT": "y.mT",
    "narrow": "y.narrow(2, 1, 2)",
    "permute": "y.permute(2, 0, 1)",
    "ravel": "y.ravel()",
    "reshape": "y.reshape(-1, 4)",
    "reshape_of_a_slice": "y[:, :, 1:3].reshape(-1)",
    "reshape_transpose": "y.transpose(0, 1).reshape(-1, 4)",
    "select": "y[0]",
    "select_last": "y[..., -1]",
    "slice": "y[:, :, 1:3]",
    "slice_with_step": "y[:, :, ::2]",
    "split": "y.split([1, 3], 2)[1]",
    "squeeze": "y[:1].squeeze(0)",
    "sum_to_size": "y.sum_to_size(y.size(0), y.size(1), 4)",
    "tensor_split": "y.tensor_split(3, 2)[0]",
    "to_same": "y.to(torch.float32)",
    "to_other": "y.to(torch.float64)",
    "transpose": "y.transpose(0, 2)",
    "unbind": "y.unbind(2)[1]",
    "unflatten": "y.unflatten(2, [2, 2])",
    "unfold": "y.unfold(2, 2, 2)",
    "unfold_overlaps": "y.unfold(2, 2, 1)[:, :, 0]",
    "unsafe_chunk": "y.unsafe_chunk(2, 2)[0]",
    "unsafe_split": "y.unsafe_split(2, 2)[1]",
    "unsqueeze": "y.unsqueeze(1)",
    "view": "y.view(-1, 4)",
    "view_as": "y.view_as(y)",
}
# Writes to a tensor `t` of any shape.
WRITES = {
    "add": "t.add_(1)",
    "where": "t.masked_fill_(t > 0, 2.0)",
    "copy": "t.copy_(torch.sin(t))",
    "index_put": "t[0] = 3.0",
    "slice": "t[..., :1] = 5.0",
    "out": "torch.cos(t + 0.0, out=t)",
    "unsqueeze": "t = t.unsqueeze_(0)\nt.mul_(2)",
}
# PyTorch does not define these: they write an element twice.
UNDEFINED = {
    (view, write)
    for view in ("expand", "as_strided_overlaps", "broadcast_tensors", "meshgrid")
    for write in WRITES
    if write != "index_put"
}
SIZES = ((3, 2, 4), (2, 5, 4), (1, 3, 4), (3, 1, 4), (1, 1, 4))


# Errors: TorchScript does not know the strides when it changes a shape in place.
RESHAPED_BY_STRIDES = {"broadcast_tensors", "contiguous", "sum_to_size"}


def source(view: str) -> str:
    """Yields a program for each write, to the base and to the view."""
    lines = ["results: List[Tensor] = []"]
    for write, statement in WRITES.items():
        for target in ("y", "v"):
            if target == "v" and (view, write) in UNDEFINED:
                continue
            if write == "unsqueeze" and view in RESHAPED_BY_SIZES | RESHAPED_BY_STRIDES:
                continue
            lines += ["y = x * 1.5", f"v = {VIEWS[view]}", f"t = {target}", *statement.split("\n")]
            lines += ["results.append(y * 1.0)", "results.append(v * 1.0)"]
    lines.append("return results")
    body = textwrap.indent("\n".join(lines), "    ")
    return f"def program(x: Tensor) -> List[Tensor]:\n{body}\n"


# Either the tensor itself or a copy, depending on sizes: an in-place change of its shape is an
# error. Or an operator whose result torch.export treats as a copy.
RESHAPED_BY_SIZES = {
    "contiguous_diagonal",
    "contiguous_expanded",
    "contiguous_slice",
    "contiguous_transpose",
    "contiguous_meshgrid",
    "dropout",
}


def function_of(view: str) -> Callable[..., Any]:
    names: dict[str, Any] = {"torch": torch, "Tensor": torch.Tensor, "List": list}
    exec(source(view), names)
    function: Callable[..., Any] = names["program"]
    return function


class Program(torch.nn.Module):
    def __init__(self, view: str) -> None:
        super().__init__()
        self.function = function_of(view)

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(x)


def example(*size: int) -> torch.Tensor:
    return torch.linspace(-2, 3, torch.Size(size).numel()).sin().view(size)


def check(program: torch.onnx.ONNXProgram, model: Any) -> None:
    running = session(program)
    for size in SIZES:
        x = example(*size)
        expected = model(x.clone())
        results = running.run(None, {running.get_inputs()[0].name: x.numpy()})
        assert_same([torch.from_numpy(result) for result in results], expected)


def export(model: Any, **options: Any) -> torch.onnx.ONNXProgram:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(
            model, (example(*SIZES[0]),), dynamo=True, verbose=False, **options
        )
    assert program is not None
    return program


@pytest.mark.parametrize("view", VIEWS)
def test_captured(view: str, tmp_path: Path) -> None:
    model = Program(view)
    sizes = {"x": {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}}
    captured = torch.export.export(model, (example(*SIZES[0]),), dynamic_shapes=sizes)
    check(export(captured), model)
    torch.export.save(captured, tmp_path / "model.pt2")
    assert onnx_native._C.read_pt2(str(tmp_path / "model.pt2")) == onnx_native._C.read(captured)


@pytest.mark.parametrize("traced", [False, True], ids=["scripted", "traced"])
@pytest.mark.parametrize("view", VIEWS)
def test_torchscript(view: str, traced: bool) -> None:
    model = Program(view)
    if traced:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            script = torch.jit.trace(model, (example(*SIZES[0]),), check_trace=False)
    else:
        script = torch.jit.CompilationUnit(source(view)).program
    check(export(script, dynamic_shapes={"x": {0: "n", 1: "m"}}), model)


# `y` is an integer tensor and `z` an int64 one of its shape: the result is cast to y's dtype.
PROMOTING: dict[str, Callable[[torch.Tensor, torch.Tensor], Any]] = {
    "cumsum": lambda y, z: y.cumsum_(0),
    "cumprod": lambda y, z: y.cumprod_(1),
    "add": lambda y, z: y.add_(z),
    "sub": lambda y, z: y.sub_(z, alpha=2),
    "mul": lambda y, z: y.mul_(z),
    "floor_divide": lambda y, z: y.floor_divide_(z + 1),
    "div_floor": lambda y, z: y.div_(z + 1, rounding_mode="floor"),
    "remainder": lambda y, z: y.remainder_(z + 1),
    "bitwise_and": lambda y, z: y.bitwise_and_(z),
    "clamp": lambda y, z: y.clamp_(min=z),
    "maximum": lambda y, z: torch.maximum(y, z, out=y),
    "sum": lambda y, z: torch.sum(z, 0, out=y[0]),
    "prod": lambda y, z: torch.prod(z, 0, out=y[0]),
    "gcd": lambda y, z: y.gcd_(z),
    "eq": lambda y, z: y.eq_(z),
    "logical_xor": lambda y, z: y.logical_xor_(z),
    "column": lambda y, z: y[:, 1].cumsum_(0),
}


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int32], ids=str)
@pytest.mark.parametrize("name", PROMOTING)
def test_write_backs_cast(name: str, dtype: torch.dtype) -> None:
    class Writing(torch.nn.Module):
        def forward(self, x: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
            y = x.clone()
            PROMOTING[name](y, z)
            return y

    x = torch.tensor([[3, 100, 7], [1, 90, 5]], dtype=dtype)
    z = torch.tensor([[2, 3, 1], [0, 4, 60]])
    program = torch.onnx.export(Writing(), (x, z), dynamo=True, verbose=False)
    assert program is not None
    running = session(program)
    names = [argument.name for argument in running.get_inputs()]
    results = running.run(None, {name: y.numpy() for name, y in zip(names, (x, z), strict=False)})
    assert_same([torch.from_numpy(results[0])], [Writing()(x, z)])


def attention(q: torch.Tensor, mask: torch.Tensor) -> Any:
    a = torch.einsum("bij,bkj->bik", q, q)
    a.masked_fill_(~mask, -1e9)
    b = torch.tensordot(q, q[0], 1)
    b.add_(1)
    return a.softmax(-1), b, q


def shapes_in_place(q: torch.Tensor, mask: torch.Tensor) -> Any:
    b = torch.einsum("bij,bkj->bik", q, q)
    b.unsqueeze_(1)
    c = q.transpose(0, 1) * 2
    c.transpose_(0, 1)
    return b, c, q


def copies(q: torch.Tensor, mask: torch.Tensor) -> Any:
    heads = q.unsqueeze(1)[:, :1].expand(-1, 4, -1, -1).contiguous()
    heads.add_(1)
    diagonal = q.diagonal(0, 1, 2).contiguous()
    diagonal.mul_(2)
    expanded = q[0, 0].expand(2, 5, 4).contiguous()
    expanded[0] = 0
    return heads, diagonal, expanded, q


def loss_between(q: torch.Tensor, mask: torch.Tensor) -> Any:
    y = q.contiguous()
    loss = torch.nn.functional.huber_loss(q, torch.ones_like(q))
    y.add_(1)
    return y, loss, q


def summed(q: torch.Tensor, mask: torch.Tensor) -> Any:
    number = q.sum()
    copy = number.sum_to_size(())
    number.mul_(2)
    other = copy.sum_to_size([])
    other.add_(1)
    return number, copy, other, q


def strided_parts(q: torch.Tensor, mask: torch.Tensor) -> Any:
    parts = torch.view_as_real(torch.complex(q, q + 1))
    few = parts.as_strided((3, 2), (2, 1), 1)
    few.mul_(3)
    return few, parts[:, 1:].as_strided((3,), (1,)), parts, q


@pytest.mark.parametrize(
    "function", [attention, shapes_in_place, copies, loss_between, summed, strided_parts]
)
def test_fresh_memory_is_written(function: Callable[..., Any]) -> None:
    class Calling(torch.nn.Module):
        def forward(self, q: torch.Tensor, mask: torch.Tensor) -> Any:
            return function(q, mask)

    q, mask = example(2, 4, 4), example(2, 4, 4) > 0
    program = torch.onnx.export(
        Calling(),
        (q.clone(), mask),
        dynamo=True,
        dynamic_shapes=({0: "n"}, {0: "n"}),
        verbose=False,
    )
    assert program is not None
    running = session(program)
    for size in (2, 5, 1):
        q, mask = example(size, 4, 4), example(size, 4, 4) > 0
        expected = function(q.clone(), mask)
        given = dict(zip(("q", "mask"), (q, mask), strict=True))
        results = running.run(None, {i.name: given[i.name].numpy() for i in running.get_inputs()})
        assert_same([torch.from_numpy(result) for result in results], list(expected))


def of_inverse(y: torch.Tensor) -> Any:
    inverse = torch.linalg.inv(y)
    return inverse, inverse.contiguous()


def of_flat_inverse(y: torch.Tensor) -> Any:
    inverse = torch.linalg.inv(y)
    return inverse, inverse.reshape(-1)


def of_einsum(y: torch.Tensor) -> Any:
    return y, torch.einsum("ii->i", y)


@pytest.mark.parametrize(
    ("function", "cause"),
    [
        (of_inverse, "whether aten::contiguous made a copy depends on unknown strides"),
        (of_flat_inverse, "whether aten::reshape made a copy depends on unknown strides"),
        (of_einsum, "einsum of one tensor"),
    ],
)
def test_refusals_name_their_cause(function: Callable[..., Any], cause: str) -> None:
    class Writing(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            y, z = function(x + torch.eye(3))
            z.add_(1)
            return y, z

    with pytest.raises(torch.onnx.OnnxExporterError, match=rf"may share: .*{cause}.*clone"):
        torch.onnx.export(Writing(), (example(3, 3),), dynamo=True, verbose=False)
