"""Functions beyond the other families: linear algebra, losses, statistics, sequences."""

from __future__ import annotations

import torch

from storm.families.registry import family
from storm.families.slots import choose, filled, lines, pair
from storm.maker import Maker

MATRIX = lines("""
torch.linalg.det({x} @ {x}.mT)
torch.trace({x})
torch.linalg.matrix_norm({x})
torch.linalg.norm({x}, dim={axis})
torch.linalg.vector_norm({x}, {order}, dim={axis})
torch.linalg.norm({x})
torch.linalg.matrix_power({x} @ {x}.mT * 0.1, {k})
torch.linalg.multi_dot([{x}, {x}.mT, {x}])
torch.chain_matmul({x}, {x}.mT)
torch.linalg.cross({x}[..., :3], {same}[..., :3])
torch.linalg.vecdot({x}, {same})
torch.linalg.inv({x} @ {x}.mT + 5 * torch.eye({x}.size(-2)))
torch.vdot({vector}, {vector})
torch.linalg.solve({x} @ {x}.mT + 5 * torch.eye({x}.size(-2)), {x})
torch.ger({vector}, {vector})
torch.block_diag({x}, {matrix})
torch.tril_indices(3, {k}, {offset})
torch.addr({x}, {vector}, {vector})
torch.linalg.diagonal({x})
torch.vander({vector}, 3)
torch.addmv({vector}, {x}, {vector})
F.bilinear({x}, {same}, torch.ones(2, {x}.size(-1), {x}.size(-1)))
torch.corrcoef({x})
torch.einsum('...i,...j->...ij', {x}, {same})
torch.einsum('...ij->...ji', {x})
{x} @ {y}
torch.einsum('bi,bj,bk->bk', {x}, {x}, {x})
torch.tensordot({x}, {same}, dims=([-1], [-1]))
torch.cov({x})
{x}.mT @ {same}
torch.einsum('ii->i', {x} @ {x}.mT)
torch.matmul({x}, {vector})
torch.einsum('ij->', {x})
torch.cdist({x}, {x}, p={k})
F.pairwise_distance({x}, {same})
torch.triu_indices({int}, 3, {offset})
torch.combinations({vector})
F.linear({x}, {matrix})
""")


@family(1.5)
def matrices(maker: Maker) -> bool:
    name = maker.tensor(lambda x: x.dtype in (torch.float32, torch.float64) and x.dim() >= 2)
    return choose(maker, name, *MATRIX)


LOSSES = lines("""
F.mse_loss({x}, {y}, reduction={reduction})
F.l1_loss({x}, {same}, reduction={reduction})
F.smooth_l1_loss({x}, {same}, beta=0.5, reduction={reduction})
F.kl_div({x}, {same}, reduction={reduction})
F.binary_cross_entropy({x}.sigmoid(), {same}.sigmoid(), reduction={reduction})
F.gaussian_nll_loss({x}, {same}, {same}.abs())
F.binary_cross_entropy_with_logits({x}, {same}.sigmoid(), reduction={reduction})
F.poisson_nll_loss({x}, {same})
F.cross_entropy({x}, {x}.argmax(1), reduction={reduction})
F.hinge_embedding_loss({x}, {same}.sign())
F.cross_entropy({x}, {x}.softmax(1), label_smoothing=0.1)
F.soft_margin_loss({x}, {same}.sign())
F.nll_loss({x}.log_softmax(1), {x}.argmin(1), reduction={reduction})
F.margin_ranking_loss({x}, {same}, {same}.sign())
F.cross_entropy({x}, {x}.argmax(1), ignore_index=0)
F.triplet_margin_loss({x}, {same}, {x} * 2)
F.cosine_embedding_loss({x}, {same}, torch.ones({x}.size(0)))
F.multilabel_margin_loss({x}, {x}.long().clamp(0, 1))
F.huber_loss({x}, {same}, reduction={reduction}, delta=0.3)
F.multi_margin_loss({x}, {x}.argmax(1))
""")


@family(1)
def losses(maker: Maker) -> bool:
    name = maker.tensor(lambda x: x.is_floating_point() and x.dim() > 0)
    return choose(maker, name, *LOSSES)


