"""A failed export of derivatives leaves none of them open, and keeps the random numbers."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Callable

import pytest
import torch
from torch import func, nn
from torch.onnx import OnnxExporterError

X = torch.rand(3, 4)


def cube(x: torch.Tensor) -> torch.Tensor:
    return (x**3).sum()


class Failing(nn.Module):
    """The capture fails inside of the transform."""

    def __init__(self, transform: Callable[[Callable], Callable]) -> None:
        super().__init__()
        self.transform = transform

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        def program(y: torch.Tensor) -> torch.Tensor:
            if not torch.compiler.is_compiling():
                return cube(y)
            raise ValueError("not in a capture")

        result = self.transform(program)(x)
        return result if isinstance(result, torch.Tensor) else result[0]


TRANSFORMS: dict[str, Callable[[Callable], Callable]] = {
    "grad": func.grad,
    "rows": lambda f: func.vmap(func.grad(f)),
    "jacrev": func.jacrev,
    "jacfwd": func.jacfwd,
    "hessian": func.hessian,
    "jvp": lambda f: lambda x: func.jvp(f, (x,), (x,)),
    "nested": lambda f: func.grad(lambda x: func.grad(f)(x).sum()),
    "vmap": func.vmap,
    "linearize": lambda f: lambda x: func.linearize(f, x)[0],
}


class Derivatives(nn.Module):
    """torch.export does not capture them."""

    def __init__(self, transform: Callable[[Callable], Callable]) -> None:
        super().__init__()
        self.transform = transform

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result = self.transform(cube)(x)
        return result if isinstance(result, torch.Tensor) else result[0]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("model", [Failing, Derivatives])
@pytest.mark.parametrize("name", TRANSFORMS)
def test_derivatives_work_after_an_export(name: str, model: type[nn.Module]) -> None:
    module = model(TRANSFORMS[name])
    text = ""
    try:
        torch.onnx.export(module, (X,), dynamo=True, verbose=False)
    except OnnxExporterError as error:
        text = str(error)
    assert "The module itself fails" not in text
    assert torch._C._functorch.get_dynamic_layer_stack_depth() == 0
    assert torch.is_grad_enabled()
    x = X.clone().requires_grad_()
    assert torch.equal(torch.autograd.grad(cube(x), x)[0], 3 * X**2)
    assert torch.equal(func.grad(cube)(X), 3 * X**2)
    assert torch.allclose(func.hessian(cube)(X[0]), torch.diag(6 * X[0]))
    with torch.autograd.forward_ad.dual_level():
        pass


@pytest.mark.filterwarnings("ignore")
def test_open_derivatives_of_the_caller_stay_open() -> None:
    dual = torch.autograd.forward_ad
    with dual.dual_level():
        with pytest.raises(OnnxExporterError):
            torch.onnx.export(Failing(func.grad), (X,), dynamo=True, verbose=False)
        assert dual.unpack_dual(dual.make_dual(X, X) * 2).tangent is not None


def test_the_first_failure_keeps_the_random_numbers() -> None:
    code = """
        import torch, onnx_native
        torch.ops.load_library(onnx_native.library_path())
        state = torch.get_rng_state()
        try:
            torch.onnx.export(lambda a: a << a, (torch.tensor([True]),), dynamo=True, verbose=False)
        except torch.onnx.OnnxExporterError:
            print(torch.equal(state, torch.get_rng_state()))
    """
    command = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(code)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "True"
