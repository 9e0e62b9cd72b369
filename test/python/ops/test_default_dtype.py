"""torch.set_default_dtype: the dtypes of programs that do not specify one."""

from collections.abc import Iterator
from pathlib import Path

import onnx
import onnx_native
import pytest
import torch
from models import routes
from models.calling import Calling


@pytest.fixture(params=[torch.float64, torch.float16, torch.bfloat16], ids=str)
def default(request: pytest.FixtureRequest) -> Iterator[torch.dtype]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(request.param)
    yield request.param
    torch.set_default_dtype(before)


def of_integers(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return (
        x / 2,
        x / x.abs().clamp(min=1),
        torch.true_divide(x, 3),
        x * 0.5,
        0.5 - x,
        torch.exp(x * 0),
        torch.sqrt(x.abs()),
        torch.sigmoid(x),
        torch.where(x > 0, 1.5, x),
        x.to(torch.int8) + 0.25,
        (x > 0) * 0.5,
        torch.atan2(x, x + 1),
    )


def of_complex_numbers(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return (
        torch.view_as_real(x * 1j),
        torch.view_as_real(torch.full((2,), 1j)),
        torch.view_as_real(x.to(torch.float64) * 2j),
        torch.abs(x + 1j),
        torch.angle(x * 1j),
        torch.view_as_real(torch.exp(x * 0 * 1j)),
    )


def windows(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return (
        torch.hann_window(5),
        torch.hamming_window(5, periodic=False),
        torch.blackman_window(1),
        torch.bartlett_window(4),
        torch.kaiser_window(6, True, beta=3.0),
        torch.fft.fftfreq(5),
        torch.fft.rfftfreq(5, 0.5),
        torch.hann_window(3, dtype=torch.float32) * x[0],
    )


def more_of_integers(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return (
        x.mean(dtype=torch.get_default_dtype()),
        (x / 2).std(),
        x // 2.0,
        x % 2.5,
        torch.where(x > 0, 0.5, 1),
        torch.pow(x.abs(), 0.5),
        torch.pow(2.0, x),
        torch.float_power(x.abs(), 0.5),
        torch.logit(x > 5),
        torch.lgamma(x.abs() + 1),
        torch.clamp(x, 0.5, 2.5),
        torch.maximum(x, torch.tensor(0.5)),
        torch.trapezoid(x / 2),
        torch.full((2,), x.size(0) / 2),
        torch.tensor(2) / 4,
    )


def created(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    n = x.size(0)
    return (
        torch.zeros(n),
        torch.ones(2, 2),
        torch.full((n,), 2.5),
        torch.arange(0.0, 3.0, 0.5),
        torch.linspace(0, 1, 5),
        torch.logspace(0, 1, 3),
        torch.eye(3),
        torch.tensor(0.5),
        torch.tensor([0.5, 2]),
        torch.tensor(1.5) * x,
        torch.hann_window(4),
        x.new_zeros(2),
    )


def scripted(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, float]:
    y = torch.tensor([0.5, 1.5])
    return x * 0.5, torch.zeros(x.size(0)) + x / 2, y[:1] * x, 2.5


def random(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return torch.rand(3), torch.randn(x.size(0)), torch.normal(0.0, 1.0, (2,))


X = torch.tensor([-3, 0, 2, 9])
SHAPES = {"dynamic": ({0: "n"},)}


@pytest.mark.usefixtures("default")
@pytest.mark.parametrize("route", ["fx", "pt2", "trace"])
@pytest.mark.parametrize("function", [of_integers, created, windows, more_of_integers])
def test_results(function, route):
    others = [(X[:2],)] if function is of_integers else []
    routes.check(function, (X,), route, *others, **(SHAPES if others else {}))


@pytest.mark.parametrize("default", [torch.float64, torch.bfloat16], ids=str, indirect=True)
@pytest.mark.usefixtures("default")
@pytest.mark.parametrize("route", ["fx", "pt2", "trace"])
def test_complex_results(route):
    """Not tested for float16, because eager supports few operators of complex32."""
    routes.check(of_complex_numbers, (X,), route)


@pytest.mark.usefixtures("default")
def test_script():
    routes.check(scripted, (X,), "script", (X[:2],), **SHAPES)


@pytest.mark.parametrize("route", ["fx", "trace"])
def test_random_numbers(default, route):
    model = routes.export(random, (X,), route, opset=20)
    number = onnx.helper.np_dtype_to_tensor_dtype
    wanted = (
        onnx.TensorProto.BFLOAT16
        if default is torch.bfloat16
        else number(torch.zeros(1).numpy().dtype)
    )
    assert {output.type.tensor_type.elem_type for output in model.graph.output} == {wanted}


def test_an_archive_keeps_the_default_of_its_capture(tmp_path: Path):
    """The recorded results determine the default dtype at capture."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        expected = [*of_integers(X), *created(X)]
        program = torch.export.export(Calling(lambda x: (*of_integers(x), *created(x))), (X,))
    finally:
        torch.set_default_dtype(before)
    archive, path = tmp_path / "a.pt2", tmp_path / "a.onnx"
    torch.export.save(program, archive)
    assert onnx_native._C.command_line([str(archive), "-o", str(path)]) == 0
    results = routes.run(routes.session(onnx.load(path)), (X,))
    for result, wanted in zip(results, expected, strict=True):
        routes.assert_same(result, wanted)


@pytest.mark.parametrize("route", routes.ROUTES)
def test_ldexp_of_integers(
    default: torch.dtype, route: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """Its meta function, and so torch.export, ignores the default dtype."""
    x = torch.tensor([3, -5, 7])

    def program(x: torch.Tensor) -> torch.Tensor:
        return torch.ldexp(x, x.abs() % 4)

    if route in ("trace", "script"):
        routes.check(program, (x,), route, (x[:1],), dynamic=[{0: "n"}])
        return
    with pytest.raises((torch.onnx.errors.OnnxExporterError, AssertionError)) as error:
        routes.export(program, (x,), route, [{0: "n"}])
    assert "ldexp of integers is f32" in f"{error.value}{capfd.readouterr()}"