SHAPING = lines("""
torch.broadcast_tensors({x}, {y})[{flag}]
torch.column_stack([{x}, {like}])
torch.atleast_3d({x})
torch.movedim({x}, ({axis}, {axis2}), ({axis2}, {axis}))
torch.flip({x}, [{axis}, {axis2}])
torch.argwhere({x})
{x}.flip({axis})[..., ::2]
{x}.flip(-1)[..., :-1]
torch.roll({x}, ({k}, -1), ({axis}, {axis2}))
torch.rot90({x}, {k}, [0, 1])
torch.unflatten({x}, {axis}, (-1, 1))
{x}.unfold({axis}, 2, 1).sum(-1)
torch.tensor_split({x}, [1, 2], dim={axis})[{k}]
torch.hsplit({x}, 2)[0]
torch.vsplit({x}, 2)[1]
torch.repeat_interleave({x}, {k})
torch.repeat_interleave({x}, torch.tensor([{k}]), dim={axis})
{x}.ravel()
torch.meshgrid({vector}, {vector}, indexing='xy')[1]
{x}.T
{x}.mH
torch.adjoint({x})
torch.squeeze({x})
torch.as_strided({x}, ({x}.size(0),), (1,))
{x}.expand({k}, *{x}.shape)
{x}.new_tensor([1, 2])
{x}.diagonal({offset}, {axis}, {axis2})
torch.diagflat({x})
torch.narrow_copy({x}, {axis}, 0, 1)
torch.stack([{x}, {same}, {x}], {axis})
torch.cat([{x}, {like}[:0], {like}], {axis})
torch.cat([{x}], {axis})
{x}.reshape({x}.shape + (1,))
{x}.view(*{x}.shape[:-1], -1, 1)
{x}.flatten(0, -1)[:{int}]
{x}.clone().view(-1)
{x}.transpose({axis}, {axis2}).reshape({x}.shape)
{x}.permute(*range({rank} - 1, -1, -1)).flatten()
{x}.repeat(*[{k}] * {rank})
{x}.tile(({k},))
F.pad({x}, (1, {k}), value={number})
{x}.unsqueeze(0).expand({int}, *{x}.shape)
torch.swapdims({x}, {axis}, {axis2})
{x}.sum_to_size({x}[:1].shape)
{x}.squeeze().unsqueeze({axis})
torch.empty({x}.shape).fill_(2)
torch.zeros({x}.shape, dtype={dtype})
torch.ones({x}.shape[::-1])
{x}.is_floating_point() * {x}
{x}.chunk({k}, {axis})[-1].clone()
torch.stack({x}.unbind({axis}), {axis2})
torch.cat({x}.split(2, {axis}), {axis2})
{x}.T.contiguous()
torch.select_scatter({x}, {x}.select({axis}, -1) * 2, {axis}, 0)
torch.diagonal_scatter({x}, {x}.diagonal() * 2)
torch.slice_scatter({x}, {x}.narrow({axis}, 0, 1), {axis}, 0, 1)
{x}.index_select({axis}, {index}).sum({axis2})
""")
SEQUENCES = lines("""
torch.searchsorted({x}.sort()[0], {same}, right={flag})
torch.bucketize({x}, torch.tensor([-1.0, 0.5]), right={flag})
torch.quantile({x}.float(), torch.tensor([0.25, 0.5]), dim={axis})
torch.nanmedian({x}.clone())
torch.msort({x})
torch.cumsum({x}, {axis}).flip({axis})
torch.logsumexp({x}.float(), ({axis},), keepdim={flag})
torch.diff({x}, n={k}, dim={axis})
torch.std({x}.float(), dim={axis}, correction={k})
torch.var({x}.float(), unbiased={flag})
torch.nansum({x}.float(), {axis})
torch.all({x}, dim={axis})
torch.any({x}, dim={axis}, keepdim={flag})
torch.amax({x}, ({axis}, {axis2}))
torch.ptp({x})
torch.argsort({x}, dim={axis}, descending=True, stable=True)
torch.topk({x}, 1, dim={axis}).values
torch.sort({x}, {axis}).values
torch.histc({x}.float(), 5, -4, 4)
torch.bincount({x}.flatten().long().abs(), minlength={k})
torch.unique({x}, return_inverse=True)[1]
torch.take_along_dim({x}, {x}.argsort({axis}, stable=True), {axis})
torch.gather({x}, {axis}, {x}.argmax({axis}, keepdim=True))
torch.mode({x}, {axis}).values
torch.median({x}.clone())
torch.kthvalue({x}, 1, {axis}).values
torch.aminmax({x})[1]
torch.renorm({x}.float(), 2, 0, 1.0)
F.one_hot({x}.long().remainder(5), num_classes=5)
F.normalize({x}.float(), p={k}, dim={axis})
torch.trapezoid({x}.float(), dx=0.5, dim={axis})
torch.cumulative_trapezoid({x}.float(), dim={axis})
torch.logcumsumexp({x}.float(), {axis})
torch.prod({x}.float(), {axis}, keepdim={flag})
torch.mean({x}, ({axis},), dtype={float_dtype})
torch.sum({x}, ({axis}, {axis2}), keepdim={flag})
""")


