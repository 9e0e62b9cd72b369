"""In-place writes: operators, items, out=, through views, into buffers."""

from __future__ import annotations

import torch

from storm.families.indexing import index_text, mask_of
from storm.families.registry import family
from storm.maker import Maker, NothingError

PLAIN = (
    *("relu_", "neg_", "abs_", "sigmoid_", "tanh_", "zero_", "floor_", "round_", "square_"),
    *("sin_", "sqrt_", "logical_not_", "exp_", "ceil_", "sign_", "clamp_min_", "reciprocal_"),
)
WITH_OTHER = (
    *("add_", "sub_", "mul_", "div_", "copy_", "floor_divide_", "remainder_", "pow_", "eq_"),
    *("lt_", "ge_", "logical_and_", "logical_or_", "bitwise_xor_", "copy_", "add_", "fmod_"),
)


def owned(maker: Maker) -> str:
    """Returns a tensor to write to; seldom an input, usually one of the program's own."""
    name = maker.tensor()
    if maker.inputs and name in [each.name for each in maker.inputs] and maker.chance(0.8):
        raise NothingError
    return name


def _view(maker: Maker, name: str) -> str:
    """Returns the tensor or an expression for a view of it."""
    rank = maker.value(name).dim()
    roll = maker.random.random()
    if roll < 0.5 or not rank:
        return name
    axis = maker.dim(name)
    return str(
        maker.pick(
            f"{name}[{index_text(maker, name)}]",
            f"{name}.transpose({axis}, {maker.dim(name)})",
            f"{name}.view(-1)",
            f"{name}.select({axis}, 0)",
            f"{name}.narrow({axis}, 0, 1)",
            f"{name}.unsqueeze({axis})",
            f"{name}.flatten()",
            f"{name}.chunk(2, {axis})[0]",
            f"{name}.diagonal()",
            f"{name}[..., :1]",
            f"{name}.reshape(-1)",
            f"{name}.unbind({axis})[-1]",
            f"{name}.squeeze({axis})",
            f"{name}.expand({', '.join(['-1'] * rank)})",
            f"{name}.detach()",
            f"{name}.contiguous()",
            f"{name}.unfold({axis}, 1, 2)",
        )
    )


@family(4)
def in_place(maker: Maker) -> bool:
    name = owned(maker)
    target = _view(maker, name)
    if maker.chance(0.35):
        op = maker.pick(*PLAIN)
        extra = "0.5" if op == "clamp_min_" else ""
        return maker.add(f"{target}.{op}({extra})")
    op = maker.pick(*WITH_OTHER)
    try:
        other = maker.operand(name)
    except NothingError:
        other = maker.number(maker.value(name).dtype)
    extra = ", alpha=2" if op in ("add_", "sub_") and maker.chance(0.2) else ""
    extra = ", rounding_mode='floor'" if op == "div_" and maker.chance(0.5) else extra
    if op == "copy_" and not other[:1].isalpha():
        return maker.add(f"{target}.fill_({other})")
    return maker.add(f"{target}.{op}({other}{extra})")


@family(3)
def augmented(maker: Maker) -> bool:
    name = owned(maker)
    op = maker.pick("+=", "-=", "*=", "/=", "|=", "**=", "+=")
    if maker.flavor == "fx" and maker.chance(0.3):
        op = maker.pick("//=", "%=", "&=", "^=")  # TorchScript has other overloads or none
    target = name
    if maker.chance(0.5):
        target = f"{name}[{index_text(maker, name)}]"
    return maker.add(f"{target} {op} {maker.operand(name)}")


@family(5)
def set_item(maker: Maker) -> bool:
    name = owned(maker)
    dtype = maker.value(name).dtype
    roll = maker.random.random()
    if roll < 0.3:
        index = mask_of(maker, name)
        source = maker.number(dtype) if maker.chance(0.7) else maker.tensor(lambda x: x.dim() < 2)
        return maker.add(f"{name}[{index}] = {source}")
    index = index_text(maker, name)
    source = maker.number(dtype)
    roll = maker.random.random()
    if roll < 0.3:
        source = maker.mate(name)
    elif roll < 0.6:
        source = f"{name}[{index}] {maker.pick('*', '+', '-')} {maker.number(dtype)}"
    elif roll < 0.7:
        source = f"{maker.alike(name)}[{index}]"
    return maker.add(f"{name}[{index}] = {source}")


