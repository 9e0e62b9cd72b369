# Calls hand over what types forbid.
# mypy: disable-error-code="arg-type,list-item,method-assign,assignment,union-attr,type-var"
"""More calls: streams, options, opsets, wrappers, training mode, what has no effect."""

from __future__ import annotations

import io
import os
import pathlib
from typing import Any

import onnx
import torch
from torch import Tensor, nn

from calls.call import Given, call
from calls.modules import Classifier, Encoder, Mlp, Pair, Policy


@call
def an_open_file(path: pathlib.Path) -> Given:
    """As 1.x documents `f`: a file-like object or a path."""
    model, x = Mlp().eval(), torch.randn(2, 4)
    with open(path, "wb") as f:
        torch.onnx.export(model, x, f)
    return Given(path, model, [(x,)])


@call(error="open for text")
def a_file_open_for_text(path: pathlib.Path) -> None:
    with open(path, "w") as f:
        torch.onnx.export(Mlp().eval(), torch.randn(2, 4), f)


@call(error="(?i)the folder to save the ONNX model in does not exist")
def a_folder_that_does_not_exist(path: pathlib.Path) -> None:
    torch.onnx.export(Mlp().eval(), torch.randn(2, 4), path.parent / "none" / "model.onnx")


@call(error="path of the file")
def a_number_as_path(path: pathlib.Path) -> None:
    torch.onnx.export(Mlp().eval(), torch.randn(2, 4), 3)


@call
def a_bytes_path_object(path: pathlib.Path) -> Given:
    class Target(os.PathLike):
        def __fspath__(self) -> str:
            return str(path)

    model, x = Mlp().eval(), torch.randn(2, 4)
    torch.onnx.export(model, x, Target())
    return Given(path, model, [(x,)])


@call
def no_path(path: pathlib.Path) -> Given:
    model, x = Mlp().eval(), torch.randn(2, 4)
    return Given(torch.onnx.export(model, x), model, [(x,)])


@call
def keywords_only(path: pathlib.Path) -> Given:
    model, x = Mlp().eval(), torch.randn(2, 4)
    torch.onnx.export(model=model, args=(x,), f=str(path), dynamo=True)
    return Given(path, model, [(x,)])


@call
def keywords_without_args(path: pathlib.Path) -> Given:
    model, x = Mlp().eval(), torch.randn(2, 4)
    torch.onnx.export(model, kwargs={"x": x}, f=path)
    return Given(path, model, [(x,)])


@call(error="opset_version must be an int, not the float 11.0; write opset_version=11")
def a_float_opset(path: pathlib.Path) -> None:
    torch.onnx.export(Mlp().eval(), torch.randn(2, 4), path, opset_version=11.0)


@call(error="opset_version must be an int, not the str '17'; write opset_version=17")
def a_text_opset(path: pathlib.Path) -> None:
    torch.onnx.export(Mlp().eval(), torch.randn(2, 4), path, opset_version="17")


@call(error="opset_version must be an int, not the str 'latest'$")
def a_word_as_opset(path: pathlib.Path) -> None:
    torch.onnx.export(Mlp().eval(), torch.randn(2, 4), path, opset_version="latest")


@call
def opset_9(path: pathlib.Path) -> Given:
    net, x = Mlp().eval(), torch.randn(2, 4)
    torch.onnx.export(net, x, path, opset_version=9)
    return Given(path, net, [(x,)], opset=9)


@call(error="opset 8 is not supported; choose 9 to")
def opset_8(path: pathlib.Path) -> None:
    torch.onnx.export(Mlp().eval(), torch.randn(2, 4), path, opset_version=8)


@call(error="opset 99 is not supported; choose 9 to")
def an_unknown_opset(path: pathlib.Path) -> None:
    torch.onnx.export(Mlp().eval(), torch.randn(2, 4), path, opset_version=99)


@call
def a_numpy_opset(path: pathlib.Path) -> Given:
    import numpy as np

    model, x = Mlp().eval(), torch.randn(2, 4)
    torch.onnx.export(model, x, path, opset_version=np.int64(16))
    return Given(path, model, [(x,)], opset=16)


@call
def opset_11(path: pathlib.Path) -> Given:
    model, x = Classifier().eval(), torch.randn(2, 3, 8, 8)
    torch.onnx.export(
        model,
        x,
        str(path),
        verbose=False,
        opset_version=11,
        input_names=["images"],
        output_names=["output"],
        dynamic_axes={"images": {0: "batch"}, "output": {0: "batch"}},
    )
    return Given(path, model, [(x,), (torch.randn(5, 3, 8, 8),)], opset=11)