@family(3)
def shaping(maker: Maker) -> bool:
    return choose(maker, maker.tensor(), *SHAPING)


@family(2)
def sequences(maker: Maker) -> bool:
    return choose(maker, maker.real(), *SEQUENCES)


ELEMENTWISE = lines("""
torch.special.{op}({x})
torch.special.{op}({x}.abs() + 1)
torch.{arith}({x}, {operand})
{operand} - {x}
{operand} / {x}
torch.rsub({x}, {operand}, alpha={k})
torch.clamp({x}, {number}, {number2})
torch.clamp({x}, min={y})
torch.clip({x}, max={y})
torch.nan_to_num({x} / 0, 1.0, 2.0, 3.0)
torch.where({x} > {y}, {number}, {z})
torch.where({mask}, {x}, {number})
torch.where({x} != 0, {number}, {number2})
{x}.masked_fill({bool}, {number})
{x}.div({y}, rounding_mode={rounding})
torch.pow({number}, {x})
torch.float_power({x}, {k})
torch.ldexp({x}, {y})
torch.frac({x})
torch.allclose({x}, {same}) * {x}
torch.equal({x}, {same}) * {x}
torch.isclose({x}, {y})
torch.real({x})
torch.dist({x}, {y}, 2)
torch.addcdiv({x}, {y}, {z}.abs() + 1, value={number})
torch.lerp({x}, {y}, {z})
torch.xlogy({x}, {y}.abs())
torch.hypot({x}, {y})
{x}.clone().fill_({number})
torch.empty_like({x}).copy_({y})
torch.zeros_like({x}).add_({y})
{x}.add({y}).mul_({operand})
torch.isin({x}, torch.tensor([0, 1, 2]))
torch.logaddexp({x}, {y})
torch.copysign({x}, {operand})
torch.bitwise_xor({x}, {y})
{x}.sigmoid().round(decimals=2)
F.{act}({x})
F.{act}({x}, inplace=True)
F.prelu({x}, torch.tensor([0.2]))
F.rrelu({x})
F.glu({x}, {axis})
F.softplus({x}, beta=3.0)
""")
SPECIAL = (
    *(
        "erf",
        "erfc",
        "expit",
        "exp2",
        "expm1",
        "log1p",
        "log_softmax",
        "logit",
        "ndtr",
        "i0",
        "i0e",
    ),
    *(
        "i1",
        "digamma",
        "gammaln",
        "sinc",
        "round",
        "psi",
        "entr",
        "erfinv",
        "log_ndtr",
        "bessel_j0",
    ),
)
ARITHMETIC = (
    *(
        "add",
        "sub",
        "mul",
        "div",
        "fmod",
        "remainder",
        "floor_divide",
        "maximum",
        "atan2",
        "eq",
        "pow",
    ),
    *("fmax", "fmin", "ne", "lt", "ge", "logical_and", "hypot", "heaviside"),
)
ACTS = (
    "relu",
    "relu6",
    "elu",
    "selu",
    "celu",
    "silu",
    "mish",
    "hardswish",
    "hardsigmoid",
    "leaky_relu",
    "hardtanh",
)


@family(3)
def elementwise(maker: Maker) -> bool:
    template = maker.pick(*ELEMENTWISE)
    for slot, options in (("{op}", SPECIAL), ("{arith}", ARITHMETIC), ("{act}", ACTS)):
        template = template.replace(slot, maker.pick(*options))
    return choose(maker, maker.tensor(), template)


