"""Numbers: sizes, data-dependent integers and floats, and arithmetic with them."""

from __future__ import annotations

import torch

from storm.families.registry import assign, family
from storm.maker import Maker, NothingError


@family(2)
def size(maker: Maker) -> bool:
    name = maker.tensor(lambda x: x.dim() > 0)
    axis = maker.dim(name)
    return assign(
        maker,
        maker.pick(
            f"{name}.size({axis})", f"{name}.shape[{axis}]", f"{name}.numel()", f"len({name})"
        ),
        "i",
    )


@family(2)
def arithmetic(maker: Maker) -> bool:
    names = maker.integers()
    if not names:
        raise NothingError
    one = maker.random.choice(names)
    other = maker.pick(*names, "2", "3", "-2", "1")
    return assign(
        maker,
        maker.pick(
            f"{one} + {other}",
            f"{one} - {other}",
            f"{one} * {other}",
            f"{one} // {other}",
            f"{one} % {other}",
            f"max({one}, {other})",
            f"min({one}, {other})",
            f"abs({one} - {other})",
            f"-{one}",
            f"({one} + 1) // 2",
            f"{one} // -2",
            f"({one} + {other}) % 3",
        ),
        "i",
    )


@family(1.5, flavors=("fx", "scripted"))
def item(maker: Maker) -> bool:
    """A data-dependent integer, sometimes with the checks that torch.export requires."""
    name = maker.integral()
    rank = maker.value(name).dim()
    element = name if rank == 0 else maker.pick(f"{name}.max()", f"{name}.min()", f"{name}.sum()")
    fresh = maker.fresh("i")
    value = f"{element}.item()"
    if maker.flavor == "scripted" or maker.chance(0.2):
        value = f"int({element})"
    bounded = maker.random.random()
    if bounded < 0.3 and all(space[name].numel() for space in maker.values):
        low = min(eval(value, dict(space)) for space in maker.values)
        check = f"\ntorch._check({fresh} >= {min(low, maker.pick(0, 1, -10))})"
        check += f"\ntorch._check({fresh} <= 20)" if maker.chance(0.5) else ""
        if maker.flavor == "fx":
            value += check
    return maker.add(f"{fresh} = {value}", fresh)


@family(1, flavors=("fx", "scripted"))
def float_item(maker: Maker) -> bool:
    name = maker.floating()
    rank = maker.value(name).dim()
    element = name if rank == 0 else maker.pick(f"{name}.max()", f"{name}.mean()", f"{name}.sum()")
    fresh = maker.fresh("f")
    value = f"float({element})" if maker.flavor == "scripted" else f"{element}.item()"
    return maker.add(f"{fresh} = {value}", fresh)


@family(3)
def used(maker: Maker) -> bool:
    """A number used as a scalar argument, an index or a size."""
    numbers = maker.numbers()
    if not numbers:
        raise NothingError
    number = maker.random.choice(numbers)
    name = maker.tensor()
    if isinstance(maker.value(number), float):
        return assign(
            maker,
            maker.pick(
                f"{name} * {number}",
                f"torch.add({name}, {name}, alpha={number})",
                f"F.leaky_relu({name}, {number})",
                f"{name}.clamp(max={number})",
                f"torch.full_like({name}, {number})",
                f"torch.lerp({name}, {name} * 2, {number})",
                f"F.elu({name}, alpha={number})",
                f"F.threshold({name}, {number}, 0.0)",
                f"torch.full((2, 2), {number})",
            ),
        )
    axis = maker.dim(name)
    return assign(
        maker,
        maker.pick(
            f"{name} * {number}",
            f"{name} // {number}",
            f"{name} % {number}",
            f"{name} + {number} * 0.5",
            f"{name} / {number}",
            f"torch.full(({number},), 2.0)",
            f"torch.zeros({number}, 2)",
            f"torch.arange({number})",
            f"torch.arange({number}, {number} + 3)",
            f"{name}[{number}]",
            f"{name}[..., {number}]",
            f"{name}[:{number}]",
            f"{name}[{number}:]",
            f"{name}.narrow({axis}, 0, {number})",
            f"torch.roll({name}, {number}, {axis})",
            f"{name}.select({axis}, {number})",
            f"torch.triu({name}, {number})",
            f"torch.diagonal({name}, {number})",
            f"torch.clamp({name}, min={number})",
            f"F.pad({name}, ({number}, 1))",
            f"torch.tensor({number}) + {name}",
            f"torch.full_like({name}, {number})",
            f"{name}.repeat_interleave({number}, dim={axis})",
            f"torch.add({name}, {name}, alpha={number})",
            f"torch.topk({name}, {number}, dim={axis})[0]",
            f"({name} == {number})",
            f"{name}.expand({number}, {', '.join(['-1'] * maker.value(name).dim())})",
            f"{name}.reshape({number}, -1)",
        ),
    )


@family(0.5, flavors=("fx", "scripted"))
def sum_of_mask(maker: Maker) -> bool:
    """The number of elements that satisfy a condition."""
    name = maker.tensor(lambda x: x.dtype is torch.bool)
    fresh = maker.fresh("i")
    value = f"int({name}.sum())" if maker.flavor == "scripted" else f"{name}.sum().item()"
    return maker.add(f"{fresh} = {value}", fresh)
