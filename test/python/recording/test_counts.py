"""Native capture of functions that take plain numbers, called with sizes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from models.calling import Calling
from models.recording import DYNAMIC, EXAMPLES, Function, X, assert_recorded, function_id, reason_of
from torch import nn
from torch.nn import functional as F


def linspaces(x: torch.Tensor) -> Any:
    n = x.shape[1]
    return (
        torch.linspace(-1, 1, n),
        torch.linspace(0.5, n, steps=n + 1, dtype=torch.float64),
        torch.linspace(0, 10, n, dtype=torch.int64),
        torch.linspace(3, 7, x.shape[0]),  # one of 1 in the last example
        torch.linspace(-1, 1, 5) * n,
        torch.linspace(x.mean(), x.amax(), n),
    )


def logspaces(x: torch.Tensor) -> Any:
    n = x.shape[1]
    return (
        torch.logspace(0, 1, n),
        torch.logspace(-1, 2, steps=n, base=2.0),
        torch.logspace(0, 1, 3),
    )


def sampled(x: torch.Tensor) -> Any:
    batch, height, width = x.shape
    rows, columns = torch.meshgrid(
        torch.linspace(-1, 1, height), torch.linspace(-1, 1, width), indexing="ij"
    )
    grid = torch.stack([columns, rows], -1).expand(batch, height, width, 2)
    return F.grid_sample(x[:, None], grid, align_corners=True)


def windows(x: torch.Tensor) -> Any:
    batch, n, _ = x.shape
    kinds = (torch.hann_window, torch.hamming_window, torch.blackman_window, torch.bartlett_window)
    lengths = [window(n) for window in kinds]
    lengths += [window(n + 1, periodic=False) for window in kinds]
    lengths += [window(batch) for window in kinds]
    lengths += [window(batch, False) for window in kinds]
    return *lengths, torch.hamming_window(n, True, 0.5), torch.hann_window(n, dtype=torch.float64)


def frequencies(x: torch.Tensor) -> Any:
    n = x.shape[1]
    return torch.fft.fftfreq(n), torch.fft.rfftfreq(n, 0.5), torch.fft.fftfreq(n + 1, d=2.0)


def triangles(x: torch.Tensor) -> Any:
    batch, n, _ = x.shape
    return (
        torch.triu_indices(n, n, 1),
        torch.tril_indices(n, n + batch, offset=-1),
        torch.tril_indices(n, 3, dtype=torch.int32),
    )


def one_hots(x: torch.Tensor) -> Any:
    n = x.shape[1]
    return F.one_hot(torch.arange(n) % 3, n), F.one_hot(torch.tensor([0, 2]), num_classes=n + 1)


def pooled(x: torch.Tensor) -> Any:
    turned = x.transpose(1, 2)
    image = x[:, None]
    return (
        F.max_pool1d(turned, turned.size(2)).squeeze(2),
        F.avg_pool1d(turned, turned.size(2)),
        F.max_pool2d(image, (image.size(2), 1)),
        F.max_pool2d(image, (image.size(2), 2), stride=(1, 2)),
        F.avg_pool2d(image, image.size()[2:]),
        F.avg_pool2d(image, (image.size(2), 3), stride=1),
        F.max_pool2d(image, kernel_size=image.shape[-2:], stride=1),
        F.avg_pool3d(image[:, None], image.shape[1:]),
        nn.AvgPool1d(turned.size(2))(turned),
        nn.AvgPool2d((image.size(2), 2), 2)(image),
        nn.MaxPool1d(turned.size(2), 1)(turned),
        F.avg_pool2d(image, (image.size(2), 2), divisor_override=3),
        F.avg_pool2d(image, image.size()[2:], 1, 0, False, True, 5),
        F.lp_pool1d(turned.abs(), 2, turned.size(2)),
    )


def unfolded(x: torch.Tensor) -> Any:
    n = x.shape[1]
    half = n // 2
    tiles = torch.cat([x, x], 1).unfold(1, n, n)
    written = x.clone()
    written.unfold(-2, half, half)[..., 0] += 1
    return tiles, x.unfold(1, half, half), written


def counted_elements(x: torch.Tensor) -> Any:
    return x.reshape(x.shape[:2].numel(), -1), x / x.shape.numel(), x.shape[2:].numel()


FUNCTIONS = [
    counted_elements,
    linspaces,
    logspaces,
    sampled,
    windows,
    frequencies,
    triangles,
    one_hots,
    pooled,
    unfolded,
]


@pytest.mark.parametrize("function", FUNCTIONS, ids=function_id)
def test_counts_are_sizes(function: Function) -> None:
    assert_recorded(Calling(function), (DYNAMIC,), *EXAMPLES)
    assert_recorded(Calling(function), None, EXAMPLES[0])


class TextCnn(nn.Module):
    """Max over time, as sentence classifiers write it."""

    def __init__(self) -> None:
        super().__init__()
        self.convs = nn.ModuleList(nn.Conv2d(1, 6, (k, 4)) for k in (2, 3))
        self.fc = nn.Linear(12, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.unsqueeze(1)
        found = [F.relu(conv(x)).squeeze(3) for conv in self.convs]
        return self.fc(torch.cat([F.max_pool1d(one, one.size(2)).squeeze(2) for one in found], 1))


def test_max_over_time() -> None:
    torch.manual_seed(0)
    assert_recorded(TextCnn().eval(), DYNAMIC, *EXAMPLES)


def half_windows(x: torch.Tensor) -> Any:
    return F.avg_pool1d(x.transpose(1, 2), x.shape[1] // 2)


def padded_windows(x: torch.Tensor) -> Any:
    return F.max_pool1d(x.transpose(1, 2), x.shape[1], padding=1)


def indices_of_windows(x: torch.Tensor) -> Any:
    return F.max_pool1d(x.transpose(1, 2), x.shape[1], return_indices=True)


def overlapping_windows(x: torch.Tensor) -> Any:
    return x.unfold(1, x.shape[1], 1)


OTHER_WINDOWS = [half_windows, padded_windows, indices_of_windows, overlapping_windows]


@pytest.mark.parametrize("function", OTHER_WINDOWS, ids=function_id)
def test_other_windows_step_aside(function: Function) -> None:
    assert "needs the number" in reason_of(Calling(function), (X,), (DYNAMIC,))


def test_the_functions_are_put_back() -> None:
    before = torch.linspace, F.max_pool1d, torch.fft.fftfreq, torch.Size.numel
    assert_recorded(Calling(pooled), (DYNAMIC,), *EXAMPLES)
    assert_recorded(Calling(counted_elements), (DYNAMIC,), *EXAMPLES)
    assert before == (torch.linspace, F.max_pool1d, torch.fft.fftfreq, torch.Size.numel)
