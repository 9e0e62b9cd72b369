"""Real models as TorchScript: torchvision, scripted and traced; BERT; torch.nn."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from models.torchvision_kernels import load_torchvision_kernels
from models.zoo import BERT_SMALL


class Case(NamedTuple):
    """A TorchScript program, its sets of inputs, and its dynamic sizes."""

    program: Any
    inputs: list[tuple[Any, ...]]
    dynamic_shapes: Any


CLASSIFICATION = [
    "alexnet",
    "convnext_tiny",
    "densenet121",
    "efficientnet_b0",
    "googlenet",
    "mnasnet1_0",
    "mobilenet_v2",
    "mobilenet_v3_small",
    "regnet_y_400mf",
    "resnet18",
    "shufflenet_v2_x1_0",
    "squeezenet1_1",
    "swin_t",
    "VisionTransformer",
]
SEGMENTATION = ["fcn_resnet50", "deeplabv3_mobilenet_v3_large", "lraspp_mobilenet_v3_large"]
IMAGES = {name: [(2, 3, 64, 64), (3, 3, 64, 64)] for name in CLASSIFICATION} | {
    name: [(2, 3, 64, 64), (1, 3, 64, 64)] for name in SEGMENTATION
}


def create(name: str) -> torch.nn.Module:
    """Returns a torchvision model with random weights."""
    load_torchvision_kernels()
    import torchvision

    torch.manual_seed(0)
    folder = torchvision.models.segmentation if name in SEGMENTATION else torchvision.models
    extra: dict[str, Any] = {"weights_backbone": None} if name in SEGMENTATION else {}
    if name == "googlenet":
        extra["init_weights"] = False
    if name == "VisionTransformer":  # those with weights have 86 million and more
        return torchvision.models.VisionTransformer(64, 16, 2, 4, 64, 128).eval()
    return getattr(folder, name)(weights=None, **extra).eval()


def torchvision_model(name: str, way: str) -> Case:
    """Scripted or traced."""
    model = create(name)
    images = [(torch.randn(size),) for size in IMAGES[name]]
    if way == "scripted":
        program = torch.jit.script(model)
    else:
        program = torch.jit.trace(model, images[0], strict=False, check_trace=False)
    return Case(program, images, [{0: "batch"}])


DETECTION = [
    "fasterrcnn_resnet50_fpn",
    "retinanet_resnet50_fpn",
    "fcos_resnet50_fpn",
    "keypointrcnn_resnet50_fpn",
]


class Detects(torch.nn.Module):
    """Boxes, labels and scores of one image; boxes in units of 128 pixels."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, image: torch.Tensor):
        found = self.model([image])[1][0]
        return found["boxes"] / 128, found["labels"], found["scores"]


def scripted_detection(name: str) -> Case:
    """Takes images of any size."""
    load_torchvision_kernels()
    from torchvision.models import detection

    torch.manual_seed(0)
    model = getattr(detection, name)(
        weights=None, weights_backbone=None, min_size=96, max_size=128
    ).eval()
    program = torch.jit.script(Detects(torch.jit.script(model)).eval())
    images = [(torch.rand(3, 96, 128),), (torch.rand(3, 128, 96),)]
    return Case(program, images, [{1: "height", 2: "width"}])


def video(way: str) -> Case:
    """r3d_18."""
    load_torchvision_kernels()
    from torchvision.models.video import r3d_18

    torch.manual_seed(0)
    model = r3d_18(weights=None).eval()
    clips = [(torch.rand(1, 3, 8, 32, 32),), (torch.rand(2, 3, 8, 32, 32),)]
    scripted = way == "scripted"
    program = torch.jit.script(model) if scripted else torch.jit.trace(model, clips[0])
    return Case(program, clips, [{0: "batch"}])


def optical_flow(way: str) -> Case:
    """raft_small: a loop that returns a list of flows."""
    load_torchvision_kernels()
    from torchvision.models.optical_flow import raft_small

    torch.manual_seed(0)
    model = raft_small(weights=None).eval()
    frames = [(torch.rand(n, 3, 128, 128), torch.rand(n, 3, 128, 128)) for n in (1, 2)]
    scripted = way == "scripted"
    program = torch.jit.script(model) if scripted else torch.jit.trace(model, frames[0])
    return Case(program, frames, [{0: "batch"}, {0: "batch"}])


def traced_bert() -> Case:
    """Has two dynamic axes."""
    torch.manual_seed(0)
    model = BERT_SMALL.module()
    inputs = [tuple(BERT_SMALL.example(sizes).values()) for sizes in ((2, 12), (3, 7))]
    names = list(BERT_SMALL.example())
    example = dict(zip(names, inputs[0], strict=True))
    traced = torch.jit.trace(model, example_kwarg_inputs=example, strict=False)
    return Case(traced, inputs, [{0: "batch", 1: "sequence"} for _ in names])


class Masked(torch.nn.Module):
    """Attention with masked keys."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = torch.nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x: torch.Tensor, mask: torch.Tensor):
        return self.attention(x, x, x, key_padding_mask=mask)


BATCH_AND_TIME = {0: "batch", 1: "time"}


def scripted_attention() -> Case:
    """A model with a mask."""
    torch.manual_seed(0)
    masks = [torch.zeros(2, 5, dtype=torch.bool), torch.zeros(3, 7, dtype=torch.bool)]
    for mask in masks:
        mask[1, 3:] = True
    inputs = [(torch.randn(*mask.shape, 8), mask) for mask in masks]
    return Case(torch.jit.script(Masked().eval()), inputs, [BATCH_AND_TIME, BATCH_AND_TIME])


def scripted_transformer() -> Case:
    """A model with an encoder and a decoder."""
    torch.manual_seed(0)
    model = torch.nn.Transformer(8, 2, 2, 1, 16, batch_first=True).eval()
    sizes = [(2, 5, 4), (3, 7, 6)]
    inputs = [(torch.randn(b, time, 8), torch.randn(b, target, 8)) for b, time, target in sizes]
    return Case(torch.jit.script(model), inputs, [BATCH_AND_TIME, {0: "batch", 1: "target"}])


def scripted_lstm() -> Case:
    """A network with two layers and two directions."""
    torch.manual_seed(0)
    model = torch.nn.LSTM(4, 8, 2, bidirectional=True, batch_first=True)
    inputs = [(torch.randn(2, 5, 4),), (torch.randn(3, 7, 4),)]
    # The module itself has no forward method.
    return Case(torch.jit.script(torch.nn.Sequential(model).eval()), inputs, [BATCH_AND_TIME])


# Name -> function that creates the model.
MODELS: dict[str, Callable[[], Case]] = {
    f"{name} {way}": functools.partial(torchvision_model, name, way)
    for name in IMAGES
    for way in ("scripted", "traced")
} | {
    **{f"{name} scripted": functools.partial(scripted_detection, name) for name in DETECTION},
    "r3d_18 scripted": functools.partial(video, "scripted"),
    "r3d_18 traced": functools.partial(video, "traced"),
    "raft_small scripted": functools.partial(optical_flow, "scripted"),
    "raft_small traced": functools.partial(optical_flow, "traced"),
    "bert traced": traced_bert,
    "attention scripted": scripted_attention,
    "transformer scripted": scripted_transformer,
    "lstm scripted": scripted_lstm,
}
