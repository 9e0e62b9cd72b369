"""torch.export takes a count for the size with which it broadcasts; the model checks that."""

from __future__ import annotations

from collections.abc import Callable

import onnx_native
import pytest
import torch
from models.calling import Calling

Tensor = torch.Tensor
Results = tuple[Tensor, ...]


def mean(x: Tensor, y: Tensor) -> Results:
    chosen = x[y > 0]
    return chosen + torch.arange(x.shape[0]), chosen.sum() / chosen.shape[0]


def ones(x: Tensor, y: Tensor) -> Results:
    chosen = torch.masked_select(x, y > 0)
    return chosen * x, torch.ones(chosen.shape[0]), torch.ones_like(chosen)


def rows(x: Tensor, y: Tensor) -> Results:
    chosen = torch.nonzero(y > 0)[:, 0]
    return chosen * x, x.sum() + chosen.shape[0], chosen.cumsum(0)


def two(x: Tensor, y: Tensor) -> Results:
    some, others = x[y > 0], x[y >= 1]
    return some * others + x, others.view(-1, 1) * torch.ones(others.shape[0])


@pytest.mark.parametrize("program", [mean, ones, rows, two])
def test_counts(program: Callable[[Tensor, Tensor], Results]) -> None:
    x, all_chosen = torch.randn(5), torch.ones(5)
    with onnx_native.options(capture="torch.export"):
        model = torch.onnx.export(
            Calling(program),
            (x, all_chosen),
            dynamo=True,
            verbose=False,
            dynamic_shapes=(({0: "n"}, {0: "n"}),),
        )
    assert model is not None
    for chosen in (all_chosen, torch.ones(3)):
        x = torch.randn(len(chosen))
        torch.testing.assert_close(tuple(model(x, chosen)), program(x, chosen))
    # Eager broadcasts a count of 1.
    with pytest.raises(Exception, match="cannot be reshaped"):
        model(torch.randn(5), torch.tensor([2.0, 0, 0, 0, 0]))


def test_a_number_taken_for_a_size_is_refused() -> None:
    def program(x: Tensor, y: Tensor) -> Results:
        count = int((y > 0).sum())
        torch._check(count >= 0)
        return torch.zeros(count) + x, x.sum() / count

    with (
        onnx_native.options(capture="torch.export"),
        pytest.raises(torch.onnx.OnnxExporterError, match="takes it for granted that the number"),
    ):
        torch.onnx.export(
            Calling(program),
            (torch.randn(5), torch.ones(5)),
            dynamo=True,
            verbose=False,
            dynamic_shapes=(({0: "n"}, {0: "n"}),),
        )
