"""Scripted programs with branches, loops, writes and lists, and inputs for each."""

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional


class Article(nn.Module):
    """Writes rows of a tensor in a loop over the batch."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(10, 20)

    def forward(self, x):
        y = self.linear(x)
        for i in range(x.shape[0]):
            y[i] += torch.sin(y[i])
        return y


class Branch(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            return x * 2
        return x - 1


class NestedBranch(nn.Module):
    def forward(self, x):
        y = x
        if x.sum() > 0:
            if x.max() > 2:
                y = x * 2
                y = y + x
            else:
                y = x.sin() + 1
        return y + 1


class BranchOnSize(nn.Module):
    def forward(self, x):
        if x.size(0) > 3:
            return x[:3].sum(0)
        return x.mean(0)


class Asserts(nn.Module):
    def forward(self, x):
        if x.size(0) == 0:
            raise ValueError("empty")
        assert x.dim() == 2
        if bool((x > 1e6).any()):
            raise ValueError("too large")
        return x / x.size(0)


class WritesInBranch(nn.Module):
    def forward(self, x):
        y = x.clone()
        row = y[0]
        if x.sum() > 0:
            row += 1
            y[1] = 3.0
        else:
            y.mul_(2)
        return y, row


class CountedLoop(nn.Module):
    def forward(self, x):
        y = x
        for i in range(20):
            y = torch.tanh(y) * 1.1 + i
        return y


class UnrolledLoop(nn.Module):
    def forward(self, x):
        y = x
        for i in range(2):
            y = torch.tanh(y) * 1.1 + i
        return y


class LoopOverSize(nn.Module):
    def forward(self, x):
        total = torch.zeros_like(x[0])
        for i in range(x.size(0)):
            total = total * 0.5 + x[i]
        return total


class Appends(nn.Module):
    def forward(self, x):
        outputs = []
        state = torch.zeros(x.size(1))
        for i in range(x.size(0)):
            state = torch.tanh(x[i] + state)
            outputs.append(state)
        return torch.stack(outputs), state


class AppendsSometimes(nn.Module):
    def forward(self, x):
        rows = [x[0]]
        for i in range(x.size(0)):
            if x[i].sum() > 0:
                rows.append(x[i] * 2)
        return torch.stack(rows, 1), len(rows)


class Concatenates(nn.Module):
    def forward(self, x):
        parts = [x * 0]
        for i in range(x.size(0)):
            parts.append(x + i)
        return torch.cat(parts, 0)


class GrowsTensor(nn.Module):
    def forward(self, x):
        y = x[:1]
        for i in range(x.size(0)):
            y = torch.cat([y, x[i : i + 1] * 2], 0)
        return y


class While(nn.Module):
    def forward(self, x):
        n = 0
        while x.abs().max() > 1:
            x = x / 2
            n += 1
        return x, n


class Breaks(nn.Module):
    def forward(self, x):
        y = x * 0
        for i in range(x.size(0)):
            if x[i].sum() > 3:
                break
            if x[i].sum() < -3:
                continue
            y = y + x[i]
        return y


class CountsUntilBreak(nn.Module):
    """The count is set on all paths but one, on which TorchScript has an unset number."""

    def forward(self, x):
        y = x[0] * 0
        steps = 0
        for i in range(x.size(0)):
            if bool(x[i].max() > 1.5):
                continue
            y = y + x[i]
            steps += 1
            if bool(y.abs().sum() > 4):
                break
        return y, steps


class ReturnsFromLoop(nn.Module):
    def forward(self, x):
        for i in range(x.size(0)):
            if x[i, 0] > 0.5:
                return x[i] * 10
        return x[0] * 0


class NestedLoops(nn.Module):
    def forward(self, x):
        y = torch.zeros_like(x)
        for i in range(x.size(0)):
            for j in range(x.size(1)):
                y[i, j] = x[i, j] * i + j
        return y


class CarriesInteger(nn.Module):
    def forward(self, x):
        a = 1
        b = 1
        for _ in range(x.size(0)):
            a, b = b, a + b
        return x * a, b


class CarriesFloat(nn.Module):
    def forward(self, x):
        scale = 1.0
        for i in range(x.size(0)):
            scale = scale * 0.9 + 0.1 * i
        return x * scale


class LoopOverTensor(nn.Module):
    def forward(self, x):
        y = x[0] * 0
        for row in x:
            y = torch.maximum(y, row.cos())
        return y


class LoopOverList(nn.Module):
    def forward(self, x, y):
        total = x * 0
        for i, t in enumerate([x, y, x + y, x * y]):
            total = total + t.sigmoid() * i
        return total


class Modules(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])
        self.named = nn.ModuleDict({"a": nn.ReLU(), "b": nn.Tanh()})

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        for name, module in self.named.items():
            x = module(x) + len(name)
        return x


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(4, 6)

    def forward(self, x):
        h = torch.zeros(x.size(1), 6)
        outputs = torch.jit.annotate(list[Tensor], [])
        for t in range(x.size(0)):
            h = self.cell(x[t], h)
            outputs += [h]
        return torch.stack(outputs, 1), h


class Pair(NamedTuple):
    low: Tensor
    high: Tensor


class Structures(nn.Module):
    def forward(self, x, weights: tuple[Tensor, Tensor], scale: float = 2.0):
        named = {"sum": x + weights[0], "product": x * weights[1] * scale}
        pair = Pair(x.amin(), x.amax())
        return named, pair, [x.size(0) * 2, pair.low]


class Optional(nn.Module):
    def forward(self, x, mask: Tensor | None = None, flag: bool = False):
        if mask is not None:
            x = x.masked_fill(mask, 0.0)
        if flag:
            x = x + 1
        return x


class State(nn.Module):
    """An attribute that the method sets and reads."""

    def __init__(self):
        super().__init__()
        self.count = 0
        self.last = torch.zeros(3)

    def forward(self, x):
        for i in range(x.size(0)):
            self.last = self.last * 0.5 + x[i]
            self.count += 1
        return self.last + self.count


class Sizes(nn.Module):
    def forward(self, x):
        b, c = x.shape
        half = int(c / 2)
        rows = math.floor(b * 0.5) + 1
        y = x.reshape(b, half, 2).transpose(0, 1).reshape(half, -1)
        return y, x.new_zeros(rows, max(b, c)), torch.arange(b * 2)


class Item(nn.Module):
    def forward(self, x):
        n = int(x.abs().sum().item()) % 3 + 1
        return x.repeat(n, 1), x[:, :n]


class Windows(nn.Module):
    def forward(self, x):
        y = torch.zeros_like(x)
        for i in range(0, x.size(0) - 1, 2):
            y[i : i + 2] = functional.softmax(x[i : i + 2], 0)
        return y


class ViewsInLoop(nn.Module):
    """The loop writes to the base of a view that was created before the loop."""

    def forward(self, x):
        y = x.clone()
        flat = y.view(-1)
        first = y[0]
        for i in range(x.size(0)):
            y[i].add_(flat[0] * 2)
            first.mul_(0.5)
        return y, flat, first


class PopsAndSlices(nn.Module):
    def forward(self, x):
        parts = list(x.unbind(1))
        last = parts.pop()
        parts.insert(0, last)
        return torch.stack(parts[::-1] + parts[:1], 1)


class ReadsList(nn.Module):
    """A loop that reads the list to which it appends."""

    def forward(self, x):
        rows = [x[0], x[1]]
        for i in range(x.size(0)):
            rows.append(rows[-1] + rows[-2] * x[i])
        return torch.stack(rows)


class EarlyReturn(nn.Module):
    def forward(self, x):
        if x.sum() > 100:
            return x, x
        y = x.relu()
        if y.sum() > 2:
            return y, x
        return y + 1, y


class Reverse(nn.Module):
    def forward(self, x):
        outs: list[Tensor] = []
        h = x[0] * 0
        for i in range(x.size(0) - 1, -1, -1):
            h = h * 0.5 + x[i]
            outs.append(h)
        outs.reverse()
        return torch.stack(outs)


class OptionalByData(nn.Module):
    def forward(self, x):
        y: Tensor | None = None
        if x.sum() > 0:
            y = x * 2
        z = x if y is None else y + 1
        if y is not None:
            z = z * y
        return z


class OptionalState(nn.Module):
    """Loop-carried values that start as None and become a tensor, a number or a tuple."""

    def forward(self, x):
        previous: Tensor | None = None
        best: float | None = None
        at: int | None = None
        pair: tuple[Tensor, int] | None = None
        total = torch.zeros_like(x[0])
        for i in range(x.size(0)):
            if previous is not None:
                total = total + previous * x[i]
            value = float(x[i].sum())
            if best is None or value > best:
                best = value
                at = i
            if pair is None and bool(x[i][0] > 0):
                pair = (x[i] * 2, i)
            previous = x[i]
        assert best is not None
        assert at is not None
        if pair is not None:
            total = total + pair[0] * pair[1]
        return total, x[at] * best


class OptionalAttribute(nn.Module):
    cache: Tensor | None

    def __init__(self):
        super().__init__()
        self.cache = None

    def forward(self, x):
        for i in range(x.size(0)):
            cache = self.cache
            self.cache = x[i] if cache is None else cache * 0.5 + x[i]
        result = self.cache
        assert result is not None
        return result


class ChoosesByData(nn.Module):
    """Optional and bool arguments of operators that are computed at run time."""

    def forward(self, x):
        causal = bool(x[0, 0] > 0)
        mask: Tensor | None = None
        if not causal:
            mask = torch.ones(x.size(0), x.size(0), dtype=torch.bool).tril(1)
        y = functional.scaled_dot_product_attention(x, x, x, mask, 0.0, causal)
        return y, x.sum(0, keepdim=causal).reshape(-1)


class NothingLeft(nn.Module):
    """Gives an empty result another rank, which none of the inputs produces."""

    def forward(self, x):
        kept = x[x[:, 0] > 0]
        count = kept.size(0)
        y = kept * 2
        if count > 0:
            y = y.reshape(count, -1, 2)
        return y.reshape(-1, 2), torch.relu(y).sum(-1)


class GrowsNumbers(nn.Module):
    """Lists of numbers to which loops append."""

    def forward(self, x):
        odd: list[int] = []
        high: list[float] = [0.5]
        signs: list[bool] = []
        chosen: list[int] = []
        for i in range(x.size(0)):
            odd.append(2 * i + 1)
            high.append(float(x[i].max()))
            signs.append(bool(x[i][0] > 0))
            if bool(x[i].sum() > 0):
                chosen.append(i)
        total = 0
        for i in chosen:
            total += i * odd[i]
        count = len(chosen) + (100 if 2 in chosen else 0)
        tensors = (torch.tensor(odd), torch.tensor(high), torch.tensor(signs), torch.tensor(chosen))
        return tensors, x * high[-1], total + count + max(odd) + sum(odd[1:])


class Ragged(nn.Module):
    """Lists of tensors with a different size in each iteration."""

    def forward(self, x):
        parts: list[Tensor] = []
        for i in range(x.size(0)):
            row = x[i]
            parts.append(row[row > 0])
            if i > 1:
                parts.append(row[:i])
        total = x.new_zeros(1)
        for part in parts:
            total = total + part.sum() * part.numel()
        return torch.cat(parts), total, parts[1], parts[-1] * len(parts), torch.cat(parts[1:])


class RaggedRows(nn.Module):
    def forward(self, x):
        parts = [x, x[1:]]
        for i in range(x.size(0)):
            parts.append(x[:i] * 2)
        again: list[Tensor] = []
        for part in parts:
            again.append(part + part.size(0))
        return torch.cat(again), again[2].size(0)


class RaggedSometimes(nn.Module):
    """Lists of tensors with data-dependent sizes, appended in some iterations."""

    def forward(self, x):
        parts: list[Tensor] = []
        counts: list[int] = []
        for i in range(x.size(0)):
            positive = x[i][x[i] > 0]
            if positive.numel() > 1:
                parts.append(positive * 2)
                counts.append(positive.numel())
        if len(parts) == 0:
            return torch.zeros(1), torch.zeros(1, dtype=torch.int64)
        return torch.cat(parts), torch.tensor(counts)


class GrowsPairs(nn.Module):
    """A list of tuples of a tensor and numbers."""

    def forward(self, x):
        found: list[tuple[Tensor, int, float]] = []
        for i in range(x.size(0)):
            score = float(x[i].sum())
            if score > 0:
                found.append((x[i], i, score))
        best = x.new_zeros(x.size(1))
        at, most = -1, 0.0
        for row, i, score in found:
            if score > most:
                best, at, most = row, i, score
        return best * most, at, len(found)


class Suppresses(nn.Module):
    """Handwritten non-maximum suppression."""

    def forward(self, boxes, scores):
        order = torch.argsort(scores, descending=True)
        area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
        keep: list[int] = []
        while order.numel() > 0:
            i = order[0]
            keep.append(int(i))
            if order.numel() == 1:
                break
            rest = order[1:]
            low = torch.maximum(boxes[i, :2], boxes[rest, :2])
            high = torch.minimum(boxes[i, 2:], boxes[rest, 2:])
            sides = (high - low).clamp(min=0)
            shared = sides[:, 0] * sides[:, 1]
            order = rest[shared / (area[i] + area[rest] - shared) <= 0.5]
        return torch.tensor(keep), boxes[torch.tensor(keep)]


class SearchesBeams(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(11, 8)
        self.cell = nn.GRUCell(8, 8)
        self.head = nn.Linear(8, 11)

    def forward(self, h, beams: int = 3):
        batch = h.size(0)
        h = h.unsqueeze(1).expand(batch, beams, 8).reshape(-1, 8)
        tokens = torch.zeros(batch * beams, 1, dtype=torch.long)
        scores = torch.full((batch, beams), -1e9)
        scores[:, 0] = 0.0
        first = torch.arange(batch).unsqueeze(1) * beams
        for _ in range(6):
            h = self.cell(self.embedding(tokens[:, -1]), h)
            logits = functional.log_softmax(self.head(h), -1)
            all_scores = (scores.reshape(-1, 1) + logits).reshape(batch, -1)
            scores, index = all_scores.topk(beams, 1)
            source = (torch.div(index, 11, rounding_mode="floor") + first).reshape(-1)
            h = h[source]
            tokens = torch.cat([tokens[source], (index % 11).reshape(-1, 1)], 1)
            if bool((tokens[:, -1] == 3).all()):
                break
        return tokens.reshape(batch, beams, -1), scores


def boxes(count, seed):
    generator = torch.Generator().manual_seed(seed)
    low = torch.rand(count, 2, generator=generator)
    high = low + torch.rand(count, 2, generator=generator) * 0.5 + 0.05
    return torch.cat([low, high], 1), torch.rand(count, generator=generator)


class Attends(nn.Module):
    """torch.nn's attention, whose fast path tests masks and contexts."""

    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x, mask: Tensor | None = None):
        x = self.encoder(x, src_key_padding_mask=mask)
        return self.attention(x, x, x, key_padding_mask=mask)


