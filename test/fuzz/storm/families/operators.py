"""Control flow operators with several operands, nested, and TorchScript's own forms."""

from __future__ import annotations

import torch

from storm.families.control import condition_of, step_of
from storm.families.registry import family
from storm.families.slots import Slots, blocks, filled, need
from storm.maker import Maker


def _floats(maker: Maker, least: int = 0) -> str:
    return maker.tensor(
        lambda x: x.dtype in (torch.float32, torch.float64, torch.int64) and x.dim() >= least
    )


@family(1, flavors=("fx",))
def cond_of_several(maker: Maker) -> bool:
    """Branches with several results, operands of different shapes, and nested branches."""
    name, other = _floats(maker), maker.tensor()
    one, two = maker.fresh(), maker.fresh()
    inner = f"cond({name}.sum() > 1, lambda v: v + 1, lambda v: v * 2, ({name},))"
    yes = maker.pick(f"{name} * 2", f"{name} - {name}.sum()", f"{name}.clone()", inner)
    no = maker.pick(
        f"-{name}", f"{name} + 1", f"{name}.flip(0)" if maker.value(name).dim() else f"{name} + 2"
    )
    tail = maker.pick(f"{other}.clone()", f"{other} == {other}")
    need(name != other)
    return maker.add(
        f"{one}, {two} = cond({condition_of(maker)}, lambda {name}, {other}: ({yes}, {tail}), "
        f"lambda {name}, {other}: ({no}, {tail}), ({name}, {other}))",
        *(one, two),
    )


@family(1, flavors=("fx",))
def loop_of_several(maker: Maker) -> bool:
    """Loops with several loop-carried tensors."""
    name, other = _floats(maker), _floats(maker)
    first, second = maker.fresh(), maker.fresh()
    bound = maker.pick("k < 3", "(k < 4) & (v.sum() < 50)", f"k < {maker.pick(0, 1, 2)}")
    body = maker.pick("v + k", "v * 2", "torch.where(v > 0, v - 1, v)", "v + w.sum().to(v.dtype)")
    tail = maker.pick("w + 1", "w * 2", "w - k", "w.clone()")
    return maker.add(
        f"_, {first}, {second} = while_loop(lambda k, v, w: {bound}, "
        f"lambda k, v, w: (k + 1, {body}, {tail}), (torch.tensor(0), {name}, {other}))",
        *(first, second),
    )


@family(1, flavors=("fx",))
def scans(maker: Maker) -> bool:
    """Scans with two carried tensors or two inputs, along any axis, and maps."""
    name = _floats(maker, 1)
    first, second, third = maker.fresh(), maker.fresh(), maker.fresh()
    form = maker.random.randrange(4)
    if form == 0:
        axis = maker.dim(name) % maker.value(name).dim()
        return maker.add(
            f"{first}, {second} = scan(lambda c, v: (c * 2 + v, c - v), "
            f"{name}.select({axis}, 0) * 0, {name}, dim={axis})",
            *(first, second),
        )
    if form == 1:
        return maker.add(
            f"({first}, {second}), {third} = scan(lambda c, v: ((c[0] + v, c[1] * 2), v + c[1]), "
            f"({name}[0] * 0, {name}[0] * 1), {name})",
            *(first, second, third),
        )
    if form == 2:
        extra = maker.pick("v * 2", "v.cumsum(0)", "v + v.sum()", "torch.sin(v)", "v[:1]")
        return maker.add(f"{first} = map_(lambda v: {extra}, {name})", first)
    combine = maker.pick("a + b", "a * b", "torch.maximum(a, b)")
    return maker.add(
        f"{first} = associative_scan(lambda a, b: {combine}, {name}, 0, combine_mode='generic')",
        first,
    )


@family(1, flavors=("fx",))
def vmaps(maker: Maker) -> bool:
    name, fresh = maker.tensor(lambda x: x.dim() > 1), maker.fresh()
    axis = maker.dim(name)
    text = filled(
        maker,
        maker.pick(
            "torch.vmap(lambda v, w: v * w + 1)({x}, {same})",
            f"torch.vmap(lambda v: v.sum(), in_dims={axis})({{x}})",
            f"torch.vmap(lambda v: v * 2, in_dims={axis}, out_dims={axis})({{x}})",
            "torch.vmap(torch.vmap(lambda v: v.abs() + 1))({x})",
            "torch.vmap(lambda v, w: v + w, in_dims=(0, None))({x}, {x}[0])",
            "torch.vmap(lambda v: v[0] - v)({x})",
            "torch.vmap(lambda v: torch.where(v > 0, v, -v).flip(0))({x})",
        ),
        name,
    )
    return maker.add(f"{fresh} = {text}", fresh)


