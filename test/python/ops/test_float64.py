"""float64 keeps its digits: operators without a kernel are composed, not cast."""

import itertools
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from models import routes

from ops import checking
from ops.row import Case, Row

TIGHT = Row("", tolerance={"float64": (1e-12, 1e-13)})
OPSETS = (13, 17, 18, 19, 20, 22, 26)
# Whole and fractional numbers, tiny, large and infinite ones, and NaN.
NUMBERS = torch.cat(
    [
        torch.linspace(-40, 40, 161, dtype=torch.float64),
        torch.tensor(
            [-0.0, 1e-300, -1e-12, 1e-8, 3e-5, 1 + 1e-12, 1e9, 1e200, -1e200, 700.0, -709.0],
            dtype=torch.float64,
        ),
        torch.tensor([float("inf"), -float("inf"), float("nan")], dtype=torch.float64),
    ]
)
SLOPE = torch.tensor([0.3], dtype=torch.float64)

EVERYWHERE: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "acosh": torch.acosh,
    "asinh": torch.asinh,
    "atan": torch.atan,
    "celu": lambda x: F.celu(x, 0.3),
    "cosh": torch.cosh,
    "elu": lambda x: F.elu(x, 0.3),
    "erf": torch.erf,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "hardsigmoid": F.hardsigmoid,
    "hardswish": F.hardswish,
    "leaky_relu": lambda x: F.leaky_relu(x, 0.1),
    "logsigmoid": F.logsigmoid,
    "mish": F.mish,
    "prelu": lambda x: F.prelu(x, SLOPE),
    "selu": F.selu,
    "sigmoid": torch.sigmoid,
    "silu": F.silu,
    "sinh": torch.sinh,
    "softplus": F.softplus,
    "softplus_beta": lambda x: F.softplus(x, 2.0, 5.0),
    "softsign": F.softsign,
}
IMAGE = torch.randn(2, 4, 9, 7, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
OF_IMAGES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "adaptive_avg_pool": lambda x: F.adaptive_avg_pool2d(x, 1),
    "adaptive_max_pool": lambda x: F.adaptive_max_pool2d(x, 1),
    "area": lambda x: F.interpolate(x, size=(1, 1), mode="area"),
    "addmm": lambda x: torch.addmm(x[0, 0, :, :1], x[0, 0], x[0, 1].T, beta=0.3, alpha=0.7),
    "avg_pool": lambda x: F.avg_pool2d(x, 2),
    "batch_norm": lambda x: F.batch_norm(
        x, x.mean((0, 2, 3)), x.var((0, 2, 3)) * 1e-9, x[0, :, 0, 0], x[0, :, 0, 1], eps=1e-5
    ),
    "fold": lambda x: F.fold(F.unfold(x, 3, padding=1, stride=2), (9, 7), 3, padding=1, stride=2),
    "group_norm": lambda x: F.group_norm(x, 2, eps=1e-5),
    "instance_norm": lambda x: F.instance_norm(x, eps=1e-5),
    "layer_norm": lambda x: F.layer_norm(x, (7,), x[0, 0, 0], x[0, 0, 1], eps=1e-5),
}


class AllOf(torch.nn.Module):
    """Combines all functions of one tensor, so that one export covers them."""

    def __init__(self, functions: dict[str, Callable[[torch.Tensor], torch.Tensor]]) -> None:
        super().__init__()
        self.functions = functions

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(function(x) for function in self.functions.values())


def check_at_all_opsets(case: Case, opsets: tuple[int, ...] = OPSETS) -> None:
    program = checking.export(case)
    captured = program.exported_program
    assert captured is not None
    for opset in opsets:
        other = checking.export_program(captured, opset)
        assert other.export_report["warnings"] == []  # type: ignore[attr-defined]
        checking.compare(TIGHT, checking.session(other), case, case.inputs)


def test_elementwise_functions_on_all_numbers() -> None:
    check_at_all_opsets(Case(AllOf(EVERYWHERE), NUMBERS))


def test_functions_of_part_of_the_numbers() -> None:
    functions = {
        "acos": torch.acos,
        "asin": torch.asin,
        "atanh": torch.atanh,
        "tan": torch.tan,
    }
    inside = torch.linspace(-1, 1, 101, dtype=torch.float64)
    check_at_all_opsets(Case(AllOf(functions), inside), (13, 26))


def test_pools_and_norms() -> None:
    check_at_all_opsets(Case(AllOf(OF_IMAGES), IMAGE), (18, 20, 26))


