"""Integer arithmetic: shifts, bits, divisions with a rounding mode, remainders of negatives."""

from __future__ import annotations

from storm.families.registry import family
from storm.families.slots import choose, lines, write
from storm.maker import Maker

CALLS = lines("""
{x} << {shift}
{x} >> {shift}
{x} & {operand}
{x} | {operand}
{x} ^ {operand}
~{x}
-{x}
{x} // {operand}
{x} % {operand}
{operand} // {x}
{operand} % {x}
torch.div({x}, {operand}, rounding_mode={rounding})
torch.fmod({x}, {operand})
torch.remainder({x}, {operand})
torch.floor_divide({x}, {operand})
{x} * {operand}
{x} + {operand}
{x} - {operand}
{x} ** {k}
torch.pow({x}, {k})
{k} ** {x}.abs()
torch.bitwise_left_shift({x}, {y}.abs() % 4)
torch.bitwise_right_shift({x}, {shift})
torch.gcd({x}, {y})
torch.lcm({x}, {y})
{x}.clamp({number}, {number2})
{x}.abs()
{x}.sum()
{x}.prod({axis})
{x}.cumsum({axis})
{x}.sum({axis}, dtype={real_dtype})
{x}.to({real_dtype})
{x}.float().mean()
torch.sub({x}, {y}, alpha={k})
{x}.sign()
torch.maximum({x}, {y})
torch.minimum({x}, {operand} * torch.ones_like({x}))
torch.add({x}, {y}, alpha=-{k})
{x} / {operand}
torch.true_divide({x}, {operand})
{x}.argmax()
{x}.argmin({axis})
{x}.amax({axis})
torch.logical_xor({x}, {y})
torch.bitwise_not({x})
torch.square({x})
{x}.bool() & {bool}
({x} > {operand}).sum()
torch.count_nonzero({x})
torch.heaviside({x}, {same})
torch.sgn({x})
{x}.float().log2()
{x} == {operand}
{x} < {operand}
torch.where({x} > {number}, {x}, {y})
{x}.trunc()
torch.rsub({x}, {operand})
torch.addcmul({x}, {same}, {y}, value={k})
{x}.floor()
torch.div({operand} * torch.ones_like({x}), {x}, rounding_mode={rounding})
{x}.matmul({like})
{x} & 255
({x} >> 1) | ({x} << 3)
{x}.cumprod({axis})
{x}.diff(dim={axis})
""")
WRITES = lines("""
{x} <<= {shift}
{x} >>= {shift}
{x} &= {operand}
{x} |= {operand}
{x} ^= {operand}
{x}.bitwise_and_({operand})
{x}.bitwise_or_({number})
{x}.floor_divide_({operand})
{x}.remainder_({operand})
{x}.fmod_({operand})
{x}.div_({operand}, rounding_mode='trunc')
{x}.mul_({operand})
{x}.neg_()
{x}.clamp_({number}, {number2})
{x}.bitwise_not_()
{x}.pow_({k})
{x}.sub_({y}, alpha={k})
{x}.abs_()
{x}.gcd_({y})
""")


@family(4)
def integer(maker: Maker) -> bool:
    return choose(maker, maker.integral(), *CALLS)


@family(1.5)
def integer_write(maker: Maker) -> bool:
    template = maker.pick(*WRITES)
    if maker.flavor != "fx" and template.split(" ")[1][:2] in ("<<", ">>", "&=", "|=", "^="):
        return False  # TorchScript does not support them
    return write(maker, maker.integral(), template)