@call
def opset_11_text(path: pathlib.Path) -> Given:
    model, ids = Encoder().eval(), torch.randint(0, 11, (2, 5))
    torch.onnx.export(
        model,
        (ids, torch.ones_like(ids)),
        str(path),
        opset_version=11,
        input_names=["input_ids", "attention_mask"],
        dynamic_axes={
            "input_ids": {0: "batch", 1: "length"},
            "attention_mask": {0: "batch", 1: "length"},
        },
    )
    longer = torch.randint(0, 11, (3, 8))
    examples = [(ids, torch.ones_like(ids)), (longer, torch.ones_like(longer))]
    return Given(path, model, examples, opset=11)


@call
def opset_11_transformer(path: pathlib.Path) -> Given:
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.0)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    x = torch.randn(2, 5, 8)
    torch.onnx.export(model, x, path, opset_version=11)
    return Given(path, model, [(x,)], opset=11)


@call
def opset_11_policy(path: pathlib.Path) -> Given:
    model, observation = Policy().eval(), torch.randn(1, 4)
    torch.onnx.export(model, (observation, True), path, opset_version=11)
    return Given(path, model, [(observation, True)], opset=11)


@call(warning="operator_export_type.*no effect")
def aten_fallback(path: pathlib.Path) -> Given:
    model, x = Mlp().eval(), torch.randn(2, 4)
    fallback = torch.onnx.OperatorExportTypes.ONNX_ATEN_FALLBACK
    torch.onnx.export(model, x, path, operator_export_type=fallback)
    return Given(path, model, [(x,)])


@call(warning="custom_opsets.*no effect")
def opsets_of_custom_domains(path: pathlib.Path) -> Given:
    model, x = Mlp().eval(), torch.randn(2, 4)
    torch.onnx.export(model, x, path, custom_opsets={"custom_domain": 2})
    return Given(path, model, [(x,)])


@call(warning="export_modules_as_functions.*onnx_native.options")
def modules_as_functions(path: pathlib.Path) -> Given:
    model, x = Mlp().eval(), torch.randn(2, 4)
    torch.onnx.export(model, x, path, export_modules_as_functions={nn.Linear})
    return Given(path, model, [(x,)])


@call(warning="do_constant_folding=False has no effect")
def no_constant_folding(path: pathlib.Path) -> Given:
    model, x = Mlp().eval(), torch.randn(2, 4)
    torch.onnx.export(model, x, path, do_constant_folding=False)
    return Given(path, model, [(x,)])


@call(warning="TrainingMode.TRAINING has no effect")
def training_of_a_module_in_evaluation(path: pathlib.Path) -> Given:
    model, x = Classifier().eval(), torch.randn(2, 3, 8, 8)
    torch.onnx.export(
        model,
        x,
        path,
        training=torch.onnx.TrainingMode.TRAINING,
        do_constant_folding=True,
        opset_version=13,
    )
    return Given(path, model, [(x,)], opset=13)


@call(warning="in training mode")
def module_in_training_mode(path: pathlib.Path) -> None:
    torch.onnx.export(Classifier(), torch.randn(2, 3, 8, 8), path)


@call
def distributed_wrapper_of_compiled(path: pathlib.Path) -> Given:
    model, x = Mlp().eval(), torch.randn(2, 4)
    wrapped = nn.DataParallel(torch.compile(model))
    program = torch.onnx.export(wrapped, x, path)
    assert program is not None
    assert "fc1.bias" in program.model.graph.initializers
    return Given(path, model, [(x,)])


@call
def compiled_in_place(path: pathlib.Path) -> Given:
    model, x = Mlp().eval(), torch.randn(2, 4)
    model.compile()
    torch.onnx.export(model, x, path)
    return Given(path, lambda x: model.forward(x), [(x,)])


@call
def forward_compiled(path: pathlib.Path) -> Given:
    model, x = Mlp().eval(), torch.randn(2, 4)
    plain = model.forward
    model.forward = torch.compile(model.forward)
    torch.onnx.export(model, x, path)
    return Given(path, plain, [(x,)])


