"""Many architectures with dynamic shapes: exported, checked, compared with eager at two sizes.

Their archives give the same models.
"""

import math

import onnx
import pytest
import torch
from models import running, zoo
from models.architectures import ARCHITECTURES
from readers import archives

# Their capture is slow, and other models cover their operators.
LEFT_TO_THE_BENCHMARK = {
    *("conditional_detr", "diffusers_unet_condition", "dpt", "gemma3_vision", "internvl"),
    *("qwen2_5_vl_tower", "siglip", "timm_coatnet"),
    *("timm_convnextv2", "timm_edgenext", "timm_efficientformer", "timm_efficientnet_lite0"),
    *("timm_ghostnet", "timm_levit", "timm_mobilevit", "timm_nf_resnet", "timm_poolformer"),
    *("timm_pvt", "timm_xcit", "tv_deeplabv3", "tv_googlenet", "tv_mnasnet", "tv_mobilenet_v2"),
    *("tv_s3d", "tv_shufflenet", "tv_squeezenet", "tv_swin_v2"),
}


@pytest.mark.parametrize("name", sorted(set(ARCHITECTURES) - LEFT_TO_THE_BENCHMARK))
def test_export_equals_eager_at_two_sizes(name):
    model = ARCHITECTURES[name]
    module = model.module()
    program = model.capture(module)
    with zoo.scratch_folder() as folder:
        path = folder / "m.onnx"
        torch.onnx.export(
            program, f=path, dynamo=True, dynamic_shapes=model.dynamic_shapes(), verbose=False
        )
        onnx.checker.check_model(str(path), full_check=True)
        session = running.session(path, optimized=False)
        for which in (0, 1):
            inputs = model.example(which)
            running.assert_same(running.run(session, inputs), running.eager(module, inputs))
        assert archives.compare(program, folder) == archives.Comparison()


class Folded(torch.nn.Module):
    """Splits an image into patches whose number is a rounded quotient of sizes."""

    def __init__(self, rounded) -> None:
        super().__init__()
        self.rounded = rounded

    def forward(self, x):
        height, width = x.shape[2] // 2, self.rounded(x.shape[3])
        return x.reshape(x.shape[0] * 3 * height, 2, width, 2).transpose(1, 2)


@pytest.mark.parametrize(
    "rounded",
    [
        pytest.param(lambda size: math.ceil(size / 2), id="ceil"),
        pytest.param(lambda size: torch.sym_int(size / 2), id="truncated"),
        pytest.param(lambda size: round(size * 0.25) * 2, id="product of a rounded one"),
    ],
)
def test_sizes_from_rounded_quotients(rounded):
    module = Folded(rounded)
    batch, height, width = (torch.export.Dim(name, min=2, max=64) for name in ("b", "h", "w"))
    shapes = {"x": {0: batch, 2: 4 * height, 3: 4 * width}}
    exported = torch.onnx.export(
        module,
        kwargs={"x": torch.randn(2, 3, 8, 12)},
        dynamic_shapes=shapes,
        dynamo=True,
        verbose=False,
    )
    for sizes in ((2, 3, 8, 12), (3, 3, 12, 20)):
        x = torch.randn(sizes)
        (got,) = exported(x=x)
        torch.testing.assert_close(got, module(x))
