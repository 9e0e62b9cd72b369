"""Idioms of whole models: transformers, half precision, spectra, contractions, mapped functions."""

from __future__ import annotations

import torch

from storm.families.layers import apply, features, single, suffix
from storm.families.registry import assign, family
from storm.families.slots import choose, need, write
from storm.maker import Maker, NothingError


@family(1)
def transformers(maker: Maker) -> bool:
    """torch.nn's own transformer layers, with masks."""
    name = single(maker, 3)
    size = features(maker, name, -1)
    heads = maker.pick(1, size)
    norm_first = maker.pick(True, False)
    options = f"{size}, {heads}, 3, batch_first={maker.pick(True, False)}, norm_first={norm_first}"
    options += maker.pick("", ", activation='gelu'", ", bias=False", ", dropout=0.0")
    encoder = f"nn.TransformerEncoderLayer({options})"
    decoder = f"nn.TransformerDecoderLayer({options})"
    length = f"{name}.size(1)" if "batch_first=True" in options else f"{name}.size(0)"
    double = suffix(maker, name)
    causal = f"nn.Transformer.generate_square_subsequent_mask({length}, dtype={name}.dtype)"
    layer, call = maker.pick(
        (encoder, f"{{}}({name})"),
        (encoder, f"{{}}({name}, src_mask={causal})"),
        (f"nn.TransformerEncoder({encoder}, 2, enable_nested_tensor=False)", f"{{}}({name})"),
        (decoder, f"{{}}({name}, {name} * 0.5)"),
        (decoder, f"{{}}({name}, {name}, tgt_mask={causal})"),
        (
            f"nn.TransformerDecoder({decoder}, 1, norm=nn.LayerNorm({size}))",
            f"{{}}({name}, {name})",
        ),
    )
    return apply(maker, layer + double, call)


@family(0.7)
def half_weights(maker: Maker) -> bool:
    """Layers with 16-bit weights."""
    name = single(maker, 2, 3)
    size = features(maker, name, -1)
    half = maker.pick("bfloat16", "bfloat16", "half")
    dtype = "float16" if half == "half" else half
    layer = maker.pick(
        f"nn.Linear({size}, 2)",
        f"nn.LayerNorm({size})",
        f"nn.Sequential(nn.Linear({size}, 2), nn.SiLU())",
        f"MLP({size}, 3)",
    )
    result = maker.pick("", ".float()")
    return apply(maker, f"{layer}.{half}()", f"{{}}({name}.to(torch.{dtype})){result}")


@family(0.5, ("fx",))
def autocast_region(maker: Maker) -> bool:
    name = single(maker, 2, 3)
    size = features(maker, name, -1)
    need(maker.value(name).dtype is torch.float32)
    reference = maker.layer(f"nn.Linear({size}, 2)")
    fresh = maker.fresh()
    after = maker.pick("", f"\n    {fresh} = {fresh} + 1", f"\n    {fresh} = {fresh}.softmax(-1)")
    inner = maker.pick(
        f"{reference}({name})", f"{reference}({name}).sum(-1)", f"{reference}(F.gelu({name}))"
    )
    enabled = maker.pick("", "", ", enabled=False")
    text = (
        f"with torch.autocast('cpu', dtype=torch.bfloat16{enabled}):\n    {fresh} = {inner}{after}"
    )
    return maker.with_layer(text, fresh)


SPECTRA = (
    "torch.fft.rfftn({x}, dim=({axis},))",
    "torch.fft.rfft({x}, n={k}, dim={axis}, norm='ortho')",
    "torch.fft.fftshift({x}, dim={axis})",
    "torch.fft.ifftshift({x})",
    "torch.fft.fft2({x}, norm='forward').abs()",
    "torch.fft.irfft(torch.fft.rfft({x}, dim={axis}), n={x}.size({axis}), dim={axis})",
    "torch.fft.fftn({x}).real",
    "torch.fft.fftfreq({x}.size({axis}), d=0.5)",
    "torch.fft.rfftfreq({size})",
    "torch.stft({x}.reshape(-1), 2, hop_length=1, center=False, return_complex=True)",
    "torch.stft({x}.reshape(-1), 4, window=torch.hann_window(4), pad_mode='constant', "
    "return_complex=True).abs()",
    "{x} * torch.hann_window({x}.size(-1), periodic={flag})",
    "{x} * torch.hamming_window({x}.size(-1))",
    "torch.signal.windows.gaussian(4, std=1.5) * {x}[..., :1]",
)


@family(0.7)
def spectra(maker: Maker) -> bool:
    return choose(maker, maker.tensor(lambda x: x.dtype is torch.float32 and x.dim() > 0), *SPECTRA)


