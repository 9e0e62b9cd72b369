# Calls hand over what types forbid.
# mypy: disable-error-code="arg-type,call-arg,method-assign,assignment,misc,union-attr,type-var"
"""Calls of libraries and their READMEs: timm, YOLO, detectors, transformers, audio, policies."""

from __future__ import annotations

import copy
import enum
import functools
import os
import pathlib
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from calls.call import Given, call
from calls.modules import Classifier, Detector, Encoder, Mlp, Pair, Policy, Yolo

IDS = torch.randint(0, 11, (2, 5))
LONGER = torch.randint(0, 11, (3, 9))


def mask_of(ids: Tensor) -> Tensor:
    return torch.ones_like(ids)


@call
def timm_onnx_export(path: pathlib.Path) -> Given:
    """timm's onnx_export.py."""
    model = Classifier().eval()
    example_input = torch.randn((2, 3, 8, 8), requires_grad=True)
    model(example_input)
    torch.onnx.export(
        model,
        example_input,
        str(path),
        training=torch.onnx.TrainingMode.EVAL,
        export_params=True,
        verbose=False,
        input_names=["input0"],
        output_names=["output0"],
        keep_initializers_as_inputs=None,
        dynamic_axes={"input0": {0: "batch"}, "output0": {0: "batch"}},
        opset_version=None,
        operator_export_type=torch.onnx.OperatorExportTypes.ONNX,
    )
    return Given(path, model, [(example_input,), (torch.randn(5, 3, 8, 8),)])


@call
def timm_real_model(path: pathlib.Path) -> Given:
    from models.torchvision_kernels import load_torchvision_kernels

    load_torchvision_kernels()
    import timm

    model = timm.create_model("test_vit", pretrained=False, num_classes=4).eval()
    x = torch.randn(2, 3, 160, 160)
    torch.onnx.export(
        model, x, path, opset_version=17, input_names=["input"], output_names=["output"]
    )
    return Given(path, model, [(x,)], opset=17)


@call
def ultralytics(path: pathlib.Path) -> Given:
    model = copy.deepcopy(Yolo()).eval().float()
    for p in model.parameters():
        p.requires_grad = False
    im = torch.zeros(1, 3, 16, 16)
    for _ in range(2):
        model(im)
    torch.onnx.export(
        model,
        im,
        path,
        verbose=False,
        opset_version=17,
        do_constant_folding=True,
        input_names=["images"],
        output_names=["output0", "features"],
        dynamic_axes={
            "images": {0: "batch", 2: "height", 3: "width"},
            "output0": {0: "batch", 1: "anchors"},
        },
    )
    return Given(path, model, [(im,), (torch.randn(2, 3, 32, 24),)], opset=17)


@call
def yolov5(path: pathlib.Path) -> Given:
    model = Yolo().eval()
    im = torch.zeros(1, 3, 16, 16)
    torch.onnx.export(
        model.cpu(),
        im.cpu(),
        path,
        verbose=False,
        opset_version=12,
        do_constant_folding=True,
        input_names=["images"],
        output_names=["output0"],
        dynamic_axes=None,
    )
    return Given(path, model, [(im,)], opset=12)


@call
def yolov7_without_output_names(path: pathlib.Path) -> Given:
    """Output axes of outputs without names."""
    model = Yolo().eval()
    im = torch.zeros(2, 3, 16, 16)
    torch.onnx.export(
        model,
        im,
        path,
        input_names=["images"],
        dynamic_axes={"images": {0: "batch"}, "output": {0: "batch"}},
    )
    return Given(path, model, [(im,), (torch.randn(3, 3, 16, 16),)])


@call
def torchvision_detector(path: pathlib.Path) -> Given:
    """torchvision's documentation: the argument is a list of images."""
    model = Detector().eval()
    x = [torch.rand(3, 6, 5), torch.rand(3, 7, 4)]
    torch.onnx.export(model, x, str(path), opset_version=11)
    return Given(path, model, [(x,)], opset=11)


@call
def torchvision_detector_in_a_tuple(path: pathlib.Path) -> Given:
    model = Detector().eval()
    images = [torch.rand(3, 6, 5), torch.rand(3, 7, 4)]
    torch.onnx.export(
        model,
        (images,),
        str(path),
        do_constant_folding=True,
        opset_version=11,
        dynamic_axes={"images_tensors": [0, 1, 2], "boxes": [0, 1], "labels": [0], "scores": [0]},
        input_names=["images_tensors", "second"],
        output_names=["boxes", "scores"],
    )
    grown = [torch.rand(3, 8, 9), torch.rand(3, 7, 4)]
    return Given(path, model, [(images,), (grown,)], opset=11)


