"""Numbers computed from sizes and tensors, as arguments of operators."""

import math
import pathlib
import tempfile
from collections.abc import Callable
from typing import Any

import onnx_native
import pytest
import torch
from jit.running import check as check_script

from ops import checking
from ops.row import Case, Row

ROW = Row("aten::add.Tensor")
X = torch.tensor([[0.5, -1.5, 2.0], [-0.25, 0.0, 3.0]])
C = onnx_native._C
Program = Callable[..., Any]


def module(function: Program) -> torch.nn.Module:
    return checking.Calling(Case(function))


def check(function: Program, sets: list[tuple[torch.Tensor, ...]], shapes: Any = None) -> None:
    """Exports with torch.export and runs all inputs; the archive must give the same program."""
    captured = torch.export.export(
        module(function),
        sets[0],
        dynamic_shapes={"tensors": shapes} if shapes else None,
        prefer_deferred_runtime_asserts_over_guards=True,
    )
    with tempfile.TemporaryDirectory() as folder:
        path = str(pathlib.Path(folder) / "program.pt2")
        torch.export.save(captured, path)
        assert C.read_pt2(path) == C.read(captured)
    running = checking.session(checking.export_program(captured))
    for inputs in sets:
        checking.compare(ROW, running, Case(function, *inputs), inputs)


# Expressions of a tensor x and a number n that is read from a tensor.
OF_DATA = {
    "add": "torch.add(x, x, alpha=n)",
    "addcmul": "torch.addcmul(x, x, x, value=n)",
    "lerp": "torch.lerp(x, x * 2, n)",
    "threshold": "torch.threshold(x, n, 7.0)",
    "leaky_relu": "torch.nn.functional.leaky_relu(x, n)",
    "elu": "torch.nn.functional.elu(x, n)",
    "softplus": "torch.nn.functional.softplus(x, 2.0, n)",
    "clamp": "x.clamp(max=n)",
    "full": "torch.full((x.size(0), 2), n)",
    "full_like": "torch.full_like(x, n)",
    "full_like of complex": "torch.view_as_real(torch.full_like(torch.complex(x, x), n))",
    "full of complex": "torch.view_as_real(torch.full((x.size(0),), n, dtype=torch.complex64))",
    "fill_ of complex": "torch.view_as_real(torch.complex(x, x).fill_(n))",
    "masked_fill": "x.masked_fill(x > 0, n)",
    "where": "torch.where(x > 0, x, n)",
    "pow": "x.abs() ** n",
    "fmod": "torch.fmod(x, n + 0.125)",
    "baddbmm": "torch.baddbmm(x[None, :, :2], x[None], x.t()[None], beta=n)",
    "linspace": "torch.linspace(n, 3.5, 7) + x.sum()",
    "logspace": "torch.logspace(n, 1.5, 4) + x.sum()",
    "two numbers": "torch.add(x, x, alpha=n * 2 + 1)",
    "arange": "torch.arange(n, 4.0, 0.5) + x.sum()",
}
# torch.export needs properties of these numbers that it cannot know.
OF_DATA_SCRIPTED = OF_DATA | {
    "sub": "torch.sub(x, x * x, alpha=n)",
    "rsub": "torch.rsub(x, x * x, alpha=n)",
    "addmm": "torch.addmm(x[:, :2], x, x.t(), beta=n, alpha=n)",
    "nothing of nan": "torch.addmm(x[:, :2] / 0, x, x.t(), beta=n * 0)",
    "hardtanh": "torch.nn.functional.hardtanh(x, n, 9.5)",
    "nan_to_num": "(x / 0).nan_to_num(n, n, -1.0)",
    "norm": "torch.norm(x, n, 1)",
    "distance": "torch.pairwise_distance(x, x * x, p=n)",
    "smooth_l1": "torch.nn.functional.smooth_l1_loss(x, x * x, beta=abs(n))",
    "layer_norm": "torch.layer_norm(x, [3], eps=abs(n) + 0.1)",
    "group_norm": "torch.group_norm(x, 1, eps=abs(n) + 0.1)",
    "pad": "torch.nn.functional.pad(x, [1, 2], value=n)",
    "isclose": "torch.isclose(x, x + 1, atol=abs(n))",
    "range": "torch.range(n, 9.0, 1.5)",
    "std": "torch.std(x, [1], correction=abs(n) / 2)",
    "logit": "torch.logit(x.abs() / 4, abs(n) / 9)",
    "softshrink": "torch.nn.functional.softshrink(x, abs(n))",
    "quantile": "torch.quantile(x, abs(n) / 4)",
    "histc": "torch.histc(x, 5, n, n + 3)",
    "renorm": "torch.renorm(x, 2.0, 0, abs(n))",
}
NUMBERS = (0.75, 0.0, -2.25, 3.0)