OUT = lines("""
torch.add({x}, {y}, out={out})
torch.mul({x}, {operand} * {x}, out={out})
torch.sum({x}, {axis}, out={out})
torch.cat([{x}, {like}], {axis}, out={out})
torch.abs({x}, out={out})
torch.clamp({x}, {number}, out={out})
torch.matmul({x}, {x}.mT, out={out})
torch.stack([{x}, {same}], out={out})
torch.where({bool}, {x}, {same}, out={out})
torch.logical_not({x}, out={out})
torch.eq({x}, {y}, out={out})
torch.cumsum({x}, {axis}, out={out})
torch.exp({x}, out={out})
torch.pow({x}, {k}, out={out})
torch.argmax({x}, {axis}, out={out})
torch.index_select({x}, {axis}, {index}, out={out})
""")


@family(1.5)
def out_argument(maker: Maker) -> bool:
    """out= with a new tensor of the result's dtype, sometimes of another shape, used later."""
    name = maker.tensor()
    fresh = maker.fresh()
    call = filled(maker, maker.pick(*OUT).replace("{out}", fresh), name)
    dtype = maker.value(name).dtype
    dtype = torch.bool if "eq(" in call or "logical" in call else dtype
    dtype = torch.int64 if "argmax" in call else dtype
    shape = maker.pick("0", "0", "2, 2") if maker.chance(0.7) else f"{name}.shape"
    if shape != "2, 2" or maker.chance(0.3):
        return maker.add(f"{fresh} = torch.empty({shape}, dtype={dtype})\n{call}", fresh)
    return False


@family(1)
def several(maker: Maker) -> bool:
    name = maker.real()
    return pair(
        maker,
        name,
        maker.pick(
            "torch.max({x}, {axis}, keepdim={flag})",
            "torch.min({x}, {axis})",
            "torch.sort({x}, dim={axis}, descending={flag}, stable=True)",
            "torch.unique({x}, return_counts=True)",
            "torch.unique({x}, return_inverse=True)",
            "torch.unique_consecutive({x}, return_counts=True)",
            "torch.frexp({x})",
            "torch.std_mean({x}, dim={axis})",
            "torch.broadcast_tensors({x}, {y})",
            "torch.aminmax({x})",
            "torch.where({x} > 0)",
            "torch.split({x}, [1, {x}.size(0) - 1])",
            "{x}.tensor_split(2, {axis})",
        ),
    )


COMPLEX = lines("""
{x}.real
{x}.imag
torch.view_as_real({x})
{x}.abs()
{x}.conj()
torch.angle({x})
{x} * {y}
{x} + {number}
{x} / ({y} + 3)
{x}.sum({axis})
{x}.mean()
{x}.mT
{x} - {x}.conj()
{x} @ {x}.mT
{x}.reshape(-1)
torch.cat([{x}, {same}], {axis})
{x}[{indexes}]
{x} == {y}
{x}.exp()
torch.fft.fft({x}, dim={axis})
torch.fft.ifft({x}, dim={axis})
{x}.prod()
{x} ** 2
torch.sgn({x})
-{x}
torch.stack([{x}, {same}])
{x}.flip({axis})
torch.where({mask2}, {x}, {same})
{x}.cumsum({axis})
{x}.to(torch.complex128)
torch.sin({x})
torch.sqrt({x})
{x}.reciprocal()
{x}.unsqueeze({axis})
{x}.expand({k}, *{x}.shape)
torch.dot({vector}, {vector})
torch.view_as_real({x}).sum(-1)
{x}.real + {x}.imag
{x} * 1j
1j * {x}.real
{x}.adjoint()
torch.log({x} + 10)
{x}.isnan()
""")


@family(1)
def complex_numbers(maker: Maker) -> bool:
    template = maker.pick(*COMPLEX).replace("{mask2}", "{x}.real > 0")
    return choose(maker, maker.tensor(lambda x: x.is_complex()), template)


@family(0.4)
def to_complex(maker: Maker) -> bool:
    name = maker.tensor(lambda x: x.dtype in (torch.float32, torch.float64))
    return choose(
        maker,
        name,
        "torch.complex({x}, {same})",
        "{x} + 2j",
        "torch.fft.rfft({x})",
        "{x}.to(torch.complex64)",
        "torch.polar({x}.abs(), {same})",
    )
