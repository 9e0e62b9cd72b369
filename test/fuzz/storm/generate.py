"""A random program from a seed."""

from __future__ import annotations

import warnings

import torch

from storm.families import FAMILIES
from storm.maker import DTYPES, Maker, NothingError
from storm.program import Input, Program

OPSETS = (12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26)
ROUTES_OF = {
    "any": ("fx", "pt2", "traced", "scripted"),
    "fx": ("fx", "pt2"),
    "scripted": ("scripted",),
}
SIZES = (1, 2, 3, 4, 5, 7)


def generate(seed: int, flavor: str | None = None, newest: int = 26) -> Program:
    """The program of a seed; the same seed gives the same program."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _generate(seed, flavor, newest)


def _generate(seed: int, flavor: str | None, newest: int) -> Program:
    maker = Maker(seed, "")
    random = maker.random
    maker.flavor = flavor or random.choices(("any", "fx", "scripted"), (5, 3, 2))[0]
    _make_inputs(maker)
    maker.start()
    wanted = random.choice((3, 4, 5, 6, 7, 8, 10, 12, 15, 20, 28, 40))
    families = [each for each in FAMILIES if maker.flavor in each.flavors]
    weights = [each.weight * random.choice((0.3, 1, 1, 2)) for each in families]
    misses = 0
    while len(maker.body) < wanted and misses < 25 * wanted:
        made = random.choices(families, weights)[0]
        try:
            done = made.make(maker)
        except (NothingError, IndexError):
            done = False
        misses += not done
    program = maker.program(_results(maker))
    program.routes = ROUTES_OF[maker.flavor]
    if any(each.dtype == "int" for each in program.inputs):
        program.routes = tuple(route for route in program.routes if route != "traced")
    program.opset = min(random.choice((*OPSETS, 18, 20, 20)), newest)
    program.state = random.random() < 0.5
    program.functions = random.random() < 0.15
    return program


def _make_inputs(maker: Maker) -> None:
    random = maker.random
    dims = [name for name in ("n", "m") if random.random() < 0.6]
    for name in dims:
        first = random.choice((2, 3, 4, 5))
        others = random.sample(SIZES, 2)
        for which, size in enumerate((first, *others)):
            maker.sizes[which][name] = size
    shared: list[int | str] = [*dims, *dims, random.choice((2, 3, 4)), 4, 1]
    for place in range(random.choice((1, 2, 2, 3, 3, 4))):
        rank = random.choice((0, 1, 1, 2, 2, 2, 3, 3, 4))
        shape = [random.choice(shared) for _ in range(rank)]
        dtype = "float32" if random.random() < 0.55 else random.choice((*DTYPES, "int64"))
        maker.inputs.append(Input(f"x{place}", dtype, shape))
    if random.random() < 0.25:
        low, high = random.choice(((0, 3), (-4, 4), (1, 3), (-3, -1)))
        maker.inputs.append(Input("k0", "int64", [], low, high))
    if dims and maker.flavor != "any" and random.random() < 0.1:
        low, high = random.choice(((0, 3), (-4, 4), (2, 5)))
        maker.inputs.append(Input("i0", "int", [], low, high))


def _results(maker: Maker) -> list[str]:
    """Most of the program's values: the later ones, and those that writes go to."""
    inputs = {each.name for each in maker.inputs}
    names = [name for name in maker.names if name not in inputs]
    chosen = [name for name in names[-10:] if maker.chance(0.8)] or names[-1:]
    chosen += [name for name in names[:-10] if maker.chance(0.2)]
    tensors = [name for name in chosen if isinstance(maker.value(name), torch.Tensor)]
    return tensors + [f"torch.tensor({name})" for name in chosen if name not in tensors] or [
        maker.inputs[0].name + " * 1"
    ]
