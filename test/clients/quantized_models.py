"""Exports models that modelopt, neural-compressor, brevitas and torchao quantized.

Needs the packages: see README.md.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from functools import partial
from typing import Any

import brevitas.nn as qnn
import comparison
import modelopt.torch.quantization as modelopt
import neural_compressor.torch.quantization as compressor
import onnxruntime as ort
import torch
import torch.nn.functional as F
import torchao.quantization as torchao
from brevitas.export import export_onnx_qcdq
from torch import Tensor, nn

DYNAMIC = ({0: "batch"},)


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.second, self.head = nn.Conv2d(8, 8, 3, stride=2), nn.Linear(8 * 7 * 7, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.norm(self.first(x)))
        return self.head(F.relu(self.second(x)).flatten(1))


def images(batch: int) -> comparison.Example:
    return (torch.rand(batch, 3, 16, 16),)


def vectors(batch: int) -> comparison.Example:
    return (torch.rand(batch, 64),)


def layers() -> nn.Module:
    return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 32)).eval()


def by_modelopt(config: dict[str, Any]) -> nn.Module:
    model = Network().eval()
    modelopt.quantize(model, config, lambda model: model(*images(4)))
    return model


def by_compressor() -> nn.Module:
    return compressor.convert(
        compressor.prepare(layers(), compressor.RTNConfig(bits=4, group_size=32))
    )


def by_torchao(config: Any) -> nn.Module:
    model = layers()
    torchao.quantize_(model, config)
    return model


def by_brevitas() -> None:
    """The package puts its modules into another state for the export."""
    model = nn.Sequential(
        qnn.QuantIdentity(return_quant_tensor=True),
        qnn.QuantConv2d(3, 8, 3, weight_bit_width=4),
        qnn.QuantReLU(),
        nn.Flatten(),
        qnn.QuantLinear(8 * 14 * 14, 10, bias=True),
    )
    model(*images(4))  # in training mode: it finds the scales
    model.eval()
    (x,) = images(1)
    expected = model(x)
    path = os.path.join(tempfile.mkdtemp(), "model.onnx")
    export_onnx_qcdq(model, args=x, export_path=path)
    session = ort.InferenceSession(path, comparison.OPTIONS)
    (found,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    torch.testing.assert_close(torch.from_numpy(found), expected)


def cases() -> dict[str, comparison.Case]:
    groups = torchao.granularity.PerGroup(32)
    four: Any = torch.int4  # type: ignore[attr-defined]
    configs: dict[str, Any] = {
        "int8 weights": torchao.Int8WeightOnlyConfig(),
        "int8 dynamic": torchao.Int8DynamicActivationInt8WeightConfig(),
        "int4 weights": torchao.IntxWeightOnlyConfig(weight_dtype=four, granularity=groups),
        "float8 weights": torchao.Float8WeightOnlyConfig(),
    }
    makers: dict[str, tuple[Callable[[], Any], Any]] = {
        "modelopt INT8": (lambda: by_modelopt(modelopt.INT8_DEFAULT_CFG), images),
        "modelopt SmoothQuant": (lambda: by_modelopt(modelopt.INT8_SMOOTHQUANT_CFG), images),
        "neural-compressor RTN": (by_compressor, vectors),
    }
    for name, config in configs.items():
        makers[f"torchao {name}"] = partial(by_torchao, config), vectors
    return {name: (make, [of(2), of(5)], DYNAMIC) for name, (make, of) in makers.items()}


if __name__ == "__main__":
    comparison.start()
    comparison.of_models(cases())
    comparison.of_calls({"brevitas QCDQ": by_brevitas}, compares=False)