@pytest.mark.parametrize("opset", [13, 26])
@pytest.mark.parametrize("route", ["pt2", "trace"])
def test_other_routes(route: str, opset: int) -> None:
    def function(x: torch.Tensor, image: torch.Tensor) -> list[torch.Tensor]:
        of_numbers = [f(x) for f in EVERYWHERE.values()]
        return of_numbers + [f(image) for name, f in OF_IMAGES.items() if name != "fold"]

    model = routes.export(function, (NUMBERS, IMAGE), route, opset=opset)
    results = routes.run(routes.session(model), (NUMBERS, IMAGE))
    for result, wanted in zip(results, function(NUMBERS, IMAGE), strict=True):
        torch.testing.assert_close(result, wanted, rtol=1e-12, atol=1e-13, equal_nan=True)


@torch.jit.script
def scripted(x: torch.Tensor, weight: torch.Tensor) -> list[torch.Tensor]:
    y = x[0, 0, 0] * 9
    return [
        torch.nn.functional.elu(y, 0.3),
        torch.nn.functional.gelu(y),
        torch.nn.functional.softplus(y),
        torch.nn.functional.mish(y),
        torch.asinh(y),
        torch.tan(y),
        torch.nn.functional.adaptive_avg_pool2d(x, 1),
        torch.nn.functional.group_norm(x, 2),
        torch.conv2d(x, weight, stride=2, padding=1),
        torch.conv_transpose2d(x, weight.transpose(0, 1), stride=2),
    ]


def test_scripted() -> None:
    weight = torch.randn(5, 4, 3, 2, dtype=torch.float64)
    others = [(IMAGE[:, :, 1:, 2:], weight)]
    sizes = ({0: "n", 2: "h", 3: "w"}, {})
    routes.check(scripted, (IMAGE, weight), "script", *others, dynamic=sizes)


def images(axes: int, channels: int = 4) -> torch.Tensor:
    generator = torch.Generator().manual_seed(axes)
    return torch.randn(2, channels, *(7, 6, 5)[:axes], generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_convolutions(axes: int) -> None:
    """Convolutions with all strides, paddings, dilations and groups, with and without a bias."""
    x = images(axes)
    conv = (F.conv1d, F.conv2d, F.conv3d)[axes - 1]
    functions: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {}
    for stride, padding, dilation, groups in itertools.product((1, 2), (0, 1), (1, 2), (1, 2, 4)):
        weight = torch.randn(8, 4 // groups, *(3, 2, 1)[:axes], dtype=torch.float64)
        bias = torch.randn(8, dtype=torch.float64) if stride == 1 else None
        name = f"{stride} {padding} {dilation} {groups}"
        functions[name] = lambda x, w=weight, b=bias, s=stride, p=padding, d=dilation, g=groups: (  # type: ignore[misc]
            conv(x, w, b, s, p, d, g)
        )
    same = torch.randn(8, 4, *(4, 3, 2)[:axes], dtype=torch.float64)
    functions["same"] = lambda x: conv(x, same, padding="same")
    functions["unbatched"] = lambda x: conv(x[0], same)
    check_at_all_opsets(Case(AllOf(functions), x), (13, 26))


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_transposed_convolutions(axes: int) -> None:
    x = images(axes)
    conv = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[axes - 1]
    functions: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {}
    for stride, padding, dilation, groups in itertools.product((1, 2, 3), (0, 2), (1, 2), (1, 2)):
        weight = torch.randn(4, 6 // groups, *(3, 4, 3)[:axes], dtype=torch.float64)
        bias = torch.randn(6, dtype=torch.float64) if stride == 1 else None
        more = stride - 1
        name = f"{stride} {padding} {dilation} {groups}"
        functions[name] = (
            lambda x, w=weight, b=bias, s=stride, p=padding, d=dilation, g=groups, o=more: (  # type: ignore[misc]
                conv(x, w, b, s, p, o, g, d)
            )
        )
    check_at_all_opsets(Case(AllOf(functions), x), (13, 26))


class Convolved(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down = torch.nn.Conv2d(3, 4, 3, stride=2, padding=1)
        self.norm = torch.nn.BatchNorm2d(4)
        self.up = torch.nn.ConvTranspose2d(4, 2, 4, stride=2, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.up(F.mish(self.norm(self.down(x))))  # type: ignore[no-any-return]


def test_convolutions_of_dynamic_sizes() -> None:
    module = Convolved().double().eval()
    x = torch.randn(2, 3, 8, 10, dtype=torch.float64)
    shapes = {
        "x": dict(enumerate((torch.export.Dim.DYNAMIC, None, *[torch.export.Dim.DYNAMIC] * 2)))
    }
    program = torch.onnx.export(module, (x,), dynamo=True, dynamic_shapes=shapes, verbose=False)
    assert program is not None
    running = checking.session(program)
    for size in ((2, 3, 8, 10), (5, 3, 7, 3), (1, 3, 2, 2)):
        case = Case(module, torch.randn(*size, dtype=torch.float64))
        with torch.no_grad():
            checking.compare(TIGHT, running, case, case.inputs)
