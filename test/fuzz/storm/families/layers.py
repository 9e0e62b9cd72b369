"""Network layers with weights."""

from __future__ import annotations

import torch

from storm.families.registry import family
from storm.maker import Maker, NothingError


def apply(maker: Maker, layer: str, call: str, *, results: int = 1) -> bool:
    """Adds a layer and a call of it; `{}` in the call is replaced by the layer."""
    reference = maker.layer(layer)
    names = [maker.fresh() for _ in range(results)]
    return maker.with_layer(f"{', '.join(names)} = {call.format(reference)}", *names)


def features(maker: Maker, name: str, axis: int) -> int:
    """Returns a static size, which weights may have."""
    if not maker.is_static(name, axis) or not maker.value(name).shape[axis]:
        raise NothingError
    return int(maker.value(name).shape[axis])


def single(maker: Maker, *ranks: int) -> str:
    """Returns a float32 (sometimes float64) tensor of one of these ranks."""
    dtype = torch.float64 if maker.chance(0.1) else torch.float32
    return maker.tensor(lambda x: x.dtype is dtype and x.dim() in ranks)


def suffix(maker: Maker, name: str) -> str:
    """Casts a layer's weights to the input's dtype."""
    return ".double()" if maker.value(name).dtype is torch.float64 else ""


@family(2)
def linear(maker: Maker) -> bool:
    name = single(maker, 1, 2, 3, 4)
    size = features(maker, name, -1)
    bias = maker.pick("", ", bias=False")
    layer = f"nn.Linear({size}, {maker.pick(2, 3, 4)}{bias}){suffix(maker, name)}"
    return apply(maker, layer, f"{{}}({name})")


@family(3)
def convolution(maker: Maker) -> bool:
    dims = maker.pick(1, 1, 2, 2, 3)
    name = single(maker, dims + 1, dims + 2)
    channels = features(maker, name, -dims - 1)
    out = maker.pick(2, 4)
    groups = maker.pick(1, 1, 1, 2, channels)
    padding = maker.pick("0", "1", "'same'", "2")
    options = f"padding={padding}, groups={groups}, bias={maker.pick(True, False)}"
    transposed = maker.chance(0.3)
    if not transposed:
        options += maker.pick("", ", stride=2", ", dilation=2")
        options += maker.pick("", "", ", padding_mode='reflect'", ", padding_mode='circular'")
    else:
        options = (
            f"padding={maker.pick(0, 1)}, groups={maker.pick(1, 2)}, stride={maker.pick(1, 2)}"
        )
        options += maker.pick("", ", dilation=2", ", output_padding=1")
    kind = "ConvTranspose" if transposed else "Conv"
    layer = f"nn.{kind}{dims}d({channels}, {out}, {maker.pick(1, 2, 3)}, {options})"
    return apply(maker, layer + suffix(maker, name), f"{{}}({name})")


@family(2)
def norm(maker: Maker) -> bool:
    name = single(maker, 2, 3, 4)
    rank = maker.value(name).dim()
    last = features(maker, name, -1) if maker.chance(0.5) else 0
    if last:
        layer = maker.pick(
            f"nn.LayerNorm({last}{maker.pick('', ', elementwise_affine=False')})",
            f"nn.RMSNorm({last})",
        )
    else:
        channels = features(maker, name, 1)
        dims = max(rank - 2, 1)
        layer = maker.pick(
            f"nn.BatchNorm{dims}d({channels})",
            f"nn.GroupNorm({maker.pick(1, 2)}, {channels})",
            f"nn.InstanceNorm{dims}d({channels}, affine={maker.pick(True, False)})",
            f"nn.BatchNorm{dims}d({channels}, affine=False)",
            f"nn.LocalResponseNorm({maker.pick(2, 3)})",
        )
    return apply(maker, layer + suffix(maker, name), f"{{}}({name})")


