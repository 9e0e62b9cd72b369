"""Modules with submodules, and layers with unusual settings."""

from __future__ import annotations

import torch

from storm.families.layers import apply, features, single, suffix
from storm.families.registry import family
from storm.maker import Maker


@family(1.5)
def blocks(maker: Maker) -> bool:
    """Modules of `storm.blocks`, some called twice."""
    name = single(maker, 2, 3)
    size = features(maker, name, -1)
    layer = maker.pick(
        f"MLP({size}, 3)",
        f"Residual({size})",
        f"Gate({size})",
        "Counter()",
        f"Cumulative({size})",
        f"Attention({size}, {maker.pick(1, 2)})",
        f"nn.Sequential(Residual({size}), Gate({size}))",
        f"nn.Sequential(nn.Linear({size}, 4), nn.ReLU(), nn.LayerNorm(4), MLP(4, 2))",
        f"Layers({size}, {maker.pick(1, 2)})",
    ) + suffix(maker, name)
    if layer.startswith("Layers"):
        return apply(maker, layer, f"{{}}({name})", results=2)
    call = maker.pick(f"{{0}}({name})", f"{{0}}({name})", f"{{0}}({name}) + {{0}}({name} * 2)")
    return apply(maker, layer, call)


@family(0.5)
def tied(maker: Maker) -> bool:
    name = maker.tensor(lambda x: x.dtype is torch.int64 and x.dim() < 4)
    count = maker.pick(3, 5)
    return apply(maker, f"Tied({count}, 2)", f"{{}}({name} % {count})")


@family(1.5)
def recurrent(maker: Maker) -> bool:
    """Recurrent layers, with explicit states and all results named."""
    name = single(maker, 2, 3)
    size = features(maker, name, -1)
    kind, hidden = maker.pick("LSTM", "GRU", "RNN"), maker.pick(1, 2, 3)
    layers, directions = maker.pick(1, 1, 2), maker.pick(1, 2)
    options = f"num_layers={layers}, bidirectional={directions == 2}"
    options += maker.pick("", ", bias=False", ", batch_first=True", ", dropout=0.5")
    if kind == "RNN":
        options += maker.pick("", ", nonlinearity='relu'")
    layer = f"nn.{kind}({size}, {hidden}, {options}){suffix(maker, name)}"
    batch = ""
    if maker.value(name).dim() == 3:
        batch = f"{name}.size({0 if 'batch_first' in options else 1}), "
    dtype = maker.value(name).dtype
    state = f"torch.full(({layers * directions}, {batch}{hidden}), 0.25, dtype={dtype})"
    if kind == "LSTM":
        given = maker.pick("", f", ({state}, {state} * 2)")
        first, second, third = (maker.fresh() for _ in range(3))
        reference = maker.layer(layer)
        text = f"{first}, ({second}, {third}) = {reference}({name}{given})"
        return maker.with_layer(text, first, second, third)
    given = maker.pick("", f", {state}")
    return apply(maker, layer, f"{{}}({name}{given})", results=2)


@family(0.7)
def cell(maker: Maker) -> bool:
    """A cell called over the steps of a sequence."""
    name = single(maker, 3)
    size = features(maker, name, -1)
    kind = maker.pick("GRUCell", "RNNCell")
    layer = f"nn.{kind}({size}, 2){suffix(maker, name)}"
    fresh = maker.fresh()
    reference = maker.layer(layer)
    dtype = maker.value(name).dtype
    text = f"{fresh} = torch.zeros({name}.size(1), 2, dtype={dtype})\n"
    if maker.is_static(name, 0) or maker.flavor == "scripted":
        text += f"for k in range({name}.size(0)):\n    {fresh} = {reference}({name}[k], {fresh})"
    else:
        text += f"{fresh} = {reference}({name}[0], {fresh})"
    return maker.with_layer(text, fresh)


@family(1.5)
def functional(maker: Maker) -> bool:
    """Pools, convolutions and norms as functions, with settings per axis."""
    dims = maker.pick(1, 2, 2)
    name = single(maker, dims + 1, dims + 2)
    channels = features(maker, name, -dims - 1)
    odd = f"({maker.pick(1, 2, 3)}, {maker.pick(1, 2)})" if dims == 2 else str(maker.pick(1, 2, 3))
    step = f"({maker.pick(1, 2)}, {maker.pick(1, 3)})" if dims == 2 else str(maker.pick(1, 2, 3))
    pad = f"({maker.pick(0, 1)}, {maker.pick(0, 1)})" if dims == 2 else str(maker.pick(0, 1))
    ceil = maker.pick("True", "False")
    sizes = ", ".join(str(maker.pick(1, 2, 3)) for _ in range(dims))
    weight = f"torch.full((4, {channels}, {sizes}), 0.25, dtype={maker.value(name).dtype})"
    return maker.assign(
        maker.pick(
            f"F.max_pool{dims}d({name}, {odd}, {step}, {pad}, ceil_mode={ceil})",
            f"F.avg_pool{dims}d({name}, {odd}, {step}, {pad}, ceil_mode={ceil})",
            f"F.avg_pool{dims}d({name}, {odd}, {step}, {pad}, {ceil}, count_include_pad=False)",
            f"F.max_pool{dims}d({name}, {odd}, {step}, return_indices=True)[{maker.pick(0, 1)}]",
            f"F.adaptive_avg_pool{dims}d({name}, {maker.pick(1, 2, 3)})",
            f"F.adaptive_max_pool{dims}d({name}, {maker.pick(1, 2)})",
            f"F.lp_pool{dims}d({name}, 2.0, {maker.pick(1, 2)})",
            f"F.conv{dims}d({name}, {weight}, stride={step}, padding={pad})",
            f"F.conv{dims}d({name}, {weight}, dilation={odd}, padding='same')",
            f"F.conv_transpose{dims}d({name}, {weight}[:{channels}].transpose(0, 1).expand("
            f"{channels}, 4, {sizes}), stride={step}, padding={pad})",
            f"F.instance_norm({name})",
            f"F.group_norm({name}, 1)",
            f"F.layer_norm({name}, [{name}.size(-1)])",
            f"F.layer_norm({name}, {name}.shape[-2:])",
            f"F.batch_norm({name}, torch.zeros({channels}), torch.ones({channels}))",
            f"F.batch_norm({name}, None, None, training=True)",
            f"F.local_response_norm({name}, 2)",
            f"F.rms_norm({name}, [{name}.size(-1)], eps=1e-5)",
            f"F.dropout({name}, 0.5, training=False)",
            f"F.unfold({name}, {odd}, padding=1)",
            f"F.interpolate({name}, size=({', '.join(['3'] * dims)},), mode='nearest')",
            f"F.interpolate({name}, scale_factor=({', '.join(['2.0'] * dims)},))",
            f"F.upsample({name}, scale_factor=2)",
            f"F.softmax({name}.flatten(1), -1).view({name}.shape)",
        )
    )


