"""Exports models of speechbrain with dynamic batches and lengths.

Needs the package: see README.md.
"""

from __future__ import annotations

from typing import Any

import comparison
import torch
from speechbrain.lobes.features import Fbank
from speechbrain.lobes.models import (
    CRDNN,
    ECAPA_TDNN,
    ContextNet,
    HifiGAN,
    ResNet,
    Xvector,
    dual_path,
)
from speechbrain.lobes.models.transformer.TransformerASR import TransformerASR
from speechbrain.lobes.models.transformer.TransformerLM import TransformerLM
from torch import Tensor, nn

FEATURES = ({0: "batch", 1: "time"},)


class Encoder(nn.Module):
    def __init__(self, kind: str, **options: Any) -> None:
        super().__init__()
        self.model = TransformerASR(
            tgt_vocab=20,
            input_size=40,
            d_model=32,
            nhead=4,
            num_encoder_layers=2,
            num_decoder_layers=2,
            d_ffn=64,
            encoder_module=kind,
            causal=False,
            **options,
        )


class Encoding(Encoder):
    def forward(self, features: Tensor) -> Tensor:
        return self.model.encode(features)


class Recognition(Encoder):
    """The encoder and the decoder."""

    def forward(self, features: Tensor, tokens: Tensor) -> Any:
        return self.model(features, tokens)[:2]


def features(width: int) -> list[comparison.Example]:
    return [(torch.rand(batch, time, width),) for batch, time in ((2, 40), (3, 64), (1, 52))]


def signals(*lengths: int) -> list[comparison.Example]:
    return [(torch.randn(batch, length),) for batch, length in zip((2, 3), lengths, strict=True)]


def cases() -> dict[str, comparison.Case]:
    found: dict[str, comparison.Case] = {}

    def add(name: str, make: Any, examples: Any, dynamic: Any = FEATURES) -> None:
        found[f"speechbrain {name}"] = (lambda: make().eval()), examples, dynamic

    channels = [32, 32, 32, 32, 96]
    add(
        "ECAPA-TDNN",
        lambda: ECAPA_TDNN.ECAPA_TDNN(40, channels=channels, lin_neurons=24),
        features(40),
    )
    relative = [(*each, torch.linspace(0.5, 1, len(each[0]))) for each in features(40)]
    add(
        "ECAPA-TDNN, lengths",
        lambda: ECAPA_TDNN.ECAPA_TDNN(40, channels=channels, lin_neurons=24),
        relative,
        (*FEATURES, {0: "batch"}),
    )
    add("Xvector", lambda: Xvector.Xvector(tdnn_channels=[32, 32, 32, 32, 96]), features(40))
    add("ResNet", lambda: ResNet.ResNet(40, channels=[8, 8, 16, 16]), features(40))
    add("CRDNN", lambda: CRDNN.CRDNN(input_shape=[None, None, 40], rnn_neurons=16), features(40))
    add(
        "ContextNet",
        lambda: ContextNet.ContextNet(
            input_shape=[None, None, 40],
            out_channels=32,
            num_blocks=3,
            strides=[1, 2, 1],
            conv_channels=[32] * 3,
        ),
        features(40),
    )
    for kind in ("transformer", "conformer", "branchformer"):
        options: dict[str, Any] = {} if kind == "transformer" else {"attention_type": "RelPosMHAXL"}
        if kind == "conformer":
            options["normalize_before"] = True
        if kind == "branchformer":
            options["csgu_linear_units"] = 64
        add(f"encoder, {kind}", lambda k=kind, o=options: Encoding(k, **o), features(40))
    both = [
        (*each, torch.randint(1, 20, (len(each[0]), n)))
        for each, n in zip(features(40), (5, 7, 4), strict=True)
    ]
    add(
        "TransformerASR",
        lambda: Recognition("transformer"),
        both,
        (*FEATURES, {0: "batch", 1: "tokens"}),
    )
    tokens = [(torch.randint(1, 20, (batch, n)),) for batch, n in ((2, 6), (3, 9), (1, 4))]
    add("TransformerLM", lambda: TransformerLM(20, 32, 4, 2, 0, 64), tokens)
    small = {
        "encoder_out_nchannels": 32,
        "masknet_chunksize": 20,
        "intra_numlayers": 1,
        "inter_numlayers": 1,
        "intra_dffn": 64,
        "inter_dffn": 64,
    }
    add("SepFormer", lambda: dual_path.SepformerWrapper(**small), signals(400, 520))
    add("Fbank", lambda: Fbank(n_mels=40), signals(4000, 5200))
    add(
        "HiFi-GAN",
        lambda: HifiGAN.HifiganGenerator(
            in_channels=20,
            out_channels=1,
            resblock_type="1",
            resblock_dilation_sizes=[[1, 3, 5], [1, 3, 5]],
            resblock_kernel_sizes=[3, 7],
            upsample_kernel_sizes=[16, 8],
            upsample_initial_channel=32,
            upsample_factors=[8, 4],
        ),
        [(x.transpose(1, 2),) for (x,) in features(20)],
        ({0: "batch", 2: "time"},),
    )
    return found


if __name__ == "__main__":
    comparison.start()
    comparison.of_models(cases())
