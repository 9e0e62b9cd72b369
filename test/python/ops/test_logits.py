"""Logarithms of sigmoids: ONNX Runtime's float32 Sigmoid is 0 below -17.

Eager's is 0 below -88.7, where exp overflows.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.nn import functional as F

from ops import checking
from ops.row import Case

FUNCTIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "log": lambda x: torch.log(torch.sigmoid(x)),
    "binary_cross_entropy": lambda x: F.binary_cross_entropy(
        x.sigmoid(), torch.ones_like(x), reduction="none"
    ),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_logits(name: str) -> None:
    inputs = torch.linspace(-88, 100, 377)
    running = checking.session(checking.export(Case(FUNCTIONS[name], inputs)))
    (argument,) = running.get_inputs()
    (result,) = running.run(None, {argument.name: inputs.numpy()})
    torch.testing.assert_close(torch.from_numpy(result), FUNCTIONS[name](inputs))
