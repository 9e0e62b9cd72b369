"""Elementwise operators, promotion and comparison."""

from __future__ import annotations

import torch

from storm.families.registry import assign, family
from storm.maker import FLOATS, INTEGERS, Maker

UNARY = (
    *("abs", "neg", "exp", "sin", "cos", "tan", "tanh", "sigmoid", "relu", "sqrt", "rsqrt", "log"),
    *("log1p", "log2", "log10", "expm1", "exp2", "erf", "erfc", "ceil", "floor", "round", "trunc"),
    *("frac", "sign", "sgn", "square", "reciprocal", "atan", "asin", "acos", "sinh", "cosh"),
    *("asinh", "atanh", "acosh", "logical_not", "bitwise_not", "isnan", "isinf", "isfinite"),
    *("signbit", "positive", "deg2rad", "rad2deg", "logit", "digamma", "lgamma", "angle", "conj"),
    *("sinc", "nan_to_num", "clone", "detach", "erfinv", "i0", "isreal", "resolve_neg"),
)
ACTIVATIONS = (
    *("relu", "relu6", "elu", "celu", "selu", "gelu", "silu", "mish", "softplus", "softsign"),
    *("leaky_relu", "hardtanh", "hardsigmoid", "hardswish", "logsigmoid", "tanhshrink"),
    *("softshrink", "hardshrink", "sigmoid", "tanh"),
)
BINARY = (
    *("add", "sub", "mul", "div", "true_divide", "floor_divide", "remainder", "fmod", "pow"),
    *("maximum", "minimum", "fmax", "fmin", "atan2", "hypot", "copysign", "logaddexp"),
    *("logical_and", "logical_or", "logical_xor", "eq", "ne", "lt", "le", "gt", "ge", "rsub"),
    *("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift", "bitwise_right_shift"),
    *("xlogy", "heaviside", "nextafter", "float_power", "isclose", "gcd", "lcm", "logaddexp2"),
)
WINDOWS = ("hann", "hamming", "blackman", "bartlett", "kaiser")
INFIX = ("+", "-", "*", "/", "//", "%", "**", "<", "<=", ">", ">=", "==", "!=", "&", "|", "^")


@family(4)
def unary(maker: Maker) -> bool:
    name = maker.tensor()
    op = maker.pick(*UNARY)
    return assign(maker, maker.pick(f"torch.{op}({name})", f"{name}.{op}()"))


@family(2)
def activation(maker: Maker) -> bool:
    name = maker.floating()
    op = maker.pick(*ACTIVATIONS)
    options = {
        "leaky_relu": ", negative_slope=0.3",
        "elu": ", alpha=0.7",
        "celu": ", alpha=1.3",
        "softplus": maker.pick("", ", beta=2", ", threshold=1.0"),
        "gelu": maker.pick("", ", approximate='tanh'"),
        "hardtanh": maker.pick("", ", -0.5, 0.75"),
        "softshrink": ", lambd=0.25",
    }
    return assign(maker, f"F.{op}({name}{options.get(op, '')})")


@family(1)
def soft(maker: Maker) -> bool:
    name = maker.floating()
    op = maker.pick("F.softmax", "F.log_softmax", "torch.softmax", "F.softmin", "F.normalize")
    extra = maker.pick("", "", ", dtype=torch.float32") if "max" in op else ""
    return assign(maker, f"{op}({name}, dim={maker.dim(name)}{extra})")


@family(7)
def infix(maker: Maker) -> bool:
    name = maker.tensor()
    other = maker.operand(name)
    op = maker.pick(*INFIX, "+", "*", "-", "//", "%")
    sides = (other, name) if maker.chance(0.3) else (name, other)
    if op == "**":
        sides = (name, maker.pick("2", "3", "2.0", "0.5", "-1", other))
    return assign(maker, f"{sides[0]} {op} {sides[1]}")


@family(5)
def binary(maker: Maker) -> bool:
    name = maker.tensor()
    op = maker.pick(*BINARY)
    other = maker.mate(name) if maker.chance(0.75) else maker.number(maker.value(name).dtype)
    extra = ""
    if op in ("add", "sub", "rsub") and maker.chance(0.4):
        extra = f", alpha={maker.pick(2, -1, 3, 0.5)}"
    if op == "div" and maker.chance(0.7):
        extra = f", rounding_mode={maker.pick(repr('floor'), repr('trunc'))}"
    return assign(maker, f"torch.{op}({name}, {other}{extra})")


@family(3)
def cast(maker: Maker) -> bool:
    name = maker.tensor()
    form = maker.random.randrange(4)
    if form == 0:
        how = maker.pick("float", "double", "half", "int", "long")
        if maker.flavor == "fx":
            how = maker.pick(how, "bfloat16", "short", "bool", "char")
        text = f"{name}.{how}()"
    elif form == 1:
        text = f"{name}.to({maker.dtype()})"
    elif form == 2:
        text = f"{name}.type_as({maker.tensor()})"
    else:
        text = f"{name}.to(dtype={maker.dtype()}, copy={maker.pick('True', 'False')})"
    target = _cast_range(maker, name)
    return target and assign(maker, text)


def _cast_range(maker: Maker, name: str) -> bool:
    """Values outside of an integer's range are undefined in eager."""
    for space in maker.values:
        value = space[name]
        if value.is_complex() or (
            value.dtype.is_floating_point and value.numel() and not bool((value.abs() < 100).all())
        ):
            return False
        if value.dtype.is_floating_point and bool((value < 0).any()) and maker.chance(0.5):
            return True
    return True


