"""In-place operators that change a shape: every alias of the tensor has the new shape."""

import pytest
import torch
from torch import Tensor, nn

from .running import check


class Transposed(nn.Module):
    def forward(self, x: Tensor):
        y = x * 1
        y.t_()
        return y.reshape(y.size(0), -1), torch.zeros(y.shape), y, torch.tensor([y.dim()])


class Unsqueezed(nn.Module):
    def forward(self, x: Tensor):
        y = x * 1
        y.unsqueeze_(0).unsqueeze_(-1)
        return (
            y.reshape(y.size(0), y.size(1), -1),
            torch.ones(y.size()),
            torch.tensor([y.dim(), len(y), y.numel()]),
        )


class Squeezed(nn.Module):
    def forward(self, x: Tensor):
        y = x[:, :1] * 2
        y.squeeze_(1)
        z = x.unsqueeze(0) + 1
        z.squeeze_()
        return y, z.reshape(len(z), -1), torch.zeros_like(y), torch.tensor([y.dim(), z.size(0)])


class Swapped(nn.Module):
    def forward(self, x: Tensor):
        y = x.unsqueeze(0) * 1
        y.swapaxes_(0, 1)
        a = y.size(0)
        y.swapdims_(1, 2)
        b = torch.zeros(y.shape)
        y.transpose_(0, -1)
        return a, b, y.view(y.size(0), -1) if y.is_contiguous() else y.reshape(y.size(0), -1)


class Strided(nn.Module):
    def forward(self, x: Tensor):
        y = torch.arange(12.0)
        y.as_strided_([3, 2], [1, 3])
        return y, y.reshape(y.size(0), -1), x + y.dim()


class Resized(nn.Module):
    def forward(self, x: Tensor):
        y = x * 1
        y.resize_(x.size(0), 2)
        z = x * 2
        z.resize_as_(x[:, :1])
        return y, y.reshape(-1, y.size(0)), z, torch.tensor([y.size(1), z.size(1)])


class OtherName(nn.Module):
    def forward(self, x: Tensor):
        y = x * 1
        z = y
        pair = (y, x)
        names = [y, x]
        y.t_()
        return names[0].reshape(names[0].size(0), -1), z, torch.tensor([z.size(0), pair[0].size(0)])


class Returned(nn.Module):
    def forward(self, x: Tensor):
        y = x * 1
        z = y.add_(1)
        z.t_()
        w = y.mul_(2)
        return y.reshape(y.size(0), -1), torch.zeros(w.shape), torch.tensor([w.size(0), z.size(1)])


class NotAView(nn.Module):
    def forward(self, x: Tensor):
        y = x * 1
        view = y[:1]
        flat = y.view(-1)
        y.t_()
        y.add_(1)
        return view, flat, y, torch.tensor([view.size(0), y.size(0), flat.size(0)])


def transpose(x: Tensor) -> Tensor:
    return x.t_()


class InFunction(nn.Module):
    def forward(self, x: Tensor):
        y = x * 1
        transpose(y)
        return y.reshape(y.size(0), -1), torch.zeros(y.shape)


class OfNonzero(nn.Module):
    def forward(self, x: Tensor):
        y = x.nonzero()
        y.t_()
        return (
            torch.zeros(y.size(1)),
            y.reshape(y.size(0), -1),
            torch.ones(y.shape),
            torch.tensor([y.size(0)]),
        )


class InBranch(nn.Module):
    def forward(self, x: Tensor):
        y = x * 1
        z = y
        if bool(x.sum() > 0):
            y.t_()
        return y.reshape(y.size(0), -1), torch.zeros(z.shape), z, torch.tensor([z.size(0)])


class InBothBranches(nn.Module):
    def forward(self, x: Tensor):
        y = x * 1
        if bool(x.sum() > 0):
            y.t_()
            y.add_(1)
        else:
            y.transpose_(0, 1).mul_(2)
        return y.reshape(y.size(0), -1), torch.zeros(y.shape)


class BranchResult(nn.Module):
    def forward(self, x: Tensor):
        y = x * 1
        if bool(x.sum() > 0):
            y.t_()
            z = y
        else:
            z = x + 1
        return z.reshape(z.size(0), -1), torch.zeros(y.shape), y


class BeforeBranch(nn.Module):
    def forward(self, x: Tensor):
        y = x * 1
        row = y[0]
        y.t_()
        z = y * 2
        if bool(x.sum() > 0):
            z = y.reshape(y.size(0), -1) + torch.zeros(y.shape)
            z = z * 3
        return z, row


class WriteInBranch(nn.Module):
    def forward(self, x: Tensor):
        y = x * 1
        y.t_()
        if bool(x.sum() > 0):
            y.add_(1)
            y[0] = 5.0
        return y.reshape(y.size(0), -1), x


class InLoop(nn.Module):
    def forward(self, x: Tensor):
        y = x * 1
        z = y
        for _ in range(int(x.size(0))):
            y.t_()
        return y.reshape(y.size(0), -1), torch.zeros(z.shape), z


class NamedInLoop(nn.Module):
    def forward(self, x: Tensor):
        y = x * 1
        z = y
        for _ in range(int(x.size(0))):
            y = y.t_()
        return y.reshape(y.size(0), -1), z, torch.tensor([z.size(0)])


class InSteps(nn.Module):
    def forward(self, x: Tensor):
        y = x * 1
        for _ in range(3):
            y.t_()
        return y.reshape(y.size(0), -1), torch.zeros(y.shape)


class CountsSteps(nn.Module):
    def forward(self, x: Tensor):
        y = x * 1
        y.t_()
        total = torch.zeros(y.size(1))
        for i in range(y.size(0)):
            total = total + y[i]
        for row in y:
            total = total - row * 2
        return total


class FreshInLoop(nn.Module):
    def forward(self, x: Tensor):
        total = torch.zeros(1)
        for i in range(x.size(0)):
            y = x + i
            y.t_()
            total = total + y.reshape(y.size(0), -1).sum() + y.size(0)
        return total


class Attribute(nn.Module):
    def forward(self, x: Tensor):
        state = {"y": x * 1}
        state["y"].unsqueeze_(0)
        values = [x + 1, x + 2]
        for value in values:
            value.t_()
        return (
            torch.zeros(state["y"].shape),
            values[0],
            torch.tensor([state["y"].size(0), values[1].size(0)]),
        )


class SameObject(nn.Module):
    def forward(self, x: Tensor):
        y = x * 1
        z = y.to(torch.float32)
        w = torch.dropout(z, 0.5, False)
        y.unsqueeze_(0)
        return torch.zeros(w.shape), torch.tensor([z.dim(), w.size(0)])


class OwnInput(nn.Module):
    def forward(self, x: Tensor):
        x.t_()
        return x.reshape(x.size(0), -1), torch.zeros(x.shape)


MODULES = [
    *(Transposed, Unsqueezed, Squeezed, Swapped, Strided, Resized, OtherName, Returned, NotAView),
    *(InFunction, OfNonzero, InBranch, InBothBranches, BranchResult, BeforeBranch, WriteInBranch),
    *(InLoop, NamedInLoop, InSteps, CountsSteps, FreshInLoop, Attribute, SameObject, OwnInput),
]


@pytest.mark.parametrize("module", MODULES)
def test_module(module: type[nn.Module]) -> None:
    torch.manual_seed(0)
    inputs = [(torch.rand(3, 4),), (-torch.rand(5, 4),), (torch.rand(2, 4),)]
    check(torch.jit.script(module()), inputs, [{0: "batch"}])
