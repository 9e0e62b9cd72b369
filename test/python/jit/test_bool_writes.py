"""In-place arithmetic on bool tensors: non-bool results are an error, as in eager."""

import pytest
import torch

from .running import check

X = torch.linspace(-1, 2, 12).view(3, 4)
REFUSED = ("t += 1", "t *= 2", "t += 1.5", "t.sub_(x)", "t.add_(k)", "t.mul_(x.size(0))")


def compile_body(line: str, loop: bool) -> torch.jit.ScriptFunction:
    inside = f"for i in range(x.size(0)):\n        {line}" if loop else line
    source = f"def program(x: Tensor, k: Tensor):\n    t = x > 0\n    {inside}\n    return t\n"
    return torch.jit.CompilationUnit(source).program


@pytest.mark.parametrize("loop", [False, True])
@pytest.mark.parametrize("line", REFUSED)
def test_refused(line: str, loop: bool) -> None:
    program = compile_body(line, loop)
    arguments = (X, torch.tensor([2]))
    eager = r"can't be cast to the desired output type Bool|not supp"
    with pytest.raises(RuntimeError, match=eager):
        program(*arguments)
    refused = f"{eager}|not bool to a bool tensor"
    with pytest.raises(torch.onnx.errors.OnnxExporterError, match=refused):
        torch.onnx.export(program, arguments, dynamo=True, verbose=False)


@pytest.mark.parametrize("line", ["t *= x > 1", "t += x < -0.5", "t.logical_and_(x < 1)"])
def test_right(line: str) -> None:
    check(compile_body(line, True), [(X, torch.tensor([2]))], opsets=(20,))