@family(2)
def choice(maker: Maker) -> bool:
    name = maker.tensor()
    mask = f"{name} {maker.pick('>', '<=', '!=')} {maker.number(maker.value(name).dtype)}"
    if maker.chance(0.5):
        mask = maker.mate(name, lambda x: x.dtype is torch.bool)
    if maker.chance(0.3):
        return assign(maker, f"{name}.masked_fill({mask}, {maker.number(maker.value(name).dtype)})")
    other = maker.operand(name)
    sides = (name, other) if maker.chance(0.6) else (other, name)
    return assign(maker, f"torch.where({mask}, {sides[0]}, {sides[1]})")


@family(2)
def bounded(maker: Maker) -> bool:
    name = maker.real()
    low, high = maker.operand(name), maker.operand(name)
    form = maker.random.randrange(5)
    texts = (
        f"torch.clamp({name}, {maker.number(maker.value(name).dtype)})",
        f"{name}.clamp(min={low})",
        f"{name}.clamp(max={high})",
        f"torch.clamp({name}, min={low}, max={high})",
        f"{name}.clip({maker.pick('-1', '0', '0.5')}, {maker.pick('1', '2', '2.5')})",
    )
    return assign(maker, texts[form])


@family(1.5)
def ternary(maker: Maker) -> bool:
    name = maker.tensor()
    one, other = maker.mate(name), maker.mate(name)
    value = maker.pick("", f", value={maker.pick(2, 0.5, -1)}")
    return assign(
        maker,
        maker.pick(
            f"torch.addcmul({name}, {one}, {other}{value})",
            f"torch.addcdiv({name}, {one}, {other}{value})",
            f"torch.lerp({name}, {one}, {maker.pick('0.3', other)})",
            f"F.threshold({name}, {maker.pick(0.1, 0.5, 1.0)}, {maker.pick(20.0, -0.5)})",
            f"torch.isin({name}, {one})",
            f"torch.dist({name}, {one})",
            f"torch.complex({name}, {one})",
            f"torch.polar({name}.abs(), {one})",
            f"F.mse_loss({name}, {one}{maker.pick('', ', reduction=' + repr('sum'))})",
            f"F.huber_loss({name}, {one}, delta=0.7)",
            f"F.smooth_l1_loss({name}, {one})",
            f"torch.cosine_similarity({name}, {one}, dim=-1)",
        ),
    )


@family(1)
def complex_parts(maker: Maker) -> bool:
    if maker.chance(0.3):
        name = maker.tensor(lambda x: x.is_floating_point() and x.dim() > 0 and x.shape[-1] == 2)
        return assign(maker, f"torch.view_as_complex({name}.float().contiguous())")
    name = maker.tensor(lambda x: x.is_complex())
    return assign(
        maker,
        maker.pick(
            f"{name}.real",
            f"{name}.imag",
            f"torch.view_as_real({name})",
            f"{name}.abs()",
            f"{name}.conj()",
            f"torch.angle({name})",
            f"{name} * {maker.pick('1j', '(0.5 - 2j)', '2')}",
        ),
    )


@family(2)
def made(maker: Maker) -> bool:
    name = maker.tensor()
    integer = maker.pick(*maker.integers(), "3", "2", f"{name}.size({_axis(maker, name)})")
    dtype = maker.dtype(of=(*FLOATS, *INTEGERS))
    size = maker.pick(f"{integer}, 2", f"{integer}", f"{integer} + 1, 3", f"2, {integer}")
    return assign(
        maker,
        maker.pick(
            f"torch.zeros({size}, dtype={maker.dtype()})",
            f"torch.ones({size})",
            f"torch.full(({size},), {maker.pick('2', '0.5', 'True', '-1')})",
            f"torch.full(({size},), {maker.pick('2', '-1')}, dtype={dtype})",
            f"torch.arange({integer})",
            f"torch.arange(1, {integer} + 1, dtype={dtype})",
            f"torch.arange({integer}, 0, -1)",
            f"torch.arange(0, {integer}, 0.5)",
            f"torch.arange(0.5, {integer}, dtype=torch.float32)",
            f"torch.linspace(0., 1., {maker.pick('4', integer)})",
            f"torch.eye({integer})",
            f"torch.zeros_like({name})",
            f"torch.ones_like({name}, dtype={dtype})",
            f"torch.full_like({name}, {maker.number(maker.value(name).dtype)})",
            f"{name}.new_zeros({size})",
            f"{name}.new_full(({size},), 1.5)",
            f"torch.empty_like({name}).fill_({maker.number(maker.value(name).dtype)})",
            f"torch.tensor({maker.pick([1, -2, 3], [0.5, -1.5], 2.5, [[1], [2]], [True, False])})",
            f"torch.tensor([{integer}, 2])",
            f"torch.scalar_tensor({integer}, dtype={dtype})",
            f"torch.{maker.pick(*WINDOWS)}_window({maker.pick('4', integer)})",
        ),
    )


def _axis(maker: Maker, name: str) -> int:
    return maker.dim(name) if maker.value(name).dim() else 0


@family(0.5)
def spectrum(maker: Maker) -> bool:
    name = maker.tensor(lambda x: x.dtype in (torch.float32, torch.complex64) and x.dim() > 0)
    op = maker.pick("fft", "ifft", "rfft", "fft2", "hfft", "irfft")
    return assign(maker, f"torch.fft.{op}({name})")