@family(1)
def contraction(maker: Maker) -> bool:
    """einsum with a random equation over two or three tensors."""
    name = maker.tensor(lambda x: x.dtype in (torch.float32, torch.float64) and 0 < x.dim() < 5)
    other = maker.tensor(lambda x: x.dtype is maker.value(name).dtype and 0 < x.dim() < 5)
    letters: dict[tuple[int, ...], str] = {}
    taken = iter("ijklmnopqr")
    terms = []
    for operand in (name, other):
        term = ""
        for axis in range(maker.value(operand).dim()):
            sizes = tuple(space[operand].shape[axis] for space in maker.values)
            known = letters.get(sizes)
            if known is None or known in term or maker.chance(0.4):
                known = next(taken)
                letters[sizes] = known
            term += known
        terms.append(term)
    every = sorted(set("".join(terms)))
    kept = [letter for letter in every if maker.chance(0.5)]
    maker.random.shuffle(kept)
    result = maker.pick(f"->{''.join(kept)}", f"->{''.join(kept)}", "")
    return assign(maker, f"torch.einsum('{','.join(terms)}{result}', {name}, {other})")


MAPPED = (
    "torch.vmap(torch.vmap(torch.mul, (0, None)), (None, 0))({x}, {x})",
    "torch.vmap(torch.vmap(lambda v, w: (v * w).sum(), (0, None)), (None, 0))({x}, {x})",
    "torch.vmap(lambda v: v.softmax(-1) @ v.mT if v.dim() > 1 else v.cumsum(0))({x})",
    "torch.vmap(lambda v: F.layer_norm(v, v.shape[-1:]))({x})",
    "torch.vmap(lambda v: v.masked_fill(v > 0, 0), in_dims={axis}, out_dims=-1)({x})",
    "torch.vmap(lambda v: {{'a': v + 1, 'b': v.sum()}})({x})['b']",
    "torch.vmap(lambda p: p[0] + p[1])(({x}, {same}))",
    "torch.vmap(lambda v: torch.stack([v, -v]).amax(0))({x})",
    "torch.vmap(lambda v: v.gather(-1, v.argsort(-1, stable=True)))({x})",
)


@family(0.7, ("fx",))
def mapped(maker: Maker) -> bool:
    name = maker.tensor(lambda x: x.dtype in (torch.float32, torch.float64) and x.dim() > 1)
    return choose(maker, name, *MAPPED)


SCATTERED = (
    "torch.zeros_like({x}).scatter({axis}, {x}.argsort({axis}, stable=True), {x})",
    "{x}.scatter_add({axis}, {x}.argmax({axis}, keepdim=True), {x}.narrow({axis}, 0, 1))",
    "{x}.scatter_reduce({axis}, {x}.argmin({axis}, keepdim=True), {x}.narrow({axis}, -1, 1), "
    "'amax')",
    "{x}.index_add({axis}, torch.tensor([0, 0]), {x}.index_select({axis}, torch.tensor([0, 0])))",
    "{x}.index_copy({axis}, torch.tensor([0]), {x}.narrow({axis}, -1, 1))",
    "{x}.index_fill({axis}, torch.tensor([-1]), {number})",
    "{x}.index_put(({mask},), torch.tensor({number}, dtype={x}.dtype))",
    "{x}.index_put((torch.tensor([0, 0]),), {x}[:1] + 1, accumulate=True)",
    "torch.where({mask}, {x}, {x}.flip(-1))",
    "{x}.masked_scatter({mask}, {x}.flatten())",
    "{x}.take_along_dim({x}.argsort({axis}, descending=True, stable=True), {axis})",
)
WRITTEN = (
    "{out}[{out} > 0] = 0",
    "{out}[{out} > 0] += 1",
    "{out}[..., -1:] = {out}[..., :1]",
    "{out}[:, None].mul_(2)",
    "{out}[torch.arange({out}.size(0)), 0] = 1",
    "{out}.index_put_((torch.tensor([0]),), {out}[-1:])",
    "{out}.scatter_(-1, {out}.argmax(-1, keepdim=True), 0)",
)


@family(1)
def scattered(maker: Maker) -> bool:
    return choose(maker, maker.tensor(lambda x: x.dim() > 0 and not x.is_complex()), *SCATTERED)


@family(0.5)
def written(maker: Maker) -> bool:
    """Writes to a copy of a tensor, by masks and index tensors."""
    name = maker.tensor(lambda x: x.dim() > 0 and not x.is_complex() and x.dtype != torch.bool)
    fresh = maker.fresh()
    if not maker.add(f"{fresh} = {name} * 1", fresh):
        return False
    return write(maker, name, maker.pick(*WRITTEN).replace("{out}", fresh))


@family(1)
def sized(maker: Maker) -> bool:
    """Integers from data in divisions, ranges and sizes."""
    numbers = maker.integers()
    if not numbers:
        raise NothingError
    number = maker.pick(*numbers)
    name = maker.tensor(lambda x: x.dim() > 0 and x.dtype in (torch.float32, torch.int64))
    return choose(
        maker,
        name,
        f"{{x}} * ({number} // 2)",
        f"{{x}} + ({number} % 3)",
        f"{{x}} - (-{number} // 3)",
        f"torch.arange(abs({number}) + 1) * {number}",
        f"{{x}}.narrow({{axis}}, 0, min(abs({number}), {{x}}.size({{axis}})))",
        f"F.pad({{x}}, (abs({number}) // 2, 0))",
        f"torch.full((max({number}, 1),), {number})",
        f"{{x}}.roll({number}, {{axis}})",
        f"{{x}}[..., : max({number}, 1)]",
        f"{{x}} * ({number} ** 2) + divmod({number}, 2)[1]",
    )
