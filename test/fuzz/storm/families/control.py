"""Control flow: Python's over constants, torch's for FX, data-dependent in scripts."""

from __future__ import annotations

import torch

from storm.families.registry import family
from storm.maker import Maker, NothingError


def step_of(maker: Maker, name: str, loop: str = "") -> str:
    """Returns an expression with the shape of a tensor, and usually its dtype."""
    other = maker.alike(name)
    number = maker.number(maker.value(name).dtype)
    options = [
        *(f"{name} + {other}", f"{name} * {number}", f"{name} - {number}", f"torch.neg({name})"),
        *(f"torch.flip({name}, [0])", f"torch.where({name} > 0, {name}, {other})"),
        *(f"torch.roll({name}, 1, 0)", f"{name}.clone()", f"torch.abs({name})"),
    ]
    if maker.value(name).dtype.is_floating_point:
        options += [f"torch.sin({name})", f"F.relu({name}) + {number}", f"torch.tanh({name} * 0.5)"]
    if loop:
        options += [f"{name} + {loop}", f"{name} * 0.5 + {other} * {loop}"]
    return str(maker.random.choice(options))


def _carried(maker: Maker) -> str:
    return maker.tensor(lambda x: not x.is_complex() and x.dtype is not torch.bool)


def condition_of(maker: Maker) -> str:
    """Returns an expression for a tensor with one bool."""
    name = maker.real()
    return str(
        maker.pick(
            f"{name}.sum() > {maker.pick('0', '1', '-1')}",
            f"({name} > 0).any()",
            f"({name} >= 0).all()",
            f"{name}.float().mean() < 0.5",
        )
    )


@family(1)
def python_loop(maker: Maker) -> bool:
    """A loop over constants that writes rows or carries a value."""
    name = _carried(maker)
    fresh = maker.fresh()
    count = maker.pick(2, 3)
    step = step_of(maker, name, "k").replace(name, fresh)
    if maker.chance(0.3):
        return maker.add(
            f"{fresh} = {name}.clone()\nfor k in range({count}):\n    {fresh}[:1] += k", fresh
        )
    return maker.add(f"{fresh} = {name}\nfor k in range({count}):\n    {fresh} = {step}", fresh)


@family(1.5, flavors=("fx",))
def cond(maker: Maker) -> bool:
    name = _carried(maker)
    fresh = maker.fresh()
    yes, no = step_of(maker, name), step_of(maker, name)
    operands = sorted(
        {other for other in maker.tensors() if f"{other} " in f"{yes} {no} " or other in yes + no}
        | {name}
    )
    arguments = ", ".join(operands)
    text = (
        f"{fresh} = cond({condition_of(maker)}, lambda {arguments}: {yes}, "
        f"lambda {arguments}: {no}, ({arguments},))"
    )
    return maker.add(text, fresh)


@family(1, flavors=("fx",))
def loops(maker: Maker) -> bool:
    name = _carried(maker)
    fresh = maker.fresh()
    step = step_of(maker, name).replace(name, "v")
    others = [other for other in maker.tensors() if other in step]
    if others:
        step = f"v * {maker.number(maker.value(name).dtype)}"
    if maker.chance(0.6):
        return maker.add(
            f"_, {fresh} = while_loop(lambda k, v: k < {maker.pick(0, 2, 3)}, "
            f"lambda k, v: (k + 1, {step}), (torch.tensor(0), {name}))",
            fresh,
        )
    carried, stacked = maker.fresh(), maker.fresh()
    return maker.add(
        f"{carried}, {stacked} = scan(lambda c, v: (c + v, c * {maker.pick(1, 2)}), "
        f"{name}[0].clone(), {name}, dim=0)",
        carried,
        stacked,
    )


@family(0.5, flavors=("fx",))
def mapped(maker: Maker) -> bool:
    name = maker.tensor(lambda x: x.dim() > 1)
    fresh = maker.fresh()
    inner = maker.pick(
        "v * 2 + v.sum()", "v.cumsum(0)", "v.flip(0)", "torch.sin(v)", "v - v.amax()"
    )
    return maker.add(f"{fresh} = torch.vmap(lambda v: {inner})({name})", fresh)


@family(3, flavors=("scripted",))
def branch(maker: Maker) -> bool:
    """A branch on data, on a size or on an integer."""
    name = _carried(maker)
    fresh = maker.fresh()
    integers = maker.integers()
    condition = condition_of(maker)
    condition = f"bool({condition})"
    if integers and maker.chance(0.5):
        condition = (
            f"{maker.random.choice(integers)} {maker.pick('>', '>=', '==')} {maker.pick(0, 2, -1)}"
        )
    yes, no = step_of(maker, name), step_of(maker, name)
    form = maker.random.randrange(4)
    if form == 0:
        return maker.add(
            f"{fresh} = {name}.clone()\nif {condition}:\n    {fresh} += 1\n"
            f"else:\n    {fresh}[:1] = {maker.number(maker.value(name).dtype)}",
            fresh,
        )
    if form == 1:
        return maker.add(f"{fresh} = {name}\nif {condition}:\n    {fresh} = {yes}", fresh)
    if form == 2:
        number = maker.fresh("i")
        return maker.add(
            f"{number} = 2\nif {condition}:\n    {number} = {maker.pick('-3', '3', '0')}", number
        )
    return maker.add(f"if {condition}:\n    {fresh} = {yes}\nelse:\n    {fresh} = {no}", fresh)


@family(3, flavors=("scripted",))
def data_loop(maker: Maker) -> bool:
    """A loop whose length is a size or data-dependent."""
    name = _carried(maker)
    if not maker.value(name).dim():
        raise NothingError
    fresh = maker.fresh()
    count = maker.pick(f"{name}.size(0)", f"{name}.shape[-1]", *maker.integers())
    step = step_of(maker, name, "k").replace(name, fresh)
    form = maker.random.randrange(5)
    if form == 0:
        text = (
            f"{fresh} = {name}.clone()\nfor k in range({name}.size(0)):\n"
            f"    {fresh}[k] = {fresh}[k] * 2 + k"
        )
    elif form == 1:
        text = (
            f"{fresh} = {name} * 1\nk{fresh} = 0\nwhile k{fresh} < min({count}, 4):\n"
            f"    {fresh} = {fresh} + k{fresh}\n    k{fresh} += 1"
        )
    elif form == 2:
        each = f"{name}[k]{maker.pick(' * k', ' + 1', '')}"
        text = (
            f"l{fresh}: List[Tensor] = []\nfor k in range({name}.size(0)):\n"
            f"    l{fresh}.append({each})\n{fresh} = torch.stack(l{fresh})"
        )
    elif form == 3:
        text = (
            f"{fresh} = {name}\nfor k in range(min({count}, 5)):\n    {fresh} = {step}\n"
            f"    if bool({fresh}.sum() > 10):\n        break"
        )
    else:
        text = f"{fresh} = {name}\nfor k in range(min({count}, 5)):\n    {fresh} = {step}"
    return maker.add(text, fresh)
