"""Modules with submodules, buffers and lists of layers, for use in generated programs."""

import torch
from torch import Tensor, nn

__all__ = ["MLP", "Attention", "Counter", "Cumulative", "Gate", "Layers", "Residual", "Tied"]


class MLP(nn.Module):
    """Two layers with an activation between."""

    def __init__(self, size: int, inner: int) -> None:
        super().__init__()
        self.up = nn.Linear(size, inner)
        self.act = nn.GELU()
        self.down = nn.Linear(inner, size)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(self.act(self.up(x)))


class Residual(nn.Module):
    """A residual block with a norm before it."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(size)
        self.block = MLP(size, 3)
        self.register_buffer("scale", torch.full((size,), 0.5))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.block(self.norm(x)) * self.scale


class Gate(nn.Module):
    """Two branches of one module, called twice."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.layer = nn.Linear(size, size)
        self.weight = nn.Parameter(torch.tensor([0.25]))

    def forward(self, x: Tensor) -> Tensor:
        gate = torch.sigmoid(self.layer(x))
        return self.layer(x * gate) * self.weight + (1 - gate)


class Layers(nn.Module):
    """Layers in a list and in a dict."""

    def __init__(self, size: int, count: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(size, size) for _ in range(count)])
        self.heads = nn.ModuleDict({"a": nn.Linear(size, 2), "b": nn.Tanh()})

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        for layer in self.layers:
            x = torch.relu(layer(x)) + x
        return self.heads["a"](x), self.heads["b"](x)


class Tied(nn.Module):
    """An embedding that shares its weight with the last layer."""

    def __init__(self, count: int, size: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(count, size)
        self.head = nn.Linear(size, count, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.embedding(x) * 2.0)


class Counter(nn.Module):
    """Counts its calls and keeps the last sum, in buffers."""

    calls: Tensor
    last: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
        self.register_buffer("last", torch.zeros(2))

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        self.last[0] = x.sum()
        self.last[1:].add_(1.0)
        return x * self.calls + self.last.sum()


class Cumulative(nn.Module):
    """A running mean with a rate, like that of norms."""

    mean: Tensor

    def __init__(self, size: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(size))

    def forward(self, x: Tensor) -> Tensor:
        batch = x.reshape(-1, x.shape[-1]).mean(0)
        self.mean.copy_(self.mean * 0.9 + batch * 0.1)
        return x - self.mean


class Attention(nn.Module):
    """Attention with heads by view and transpose, and a causal mask of the input's length."""

    def __init__(self, size: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(size, 3 * size)
        self.out = nn.Linear(size, size)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, size = x.shape
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        shape = (batch, length, self.heads, size // self.heads)
        q, k, v = (
            q.view(shape).transpose(1, 2),
            k.view(shape).transpose(1, 2),
            v.view(shape).transpose(1, 2),
        )
        mask = torch.ones(length, length, dtype=torch.bool, device=x.device).tril()
        scores = (q @ k.transpose(-2, -1) * 0.5).masked_fill(~mask, -1e4)
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, length, size))