@call
def detectron_like(path: pathlib.Path) -> Given:
    """A list of dicts as the argument."""

    class Meta(nn.Module):
        def forward(self, inputs: list[dict[str, Tensor]]) -> Any:
            return [{"instances": each["image"].mean(0)} for each in inputs]

    inputs = [{"image": torch.rand(3, 6, 5)}, {"image": torch.rand(3, 4, 4)}]
    torch.onnx.export(Meta(), (inputs,), path)
    return Given(path, Meta(), [(inputs,)])


@call
def list_of_arguments(path: pathlib.Path) -> Given:
    x, y = torch.randn(2, 3), torch.randn(2, 3)
    torch.onnx.export(Pair(), [x, y], path)
    return Given(path, Pair(), [(x, y)])


@call
def list_of_one_argument(path: pathlib.Path) -> Given:
    model, x = Mlp().eval(), torch.randn(2, 4)
    torch.onnx.export(model, [x], path)
    return Given(path, model, [(x,)])


@call
def dict_of_arguments(path: pathlib.Path) -> Given:
    model = Encoder().eval()
    encoded = {"input_ids": IDS, "attention_mask": mask_of(IDS)}
    torch.onnx.export(
        model,
        encoded,
        path,
        input_names=["input_ids", "attention_mask"],
        output_names=["last_hidden_state", "pooler_output"],
        dynamic_axes={
            "input_ids": {0: "batch", 1: "sequence"},
            "attention_mask": {0: "batch", 1: "sequence"},
        },
    )
    longer = {"input_ids": LONGER, "attention_mask": mask_of(LONGER)}
    return Given(path, model, [(encoded,), (longer,)])


@call
def batch_encoding(path: pathlib.Path) -> Given:
    """A tokenizer's result, which is a UserDict."""
    from transformers import BatchEncoding

    model = Encoder().eval()
    encoded = BatchEncoding({"input_ids": IDS, "attention_mask": mask_of(IDS)})
    torch.onnx.export(model, (dict(encoded),), path)
    return Given(path, model, [(dict(encoded),)])


@call
def batch_encoding_itself(path: pathlib.Path) -> Given:
    from transformers import BatchEncoding

    model = Encoder().eval()
    encoded = BatchEncoding({"input_ids": IDS, "attention_mask": mask_of(IDS)})
    torch.onnx.export(model, encoded, path)
    return Given(path, model, [(dict(encoded),)])


@call
def huggingface_tuple_of_values(path: pathlib.Path) -> Given:
    model = Encoder().eval()
    inputs = {"input_ids": IDS, "attention_mask": mask_of(IDS)}
    symbolic_names = {0: "batch_size", 1: "max_seq_len"}
    torch.onnx.export(
        model,
        args=tuple(inputs.values()),
        f=path.as_posix(),
        opset_version=14,
        do_constant_folding=True,
        input_names=["input_ids", "input_mask"],
        output_names=["start", "end"],
        dynamic_axes={
            "input_ids": symbolic_names,
            "input_mask": symbolic_names,
            "segment_ids": symbolic_names,
            "start": symbolic_names,
            "end": {0: "batch_size"},
        },
    )
    return Given(path, model, [(IDS, mask_of(IDS)), (LONGER, mask_of(LONGER))], opset=14)


@call
def huggingface_convert(path: pathlib.Path) -> Given:
    """The old transformers.onnx: a trailing dict, all names, surplus axes."""
    model = Encoder().eval()
    inputs = {"input_ids": IDS, "attention_mask": mask_of(IDS), "return_dict": False}
    torch.onnx.export(
        model,
        (inputs,),
        f=path.as_posix(),
        input_names=["input_ids", "attention_mask"],
        output_names=["last_hidden_state", "pooler_output"],
        dynamic_axes=dict(
            {
                "input_ids": {0: "batch", 1: "sequence"},
                "attention_mask": {0: "batch", 1: "sequence"},
                "token_type_ids": {0: "batch", 1: "sequence"},
            },
            last_hidden_state={0: "batch", 1: "sequence"},
        ),
        do_constant_folding=True,
        opset_version=13,
    )
    longer = {"input_ids": LONGER, "attention_mask": mask_of(LONGER), "return_dict": False}
    return Given(path, model, [(inputs,), (longer,)], opset=13)


@call
def skipped_keyword(path: pathlib.Path) -> Given:
    """Keyword arguments that leave out a parameter, in another order than the signature."""
    model = Encoder().eval()
    kwargs = {"position_ids": IDS, "input_ids": IDS}
    torch.onnx.export(
        model,
        (),
        path,
        kwargs=kwargs,
        dynamic_axes={
            "input_ids": {0: "batch", 1: "sequence"},
            "position_ids": {0: "batch", 1: "sequence"},
        },
    )
    return Given(path, model, [(kwargs,), ({"position_ids": LONGER, "input_ids": LONGER},)])


