"""torchvision's models, scripted and traced, and a traced BERT."""

import pytest
import torch
from models.torchvision_kernels import load_torchvision_kernels
from models.zoo import BERT_SMALL

from .running import check

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
    "vgg11",
    "vit_b_16",
]
SEGMENTATION = ["fcn_resnet50", "deeplabv3_mobilenet_v3_large", "lraspp_mobilenet_v3_large"]
IMAGES = {name: [(2, 3, 224, 224), (3, 3, 224, 224)] for name in CLASSIFICATION} | {
    name: [(2, 3, 64, 64), (1, 3, 64, 64)] for name in SEGMENTATION
}


def create(name):
    load_torchvision_kernels()
    import torchvision

    torch.manual_seed(0)
    folder = torchvision.models.segmentation if name in SEGMENTATION else torchvision.models
    extra = {"weights_backbone": None} if name in SEGMENTATION else {}
    if name == "googlenet":
        extra["init_weights"] = False
    return getattr(folder, name)(weights=None, **extra).eval()


@pytest.mark.parametrize("way", ["scripted", "traced"])
@pytest.mark.parametrize("name", IMAGES)
def test_torchvision(name, way):
    model = create(name)
    images = [(torch.randn(size),) for size in IMAGES[name]]
    if way == "scripted":
        module = torch.jit.script(model)
    else:
        module = torch.jit.trace(model, images[0], strict=False, check_trace=False)
    check(module, images, [{0: "batch"}])


def test_traced_bert():
    torch.manual_seed(0)
    model = BERT_SMALL.module()
    inputs = [tuple(BERT_SMALL.example(sizes).values()) for sizes in ((2, 12), (3, 7))]
    names = list(BERT_SMALL.example())
    example = dict(zip(names, inputs[0], strict=True))
    traced = torch.jit.trace(model, example_kwarg_inputs=example, strict=False)
    shapes = [{0: "batch", 1: "sequence"} for _ in names]
    check(traced, inputs, shapes)