@family(1.5)
def special_writes(maker: Maker) -> bool:
    name = owned(maker)
    dtype = maker.value(name).dtype
    axis = maker.dim(name)
    size = maker.least(name, axis)
    number = maker.number(dtype)
    alike = maker.alike(name)
    rank = maker.value(name).dim()
    other = maker.tensor(lambda x: x.dim() == rank and x.dtype == dtype)
    index = f"torch.tensor([{maker.random.randrange(max(size, 1))}])"
    return maker.add(
        maker.pick(
            f"{name}.masked_fill_({mask_of(maker, name)}, {number})",
            f"{name}.index_fill_({axis}, {index}, {number})",
            f"{name}.index_add_({axis}, {index}, {other})",
            f"{name}.index_copy_({axis}, {index}, {other})",
            f"{name}.scatter_({axis}, torch.zeros_like({name}, dtype=torch.int64), {number})",
            f"{name}.cumsum_({axis})",
            f"{name}.cumprod_({axis})",
            f"{name}.clamp_({maker.pick('-1', '0')}, {maker.pick('1', '2.5')})",
            f"{name}.fill_diagonal_({number})",
            f"{name}.index_put_(({index},), {number_tensor(maker, dtype)})",
            f"{name}.index_put_(({index},), {number_tensor(maker, dtype)}, accumulate=True)",
            f"{name}.addcmul_({alike}, {alike}, value=2)",
            f"{name}.lerp_({alike}, 0.25)",
            f"{name}.t_()",
            f"{name}.transpose_({axis}, {maker.dim(name)})",
            f"{name}.unsqueeze_({axis})",
            f"{name}.squeeze_({axis})",
            f"{name}.squeeze_()",
            f"{name}.swapaxes_({axis}, {maker.dim(name)})",
            f"{name}.put_({index}, {number_tensor(maker, dtype)})",
            f"{name}.tril_()",
            f"{name}.masked_scatter_({name} != 0, {alike}.clone())",
            f"torch.relu_({name})",
            f"F.relu({name}, inplace=True)",
            f"F.elu({name}, inplace=True)",
        )
    )


def number_tensor(maker: Maker, dtype: torch.dtype) -> str:
    return f"torch.tensor({maker.pick(1, 2, 3)}, dtype={dtype})"


@family(1)
def into(maker: Maker) -> bool:
    """out= with a new or an existing tensor."""
    name = maker.tensor()
    other = maker.mate(name)
    op = maker.pick("add", "mul", "sub", "maximum", "div", "where")
    where = maker.pick(f"torch.empty_like({name})", maker.alike(name))
    if op == "where":
        return maker.add(f"torch.cumsum({name}, {maker.dim(name)}, out={where})")
    if where.startswith("torch"):
        fresh = maker.fresh()
        return maker.add(f"{fresh} = {where}\ntorch.{op}({name}, {other}, out={fresh})", fresh)
    return maker.add(f"torch.{op}({name}, {other}, out={where})")


@family(2)
def buffer(maker: Maker) -> bool:
    """A write to a buffer of the module."""
    count = len(maker.inits)
    dtype = maker.dtype(of=("float32", "int64", "float64", "bool", "int32"))
    shape = maker.pick("()", "(4,)", "(2, 4)", "(3,)")
    reference = maker.init(f"b{count}", f"torch.ones({shape}, dtype={dtype})", buffer=True)
    name = maker.tensor()
    statement = maker.pick(
        f"{reference}.add_(1)",
        f"{reference} += {maker.pick(name + '.sum()', '2')}",
        f"{reference}.copy_({name}.{maker.pick('sum()', 'mean()', 'amax(0)')})",
        f"{reference}.mul_(2)",
        f"{reference}[..., 0] = 3",
        f"{reference}[1:] += 1",
        f"{reference}.fill_({maker.pick(0, 1, 2)})",
        "",
    )
    if statement and not maker.add(statement):
        maker.inits.pop()
        return False
    fresh = maker.fresh()
    return maker.add(f"{fresh} = {reference} * {maker.pick('1', '2')}", fresh)