GROWN = """\
{list}: List[Tensor] = []
for k in range({x}.size(0)):
    {list}.append({x}[k] + k)
"""

LISTS = blocks("""
{list} = [{x}, {same}]
{list}.append({x} * 2)
{new} = torch.stack({list})

{list} = [{x}, {same}]
{list}[0] = {x} + 1
{new} = torch.cat({list}, 0)

{list} = [{x}]
for v in [{x}, {same}]:
    {list}.append(v * len({list}))
{new} = torch.cat({list})

{list} = {{'a': {x}, 'b': {same}}}
{list}['c'] = {list}['a'] * 2
{new} = {list}['c'] + {list}['b']

{list}: Optional[Tensor] = None
if {x}.size(0) > 2:
    {list} = {x} * 2
{new} = {x} if {list} is None else {list}

{list} = {x}.split(1, 0)
{new} = torch.cat([{list}[0], {list}[len({list}) - 1]], 0)

{new} = {x}
for k, v in enumerate({x}.unbind(0)):
    {new} = {new} + v * k

{new} = {x}.sum()
for v, w in zip({x}, {same}):
    {new} = {new} + (v * w).sum()

{list} = [int(v) for v in {x}.shape]
{new} = torch.zeros({list}) + len({list})

{list}: List[int] = []
for k in range({x}.dim()):
    {list}.append({x}.size(k))
{new} = {x}.reshape({list})

{list} = [v.sum() for v in {x}.unbind(0)]
{new} = torch.stack({list})

k{list} = 0
while k{list} < {x}.size(0) and bool({x}[k{list}].sum() < 3):
    k{list} += 1
{new} = torch.tensor(k{list})

{new} = {x}.clone()
for k in range({x}.size(0)):
    if bool({new}[k].sum() > 0):
        continue
    {new}[k] *= {new}[k]

{new} = {x} * 2
for k in range(2):
    for j in range({x}.size(0)):
        {new} = {new} + j * k

{list} = {x}.size(0)
{new} = {x}
while {list} > 1:
    {list} = {list} // 2
    {new} = {new} + {list}

{new} = torch.jit.annotate(List[Tensor], [{x}, {same}])[{k} - 2]

{list} = torch.chunk({x}, 2, 0)
{new} = {list}[0] * len({list})

{list}: List[Tensor] = []
if bool({x}.sum() > 0):
    {list}.append({x})
{list}.append({same} * 2)
{new} = torch.cat({list})
""")

GROWTHS = blocks("""
{new} = torch.stack({list}, {offset} % 2)

{new} = {list}[-1] + {list}[0]

{list}.reverse()
{new} = torch.stack({list})

{list} = {list}[:{k}]
{new} = torch.stack({list})

{new} = torch.zeros(len({list})) + 1

{list}.pop()
{list}.insert(0, {x}[0])
{new} = torch.stack({list})

{list}.extend({list})
{new} = torch.stack({list})

{new} = torch.zeros(1)
for v in {list}:
    {new} = {new} + v.sum()

{list}[0] = {x}[-1]
{new} = torch.stack({list}[::-1])

{new} = torch.cat([v.flatten() for v in {list}])
""")


@family(2.5, flavors=("scripted",))
def lists(maker: Maker) -> bool:
    """Lists of tensors and numbers, dicts, optional values."""
    slots = Slots(maker, maker.tensor(lambda x: x.dim() > 0))
    slots["new"], slots["list"] = maker.fresh(), f"l{maker.fresh('q')}"
    template = maker.pick(maker.pick(*LISTS), GROWN + maker.pick(*GROWTHS))
    return maker.add(slots.filled(template), slots["new"])


@family(1, flavors=("scripted",))
def branches_of_several(maker: Maker) -> bool:
    """Branches with elif that bind several names."""
    name = _floats(maker)
    one, two = maker.fresh(), maker.fresh()
    first, second = f"bool({condition_of(maker)})", f"bool({condition_of(maker)})"
    number = maker.fresh("i")
    step, other = step_of(maker, name), step_of(maker, name)
    return maker.add(
        f"if {first}:\n    {one} = {step}\n    {two} = {name} * 2\n    {number} = 3\n"
        f"elif {second}:\n    {one} = {name}\n    {two} = {other}\n    {number} = -2\n"
        f"else:\n    {one}, {two} = {name} - 1, {name}\n    {number} = 0",
        *(one, two, number),
    )
