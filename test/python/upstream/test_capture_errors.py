"""What the errors of torch.export are about, in this version of PyTorch."""

import pytest
import torch
from onnx_native.upstream import _capture_errors
from torch import nn
from torch.export import Dim

X = torch.ones(3, 4)


class Fixing(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.ones(3, 1)


class Failing(nn.Module):
    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        raise self.error


def failure(module: nn.Module, size: object, *, strict: bool) -> BaseException:
    with pytest.raises(Exception) as raised:
        torch.export.export(module, (X,), dynamic_shapes=({0: size},), strict=strict)
    return raised.value


class Narrowing(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        torch._check(x.shape[0] < 8)
        return x


@pytest.mark.parametrize(
    ("module", "size", "strict"),
    [
        (Fixing(), Dim("n"), True),
        (Fixing(), Dim("n", min=2, max=9), False),
        (Fixing(), Dim.DYNAMIC, False),
        (Narrowing(), Dim("n", max=20), False),
        (Fixing(), Dim.AUTO(min=9, max=20), False),  # type: ignore[operator]
    ],
)
def test_a_pinned_size_is_recognized(module: nn.Module, size: object, strict: bool) -> None:
    assert _capture_errors.pins_a_size(failure(module, size, strict=strict))


@pytest.mark.parametrize(
    "error",
    [ValueError("Constraints violated (n)!"), RuntimeError("Constraints violated")],
    ids=str,
)
def test_an_error_of_the_program_is_none(error: Exception) -> None:
    assert not _capture_errors.pins_a_size(failure(Failing(error), Dim.AUTO, strict=False))