@call
def none_between(path: pathlib.Path) -> Given:
    model = Encoder().eval()
    args = (IDS, None, IDS)
    torch.onnx.export(
        model,
        args,
        path,
        input_names=["ids", "types"],
        dynamic_axes={"ids": {0: "batch", 1: "length"}, "types": {0: "batch", 1: "length"}},
    )
    return Given(path, model, [args, (LONGER, None, LONGER)])


@call
def none_named(path: pathlib.Path) -> Given:
    """An input name for the argument that is None."""
    model = Encoder().eval()
    args = (IDS, None)
    torch.onnx.export(
        model,
        args,
        path,
        input_names=["input_ids", "attention_mask"],
        dynamic_axes={
            "input_ids": {0: "batch", 1: "length"},
            "attention_mask": {0: "batch", 1: "length"},
        },
    )
    return Given(path, model, [args, (LONGER, None)])


@call
def past_key_values(path: pathlib.Path) -> Given:
    """A decoder with a cache as a tuple of pairs, as optimum exports it."""

    class Decoder(nn.Module):
        def forward(self, input_ids: Tensor, past_key_values: Any) -> Any:
            key, value = past_key_values[0]
            x = input_ids[:, None, :, None].float().expand(-1, 2, -1, 4)
            key, value = torch.cat((key, x), 2), torch.cat((value, x), 2)
            return (x @ key.transpose(-1, -2)).softmax(-1) @ value, ((key, value),)

    def arguments(batch: int, new: int, past: int) -> Any:
        pair = torch.randn(batch, 2, past, 4), torch.randn(batch, 2, past, 4)
        return torch.randint(0, 5, (batch, new)), (pair,)

    args = arguments(2, 3, 4)
    cached = {0: "batch", 2: "past"}
    torch.onnx.export(
        Decoder(),
        args,
        path,
        input_names=["input_ids", "past.0.key", "past.0.value"],
        output_names=["logits", "present.0.key", "present.0.value"],
        dynamic_axes={
            "input_ids": {0: "batch", 1: "sequence"},
            "past.0.key": cached,
            "past.0.value": cached,
            "present.0.key": {0: "batch", 2: "past + sequence"},
        },
    )
    return Given(path, Decoder(), [args, arguments(3, 2, 6)])


@call
def data_parallel(path: pathlib.Path) -> Given:
    model = nn.DataParallel(Mlp().eval())
    x = torch.randn(2, 4)
    program = torch.onnx.export(model, x, path)
    assert program is not None
    assert not any("module." in name for name in program.model.graph.initializers)
    return Given(path, model.module, [(x,)])


@call
def compiled_module(path: pathlib.Path) -> Given:
    model = Mlp().eval()
    x = torch.randn(2, 4)
    program = torch.onnx.export(torch.compile(model), x, path)
    assert program is not None
    assert not any("_orig_mod" in name for name in program.model.graph.initializers)
    return Given(path, model, [(x,)])


@call
def compiled_function(path: pathlib.Path) -> Given:
    def function(x: Tensor) -> Tensor:
        return x.relu() + 1

    x = torch.randn(2, 4)
    torch.onnx.export(torch.compile(function), (x,), path)
    return Given(path, function, [(x,)])


class Mode(enum.Enum):
    """An option of a module."""

    MEAN = "mean"
    SUM = "sum"


@call
def enum_argument(path: pathlib.Path) -> Given:
    class Pool(nn.Module):
        def forward(self, x: Tensor, mode: Mode = Mode.MEAN) -> Tensor:
            return x.sum(1) if mode is Mode.SUM else x.mean(1)

    x = torch.randn(2, 4)
    torch.onnx.export(Pool(), (x, Mode.SUM), path)
    return Given(path, Pool(), [(x, Mode.SUM)])


@call
def enum_keyword_with_dynamic_shapes(path: pathlib.Path) -> Given:
    class Pool(nn.Module):
        def forward(self, x: Tensor, mode: Mode = Mode.MEAN) -> Tensor:
            return x.sum(1) if mode is Mode.SUM else x.mean(1)

    x = torch.randn(2, 4)
    torch.onnx.export(
        Pool(),
        (x,),
        path,
        kwargs={"mode": Mode.SUM},
        dynamic_shapes={"x": {0: "batch"}, "mode": None},
    )
    return Given(path, Pool(), [(x, {"mode": Mode.SUM}), (torch.randn(5, 4), {"mode": Mode.SUM})])


@call
def policy(path: pathlib.Path) -> Given:
    """stable-baselines3's documentation."""
    model = Policy().eval()
    observation = torch.randn(1, 4)
    torch.onnx.export(model, observation, str(path), opset_version=17, input_names=["input"])
    return Given(path, model, [(observation,)], opset=17)


