"""Views, shapes, and operators that join and split."""

from __future__ import annotations

import torch

from storm.families.registry import assign, family
from storm.maker import Maker


@family(3)
def one_axis(maker: Maker) -> bool:
    name = maker.tensor()
    rank = maker.value(name).dim()
    where = maker.random.randrange(-rank - 1, rank + 1)
    form = maker.random.randrange(12)
    if form == 0:
        return assign(maker, f"{name}.unsqueeze({where})")
    if form == 1:
        return assign(maker, f"{name}[{maker.pick('None', '..., None', 'None, ...')}]")
    if form == 11:
        return assign(
            maker, f"{name}.{maker.pick('squeeze()', 'flatten()', 'reshape(-1)', 'ravel()')}"
        )
    axis, other = maker.dim(name), maker.dim(name)
    texts = {
        2: f"{name}.transpose({axis}, {other})",
        3: f"{name}.squeeze({axis})",
        4: f"{name}.{maker.pick('t()', 'mT', 'T')}",
        5: f"{name}.swapaxes({axis}, {other})",
        6: f"{name}.movedim({axis}, {other})",
        7: f"{name}.flatten({min(axis % rank, other % rank)}, {max(axis % rank, other % rank)})",
        8: f"{name}.unflatten({axis}, ({maker.pick('-1, 1', '1, -1', '2, -1', '-1, 2')}))",
        9: f"{name}.unfold({axis}, {maker.pick(1, 2, 3)}, {maker.pick(1, 2)})",
        10: f"{name}.narrow({axis}, {maker.pick(0, 0, -1, 1)}, 1)",
    }
    return assign(maker, texts[form])


@family(2)
def permuted(maker: Maker) -> bool:
    name = maker.tensor(lambda x: x.dim() > 1)
    order = list(range(maker.value(name).dim()))
    maker.random.shuffle(order)
    if maker.chance(0.3):
        order[0] -= len(order)
    tail = maker.pick("", "", ".contiguous()", ".clone()")
    return assign(maker, f"{name}.permute({', '.join(map(str, order))}){tail}")


@family(3)
def reshaped(maker: Maker) -> bool:
    name = maker.tensor()
    rank = maker.value(name).dim()
    sizes = [f"{name}.{maker.pick(f'size({i})', f'shape[{i}]')}" for i in range(rank)]
    for i in range(rank):
        if maker.is_static(name, i) and maker.chance(0.5):
            sizes[i] = str(maker.value(name).shape[i])
    form = maker.random.randrange(5)
    if form == 0 and rank > 1:
        place = maker.random.randrange(rank - 1)
        sizes[place : place + 2] = [f"{sizes[place]} * {sizes[place + 1]}"]
    elif form == 1:
        sizes = [maker.pick("-1", "2", "1"), maker.pick("-1", "2", "4")]
    elif form == 2 and rank:
        place = maker.random.randrange(rank)
        sizes[place : place + 1] = maker.pick(["-1", "2"], ["2", "-1"], ["1", sizes[place]])
    elif form == 3 and rank:
        sizes[maker.random.randrange(rank)] = "-1"
    else:
        sizes.insert(maker.random.randrange(rank + 1), "1")
    op = maker.pick("reshape", "view", "reshape")
    return assign(maker, f"{name}.{op}({', '.join(sizes) or '-1'})")


@family(2)
def expanded(maker: Maker) -> bool:
    name = maker.tensor()
    rank = maker.value(name).dim()
    form = maker.random.randrange(4)
    integer = maker.pick("2", "3", *maker.integers())
    if form == 0:
        return assign(maker, f"{name}.expand({', '.join([integer] + ['-1'] * rank)})")
    if form == 1:
        return assign(maker, f"{name}.expand_as({maker.mate(name)})")
    if form == 2:
        sizes = ", ".join(maker.pick("1", "2", integer) for _ in range(rank + maker.pick(0, 1)))
        return assign(maker, f"{name}.repeat({sizes})")
    return assign(
        maker,
        maker.pick(
            f"{name}.tile({maker.pick('2', '(2, 1)')})",
            f"{name}.repeat_interleave({integer}, dim={_dim(maker, name)})",
            f"torch.broadcast_to({name}, {maker.mate(name)}.shape)",
            f"torch.atleast_2d({name})",
        ),
    )


def _dim(maker: Maker, name: str) -> int:
    return maker.dim(name) if maker.value(name).dim() else 0


@family(3)
def joined(maker: Maker) -> bool:
    name = maker.tensor()
    rank = maker.value(name).dim()
    others = [
        other
        for other in maker.tensors(lambda x: x.dim() == rank)
        if not maker.value(other).is_complex() or maker.value(name).is_complex()
    ]
    chosen = [name, *(maker.random.choice(others) for _ in range(maker.pick(0, 1, 1, 2)))]
    maker.random.shuffle(chosen)
    texts = ", ".join(chosen)
    if maker.chance(0.35):
        op = maker.pick("stack", "stack", "hstack", "vstack", "dstack")
        extra = f", dim={maker.random.randrange(-rank - 1, rank + 1)}" if op == "stack" else ""
        return assign(maker, f"torch.{op}([{texts}]{extra})")
    return assign(maker, f"torch.cat([{texts}], dim={_dim(maker, name)})")


