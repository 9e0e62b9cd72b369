"""Indexing of all kinds, gather, scatter, and data-dependent shapes."""

from __future__ import annotations

import torch

from storm.families.registry import assign, family
from storm.maker import Maker, NothingError


def index_tensor(maker: Maker, size: int) -> str:
    """Returns an expression for a tensor of indices below a size, some of them negative."""
    if size < 1:
        raise NothingError
    roll = maker.random.random()
    if roll < 0.5:
        count = maker.pick(1, 2, 3)
        numbers = [maker.random.randrange(-size, size) for _ in range(count)]
        if maker.chance(0.2):
            return f"torch.tensor([{numbers}, {numbers[::-1]}])"
        return f"torch.tensor({numbers})"
    name = maker.tensor(lambda x: x.dtype is torch.int64 and x.dim() < 3)
    return maker.pick(
        f"{name}.remainder({size})", f"{name} % {size}", f"{name}.clamp({-size}, {size - 1})"
    )


def slice_text(maker: Maker) -> str:
    """Returns a slice, with negative starts, symbolic ends and steps."""
    integer = maker.pick(*maker.integers(), 1, 2)
    start = maker.pick("", "", "1", "-2", "-1", "0", f"{integer}", f"-{integer}")
    stop = maker.pick("", "", "2", "-1", "3", "100", f"{integer}", f"{integer} - 1")
    step = maker.pick("", "", "", ":2", ":3")
    return f"{start}:{stop}{step}"


def index_item(maker: Maker, name: str, axis: int) -> str:
    """Returns an index for one axis."""
    size = maker.least(name, axis)
    roll = maker.random.random()
    if roll < 0.45:
        return slice_text(maker)
    if roll < 0.65 and size:
        return str(maker.random.randrange(-size, size))
    if roll < 0.72:
        return maker.pick("0", "-1", *maker.integers())
    if roll < 0.9:
        return index_tensor(maker, size)
    return ":"


def index_text(maker: Maker, name: str) -> str:
    """Returns an index for a tensor, without brackets."""
    rank = maker.value(name).dim()
    items = [index_item(maker, name, axis) for axis in range(rank)]
    items = items[: maker.random.randrange(rank + 1)] if maker.chance(0.4) else items
    if maker.chance(0.2):
        place = maker.random.randrange(len(items) + 1)
        items[place:] = ["...", *items[place:][maker.pick(0, 1) :]]
    if maker.chance(0.2):
        items.insert(maker.random.randrange(len(items) + 1), "None")
    text = ", ".join(items)
    return ":" if text in ("", "...") and maker.flavor != "fx" else text or "..."


@family(6)
def get_item(maker: Maker) -> bool:
    name = maker.tensor()
    return assign(maker, f"{name}[{index_text(maker, name)}]")


def mask_of(maker: Maker, name: str) -> str:
    """Returns a mask over a tensor or over its first axes."""
    if maker.chance(0.4):
        return maker.tensor(lambda x: x.dtype is torch.bool and x.dim() > 0)
    real = maker.value(name)
    if real.dtype is torch.bool:
        return name
    condition = f"{name} {maker.pick('>', '<', '>=')} {maker.number(real.dtype)}"
    if real.dim() > 1 and maker.chance(0.3):
        return f"({condition}){maker.pick('[:, 0]', '.any(-1)', '[..., 0]')}"
    return condition


@family(2)
def masked(maker: Maker) -> bool:
    name = maker.real()
    mask = mask_of(maker, name)
    return assign(
        maker,
        maker.pick(
            f"{name}[{mask}]",
            f"{name}[{mask}]",
            f"torch.masked_select({name}, {mask})",
            f"{name}[:, {mask}]",
            f"{name}[{mask}].sum()",
        ),
    )


@family(1)
def found(maker: Maker) -> bool:
    name = maker.tensor()
    return assign(
        maker,
        maker.pick(
            f"torch.nonzero({name})",
            f"{name}.nonzero()",
            f"torch.where({mask_of(maker, name)})[0]",
            f"torch.unique({name})",
            f"torch.unique({name}, return_counts=True)[1]",
            f"torch.argwhere({name})",
            f"torch.unique_consecutive({name})",
            f"{name}.nonzero().size(0)",
        ),
    )


@family(3)
def gathered(maker: Maker) -> bool:
    name = maker.tensor()
    axis = maker.dim(name)
    size = maker.least(name, axis)
    index = index_tensor(maker, size)
    rank = maker.value(name).dim()
    like = maker.tensor(lambda x: x.dim() == rank and not x.is_complex())
    return assign(
        maker,
        maker.pick(
            f"torch.index_select({name}, {axis}, {index})",
            f"torch.gather({name}, {axis}, {like}.long().remainder({max(size, 1)}))",
            f"torch.take_along_dim({name}, {like}.long().remainder({max(size, 1)}), dim={axis})",
            f"torch.take({name}, {index})",
            f"F.embedding({index}, {name})",
            f"torch.gather({name}, {axis}, torch.zeros_like({name}, dtype=torch.int64))",
        ),
    )


@family(2)
def scattered(maker: Maker) -> bool:
    name = maker.tensor()
    axis = maker.dim(name)
    size = max(maker.least(name, axis), 1)
    rank = maker.value(name).dim()
    dtype = maker.value(name).dtype
    source = maker.tensor(lambda x: x.dim() == rank and x.dtype == dtype)
    index = f"({source} != 0).long().remainder({size})"
    how = maker.pick("'sum'", "'prod'", "'amax'", "'amin'", "'mean'")
    inclusive = maker.pick("", ", include_self=False")
    row = index_tensor(maker, size)
    return assign(
        maker,
        maker.pick(
            f"torch.scatter_add({name}, {axis}, {index}, {source})",
            f"torch.scatter({name}, {axis}, torch.zeros_like({source}[:1], dtype=torch.int64), "
            f"{maker.number(dtype)})",
            f"torch.scatter_reduce({name}, {axis}, {index}, {source}, {how}{inclusive})",
            f"torch.index_add({name}, {axis}, {row}, {source})",
            f"torch.index_fill({name}, {axis}, {row}, {maker.number(dtype)})",
            f"torch.index_copy({name}, {axis}, torch.tensor([0]), {source})",
            f"torch.select_scatter({name}, {source}.select({axis}, 0), {axis}, -1)",
            f"torch.slice_scatter({name}, {source}, {axis}, 0)",
            f"torch.masked_scatter({name}, {name} != 0, {source})",
        ),
    )