@family(2)
def pool(maker: Maker) -> bool:
    dims = maker.pick(1, 1, 2, 2, 3)
    name = single(maker, dims + 1, dims + 2)
    kernel, stride = maker.pick(1, 2, 3), maker.pick(1, 2)
    pad = maker.pick(0, kernel // 2)
    ceil = maker.pick("", ", ceil_mode=True")
    layer = maker.pick(
        f"nn.MaxPool{dims}d({kernel}, {stride}, {pad}{ceil})",
        f"nn.AvgPool{dims}d({kernel}, {stride}, {pad}{ceil})",
        f"nn.AvgPool{dims}d({kernel}, {stride}, {pad}{ceil}, count_include_pad=False)",
        f"nn.AdaptiveAvgPool{dims}d({maker.pick(1, 2)})",
        f"nn.AdaptiveMaxPool{dims}d(1)",
        f"nn.MaxPool{dims}d({kernel}, {stride}, {pad}, dilation=2)",
        f"nn.LPPool1d(2, {kernel})",
    )
    return apply(maker, layer, f"{{}}({name})")


@family(1.5)
def padded(maker: Maker) -> bool:
    name = maker.tensor(lambda x: x.dim() > 0)
    amounts = [maker.pick(0, 1, 2, -1) for _ in range(maker.pick(2, 2, 4))]
    text = ", ".join(map(str, amounts))
    mode = maker.pick("", "", ", value=1.0", ", value=-2.0")
    if maker.value(name).dim() > 1 and maker.chance(0.4):
        mode = f", mode={maker.pick(repr('reflect'), repr('replicate'), repr('circular'))}"
    fresh = maker.fresh()
    return maker.add(f"{fresh} = F.pad({name}, ({text}){mode})", fresh)


@family(1)
def resized(maker: Maker) -> bool:
    name = single(maker, 3, 4, 5)
    mode = maker.pick(
        "nearest", "linear", "bilinear", "bicubic", "area", "nearest-exact", "trilinear"
    )
    scale = maker.pick("scale_factor=2.0", "scale_factor=1.5", "size=3", "scale_factor=0.5")
    corners = maker.pick("", ", align_corners=True", ", align_corners=False")
    extra = corners if "linear" in mode or mode == "bicubic" else ""
    fresh = maker.fresh()
    return maker.add(f"{fresh} = F.interpolate({name}, {scale}, mode={mode!r}{extra})", fresh)


@family(1)
def recurrent(maker: Maker) -> bool:
    name = single(maker, 3)
    size = features(maker, name, -1)
    kind = maker.pick("LSTM", "GRU", "RNN")
    hidden = maker.pick(2, 3)
    options = maker.pick("", ", batch_first=True", ", bidirectional=True", ", num_layers=2")
    if kind == "LSTM" and maker.chance(0.2):
        options += ", proj_size=1"
    layer = f"nn.{kind}({size}, {hidden}{options}){suffix(maker, name)}"
    reference = maker.layer(layer)
    names = [maker.fresh(), maker.fresh()]
    named = names if kind != "LSTM" else names[:1]
    return maker.with_layer(f"{', '.join(names)} = {reference}({name})", *named)


@family(1)
def attention(maker: Maker) -> bool:
    name = single(maker, 3, 4)
    rank = maker.value(name).dim()
    if rank == 3 and maker.chance(0.5):
        size = features(maker, name, -1)
        heads = maker.pick(1, 2)
        layer = f"nn.MultiheadAttention({size}, {heads}, batch_first={maker.pick(True, False)})"
        weights = maker.pick("True", "False")
        call = f"{{}}({name}, {name}, {name}, need_weights={weights})[0]"
        return apply(maker, layer + suffix(maker, name), call)
    if rank == 3 and maker.chance(0.4):
        size = features(maker, name, -1)
        layer = f"nn.TransformerEncoderLayer({size}, 1, 4, batch_first=True)"
        return apply(maker, layer + suffix(maker, name), f"{{}}({name})")
    fresh = maker.fresh()
    mask = maker.pick("", ", is_causal=True", f", attn_mask={name} @ {name}.mT")
    return maker.add(
        f"{fresh} = F.scaled_dot_product_attention({name}, {name}, {name}{mask})", fresh
    )


@family(1)
def embedding(maker: Maker) -> bool:
    name = maker.tensor(lambda x: x.dtype in (torch.int64, torch.int32))
    count, size = maker.pick(5, 8), maker.pick(2, 4)
    index = f"{name} % {count}"
    if maker.value(name).dim() == 2 and maker.chance(0.2):
        return apply(maker, f"nn.EmbeddingBag({count}, {size}, mode='mean')", f"{{}}({index})")
    extra = maker.pick("", ", padding_idx=0")
    return apply(maker, f"nn.Embedding({count}, {size}{extra})", f"{{}}({index})")


@family(1)
def small_layers(maker: Maker) -> bool:
    name = single(maker, 2, 3, 4)
    layer = maker.pick(
        "nn.PReLU()",
        "nn.Dropout(0.5)",
        "nn.Flatten()",
        "nn.GLU(-1)",
        "nn.ReLU(inplace=True)",
        "nn.ZeroPad2d(1)",
        "nn.PixelShuffle(2)",
        "nn.PixelUnshuffle(2)",
        "nn.ChannelShuffle(2)",
        "nn.Unfold(2, padding=1)",
        "nn.CosineSimilarity()",
        "nn.Hardtanh(-0.5, 0.5)",
        "nn.Softmax(dim=-1)",
        "nn.Upsample(scale_factor=2)",
        "nn.Sequential(nn.ReLU(), nn.Tanh())",
        "nn.ReflectionPad1d(1)",
        "nn.CircularPad2d(1)",
    )
    call = f"{{}}({name}, {name})" if "Cosine" in layer else f"{{}}({name})"
    return apply(maker, layer, call)


@family(0.5)
def grid(maker: Maker) -> bool:
    name = single(maker, 4)
    if maker.value(name).dtype is not torch.float32:
        return False
    fresh = maker.fresh()
    place = f"torch.tanh({name}.mean(1).unsqueeze(-1).repeat(1, 1, 1, 2))"
    mode = maker.pick("bilinear", "nearest")
    return maker.add(
        f"{fresh} = F.grid_sample({name}, {place}, mode={mode!r}, align_corners=True)", fresh
    )