def source(expression: str, number: str) -> str:
    return f"def function(x, k):\n    n = {number}\n    return {expression}\n"


@pytest.mark.parametrize("name", OF_DATA)
def test_of_data(name: str) -> None:
    scope: dict[str, Any] = {"torch": torch}
    exec(source(OF_DATA[name], "k.item()"), scope)
    check(scope["function"], [(X, torch.tensor(k)) for k in NUMBERS])


@pytest.mark.parametrize("name", OF_DATA_SCRIPTED)
def test_of_data_scripted(name: str) -> None:
    unit = torch.jit.CompilationUnit(source(OF_DATA_SCRIPTED[name], "float(k)"))
    check_script(unit.function, [(X, torch.tensor(k)) for k in NUMBERS])


@pytest.mark.parametrize("name", ["full", "arange", "add", "pow"])
def test_of_integers_in_data(name: str) -> None:
    unit = torch.jit.CompilationUnit(source(OF_DATA[name], "int(k)"))
    check_script(unit.function, [(X, torch.tensor(k)) for k in (2, 0, -3, 4)])


@pytest.mark.parametrize("name", ["norm", "distance"])
def test_orders_of_norms(name: str) -> None:
    unit = torch.jit.CompilationUnit(source(OF_DATA_SCRIPTED[name], "float(k)"))
    orders = (1.0, math.inf, -math.inf, 0.0, 2.5, -1.0)
    check_script(unit.function, [(X + 0.125, torch.tensor(k)) for k in orders])


@torch.jit.script
def scripted_activations(x: torch.Tensor, k: torch.Tensor) -> list[torch.Tensor]:
    slope = float(k)
    return [
        torch.nn.functional.leaky_relu(x, slope),
        torch.nn.functional.elu(x, slope),
        torch.add(x, x, alpha=slope),
        torch.arange(slope, 4.0, 0.5),
        torch.linspace(slope, 2.0, x.size(0)),
        torch.full([x.size(0)], slope * 2),
    ]


