"""The parts of real models share one file of weights."""

from __future__ import annotations

import pathlib
from typing import Any

import onnx
import onnx_native
import onnxruntime as ort
import torch
from models.torchvision_kernels import load_torchvision_kernels
from onnx_native import Part

load_torchvision_kernels()  # transformers imports torchvision

import transformers as hf  # noqa: E402


def sam() -> Any:
    backbone = hf.Sam2HieraDetConfig(
        hidden_size=12,
        image_size=[128, 128],
        blocks_per_stage=[1, 2, 2, 2],
        embed_dim_per_stage=[12, 24, 48, 96],
        num_attention_heads_per_stage=[1, 2, 4, 8],
        global_attention_blocks=[4],
    )
    vision = hf.Sam2VisionConfig(
        backbone_config=backbone,
        backbone_channel_list=[96, 48, 24, 12],
        backbone_feature_sizes=[[32, 32], [16, 16], [8, 8]],
        fpn_hidden_size=32,
    )
    prompts = hf.Sam2PromptEncoderConfig(
        hidden_size=32, image_size=128, patch_size=16, mask_input_channels=8
    )
    masks = hf.Sam2MaskDecoderConfig(
        hidden_size=32, mlp_dim=64, num_attention_heads=2, iou_head_hidden_dim=32
    )
    torch.manual_seed(0)
    config = hf.Sam2Config(
        vision_config=vision, prompt_encoder_config=prompts, mask_decoder_config=masks
    )
    return hf.Sam2Model(config).eval()


def run(path: pathlib.Path, inputs: dict[str, Any]) -> list[Any]:
    onnx.checker.check_model(path, full_check=True)
    return ort.InferenceSession(path).run(None, inputs)


def test_sam(tmp_path: pathlib.Path) -> None:
    """An image is encoded once; masks are decoded for any number of points."""
    model = sam()
    image = torch.randn(1, 3, 128, 128)
    points, labels = torch.rand(1, 1, 2, 2) * 128, torch.ones(1, 1, 2, dtype=torch.int64)
    with torch.no_grad():
        features = model.get_image_embeddings(image)
    names = ["features.0", "features.1", "features.2"]
    prompts = {"input_points": points, "input_labels": labels}
    decoded = {**prompts, "image_embeddings": features}
    shapes = {"input_points": {2: "n"}, "input_labels": {2: "n"}, "image_embeddings": None}
    programs = onnx_native.export_many(
        {
            "encoder": Part(model.get_image_embeddings, (image,), output_names=names),
            "decoder": Part(
                model,
                kwargs=decoded,
                dynamic_shapes=shapes,
                input_names=["points", "labels", *names],
                output_names=["scores", "masks"],
            ),
            "whole": Part(model, kwargs={"pixel_values": image, **prompts}),
        },
        tmp_path,
    )
    assert {each.export_report["capture"]["by"] for each in programs.values()} == {"native"}
    stored = sum(each.nbytes for each in model.parameters())
    together = sum(path.stat().st_size for path in tmp_path.glob("*.data"))
    for name, program in programs.items():
        program.save(tmp_path / f"alone_{name}.onnx", external_data=True)
    apart = sum(path.stat().st_size for path in tmp_path.glob("alone_*.data"))
    assert together < 1.1 * stored < 1.8 * stored < apart

    points, labels = torch.rand(1, 1, 5, 2) * 128, torch.ones(1, 1, 5, dtype=torch.int64)
    with torch.no_grad():
        expected = model(pixel_values=image, input_points=points, input_labels=labels)
    found = run(tmp_path / "encoder.onnx", {"pixel_values": image.numpy()})
    prompts = {"points": points, "labels": labels}
    feeds = {name: value.numpy() for name, value in prompts.items()}
    scores, masks, *_ = run(tmp_path / "decoder.onnx", feeds | dict(zip(names, found, strict=True)))
    torch.testing.assert_close(torch.from_numpy(scores), expected.iou_scores, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(torch.from_numpy(masks), expected.pred_masks, atol=1e-5, rtol=1e-4)
