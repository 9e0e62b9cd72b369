"""Programs with torch.vmap."""

from collections.abc import Callable
from typing import Any

import onnx_native
import pytest
import torch
from ops import checking
from torch import nn

pytestmark = pytest.mark.captures("auto", "torch.export")


class Mapped(nn.Module):
    """Maps a layer over rows and a product over all pairs."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(5, 3)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        rows = torch.vmap(lambda row: self.layer(row).softmax(0) + row.sum())(x)
        pairs = torch.vmap(torch.vmap(torch.mul, (None, 0)), (0, None))(x[:, 0], x[:, 1])
        return rows, pairs


def test_mapped_functions_work_on_batches_of_any_size() -> None:
    torch.manual_seed(0)
    model = Mapped().eval()
    program = torch.onnx.export(
        model,
        (torch.randn(4, 5),),
        dynamo=True,
        dynamic_shapes={"x": {0: torch.export.Dim("n")}},
        verbose=False,
    )
    assert program is not None
    running = checking.session(program)
    for size in (4, 7):
        x = torch.randn(size, 5)
        results = running.run(None, {running.get_inputs()[0].name: x.numpy()})
        for result, wanted in zip(results, model(x), strict=True):
            torch.testing.assert_close(torch.from_numpy(result), wanted.detach())


def _through_expand(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    y = x.clone()
    z = y.expand(4, 3)
    z[:, 1].fill_(2)
    return torch.vmap(torch.neg)(z), y


def _in_a_copy_but_for_one_row(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    y = x.clone()
    z = y.t().contiguous()
    z.add_(1)
    return torch.vmap(torch.neg)(z), y


class Calling(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(x)


@pytest.mark.captures("torch.export")  # the native capture records these writes
@pytest.mark.parametrize("function", [_through_expand, _in_a_copy_but_for_one_row])
def test_writes_that_torch_loses_are_refused(function: Callable[..., Any]) -> None:
    rows = 1 if function is _through_expand else 4
    shapes = ({0: torch.export.Dim("n"), 1: torch.export.Dim("m")},) if rows > 1 else None
    with pytest.raises(torch.onnx.OnnxExporterError, match=r"torch.vmap, .* writes to memory"):
        torch.onnx.export(
            Calling(function),
            (torch.randn(rows, 3),),
            dynamo=True,
            dynamic_shapes=shapes,
            verbose=False,
        )


def _before_expand(x: torch.Tensor) -> Any:
    y = x.clone()
    y.mul_(2)
    return torch.vmap(torch.neg)(y.expand(4, 2, 3)), y


def _below_expand(x: torch.Tensor) -> Any:
    y = x.clone()
    z = y.expand(4, 2, 3)
    y[0].add_(1)
    return torch.vmap(torch.neg)(z), y


def _beside_expand(x: torch.Tensor) -> Any:
    y, other = x.clone(), x.clone()
    other.add_(1)
    return torch.vmap(torch.neg)(y.expand(4, 2, 3)), other


def _before_a_copy(x: torch.Tensor) -> Any:
    y = x.clone()
    y[0].add_(1)
    z = y.t().contiguous()
    return torch.vmap(torch.neg)(z), y


def _in_the_last_use(x: torch.Tensor) -> Any:
    z = (x * 2).t().contiguous()
    z.add_(1)
    return torch.vmap(torch.neg)(z), x


@pytest.mark.parametrize(
    "function",
    [_before_expand, _below_expand, _beside_expand, _before_a_copy, _in_the_last_use],
)
def test_writes_that_torch_keeps(function: Callable[..., Any]) -> None:
    exported = torch.onnx.export(
        Calling(function),
        (torch.randn(2, 3),),
        dynamo=True,
        verbose=False,
    )
    assert exported is not None
    x = torch.randn(2, 3)
    torch.testing.assert_close(list(exported(x)), list(function(x.clone())))


def test_other_writes_are_kept() -> None:
    def program(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = x.clone()
        y.t()[0].add_(1)
        return torch.vmap(torch.neg)(y), y

    exported = torch.onnx.export(Calling(program), (torch.randn(4, 3),), dynamo=True, verbose=False)
    assert exported is not None
    x = torch.randn(4, 3)
    torch.testing.assert_close(list(exported(x)), list(program(x)))


class Filled(nn.Module):
    """Copies a number of another dtype into a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("kept", torch.ones(3))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        self.kept.copy_(x)
        return self.kept * 2, torch.vmap(torch.sin)(self.kept)


def test_copies_into_buffers_convert() -> None:
    """PyTorch drops the copy when it inlines mapped functions."""
    x = torch.tensor(1.5, dtype=torch.float16)
    with onnx_native.options(state=True):
        program = torch.onnx.export(Filled(), (x,), dynamo=True, verbose=False)
    assert program is not None
    running = checking.session(program)
    feeds = {"x": x.numpy(), "kept": torch.ones(3).numpy()}
    doubled, sines, kept = (torch.from_numpy(each) for each in running.run(None, feeds))
    wanted = Filled()
    for result, expected in zip((doubled, sines), wanted(x), strict=True):
        torch.testing.assert_close(result, expected)
    torch.testing.assert_close(kept, wanted.kept)
