"""Attributes of tensors in TorchScript."""

import pytest
import torch
from torch import Tensor, nn

from .running import check


class Data(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4))

    def forward(self, x: Tensor):
        y = x * self.weight.data
        y.data.add_(1)
        y.data[0] = 5.0
        return y, x.data * 2, y.data.size(0) + x


class Sizes(nn.Module):
    def forward(self, x: Tensor):
        numbers = x.itemsize + x.ndim + x.get_device() + x.element_size()
        return x * x.nbytes, x + numbers, x * x.numel(), x.T, x.mT, x.H, x.mH, x.real


class Flags(nn.Module):
    def forward(self, x: Tensor):
        devices = [x.is_cuda, x.is_xpu, x.is_mps, x.is_vulkan, x.is_ipu, x.is_meta]
        kinds = [x.is_sparse, x.is_sparse_csr, x.is_mkldnn, x.is_quantized, x.is_nested]
        states = [x.is_leaf, x.requires_grad, x.retains_grad, x.is_signed(), x.is_inference()]
        same = [x.is_same_size(x + 1), x.layout == torch.strided, x.device.type == "cpu"]
        return x, torch.tensor(devices), torch.tensor(kinds + states), torch.tensor(same)


class Nothing(nn.Module):
    def forward(self, x: Tensor):
        if x.grad is not None:
            x = x + 1
        return x * 2 if x.name is None else x


@pytest.mark.parametrize("module", [Data, Sizes, Flags, Nothing])
def test_module(module: type[nn.Module]) -> None:
    torch.manual_seed(0)
    check(torch.jit.script(module()), [(torch.randn(n, 4),) for n in (3, 2, 5)], [{0: "n"}])