@torch.jit.script
def scripted_sizes(x: torch.Tensor) -> list[torch.Tensor]:
    n = x.size(0)
    return [
        torch.arange(n / 2),
        torch.arange(n - 1, -1, -1.0),
        torch.arange(0.5, n),
        torch.full([n], n * 0.5),
        torch.linspace(0.0, 1.0, n),
        torch.linspace(0.5, n - 0.5, n),
        torch.logspace(0.0, 1.0, n),
        torch.full([2], math.sqrt(n)),
        x[:: max(n // 2, 1)],
        torch.add(x, x, alpha=n * 0.25),
    ]


def test_scripted() -> None:
    check_script(scripted_activations, [(X, torch.tensor(k)) for k in (0.75, 0.0, -2.25)])
    inputs = [(torch.ones(n, 2),) for n in (4, 1, 7, 2)]
    check_script(scripted_sizes, inputs, dynamic_shapes=({0: "n"},))


def test_traced() -> None:
    def function(x: torch.Tensor, k: torch.Tensor) -> tuple[torch.Tensor, ...]:
        number = k.reshape(())
        return (
            torch.clamp(x, max=number),
            torch.where(x > 0, x, number),
            x.masked_fill(x > 0, number),
        )

    inputs = [(X, torch.tensor([k])) for k in (0.75, 0.0, -2.25)]
    check_script(torch.jit.trace(function, inputs[0]), inputs)


OF_SIZES: dict[str, Program] = {
    "half a step": lambda x: torch.arange(0, x.shape[0], 0.5),
    "from a half": lambda x: torch.arange(0.5, x.shape[0], dtype=torch.float32),
    "downwards": lambda x: torch.arange(x.shape[0] - 1, -1, -1.0),
    "to a half": lambda x: torch.arange(x.shape[0] / 2),
    "of a product": lambda x: torch.arange(x.shape[0] * 0.75, dtype=torch.int64),
    "of float64": lambda x: torch.arange(0, x.shape[0] * 1.5, 0.25, dtype=torch.float64),
    "full": lambda x: torch.full((x.shape[0],), x.shape[0] * 0.5),
    "full of a quotient": lambda x: torch.full((x.shape[0], 2), 1 / x.shape[0]),
    "full of a root": lambda x: torch.full((2,), torch._sym_sqrt(x.shape[0])),
    "full of a size": lambda x: torch.full((2,), x.shape[0]),
    "linspace": lambda x: torch.linspace(0.5, x.shape[0] - 0.5, 5),
    "alpha": lambda x: torch.add(x, x, alpha=x.shape[0] * 0.5),
    "a step": lambda x: x[:, :: x.shape[0]],
    "steps from the middle": lambda x: x[:, x.shape[0] // 2 :: x.shape[0]],
}


@pytest.mark.parametrize("name", OF_SIZES)
def test_of_sizes(name: str) -> None:
    check(
        OF_SIZES[name], [(torch.randn(n, 9),) for n in (4, 2, 7, 5)], ({0: torch.export.Dim.AUTO},)
    )


def test_opaque_sizes_and_data() -> None:
    """A size that Dim cannot express must not get the name of a symbol that the program has."""
    check(
        lambda x, k: (torch.arange(0, x.shape[0], 0.5), x.roll(k.item(), 0), x * k.item()),
        [(torch.randn(n, 3), torch.tensor(k)) for n, k in ((4, 1), (7, -5), (3, 8))],
        ({0: torch.export.Dim.AUTO}, {}),
    )


class Pooled(torch.nn.Module):
    """A convolution whose padding, groups and stride are computed."""

    def __init__(self, call: Program, *weight: int) -> None:
        super().__init__()
        self.call = call
        self.weight = torch.nn.Parameter(torch.randn(weight))

    def forward(self, x: torch.Tensor) -> Any:
        return self.call(x, self.weight)


CONVOLUTIONS: dict[str, tuple[Program, tuple[int, ...]]] = {
    "padding": (lambda x, w: torch.conv2d(x, w, padding=x.shape[0]), (4, 3, 2, 2)),
    "padding of one axis": (lambda x, w: torch.conv2d(x, w, padding=(x.shape[0], 1)), (4, 3, 2, 2)),
    "stride": (lambda x, w: torch.conv2d(x, w, stride=x.shape[0]), (4, 3, 2, 2)),
    "groups of known channels": (
        lambda x, w: torch.conv2d(x, w, groups=x.shape[1] + x.shape[0] - x.shape[0]),
        (3, 1, 2, 2),
    ),
    "a group for each sample": (
        lambda x, w: torch.conv2d(
            x.reshape(1, -1, 5, 6),
            (w * x.mean((1, 2, 3)).reshape(-1, 1, 1, 1, 1)).reshape(-1, 3, 2, 2),
            groups=x.shape[0],
        ),
        (1, 4, 3, 2, 2),
    ),
    "transposed padding": (
        lambda x, w: torch.conv_transpose2d(x, w, stride=2, padding=x.shape[0] // 2),
        (3, 4, 3, 3),
    ),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions(name: str) -> None:
    call, shape = CONVOLUTIONS[name]
    model = Pooled(call, *shape).eval()
    sets = [(torch.randn(n, 3, 5, 6),) for n in (2, 3, 4)]
    captured = torch.export.export(model, sets[0], dynamic_shapes=({0: torch.export.Dim.AUTO},))
    running = checking.session(checking.export_program(captured))
    row = Row("aten::conv2d", tolerance={"float32": (1e-4, 1e-4)})
    for inputs in sets:
        checking.compare(row, running, Case(model, *inputs), inputs)


U8, I8, I16, I32 = torch.uint8, torch.int8, torch.int16, torch.int32
WRAPPING: dict[str, Program] = {
    "shift": lambda x: torch.tensor([-2, 3]) << x,
    "shift back": lambda x: torch.tensor([-2, 3]) >> x,
    "shift of uint8": lambda x: torch.tensor([200, 3], dtype=U8) << x.to(U8),
    "sum of uint8": lambda x: (
        torch.tensor([200], dtype=U8) + torch.tensor([100], dtype=U8) + x.to(U8)
    ),
    "and wide again": lambda x: (
        (torch.tensor([200], dtype=U8) + torch.tensor([100], dtype=U8)).to(torch.int64) + x
    ),
    "negative of uint8": lambda x: -torch.tensor([1, 200], dtype=U8) + x.to(U8),
    "product of uint8": lambda x: torch.tensor([200], dtype=U8) * 3 + x.to(U8),
    "sum of int8": lambda x: (
        torch.tensor([100], dtype=I8) + torch.tensor([100], dtype=I8) + x.to(I8)
    ),
    "power of int16": lambda x: torch.tensor([300], dtype=I16) ** 2 + x.to(I16),
    "product of int32": lambda x: torch.tensor([2**30], dtype=I32) * 4 + x.to(I32),
    "to int32": lambda x: torch.tensor([2**40 + 5, -(2**35) - 3]).to(I32) + x.to(I32),
    "to uint8": lambda x: torch.tensor([-1, 300]).to(U8) + x.to(U8),
    "absolute of int8": lambda x: torch.tensor([-128], dtype=I8).abs() + x.to(I8),
    "uint16": lambda x: torch.tensor([60000], dtype=torch.uint16).to(I16) + x.to(I16),
    "large int64": lambda x: x + 2**62 + 2**62 + 2**62,
    "running sum": lambda x: torch.tensor([2**62, 2**62, 2**62]).cumsum(0) + x[:1],
    "a number that wraps": lambda x: x.to(U8) + 300,
    "a negative number": lambda x: x.to(U8) - 1,
    "a size": lambda x: torch.tensor([255], dtype=U8) + x.shape[0],
}


@pytest.mark.parametrize("name", WRAPPING)
@pytest.mark.parametrize("route", ["fx", "traced"])
def test_integers_wrap(name: str, route: str) -> None:
    x = torch.tensor([1, 2])
    if route == "traced":
        check_script(torch.jit.trace(WRAPPING[name], (x,)), [(x,)])
    else:
        check(WRAPPING[name], [(x,)])


def test_number_that_does_not_fit() -> None:
    @torch.jit.script
    def function(x: torch.Tensor) -> torch.Tensor:
        return x.masked_fill(x > 5, 300.5)

    with pytest.raises(torch.onnx.OnnxExporterError) as refused:
        torch.onnx.export(function, (torch.ones(2, dtype=U8),), dynamo=True, verbose=False)
    assert "value cannot be converted to type uint8_t without overflow" in str(
        refused.value.__cause__
    )


def test_parts_at_negative_positions() -> None:
    @torch.jit.script
    def scripted(x: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        return torch.select_scatter(x, torch.zeros(3), 0, int(k))

    check_script(scripted, [(X, torch.tensor(k)) for k in (1, -2, 0, -1)])


def test_a_split_by_a_count_and_the_rest() -> None:
    class Split(torch.nn.Module):
        def forward(self, x: torch.Tensor, mask: torch.Tensor) -> Any:
            n = int(mask.sum())
            first, rest = x.split([n, x.shape[0] - n])
            return first * 2, rest + 1

    example = (torch.randn(4, 3), torch.tensor([True, False, True, True]))
    program = torch.onnx.export(
        Split(), example, dynamo=True, verbose=False, dynamic_shapes=({0: "n"}, {0: "n"})
    )
    assert program is not None
    for kept in (example[1], torch.tensor([True, False]), torch.tensor([False, False])):
        x = torch.randn(len(kept), 3)
        for result, wanted in zip(program(x, kept), Split()(x, kept), strict=True):
            torch.testing.assert_close(result, wanted)
