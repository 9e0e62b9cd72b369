"""Native capture of examples whose dynamic sizes are 1: what a size of 1 hides is not lost."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from models.calling import Calling
from models.recording import (
    Function,
    assert_equal_to_eager,
    assert_native,
    assert_recorded,
    exported,
    function_id,
    reason_of,
)

BATCH = (({0: "n"},),)


def image(n: int) -> torch.Tensor:
    return torch.randn(n, 4, 6, generator=torch.Generator().manual_seed(n))


def channels_first(x: torch.Tensor) -> Any:
    tokens = x.transpose(1, 2).contiguous().transpose(1, 2)
    return tokens.view(x.shape[0], 2, 2, 6).permute(0, 3, 1, 2).contiguous() * 2


def windows(x: torch.Tensor) -> Any:
    n, h, w = x.shape
    parts = x.view(n, h // 2, 2, w // 6, 6, 1)
    return parts.permute(0, 1, 3, 2, 4, 5).contiguous().view(-1, 12, 1) + 1


def written_copy(x: torch.Tensor) -> Any:
    tokens = x.transpose(1, 2).contiguous().transpose(1, 2)
    copy = tokens.permute(0, 2, 1).contiguous()
    return tokens.sum() + copy.relu()


@pytest.mark.parametrize("function", [channels_first, windows, written_copy], ids=function_id)
def test_layouts(function: Function) -> None:
    assert_recorded(Calling(function), BATCH, *((image(n),) for n in (1, 2, 5)))


def test_a_program_that_does_something_else_for_one() -> None:
    def program(x: torch.Tensor) -> Any:
        if x.shape[0] == 1:
            return channels_first(x)
        return x

    assert "n == 1" in reason_of(Calling(program), (image(1),), BATCH)


def test_a_loop_over_a_batch_of_one() -> None:
    def program(x: torch.Tensor) -> Any:
        return channels_first(x) + sum(each.sum() for each in x)

    module = Calling(program)
    found = exported(module, (image(1),), BATCH)
    assert_native(found)
    assert found.export_report["capture"]["guards"] == []
    assert_equal_to_eager(found, module, *((image(n),) for n in (1, 2, 5)))
