"""Exports models of timm by the function of its script onnx_export.py, with both exporters.

timm checks each file; this compares it at another batch too, and at another size of the images if
that is dynamic. Needs no more than the environment.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from functools import partial

import comparison
import torch
from models import torchvision_kernels

torchvision_kernels.load_torchvision_kernels()
import timm  # noqa: E402
from timm.utils.onnx import onnx_export  # noqa: E402

# The model and the size of its images.
MODELS = {
    "resnet18": 64,
    "mobilenetv3_small_050": 64,
    "efficientnet_b0": 64,
    "tf_efficientnet_lite0": 64,
    "convnext_atto": 64,
    "vit_tiny_patch16_224": 224,
    "swin_tiny_patch4_window7_224": 224,
    "mobilevit_xxs": 64,
    "fastvit_t8": 64,
}
# Models whose weights and positions do not depend on the size of the images.
DYNAMIC = ("resnet18", "mobilenetv3_small_050", "efficientnet_b0", "convnext_atto", "fastvit_t8")


def exported(name: str, size: int, *, dynamo: bool, dynamic_size: bool = False) -> None:
    # As the script does.
    model = timm.create_model(name, num_classes=10, in_chans=3, pretrained=False, exportable=True)
    path = os.path.join(tempfile.mkdtemp(), "model.onnx")
    onnx_export(
        model,
        path,
        batch_size=2,
        input_size=(3, size, size),
        check_forward=True,
        dynamic_size=dynamic_size,
        use_dynamo=dynamo,
    )
    width = size + 32 if dynamic_size else size
    comparison.assert_same(model, (torch.rand(3, 3, size, width),), path)


def cases() -> dict[str, Callable[[], object]]:
    found: dict[str, Callable[[], object]] = {}
    for dynamo in (False, True):
        for name, size in MODELS.items():
            found[f"timm {name}, dynamo={dynamo}"] = partial(exported, name, size, dynamo=dynamo)
        for name in DYNAMIC:
            found[f"timm {name}, dynamic size, dynamo={dynamo}"] = partial(
                exported, name, 64, dynamo=dynamo, dynamic_size=True
            )
    return found


if __name__ == "__main__":
    comparison.start()
    comparison.of_calls(cases())