@call
def a_method_of_a_module(path: pathlib.Path) -> Given:
    """CLIP's encode_image and the like."""

    class Clip(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.visual = nn.Linear(4, 3)

        def encode_image(self, image: Tensor) -> Tensor:
            return self.visual(image)

        def forward(self, image: Tensor, text: Tensor) -> Tensor:
            return self.encode_image(image) @ text

    model, x = Clip().eval(), torch.randn(2, 4)
    program = torch.onnx.export(
        model.encode_image,
        (x,),
        path,
        input_names=["image"],
        dynamic_axes={"image": {0: "batch"}},
    )
    assert program is not None
    assert "visual.bias" in program.model.graph.initializers
    return Given(path, model.encode_image, [(x,), (torch.randn(5, 4),)])


@call
def a_method_that_calls_the_module(path: pathlib.Path) -> Given:
    """SAM's mask decoder and the like: the method calls the module, and its forward."""

    class Sam(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.mix = nn.Linear(4, 4)

        def decode(self, x: Tensor) -> Tensor:
            return self.forward(self(x) + 1)

        def forward(self, x: Tensor) -> Tensor:
            return self.mix(x)

    model, x = Sam().eval(), torch.randn(2, 4)
    torch.onnx.export(model.decode, (x,), path)
    return Given(path, model.decode, [(x,)])


@call
def a_lambda(path: pathlib.Path) -> Given:
    x = torch.randn(2, 4)
    torch.onnx.export(lambda x: x * 2, (x,), path)
    return Given(path, lambda x: x * 2, [(x,)])


@call
def forward_replaced(path: pathlib.Path) -> Given:
    """CLIP again: the forward is replaced by another method."""

    class Two(nn.Module):
        def encode(self, x: Tensor) -> Tensor:
            return x + 1

        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            return x + y

    model, x = Two().eval(), torch.randn(2, 4)
    model.forward = model.encode
    torch.onnx.export(model, x, path)
    return Given(path, model.encode, [(x,)])


@call
def more_names_than_inputs(path: pathlib.Path) -> Given:
    x = torch.randn(2, 3)
    torch.onnx.export(
        Pair(), (x, x.clone()), path, input_names=["a", "b", "c"], output_names=["s", "p", "q"]
    )
    return Given(path, Pair(), [(x, x)], (["a", "b"], ["s", "p"]))


@call
def fewer_names_than_inputs(path: pathlib.Path) -> Given:
    x = torch.randn(2, 3)
    torch.onnx.export(Pair(), (x, x.clone()), path, input_names=["a"], output_names=["s"])
    return Given(path, Pair(), [(x, x)])


@call
def names_in_a_tuple_and_a_generator(path: pathlib.Path) -> Given:
    x = torch.randn(2, 3)
    names: Any = (f"in{i}" for i in range(2))
    torch.onnx.export(
        Pair(), (x, x.clone()), path, input_names=names, output_names=("sum", "product")
    )
    return Given(path, Pair(), [(x, x)], (["in0", "in1"], ["sum", "product"]))


@call(error="input_names must be strings")
def names_that_are_no_text(path: pathlib.Path) -> None:
    torch.onnx.export(Mlp().eval(), torch.randn(2, 4), path, input_names=[0])


@call
def weights_in_a_separate_file(path: pathlib.Path) -> Given:
    model, x = nn.Linear(64, 64).eval(), torch.randn(2, 64)
    torch.onnx.export(model, (x,), path, external_data=True)
    return Given(path, model, [(x,)])


@call
def load_and_check(path: pathlib.Path) -> Given:
    model, x = Mlp().eval(), torch.randn(2, 4)
    torch.onnx.export(model, (x,), path, verbose=False)
    proto = onnx.load(path)
    onnx.checker.check_model(proto)
    assert onnx.helper.printable_graph(proto.graph)
    return Given(path, model, [(x,)])


@call
def a_buffer_kept_by_the_caller(path: pathlib.Path) -> Given:
    model, x = Mlp().eval(), torch.randn(2, 4)
    buffer = io.BytesIO()
    torch.onnx.export(model, x, buffer, input_names=["i"], output_names=["o"], opset_version=11)
    buffer.seek(0)
    onnx.load(buffer)
    return Given(buffer.getvalue(), model, [(x,)], (["i"], ["o"]), opset=11)


@call
def the_same_tensor_twice(path: pathlib.Path) -> Given:
    x = torch.randn(2, 3)
    torch.onnx.export(Pair(), (x, x), path)
    return Given(path, Pair(), [(torch.randn(2, 3), torch.randn(2, 3))])


@call
def dynamo_false(path: pathlib.Path) -> None:
    """PyTorch's own older exporter stays as it is."""
    torch.onnx.export(Mlp().eval(), torch.randn(2, 4), path, dynamo=False)
    assert path.exists()
