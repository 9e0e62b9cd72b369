"""Generates random programs from seeds."""

from __future__ import annotations

import warnings

import torch

from storm.families import FAMILIES
from storm.maker import DTYPES, Maker, NothingError
from storm.program import Input, Pack, Program

OPSETS = (11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26)
ROUTES_OF = {
    "any": ("fx", "pt2", "decomposed", "strict", "traced", "scripted"),
    "fx": ("fx", "pt2", "decomposed", "strict"),
    "scripted": ("scripted",),
}
SHARES = {"decomposed": 0.15, "strict": 0.06}  # fraction of the programs; the others are cheaper
SIZES = (1, 2, 3, 4, 5, 7)


def generate(seed: int, flavor: str | None = None, newest: int = 26) -> Program:
    """Returns the program of a seed; the same seed gives the same program."""
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
    program.routes = tuple(
        route for route in ROUTES_OF[maker.flavor] if random.random() < SHARES.get(route, 1)
    )
    if any(each.dtype == "int" for each in program.inputs):
        program.routes = tuple(
            route for route in program.routes if route not in ("traced", "strict")
        )
    program.opset = min(random.choice((*OPSETS, 18, 20, 20)), newest)
    program.state = random.random() < 0.5
    program.functions = random.random() < 0.15
    _structure(maker, program)
    return program


def _structure(maker: Maker, program: Program) -> None:
    """Adds containers of inputs and results, and keyword arguments."""
    random = maker.random
    tensors = [each.name for each in program.inputs if each.dtype != "int"]
    if len(tensors) > 1 and maker.chance(0.2):
        first = random.randrange(len(tensors))
        names = tensors[first : first + random.choice((1, 2, 3))]
        program.packs.append(Pack(random.choice(("tuple", "list", "dict")), names))
    if maker.chance(0.15):
        program.keywords = random.choice((1, 2))
    forms = ["tuple", "list", "dict", "nested"] + (["mixed"] if maker.flavor == "fx" else [])
    if maker.chance(0.25):
        program.form = random.choice(forms)


def _make_inputs(maker: Maker) -> None:
    random = maker.random
    dims = [name for name in ("n", "m") if random.random() < 0.6]
    for name in dims:
        first = random.choice((2, 3, 4, 5))
        others = random.sample(SIZES, 2)
        for which, size in enumerate((first, *others)):
            maker.sizes[which][name] = size
    shared: list[int | str] = [*dims, *dims, random.choice((2, 3, 4)), 4, 1]
    small: list[int | str] = [1, 2, *dims[:1]]
    for place in range(random.choice((1, 2, 2, 3, 3, 4))):
        rank = random.choice((0, 1, 1, 2, 2, 2, 3, 3, 4, 4, 5, 6))
        sizes = shared if rank < 5 else small
        shape: list[int | str] = random.choices(sizes, k=rank)
        if random.random() < 0.02 and rank:
            shape[random.randrange(rank)] = 0
        dtype = "float32" if random.random() < 0.55 else random.choice((*DTYPES, "int64"))
        maker.inputs.append(Input(f"x{place}", dtype, shape))
    if random.random() < 0.25:  # dtypes that layers accept
        wide: list[int | str] = [4, 4, 3, *dims]
        wide = [*dims[:1], 4, *random.choices(wide, k=random.choice((1, 2)))]
        maker.inputs[0] = Input("x0", "float32", wide)
    if random.random() < 0.25:
        low, high = random.choice(((0, 3), (-4, 4), (1, 3), (-3, -1)))
        maker.inputs.append(Input("k0", "int64", [], low, high))
    if dims and maker.flavor != "any" and random.random() < 0.1:
        low, high = random.choice(((0, 3), (-4, 4), (2, 5)))
        maker.inputs.append(Input("i0", "int", [], low, high))


def _results(maker: Maker) -> list[str]:
    """Returns most of the program's values: the later ones, and those that it writes to."""
    inputs = {each.name for each in maker.inputs}
    names = [name for name in maker.names if name not in inputs]
    chosen = [name for name in names[-10:] if maker.chance(0.8)] or names[-1:]
    chosen += [name for name in names[:-10] if maker.chance(0.2)]
    tensors = [name for name in chosen if isinstance(maker.value(name), torch.Tensor)]
    numbers = [name for name in chosen if name not in tensors]
    texts = [
        name if maker.flavor == "fx" and maker.chance(0.4) else f"torch.tensor({name})"
        for name in numbers
    ]
    return tensors + texts or [maker.inputs[0].name + " * 1"]
