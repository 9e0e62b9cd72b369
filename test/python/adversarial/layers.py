"""Layers in the style of published models: position tables, caches, windows, masks, routers."""

# mypy: ignore-errors

from __future__ import annotations

import collections
import functools
import math
import weakref
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from adversarial.program import Table

Tensor = torch.Tensor
PROGRAMS = Table()
program, aside, module = PROGRAMS.program, PROGRAMS.aside, PROGRAMS.module


# Positions.


@module(aside=True)
class SinusoidsCachedByShape(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.shape = None
        self.table = None

    def forward(self, x: Tensor) -> Any:
        if self.shape != x.shape[1:]:
            self.shape = x.shape[1:]
            position = torch.arange(x.size(1)).unsqueeze(1)
            scale = torch.exp(torch.arange(0, 4, 2) * (-math.log(1e4) / 4))
            self.table = torch.zeros(x.size(1), 4)
            self.table[:, 0::2] = torch.sin(position * scale)
            self.table[:, 1::2] = torch.cos(position * scale)
        return x + self.table


@module(aside=True)
class RotaryWithASeenLength(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("inverse", 1.0 / 10 ** (torch.arange(0, 4, 2).float() / 4))
        self.seen = 0

    def forward(self, x: Tensor) -> Any:
        n = x.shape[-2]
        if n > self.seen:
            self.seen = n
            angles = torch.outer(torch.arange(n).float(), self.inverse)
            self.register_buffer("cosine", angles.cos().repeat(1, 2), persistent=False)
        a, b = x.chunk(2, dim=-1)
        return x * self.cosine[:n] + torch.cat((-b, a), dim=-1)


@module
class AlibiSlopes(nn.Module):
    def forward(self, x: Tensor) -> Any:
        n = x.shape[1]
        slopes = torch.tensor([2 ** (-8 * (i + 1) / 4) for i in range(4)])
        distance = torch.arange(n)[None, :] - torch.arange(n)[:, None]
        bias = slopes[:, None, None] * distance.abs().neg()
        scores = torch.einsum("bnc,bmc->bnm", x, x).unsqueeze(1) / math.sqrt(x.shape[-1])
        return (scores + bias).softmax(-1)


@module
class RelativeBuckets(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.bias = nn.Embedding(8, 2)

    def forward(self, x: Tensor) -> Any:
        q, k = x.size(1), x.size(1)
        relative = torch.arange(k)[None] - torch.arange(q)[:, None]
        buckets = (relative > 0).long() * 4
        relative = relative.abs()
        large = 2 + (torch.log(relative.float() / 2 + 1e-6) / math.log(8) * 2).long()
        large = torch.min(large, torch.full_like(large, 3))
        buckets += torch.where(relative < 2, relative, large.clamp(min=0))
        return self.bias(buckets).permute(2, 0, 1)[None] + x.mean()


@module
class RelativeShift(nn.Module):
    def forward(self, x: Tensor) -> Any:
        b, n, _ = x.shape
        scores = x @ x.transpose(1, 2)
        padded = torch.cat([scores.new_zeros(b, n, 1), scores], dim=-1)
        return padded.view(b, n + 1, n)[:, 1:].view_as(scores)


@functools.lru_cache(maxsize=4)
def lru_positions(n: int, width: int) -> Tensor:
    return torch.linspace(-1, 1, n)[:, None].expand(n, width)


@aside
def positions_from_an_lru_cache(x: Tensor) -> Any:
    return x + lru_positions(x.shape[1], x.shape[2])


@module
class ResizedPositions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.table = nn.Parameter(torch.randn(1, 6, 4))

    def forward(self, x: Tensor) -> Any:
        n = x.shape[1]
        if n == self.table.shape[1] and x.shape[0] == 3:
            return x + self.table
        table = F.interpolate(self.table.transpose(1, 2), size=n, mode="linear")
        return x + table.transpose(1, 2)


@module
class OffsetPositions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.table = nn.Embedding(32, 4, padding_idx=1)

    def forward(self, x: Tensor) -> Any:
        mask = (x[..., 0] > 0).int()
        positions = (torch.cumsum(mask, dim=1).type_as(mask) + 0) * mask
        return x + self.table(positions.long() + 1)


# Masks.


@program
def causal_mask_from_fill(x: Tensor) -> Any:
    n = x.shape[1]
    mask = torch.full((n, n), torch.finfo(x.dtype).min)
    condition = torch.arange(mask.size(-1))
    mask.masked_fill_(condition < (condition + 1).view(mask.size(-1), 1), 0)
    scores = x @ x.mT
    return (scores + mask[None].expand(x.shape[0], n, n)).softmax(-1)


@program
def mask_of_lengths(x: Tensor) -> Any:
    lengths = (x[..., 0] > 0).sum(1)
    mask = (
        torch.arange(x.size(1), device=x.device).expand(len(lengths), x.size(1)) < lengths[:, None]
    )
    return x.masked_fill(~mask[..., None], 0.0).sum(1) / lengths.clamp(min=1)[:, None]


@program
def triangle_with_an_offset(x: Tensor) -> Any:
    n = x.shape[1]
    return (x @ x.mT) * torch.ones(n, n + 2, dtype=torch.bool).tril(diagonal=2)[:, 2:]


@module
class MaskBuffer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mask", torch.ones(16, 16).tril().view(1, 16, 16), persistent=False)

    def forward(self, x: Tensor) -> Any:
        T = x.size(1)
        scores = (x @ x.transpose(-2, -1)).masked_fill(self.mask[:, :T, :T] == 0, float("-inf"))
        return scores.softmax(-1) @ x


# Windows and patches.


@program
def windows_with_padding(x: Tensor) -> Any:
    b, n, c = x.shape
    pad = (4 - n % 4) % 4
    y = F.pad(x, (0, 0, 0, pad)).view(b, -1, 4, c)
    y = y + y.mean(2, keepdim=True)
    return y.reshape(b, n + pad, c)[:, :n]


@program
def windows_shifted(x: Tensor) -> Any:
    n = x.shape[1]
    shift = min(2, n // 2)
    y = torch.roll(x, shifts=-shift, dims=1).cumsum(1)
    return torch.roll(y, shifts=shift, dims=1)


@program
def padded_only_where_needed(x: Tensor) -> Any:
    pad = -x.shape[1] % 3
    if pad > 0:
        x = F.pad(x, (0, 0, 0, pad))
    return x.unflatten(1, (-1, 3)).amax(2)


@program
def same_padding(x: Tensor) -> Any:
    y = x.transpose(1, 2)
    n = y.shape[-1]
    total = max((math.ceil(n / 2) - 1) * 2 + 3 - n, 0)
    y = F.pad(y, (total // 2, total - total // 2))
    return F.avg_pool1d(y, 3, 2)


@program
def unfolded_blocks(x: Tensor) -> Any:
    y = F.pad(x, (0, 0, 2, 2))
    return y.unfold(1, 5, 1).mean(-1)


@program
def overlapping_blocks(x: Tensor) -> Any:
    y = F.unfold(F.pad(x, (0, 0, 1, 1)).unsqueeze(1), (3, 4))
    return F.fold(y, (x.shape[1] + 2, 4), (3, 4))[:, 0, 1:-1]


@program
def pixel_shuffle_by_hand(x: Tensor) -> Any:
    b, n, c = x.shape
    y = x.reshape(b, n, 2, c // 2).permute(0, 2, 1, 3)
    return y.contiguous().view(b, 2 * n, -1)


@aside
def adaptive_pool_to_half(x: Tensor) -> Any:
    return F.adaptive_avg_pool1d(x.mT, max(1, x.shape[1] // 2))


@aside
def pool_over_everything(x: Tensor) -> Any:
    return F.avg_pool1d(x.mT, kernel_size=x.size(1))


@aside
def unfold_by_a_size(x: Tensor) -> Any:
    return x.unfold(1, (x.size(1) + 1) // 2, 1).sum(-1)


@aside
def diagonal_near_the_end(x: Tensor) -> Any:
    y = x @ x.mT
    return y.diagonal(offset=x.shape[1] - 1, dim1=1, dim2=2)


# Sizes kept, compared and computed.


@module
class ShapeKeptOnSelf(nn.Module):
    def forward(self, x: Tensor) -> Any:
        self.h, self.w = x.shape[1:]
        return self.restore(x.flatten(1) * 2)

    def restore(self, y: Tensor) -> Tensor:
        return y.view(-1, self.h, self.w) + self.h


@program
def arithmetic_of_size_objects(x: Tensor) -> Any:
    lead = x.shape[:-1] + torch.Size([2, x.shape[-1] // 2])
    return x.reshape(lead), x.new_ones(lead[:1] + x.shape[1:2]), math.prod(lead)


@program
def elements_per_row(x: Tensor) -> Any:
    return x.reshape(x.numel() // x.size(-1), -1) / (x.numel() // x.shape[0])


@program
def tensor_of_two_sizes(x: Tensor) -> Any:
    b, n, _ = x.shape
    scale = torch.tensor([n, b], dtype=x.dtype)
    return x[..., :2] / scale, torch.as_tensor([b, n]), x.new_tensor([n, 1, b, 2])


@program
def error_with_sizes(x: Tensor) -> Any:
    if x.shape[-1] % 2 != 0:
        raise ValueError(f"{x.shape[-1]} channels of {tuple(x.shape)} cannot be divided")
    if x.ndim != 3 or x.shape[0] < 1:
        raise ValueError(f"wrong input {x.size()}")
    torch._check(x.shape[1] >= 1, lambda: f"too short: {x.shape[1]}")
    return x * 2


@program
def checked_attention_size(x: Tensor) -> Any:
    b, n, c = x.size()
    weights = torch.bmm(x, x.transpose(1, 2))
    if weights.size() != (b, n, n):
        raise ValueError(
            f"Attention weights should be of size {(b, n, n)}, but is {weights.size()}"
        )
    out = torch.bmm(weights, x)
    assert list(out.size()) == [b, n, c], f"{out.shape}"
    return out


@program
def default_by_isinstance(x: Tensor) -> Any:
    size = x.shape[1]
    size = (size, size) if isinstance(size, int) else size
    if not all(isinstance(s, (int, torch.SymInt)) for s in size):
        raise TypeError("sizes")
    return torch.zeros(*size) + x.mean()


@aside
def sizes_grouped_in_a_dictionary(x: Tensor) -> Any:
    groups = collections.defaultdict(list)
    for piece in (x, x[:, :1], x[:, 1:], x * 2):
        groups[piece.shape[1]].append(piece)
    return [torch.cat(group) for group in groups.values()]


@program
def scale_by_log_of_length(x: Tensor) -> Any:
    return x * max(1.0, math.log(x.shape[1], 512)) * x.shape[-1] ** -0.5


@program
def capacity_of_experts(x: Tensor) -> Any:
    tokens = x.flatten(0, 1)
    capacity = max(int(1.25 * tokens.shape[0] / 2), 1)
    scores, chosen = tokens[:, :2].softmax(-1).max(-1)
    hot = F.one_hot(chosen, 2)
    place = (hot.cumsum(0) * hot).sum(-1)
    return tokens * (scores * (place <= capacity))[:, None]


# Containers, caches and modules.


class Pair(NamedTuple):
    first: Tensor
    second: Tensor | None = None


@dataclass
class Output:
    hidden: Tensor
    pair: Pair | None = None


@program
def nested_containers(x: Tensor) -> Any:
    made = Output(hidden=x * 2, pair=Pair(first=x + 1))
    return {"hidden": made.hidden, "pair": made.pair, "rest": [made.pair.first, (x - 1,)]}


class Cache:
    def __init__(self) -> None:
        self.keys: list[Tensor] = []

    def update(self, key: Tensor, layer: int) -> Tensor:
        if len(self.keys) <= layer:
            self.keys.append(key)
        else:
            self.keys[layer] = torch.cat([self.keys[layer], key], dim=1)
        return self.keys[layer]

    def __len__(self) -> int:
        return self.keys[0].shape[1] if self.keys else 0


@program
def cache_of_keys(x: Tensor) -> Any:
    cache = Cache()
    for step in range(4):
        past = cache.keys[0].shape[1] if cache.keys else 0
        x = cache.update(x, step % 2).mean(1, keepdim=True) + x + past
    return x, cache.keys[0], cache.keys[1]


@aside
def length_of_a_cache(x: Tensor) -> Any:
    cache = Cache()
    cache.update(x, 0)
    return x + len(cache)


@module
class StepBuffer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("keys", torch.zeros(8, 16, 4))

    def forward(self, x: Tensor) -> Any:
        b, n, _ = x.shape
        self.keys[:b, :n] = x
        view = self.keys[:b]
        view[:, -1].add_(1)
        return self.keys[:b, : n + 1], view.sum(1)


@module(aside=True)
class HookedFeatures(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.Sequential(nn.Linear(4, 4), nn.GELU(), nn.Linear(4, 4))
        self.features: dict[str, Tensor] = {}
        owner = weakref.ref(self)
        for name, layer in self.layers.named_children():
            layer.register_forward_hook(
                lambda _m, _i, out, name=name: owner().features.__setitem__(name, out)
            )

    def forward(self, x: Tensor) -> Any:
        out = self.layers(x)
        return out, self.features["0"] * 2, self.features["1"]


@module(aside=True)
class LayerDropped(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))

    def forward(self, x: Tensor) -> Any:
        removed = self.layers[1]
        try:
            del self.layers[1]
            for layer in self.layers:
                x = layer(x)
        finally:
            self.layers.insert(1, removed)
        return x, len(self.layers)


@module
class InitializedOnce(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("ready", torch.tensor(True))
        self.register_buffer("levels", torch.tensor([3, 4]))

    def forward(self, x: Tensor) -> Any:
        if not self.ready:
            return x
        scale = float(self.levels[0]) + int(self.levels[1])
        for level in self.levels.tolist():
            x = x + level
        return x * scale * self.levels.numpy().sum()


@module(aside=True)
class SwappedDtype(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.router = nn.Linear(4, 2)
        self.kept = torch.float32

    def forward(self, x: Tensor) -> Any:
        self.kept = x.dtype
        self.router = self.router.to(torch.float64)
        return self.router(x.to(torch.float64)).softmax(-1).to(self.kept)


@module
class DelegatingForward(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.inner = nn.Linear(4, 4)

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self.inner, name)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.inner(*args, **kwargs) * self.in_features


class Wrapped(nn.Parameter):
    pass


@module
class ParameterSubclass(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = Wrapped(torch.eye(4) * 2)

    def forward(self, x: Tensor) -> Any:
        return F.linear(x, self.weight) + (2 if isinstance(self.weight, Wrapped) else 1)


class Lazy:
    """An object with tensor operators, as lazily scaled weights have."""

    def __init__(self, value: Tensor, scale: float) -> None:
        self.value, self.scale = value, scale

    @classmethod
    def __torch_function__(
        cls, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        def plain(a: Any) -> Any:
            return a.value * a.scale if isinstance(a, cls) else a

        return function(*map(plain, args), **{k: plain(v) for k, v in (kwargs or {}).items()})


@program
def object_with_torch_functions(x: Tensor) -> Any:
    return torch.matmul(x, Lazy(torch.eye(4), x.shape[1])) + torch.add(x, Lazy(x, 3.0))


# Numbers, numpy and constants between operators.


@program
def numpy_table(x: Tensor) -> Any:
    table = np.sin(np.arange(8, dtype=np.float32)[:, None] * np.ones((1, 4), np.float32))
    return x + torch.from_numpy(table)[torch.arange(x.shape[1]) % 8]


@aside
def numpy_table_of_a_size(x: Tensor) -> Any:
    return x + torch.from_numpy(np.triu(np.ones((x.shape[1], 4), np.float32), k=1))


@program
def quantized_by_hand(x: Tensor) -> Any:
    n = 2 ** (8 - 1) - 1
    scale = torch.clamp(x.abs().amax(dim=(1, 2), keepdim=True), min=1e-8) / n
    return torch.clamp(torch.round(x / scale), -n - 1, n - 1) * scale


@program
def count_of_selected(x: Tensor) -> Any:
    chosen = x[x[..., 0] > -10]
    return chosen.shape[0] * x, chosen.sum(0) / max(1, chosen.shape[0])


@program
def lists_extended_by_sizes(x: Tensor) -> Any:
    sizes = [*x.shape[:2]]
    sizes += [sizes[0] + sizes[1]]
    sizes.insert(0, 1)
    return torch.ones(sizes) * x.mean(), sum(sizes), max(*sizes[1:3])


@aside
def try_a_view_first(x: Tensor) -> Any:
    y = x.transpose(0, 1)
    try:
        flat = y.view(-1, 4)
    except RuntimeError:
        flat = y.reshape(-1, 4) + 1
    return flat


@program
def stacked_lags(x: Tensor) -> Any:
    n = x.shape[1]
    lags = [F.pad(x, (0, 0, lag, 0))[:, :n] for lag in range(3)]
    return torch.stack(lags, dim=-1).flatten(2)


@program
def negative_sizes_of_a_crop(x: Tensor) -> Any:
    extra = x.shape[1] - 4
    start = max(extra // 2, 0)
    return x[:, start : start + 4].sum(1), F.pad(x, (0, 0, 0, -extra))


@program
def mesh_of_coordinates(x: Tensor) -> Any:
    b, n, c = x.shape
    y, z = torch.meshgrid(torch.linspace(0, 1, n), torch.arange(c) / c, indexing="ij")
    grid = torch.stack([z, y], -1)[None].expand(b, -1, -1, -1) * 2 - 1
    return F.grid_sample(x[:, None], grid, align_corners=False)[:, 0]


@program
def input_written_through_a_view(x: Tensor) -> Any:
    x[:, 0].mul_(3)
    rows = x.view(-1, x.shape[-1])
    rows[-1] += x.shape[1]
    return rows.sum(0), x


@program
def vmapped_scores(x: Tensor) -> Any:
    weight = torch.linspace(0, 1, 4)
    return torch.vmap(lambda row: (row * weight).sum(-1) / row.shape[0])(x)


@program
def partial_norm(x: Tensor) -> Any:
    norm = functools.partial(F.layer_norm, normalized_shape=x.shape[-1:])
    return functools.reduce(lambda y, f: f(y), [norm, torch.tanh, norm], x)


@aside
def gradient_in_forward(x: Tensor) -> Any:
    return torch.func.grad(lambda y: (y**2).sum())(x)


@aside
def product_with_a_jacobian(x: Tensor) -> Any:
    out, back = torch.func.vjp(torch.tanh, x)
    return back(out)[0]


@aside
def determinants(x: Tensor) -> Any:
    return torch.linalg.det(x.mT @ x + torch.eye(4))


@aside
def spectrum_and_back(x: Tensor) -> Any:
    y = torch.stft(
        x.flatten(1).repeat(1, 8), 8, 4, window=torch.hann_window(8), return_complex=True
    )
    return torch.istft(y, 8, 4, window=torch.hann_window(8))


@aside
def resized_output(x: Tensor) -> Any:
    out = x.new_empty(0)
    return torch.add(x, 1, out=out) * 2


@aside
def vandermonde(x: Tensor) -> Any:
    return torch.vander(x[0, :, 0], x.shape[1])