@family(2)
def parts(maker: Maker) -> bool:
    name = maker.tensor()
    axis = maker.dim(name)
    count = maker.least(name, axis)
    form = maker.random.randrange(6)
    how = {
        0: f"{name}.chunk({maker.pick(1, 2, 3)}, {axis})",
        1: f"torch.split({name}, {maker.pick(1, 2)}, dim={axis})",
        2: f"{name}.unbind({axis})",
        3: f"torch.tensor_split({name}, {maker.pick(2, 3)}, dim={axis})",
        4: f"{name}.unsafe_chunk({maker.pick(1, 2)}, {axis})",
        5: f"{name}.split([{maker.pick(1, count - 1)}, {max(count - 1, 1)}], {axis})",
    }[form]
    if maker.chance(0.5):
        return assign(maker, f"{how}[{maker.pick(0, 0, -1, 1)}]")
    names = [maker.fresh() for _ in range(maker.pick(1, 2, 2, 3))]
    comma = "," if len(names) == 1 else ""
    return maker.add(f"{', '.join(names)}{comma} = {how}", *names)


@family(2)
def moved(maker: Maker) -> bool:
    name = maker.tensor()
    axis, other = maker.dim(name), maker.dim(name)
    return assign(
        maker,
        maker.pick(
            f"{name}.flip({axis})",
            f"torch.roll({name}, {maker.pick(1, -1, 2)}, {axis})",
            f"torch.rot90({name}, 1, ({axis}, {other}))",
            f"torch.tril({name}{maker.pick('', ', 1', ', -1')})",
            f"torch.triu({name}{maker.pick('', ', 1', ', -1')})",
            f"torch.diagonal({name}, {maker.pick(0, 1, -1)}, {axis}, {other})",
            f"torch.diag({name})",
            f"torch.diag_embed({name})",
            f"{name}.contiguous()",
            f"torch.meshgrid({name}, {maker.tensor(lambda x: x.dim() == 1)}, indexing='ij')[0]",
            f"torch.cartesian_prod({name}, {maker.tensor(lambda x: x.dim() == 1)})",
            f"{name}.select({axis}, {maker.pick(0, -1)})",
            f"torch.as_strided({name}, (2,), (1,))",
            f"{name}.view({maker.tensor()}.dtype)",
            f"torch.fliplr({name})",
            f"{name}.view_as({maker.tensor()})",
        ),
    )


@family(2)
def products(maker: Maker) -> bool:
    dtype = maker.value(maker.tensor()).dtype
    name = maker.tensor(lambda x: x.dim() > 0 and x.dtype == dtype)
    rank = maker.value(name).dim()
    other = maker.tensor(lambda x: x.dim() > 0 and x.dtype == dtype)
    equation = maker.pick(
        "ij,jk->ik", "ij,ij->i", "i,j->ij", "ij,kj->ik", "...i,...i->...", "ij->ji"
    )
    second = "" if equation == "ij->ji" else f", {other}"
    return assign(
        maker,
        maker.pick(
            f"{name} @ {other}",
            f"{name} @ {name}.transpose(-1, -2)",
            f"torch.matmul({name}, {other}.transpose(-1, -2))",
            f"torch.einsum({equation!r}, {name}{second})",
            f"torch.einsum('...ij,...kj->...ik', {name}, {name})",
            f"torch.outer({name}, {other})",
            f"torch.tensordot({name}, {other}, dims=1)",
            f"torch.dot({name}, {other})",
            f"torch.mv({name}, {other})",
            f"torch.bmm({name}, {other}.transpose(1, 2))",
            f"torch.addmm({maker.tensor()}, {name}, {other}, beta={maker.pick(1, 0.5)})",
            f"torch.baddbmm({maker.tensor()}, {name}, {name}.transpose(1, 2), alpha=2)",
            f"torch.kron({name}, {other})",
            f"torch.cdist({name}, {other})",
            f"torch.inner({name}, {other})",
        )
        if rank
        else f"{name} * {other}",
    )


@family(0.5)
def square(maker: Maker) -> bool:
    name = maker.tensor(lambda x: x.is_floating_point() and x.dim() >= 2)
    if maker.value(name).dtype not in (torch.float32, torch.float64):
        return False
    return assign(
        maker,
        maker.pick(
            f"torch.linalg.det({name} @ {name}.mT)",
            f"torch.trace({name})",
            f"torch.linalg.matrix_norm({name})",
            f"torch.linalg.vector_norm({name}, {maker.pick(1, 2, 3, 0)}, dim=-1)",
        ),
    )
