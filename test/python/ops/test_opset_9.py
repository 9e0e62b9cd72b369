"""Opsets 9 and 10: what opset 11 changed is composed from older operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnx
import pytest
import torch
import torch.nn.functional as F
from models import routes
from models.torchvision_kernels import load_torchvision_kernels
from torch import Tensor, nn

OPSETS = pytest.mark.parametrize("opset", [9, 10])
NAN, INF = float("nan"), float("inf")


def check(
    opset: int,
    function: Callable[..., Any],
    *examples: tuple[Tensor, ...],
    dynamic: Any = None,
) -> onnx.ModelProto:
    model = routes.check(
        function, examples[0], "native", *examples[1:], dynamic=dynamic, opset=opset
    )
    assert model.opset_import[0].version == opset
    return model


def randn(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


@OPSETS
@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v3_small"])
def test_networks_for_images(name: str, opset: int) -> None:
    load_torchvision_kernels()
    import torchvision

    net = getattr(torchvision.models, name)().eval()
    check(opset, net, (randn(1, 3, 64, 64),), (randn(2, 3, 64, 64),), dynamic=({0: "n"},))


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(50, 16), nn.Embedding(12, 16)
        self.norm = nn.LayerNorm(16)
        layer = nn.TransformerEncoderLayer(16, 2, 32, activation="gelu", batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        places = mask.cumsum(1).clamp(max=11) * mask
        x = self.norm(self.words(ids) + self.places(places))
        hidden = self.layers(x, src_key_padding_mask=mask == 0)
        return hidden, torch.tanh(hidden[:, 0])


@OPSETS
def test_encoder(opset: int) -> None:
    mask = torch.tensor([[1] * 12, [1] * 7 + [0] * 5])
    ids = torch.arange(24).reshape(2, 12)
    more = (torch.cat([ids, ids]), torch.cat([mask, mask]))
    check(opset, Encoder().eval(), (ids, mask), more, dynamic=({0: "b"}, {0: "b"}))


@OPSETS
@pytest.mark.parametrize("layer", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent_networks(layer: Any, opset: int) -> None:
    net = layer(4, 5, 2, batch_first=True, bidirectional=layer is nn.LSTM).eval()
    check(opset, net, (randn(2, 6, 4),))


X = randn(2, 4, 6, 6)
OPERATORS: dict[str, Callable[[Tensor], Any]] = {
    "limits": lambda x: (x.clamp(-0.5, 0.5), F.relu6(x), (x * 9).long().clamp(0, 3)),
    "computed limits": lambda x: torch.clamp(x, x.amin(1, True) / 2, x.amax(1, True) / 2),
    "padding": lambda x: (F.pad(x, (1, 2, 0, 1), value=3.0), F.pad(x, (-1, 2))),
    "padding by elements": lambda x: (
        F.pad(x[0], (1, 2), mode="reflect"),
        F.pad(x[0], (1, 2), mode="replicate"),
    ),
    "padding of integers": lambda x: (
        F.pad((x * 9).long(), (1, 2, -1, 1), value=7),
        F.pad(x > 0, (1, 0)),
    ),
    "sorts": lambda x: (x.topk(2), x.topk(2, largest=False), x.sort(), x.median(1)),
    "sorts of integers": lambda x: (
        (x * 9).int().sort(dim=-1, stable=True),
        (x > 0).byte().amax(1),
    ),
    "rounding": lambda x: ((x * 4).round() / 2).round(),
    "sums": lambda x: (x.cumsum(1), (x * 9).long().cumsum(0), torch.logcumsumexp(x, 1)),
    "elements": lambda x: (x.gather(1, (x[:, :1] > 0).long()), x.take_along_dim(x.argsort(1), 1)),
    "index": lambda x: (x[[0, 1], [1, -1]], x[:, [0, -2], 1], x[x[:, 0, 0, 0] > 9]),
    "equality": lambda x: (x == x[:, :1], x != 0, (x * 3).byte() == 1, x.double() == x.double()),
    "slices": lambda x: (x[:, 1:3, ::2], x[..., -2:], x.flip(1, 3), x[:, ::3]),
    "nearest": lambda x: (F.interpolate(x, scale_factor=2), F.interpolate(x, size=(9, 4))),
    "bilinear": lambda x: (
        F.interpolate(x, scale_factor=2, mode="bilinear"),
        F.interpolate(x, size=(9, 4), mode="bilinear", align_corners=True),
        F.interpolate(x, scale_factor=1.7, mode="bilinear"),
    ),
    "pixels": lambda x: (F.pixel_shuffle(x, 2), F.pixel_unshuffle(x, 2)),
    "pools": lambda x: (F.max_pool2d(x, 3, 2, 1), F.max_pool2d(x, 3, 2, ceil_mode=True)),
    "average pools": lambda x: (F.avg_pool2d(x, 3, 2, 1), F.adaptive_avg_pool2d(x, 3)),
    "normalizations": lambda x: (F.layer_norm(x, (6,)), F.group_norm(x, 2), F.instance_norm(x)),
    "softmax": lambda x: (x.softmax(1), x.log_softmax(-1), x.logsumexp(1)),
    "activations": lambda x: (F.gelu(x), F.hardswish(x), F.mish(x), F.celu(x), F.silu(x)),
    "products": lambda x: (
        torch.einsum("bchw,bchv->bcwv", x, x),
        F.linear(x, torch.ones(3, 6)),
        torch.addmm(x[0, 0], x[0, 1], x[1, 0]),
        x[0, 0] @ x[0, 1],
    ),
    "attention": lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True),
    "remainders": lambda x: (
        torch.remainder((x * 9).long(), 3),
        torch.remainder((x * 9).long(), -3),
        torch.fmod((x * 9).long(), 3),
        (x * 9).long() // 4,
    ),
    "infinities": lambda x: (torch.isinf(x / 0), torch.isposinf(x / 0), torch.isfinite(x / 0)),
    "scatter": lambda x: x.scatter(1, torch.zeros(2, 1, 6, 6, dtype=torch.long), 2.0),
    "diagonals": lambda x: (x.tril(), x.triu(1), F.one_hot(x[0, 0].argmax(1), 6)),
}


@OPSETS
@pytest.mark.parametrize("name", OPERATORS)
def test_operators(name: str, opset: int) -> None:
    special = X.clone()
    special[0, 1, 2] = torch.tensor([NAN, INF, -INF, 0.0, -0.0, 0.5])
    check(opset, OPERATORS[name], (X,), *([(special,)] if name in ("equality", "rounding") else []))


@OPSETS
def test_dynamic_sizes(opset: int) -> None:
    def function(x: Tensor) -> Any:
        n = x.shape[0]
        return (
            torch.arange(n) + x[:, 0],
            torch.arange(n, 0, -2),
            x.topk(2),
            x.view(n, 2, -1).transpose(0, 1),
            F.pad(x.long(), (1, 1)),
            x[1:] if opset < 10 else x[1 : n - 1],
            x.flip(1),
            x[:, None].expand(-1, 3, -1),
            x.cumsum(1),
        )

    check(opset, function, (randn(3, 6),), (randn(5, 6),), dynamic=({0: "n"},))


@pytest.mark.parametrize(
    ("function", "operator"),
    [
        (lambda x: x.index_put((torch.tensor([0]),), torch.tensor(1.0)), "ScatterND"),
        (lambda x: F.grid_sample(x, torch.zeros(2, 3, 3, 2)), "GridSample"),
        (lambda x: torch.unique(x), "Unique"),
        (lambda x: F.interpolate(x, scale_factor=2, mode="bicubic"), "Resize"),
        (lambda x: F.interpolate(x, size=(9, 4), mode="nearest-exact"), "Resize"),
        (lambda x: F.interpolate(x, scale_factor=(1.7, 0.6)), "Resize"),
    ],
)
def test_errors_name_the_operator_and_the_opset(
    function: Callable[[Tensor], Any], operator: str
) -> None:
    with pytest.raises(torch.onnx.OnnxExporterError, match=rf"{operator}.* at opset 9"):
        check(9, function, (X,))


class Head(nn.Module):
    """The head of YOLOv5: a view of a dynamic batch and a dynamic image."""

    def forward(self, x: Tensor) -> Any:
        n, _, h, w = x.shape
        boxes = x.view(n, 2, 4, h, w).permute(0, 1, 3, 4, 2)
        return boxes, boxes.reshape(n, 2 * h * w, 4), x.reshape(n * h, -1), x.flatten(1)


@pytest.mark.parametrize("opset", [9, 11, 12, 13])
def test_views_without_allowzero(opset: int) -> None:
    names = ({0: "n", 2: "h", 3: "w"},)
    check(opset, Head(), (randn(2, 8, 3, 5),), (randn(1, 8, 7, 2),), dynamic=names)
    check(opset, lambda x: (x.reshape(0, 7), x.reshape(4, 0, 2)), (torch.zeros(3, 0),))