@call
def policy_with_a_flag(path: pathlib.Path) -> Given:
    model = Policy().eval()
    observation = torch.randn(1, 4)
    torch.onnx.export(model, (observation, True), str(path), opset_version=9 + 6)
    return Given(path, model, [(observation, True)], opset=15)


@call
def named_tuple_argument(path: pathlib.Path) -> Given:
    x = torch.randn(2, 3)
    torch.onnx.export(Batches(), (Batch(x, x),), path, input_names=["x", "y"])
    return Given(path, Batches(), [(Batch(x, x),)])


class Batch(NamedTuple):
    x: Tensor
    y: Tensor


class Batches(nn.Module):
    def forward(self, batch: Batch) -> Tensor:
        return batch.x - batch.y


@call
def one_name_as_text(path: pathlib.Path) -> Given:
    model, x = Mlp().eval(), torch.randn(2, 4)
    torch.onnx.export(model, x, path, input_names="input", output_names="output")
    return Given(path, model, [(x,)], (["input"], ["output"]))


@call(error="(?i)output name.*empty|empty.*output name")
def empty_output_name(path: pathlib.Path) -> None:
    torch.onnx.export(Mlp().eval(), torch.randn(2, 4), path, output_names=[""])


@call(error="(?i)input name.*empty|empty.*input name")
def empty_input_name(path: pathlib.Path) -> None:
    torch.onnx.export(Mlp().eval(), torch.randn(2, 4), path, input_names=[""])


@call(error="Input names cannot be duplicated")
def names_twice(path: pathlib.Path) -> None:
    x = torch.randn(2, 4)
    torch.onnx.export(Pair(), (x, x), path, input_names=["x", "x"])


@call
def data_in_forward(path: pathlib.Path) -> Given:
    class Detached(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            y = x * 2
            y.data = y.data + 1
            return y

    x = torch.randn(2, 4)
    torch.onnx.export(Detached(), x, path)
    return Given(path, Detached(), [(x,)])


@call
def data_read_in_forward(path: pathlib.Path) -> Given:
    class Detached(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.data * 2

    x = torch.randn(2, 4)
    torch.onnx.export(Detached(), x, path)
    return Given(path, Detached(), [(x,)])


@call
def weights_left_out(path: pathlib.Path) -> None:
    torch.onnx.export(Mlp().eval(), torch.randn(2, 4), path, export_params=False)
    import onnx

    assert not onnx.load(path).graph.initializer


@call
def weights_as_inputs(path: pathlib.Path) -> None:
    torch.onnx.export(
        Mlp().eval(), torch.randn(2, 4), path, export_params=True, keep_initializers_as_inputs=True
    )
    import onnx

    assert len(onnx.load(path).graph.input) == 5


@call
def self_contained(path: pathlib.Path) -> Given:
    model, x = Mlp().eval(), torch.randn(2, 4)
    torch.onnx.export(model, (x,), path, external_data=False, dynamo=True)
    assert os.listdir(path.parent) == [path.name]
    return Given(path, model, [(x,)])


@call
def half_precision(path: pathlib.Path) -> Given:
    model, x = Mlp().half().eval(), torch.randn(2, 4).half()
    torch.onnx.export(model, x, path)
    return Given(path, model, [])


@call
def under_no_grad_and_autocast(path: pathlib.Path) -> Given:
    model, x = Mlp().eval(), torch.randn(2, 4)
    with torch.no_grad(), torch.autocast("cpu"):
        torch.onnx.export(model, x, path)
    return Given(path, model, [(x,)])


@call
def under_inference_mode(path: pathlib.Path) -> Given:
    model, x = Mlp().eval(), torch.randn(2, 4)
    with torch.inference_mode():
        torch.onnx.export(model, x, path)
    return Given(path, model, [(x,)])


@call
def partial(path: pathlib.Path) -> Given:
    """Weights and biases: a forward replaced by functools.partial."""
    model = Encoder().eval()
    model.forward = functools.partial(model.forward, return_dict=False)
    torch.onnx.export(model, (IDS,), path, input_names=["ids"], dynamic_axes={"ids": {0: "batch"}})
    return Given(path, model, [(IDS,), (torch.randint(0, 11, (4, 5)),)])


@call
def numpy_float_argument(path: pathlib.Path) -> Given:
    class Scaled(nn.Module):
        def forward(self, x: Tensor, scale: float) -> Tensor:
            return x * scale

    x = torch.randn(2, 4)
    torch.onnx.export(Scaled(), (x, float(np.float32(0.5))), path)
    return Given(path, Scaled(), [(x, 0.5)])