@family(1)
def attentions(maker: Maker) -> bool:
    name = single(maker, 3, 4)
    x = maker.alike(name)
    rows = f"{name}.size(-2)"
    mask = maker.pick(
        "",
        ", is_causal=True",
        f", attn_mask=torch.ones({rows}, {rows}, dtype=torch.bool).tril()",
        f", attn_mask=torch.zeros({rows}, {rows}, dtype={maker.value(name).dtype})",
        ", scale=0.5",
    )
    if maker.value(name).dim() == 4 and maker.chance(0.3):
        mask += ", enable_gqa=True"
    if maker.value(name).dim() == 3 and maker.chance(0.5):
        size = features(maker, name, -1)
        options = maker.pick("", ", norm_first=True", ", activation='gelu'")
        first = maker.pick("True", "False")
        layer = maker.pick(
            f"nn.TransformerEncoderLayer({size}, 1, 3, batch_first={first}{options})",
            f"nn.TransformerDecoderLayer({size}, 1, 3{options})",
            f"nn.MultiheadAttention({size}, 1, add_bias_kv={maker.pick(True, False)})",
        ) + suffix(maker, name)
        if "Multi" in layer:
            return apply(maker, layer, f"{{}}({name}, {x}, {x})", results=2)
        return apply(maker, layer, f"{{}}({name}{', ' + x if 'Decoder' in layer else ''})")
    return maker.assign(f"F.scaled_dot_product_attention({name}, {x}, {x}{mask})")


@family(0.7)
def embeddings(maker: Maker) -> bool:
    name = maker.tensor(lambda x: x.dtype in (torch.int64, torch.int32))
    count, size = maker.pick(4, 8), maker.pick(2, 3)
    options = maker.pick("", ", max_norm=1.0", ", scale_grad_by_freq=True")
    if maker.value(name).dim() == 2 and maker.chance(0.5):
        how = maker.pick("'sum'", "'mean'", "'max'")
        return apply(
            maker, f"nn.EmbeddingBag({count}, {size}, mode={how})", f"{{}}({name} % {count})"
        )
    if maker.value(name).dim() == 1 and maker.chance(0.4):
        layer = f"nn.EmbeddingBag({count}, {size}, mode='sum')"
        return apply(maker, layer, f"{{}}({name} % {count}, torch.tensor([0]))")
    return apply(maker, f"nn.Embedding({count}, {size}{options})", f"{{}}({name} % {count})")


@family(1.5)
def layers_of_all_kinds(maker: Maker) -> bool:
    name = single(maker, 2, 3, 4, 5)
    last = features(maker, name, -1)
    layer = maker.pick(
        *(
            "nn.Softmax2d()",
            "nn.Softmin(-1)",
            "nn.LogSoftmax(1)",
            "nn.Softshrink(0.2)",
            "nn.Tanhshrink()",
        ),
        *(
            "nn.Threshold(0.1, -2.0)",
            "nn.RReLU()",
            "nn.CELU(0.5)",
            "nn.Hardswish()",
            "nn.AlphaDropout(0.5)",
        ),
        *(
            "nn.Flatten(0, 1)",
            "nn.Unflatten(-1, (-1, 1))",
            "nn.UpsamplingNearest2d(scale_factor=2)",
            "nn.Fold((2, 2), (1, 1))",
        ),
        *(
            "nn.UpsamplingBilinear2d(scale_factor=2)",
            "nn.ConstantPad1d((1, 2), 0.5)",
            "nn.ReplicationPad2d(1)",
            "nn.ReflectionPad2d(1)",
        ),
        *(
            "nn.ZeroPad3d(1)",
            "nn.PixelShuffle(1)",
            "nn.Dropout2d()",
            "nn.Identity()",
            f"nn.Bilinear({last}, {last}, 2)",
        ),
        *(
            f"nn.LayerNorm({last}, bias=False)",
            f"nn.RMSNorm({last}, eps=1e-3)",
            "nn.MaxPool1d(2, return_indices=False)",
            "nn.FractionalMaxPool2d(2, output_size=1)",
        ),
        *(
            f"nn.utils.parametrizations.weight_norm(nn.Linear({last}, 2))",
            "nn.AdaptiveAvgPool2d((None, 1))",
            "nn.AdaptiveMaxPool1d(2)",
            "nn.AvgPool3d(1, 1)",
        ),
    )
    call = f"{{}}({name}, {name})" if "Bilinear(" in layer else f"{{}}({name})"
    return apply(maker, layer + suffix(maker, name), call)
