"""Normalization of empty tensors, which crashes ONNX Runtime's InstanceNormalization."""

import pytest
import torch
from models import routes
from torch import nn


@pytest.mark.parametrize("size", [(2, 3, 0), (2, 3, 0, 4)])
def test_instance_norm(size: tuple[int, ...]) -> None:
    layer = nn.InstanceNorm1d if len(size) == 3 else nn.InstanceNorm2d
    for affine in (False, True):
        module = layer(3, affine=affine)
        routes.check(lambda x, module=module: module(x), (torch.zeros(size),), "fx")


@pytest.mark.parametrize("size", [(2, 4, 0), (0, 4, 3)])
def test_group_norm(size: tuple[int, ...]) -> None:
    routes.check(lambda x: nn.functional.group_norm(x, 2), (torch.zeros(size),), "fx")
