"""Many architectures with dynamic shapes: exported, checked, compared with eager at two sizes."""

import math

import onnx
import pytest
import torch
from readers import archives

from models import running, zoo
from models.architectures import ARCHITECTURES

# Those whose programs by torch.export, and archives of them, are tested too: its capture takes
# seconds. benchmarks/capture.py --same compares the captures of all.
CAPTURED_BY_TORCH_EXPORT = (
    *("bart", "bloom", "convnext", "deberta_v2", "diffusers_vae_decoder", "dinov2", "distilbert"),
    *("falcon", "gpt2_cache", "hubert", "mamba", "mixtral", "modernbert", "nn_embedding_bag"),
    *("nn_lstm_state", "nn_transformer_encoder", "phi3", "swinv2", "timm_swin", "timm_repvgg"),
    *("tv_squeezenet", "wav2vec2", "whisper"),
)


def check(model, module, path):
    """Compares a model with eager PyTorch at two sizes."""
    onnx.checker.check_model(str(path), full_check=True)
    session = running.session(path, optimized=False)
    for which in (0, 1):
        inputs = model.example(which)
        running.assert_same(running.run(session, inputs), running.eager(module, inputs))


@pytest.mark.parametrize("name", sorted(ARCHITECTURES))
def test_export_equals_eager_at_two_sizes(name):
    model = ARCHITECTURES[name]
    module = model.module()
    with zoo.scratch_folder() as folder:
        program = model.export(module, f=folder / "m.onnx")
        assert program.export_report["capture"]["by"] == "native"
        check(model, module, folder / "m.onnx")


@pytest.mark.parametrize("name", CAPTURED_BY_TORCH_EXPORT)
def test_archives_and_programs_of_torch_export(name):
    model = ARCHITECTURES[name]
    module = model.module()
    program = model.capture(module)
    with zoo.scratch_folder() as folder:
        path = folder / "m.onnx"
        torch.onnx.export(
            program, f=path, dynamo=True, dynamic_shapes=model.dynamic_shapes(), verbose=False
        )
        check(model, module, path)
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