class Spectrogram(nn.Module):
    window: Tensor
    filters: Tensor

    def __init__(self):
        super().__init__()
        self.register_buffer("window", torch.hann_window(64))
        self.register_buffer("filters", torch.rand(33, 8))

    def forward(self, x):
        parts = torch.stft(x, 64, 16, 64, self.window, return_complex=True)
        power = parts.abs().pow(2.0)
        return torch.log(torch.matmul(power.transpose(1, 2), self.filters).clamp(min=1e-5))


class Transforms(nn.Module):
    def forward(self, x):
        spectrum = torch.fft.rfft(x, dim=1)
        both = torch.fft.fft2(x)
        filtered = torch.fft.irfft(spectrum * torch.complex(x[:, :1], x[:, 1:2]), dim=1)
        return spectrum.abs(), torch.view_as_real(both), filtered, both.imag.sum()


def masked(batch, time):
    lengths = torch.arange(time - batch + 1, time + 1).unsqueeze(1)
    return torch.randn(batch, time, 8), torch.arange(time).unsqueeze(0) >= lengths


class Keyed(nn.Module):
    def forward(self, x) -> dict[str, Tensor]:
        parts: dict[str, Tensor] = {}
        for i, name in enumerate(["a", "b", "c"]):
            parts[name] = x * i
        again = dict([("d", x), ("e", x.relu())])  # noqa: C406
        for name, part in parts.items():
            again[name] = part + 1
        return again


