"""Lists of data-dependent length: pieces of a tensor, and lists that are modified."""

import pytest
import torch
from torch import Tensor, nn

from .running import check


class SplitPieces(nn.Module):
    def forward(self, x: Tensor):
        parts = x.split(2)
        return parts[0], parts[1] + 1, parts[-1], x + len(parts), torch.cat(parts)


class Unpacked(nn.Module):
    def forward(self, x: Tensor):
        a, b = x.chunk(2, 0)
        c, d = torch.split(x, (x.size(0) + 1) // 2)
        e, f = x.unsafe_chunk(2)
        return a, b * 2, c, d, e, f


class OfAnotherAxis(nn.Module):
    def forward(self, x: Tensor):
        y = x.t().unsqueeze(0)
        parts = y.split(2, dim=2)
        joined = torch.cat(parts, -1)
        total = torch.zeros(4)
        for part in parts:
            total = total * 2 + part.sum(-1)[0]
        return parts[0], parts[-1], joined, total


class EachPiece(nn.Module):
    def forward(self, x: Tensor):
        total = torch.zeros(4)
        for i, part in enumerate(x.split(2)):
            total = total + part.sum(0) * i
        for part in x.chunk(3):
            total = total * part.size(0)
        return total, torch.stack([p.sum(0) for p in x.split(2)])


class KeptPieces(nn.Module):
    def forward(self, x: Tensor):
        parts = x.split(2)
        parts.append(x * 3)
        parts[0] = parts[0] * 5
        kept = parts[1:]
        kept.insert(0, x[:1])
        return torch.cat(parts), torch.cat(kept), x + len(kept)


class WrittenPieces(nn.Module):
    def forward(self, x: Tensor):
        y = x * 1
        parts = y.split(2)
        parts[0].add_(1)
        y.split(2)[1].mul_(3)
        return y


class Stacked(nn.Module):
    def forward(self, x: Tensor):
        y = torch.cat([x, x])
        return torch.stack(y.split(x.size(0))), torch.stack(y.t().split(x.size(0), 1))


def rows(x: Tensor) -> list[Tensor]:
    ys: list[Tensor] = []
    for i in range(x.size(0)):
        ys.append(x[i])
    return ys


class Popped(nn.Module):
    def forward(self, x: Tensor):
        ys = rows(x)
        last = ys.pop()
        first = ys.pop(0)
        ys.append(last * 2)
        second = ys.pop(-2)
        ys.append(first)
        return torch.stack(ys), last, first, second, x + len(ys)


class Deleted(nn.Module):
    def forward(self, x: Tensor):
        ys = rows(x)
        del ys[1]
        zs = rows(x)
        del zs[-1]
        return torch.stack(ys), torch.stack(zs)


class Inserted(nn.Module):
    def forward(self, x: Tensor):
        ys = rows(x)
        ys.insert(0, x[0] * 2)
        ys.insert(-1, x[0] * 3)
        ys.insert(100, x[0] * 4)
        ys.insert(x.size(0) - 1, x[0] * 5)
        return torch.stack(ys)


class Assigned(nn.Module):
    def forward(self, x: Tensor):
        ys = rows(x)
        ys[1] = x[0] * 7
        ys[-1] = x[0] * 3
        for i in range(x.size(0)):
            ys[i] = ys[i] * i
        return torch.stack(ys)


class UntilEmpty(nn.Module):
    def forward(self, x: Tensor):
        ys = rows(x)
        total = torch.zeros(4)
        while len(ys) > 0:
            total = total * 2 + ys.pop(0)
        return total


class Ragged(nn.Module):
    def forward(self, x: Tensor):
        ys: list[Tensor] = []
        for i in range(x.size(0)):
            ys.append(x[: i + 1])
        last = ys.pop()
        ys.insert(1, x[:2] * 3)
        del ys[0]
        ys[0] = x[:1]
        return torch.cat(ys), last


class Numbers(nn.Module):
    def forward(self, x: Tensor):
        ys: list[int] = []
        for i in range(x.size(0)):
            ys.append((i * 5) % 7)
        last = ys.pop()
        ys.insert(0, 7)
        place = ys.index(5)
        ys.remove(5)
        ys.sort()
        zs = [0] * x.size(0)
        zs[1] = 4
        counts = torch.tensor([ys.count(0), place, last])
        return torch.tensor(ys), torch.tensor(sorted(ys)), torch.tensor(ys * 2 + zs), counts


class Combined(nn.Module):
    def forward(self, x: Tensor):
        known = torch.arange(4)
        return (
            *(torch.combinations(x[:, 0]), torch.combinations(x[:, 0], 2, True)),
            *(torch.combinations(x[:, 0], 3), torch.combinations(known), x + 0),
            *(torch.combinations(known, 3), torch.combinations(known, 2, True)),
            *(torch.combinations(known, 5), torch.combinations(known[:0], 2)),
        )


class EmptyIntegrals(nn.Module):
    def forward(self, x: Tensor):
        none = x[:0]
        return (
            *(torch.trapezoid(none, dim=0), torch.trapezoid(none, none, dim=0)),
            *(torch.trapezoid(none.long(), dx=0.5, dim=0), torch.trapezoid(x, dim=0)),
            *(torch.cumulative_trapezoid(none, dim=0), torch.cumulative_trapezoid(none.int())),
        )


MODULES = [
    *(SplitPieces, Unpacked, OfAnotherAxis, EachPiece, KeptPieces, WrittenPieces, Stacked, Popped),
    *(Deleted, Inserted, Assigned, UntilEmpty, Ragged, Numbers, Combined, EmptyIntegrals),
]


@pytest.mark.parametrize("module", MODULES)
def test_module(module: type[nn.Module]) -> None:
    torch.manual_seed(0)
    check(torch.jit.script(module()), [(torch.randn(n, 4),) for n in (4, 3, 7)], [{0: "n"}])


def test_pieces_of_nothing() -> None:
    inputs = [(torch.randn(n, 4),) for n in (4, 0, 5)]

    class Counted(nn.Module):
        def forward(self, x: Tensor):
            return x.sum() + len(x.split(2)) * 10 + len(x.chunk(3)), x.split(2)[0]

    check(torch.jit.script(Counted()), inputs, [{0: "n"}])