def rows(*sizes, width=4):
    return [(torch.randn(size, width),) for size in sizes]


torch.manual_seed(0)  # the same weights and inputs in every run

BATCH = [{0: "batch"}]
# Name -> module, inputs, dynamic shapes.
PROGRAMS = {
    "article": (Article(), rows(3, 1, 7, width=10), BATCH),
    "branch": (Branch(), [(torch.ones(2, 4),), (-torch.ones(3, 4),)], BATCH),
    "nested branch": (
        NestedBranch(),
        [(torch.ones(2, 4),), (-torch.ones(3, 4),), (torch.ones(3, 4) * 3,)],
        BATCH,
    ),
    "branch on size": (BranchOnSize(), rows(2, 5), BATCH),
    "asserts": (Asserts(), rows(2, 5), BATCH),
    "writes in branch": (WritesInBranch(), [(torch.ones(2, 4),), (-torch.ones(3, 4),)], BATCH),
    "counted loop": (CountedLoop(), rows(2, 5), BATCH),
    "unrolled loop": (UnrolledLoop(), rows(2, 5), BATCH),
    "loop over size": (LoopOverSize(), rows(2, 5), BATCH),
    "appends": (Appends(), rows(2, 5), BATCH),
    "appends sometimes": (AppendsSometimes(), rows(3, 6), BATCH),
    "concatenates": (Concatenates(), rows(2, 4), BATCH),
    "grows tensor": (GrowsTensor(), rows(2, 4), BATCH),
    "while": (While(), [(torch.randn(2, 4) * 50,), (torch.randn(3, 4) * 0.1,)], BATCH),
    "breaks": (Breaks(), [(torch.randn(9, 4) * 2,), (torch.randn(2, 4),)], BATCH),
    "counts until break": (
        CountsUntilBreak(),
        [(torch.linspace(-1, 1, 12).reshape(3, 4) * scale,) for scale in (0.5, 1, 1.4, 2, 5)],
        BATCH,
    ),
    "returns from loop": (ReturnsFromLoop(), rows(5, 2), BATCH),
    "nested loops": (NestedLoops(), rows(3, 2), [{0: "batch", 1: "width"}]),
    "carries integer": (CarriesInteger(), rows(3, 6), BATCH),
    "carries float": (CarriesFloat(), rows(3, 6), BATCH),
    "loop over tensor": (LoopOverTensor(), rows(3, 6), BATCH),
    "loop over list": (
        LoopOverList(),
        [(torch.randn(2, 3), torch.randn(2, 3)), (torch.randn(4, 3), torch.randn(4, 3))],
        [{0: "batch"}, {0: "batch"}],
    ),
    "modules": (Modules(), rows(2, 5), BATCH),
    "recurrent": (
        Recurrent(),
        [(torch.randn(5, 2, 4),), (torch.randn(3, 1, 4),)],
        [{0: "time", 1: "batch"}],
    ),
    "structures": (
        Structures(),
        [
            (torch.randn(2, 3), (torch.randn(3), torch.randn(3)), 2.0),
            (torch.randn(4, 3), (torch.randn(3), torch.randn(3)), 2.0),
        ],
        [{0: "batch"}, None, None],
    ),
    "optional": (
        Optional(),
        [(torch.randn(2, 3), None, True), (torch.randn(4, 3), None, True)],
        [{0: "batch"}, None, None],
    ),
    "state": (State(), rows(2, 5, width=3), BATCH),
    "sizes": (Sizes(), [(torch.randn(2, 6),), (torch.randn(5, 4),)], [{0: "b", 1: "2*half"}]),
    "item": (Item(), rows(2, 3), BATCH),
    "windows": (Windows(), rows(6, 5, 1), BATCH),
    "views in loop": (ViewsInLoop(), rows(3, 5), BATCH),
    "pops and slices": (PopsAndSlices(), rows(3, 5), BATCH),
    "reads list": (ReadsList(), rows(3, 5), BATCH),
    "early return": (
        EarlyReturn(),
        [(torch.ones(2, 4) * 0.1,), (torch.ones(3, 4),), (torch.ones(9, 40),)],
        [{0: "batch", 1: "width"}],
    ),
    "reverse": (Reverse(), rows(3, 5), BATCH),
    "optional by data": (
        OptionalByData(),
        [(torch.ones(2, 4),), (-torch.ones(3, 4),)],
        BATCH,
    ),
    "optional state": (
        OptionalState(),
        [*rows(3, 6, 1), (-torch.ones(2, 4),)],
        BATCH,
    ),
    "optional attribute": (OptionalAttribute(), rows(3, 5), BATCH),
    "chooses by data": (
        ChoosesByData(),
        [(torch.ones(3, 4),), (-torch.ones(2, 4),)],
        BATCH,
    ),
    "nothing left": (NothingLeft(), rows(5, 9), BATCH),
    "grows numbers": (GrowsNumbers(), [*rows(4, 7), (-torch.ones(3, 4),)], BATCH),
    "ragged": (Ragged(), rows(4, 6, width=5), BATCH),
    "ragged sometimes": (RaggedSometimes(), [*rows(4, 6), (-torch.ones(2, 4),)], BATCH),
    "ragged rows": (RaggedRows(), rows(4, 6), BATCH),
    "grows pairs": (GrowsPairs(), [*rows(4, 6), (-torch.ones(2, 4),)], BATCH),
    "suppresses": (Suppresses(), [boxes(6, 0), boxes(12, 1)], [{0: "n"}, {0: "n"}]),
    "searches beams": (SearchesBeams(), rows(2, 3, width=8), BATCH),
    "attends": (
        Attends(),
        [masked(2, 5), masked(3, 7)],
        [{0: "batch", 1: "time"}, {0: "batch", 1: "time"}],
    ),
    "spectrogram": (
        Spectrogram(),
        [(torch.randn(2, 400),), (torch.randn(1, 600),)],
        [{0: "batch", 1: "time"}],
    ),
    "transforms": (Transforms(), rows(2, 5, width=8), BATCH),
    "keyed": (Keyed(), rows(2, 5), BATCH),
}
