# Calls hand over what types forbid.
# mypy: disable-error-code="arg-type,call-arg,method-assign,assignment,misc,union-attr,type-var"
"""Calls of PyTorch's tutorials and documentation, from 1.x to 2.x."""

from __future__ import annotations

import io
import pathlib
from typing import Any

import torch
from torch import Tensor, nn

from calls.call import Given, call
from calls.modules import Classifier, Lstm, Mlp, Pair, SuperResolution


@call
def super_resolution(path: pathlib.Path) -> Given:
    net = SuperResolution().eval()
    x = torch.randn(1, 1, 8, 8, requires_grad=True)
    torch.onnx.export(
        net,
        x,
        path,
        export_params=True,
        opset_version=11,
        do_constant_folding=True,
        input_names=["input"],
        output_names=["output"],
        dynamic_axes={"input": {0: "batch_size"}, "output": {0: "batch_size"}},
    )
    return Given(path, net, [(x,), (torch.randn(3, 1, 8, 8),)], (["input"], ["output"]), opset=11)


@call
def super_resolution_at_opset_10(path: pathlib.Path) -> Given:
    net, x = SuperResolution().eval(), torch.randn(1, 1, 8, 8)
    torch.onnx.export(net, x, path, opset_version=10)
    return Given(path, net, [(x,)], opset=10)


@call
def alexnet(path: pathlib.Path) -> Given:
    model = Classifier().eval()
    dummy_input = torch.randn(2, 3, 8, 8)
    input_names = ["actual_input_1"] + [f"learned_{i}" for i in range(16)]
    torch.onnx.export(
        model,
        dummy_input,
        str(path),
        verbose=True,
        input_names=input_names,
        output_names=["output1"],
    )
    return Given(path, model, [(dummy_input,)], (["actual_input_1"], ["output1"]))


@call
def introduction(path: pathlib.Path) -> Given:
    """Of the tutorial of torch.onnx.export(dynamo=True)."""
    model = Classifier().eval()
    example_inputs = (torch.randn(1, 3, 32, 32),)
    onnx_program = torch.onnx.export(model, example_inputs, dynamo=True)
    onnx_program.save(path)
    return Given(path, model, [example_inputs])


@call
def introduction_with_file(path: pathlib.Path) -> Given:
    model = Mlp().eval()
    example_inputs = (torch.randn(1, 4),)
    torch.onnx.export(
        model,
        example_inputs,
        str(path),
        input_names=["input"],
        dynamo=True,
    )
    return Given(path, model, [example_inputs])


@call
def sum_module_named_axes(path: pathlib.Path) -> Given:
    class SumModule(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.sum(x, dim=1)

    torch.onnx.export(
        SumModule(),
        (torch.ones(2, 2),),
        path,
        input_names=["x"],
        output_names=["sum"],
        dynamic_axes={"x": {0: "my_custom_axis_name"}, "sum": [0]},
    )
    return Given(path, SumModule(), [(torch.ones(2, 2),), (torch.ones(5, 2),)])


@call
def axes_as_lists(path: pathlib.Path) -> Given:
    x = torch.randn(2, 3)
    torch.onnx.export(
        Pair(),
        (x, x),
        path,
        input_names=["x", "y"],
        output_names=["sum", "product"],
        dynamic_axes={"x": [0, 1], "y": [0, 1]},
    )
    return Given(path, Pair(), [(x, x), (torch.randn(4, 5), torch.randn(4, 5))])


@call
def axes_in_another_order(path: pathlib.Path) -> Given:
    class Scaled(nn.Module):
        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            return x * y.sum(0)

    x, y = torch.randn(2, 3), torch.randn(7, 3)
    torch.onnx.export(
        Scaled(),
        (x, y),
        path,
        input_names=["x", "y"],
        dynamic_axes={"y": {0: "rows"}, "x": {0: "batch"}},
    )
    return Given(path, Scaled(), [(x, y), (torch.randn(5, 3), torch.randn(9, 3))])


@call
def control_flow(path: pathlib.Path) -> Given:
    class CondModel(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.cond(x.sum() < 2, lambda x: x.sin(), lambda x: x.cos() + 1, (x,))

    x = torch.randn(4, 4)
    program = torch.onnx.export(CondModel(), (x,), dynamo=True)
    program.optimize()
    program.save(str(path))
    return Given(path, CondModel(), [(x,), (x + 5,)])


@call
def scripted_with_example_outputs(path: pathlib.Path) -> Given:
    """In 1.x `example_outputs` was required for scripted modules."""

    class LoopModel(nn.Module):
        def forward(self, x: Tensor, y: int) -> Tensor:
            for i in range(y):
                x = x + i
            return x

    model = torch.jit.script(LoopModel())
    x = torch.ones(2, 3)
    torch.onnx.export(model, (x, 5), str(path), verbose=True)
    return Given(path, lambda x: LoopModel()(x, 5), [(x,)])


@call(error="unexpected keyword argument 'example_outputs'")
def example_outputs(path: pathlib.Path) -> None:
    torch.onnx.export(Mlp().eval(), torch.randn(1, 4), path, example_outputs=torch.randn(1, 2))


@call(error="unexpected keyword argument 'enable_onnx_checker'")
def enable_onnx_checker(path: pathlib.Path) -> None:
    torch.onnx.export(Mlp().eval(), torch.randn(1, 4), path, enable_onnx_checker=True)


@call(error="unexpected keyword argument 'use_external_data_format'")
def use_external_data_format(path: pathlib.Path) -> None:
    torch.onnx.export(Mlp().eval(), torch.randn(1, 4), path, use_external_data_format=True)


@call(error="unexpected keyword argument 'strip_doc_string'")
def strip_doc_string(path: pathlib.Path) -> None:
    torch.onnx.export(Mlp().eval(), torch.randn(1, 4), path, strip_doc_string=True)


@call(error="unexpected keyword argument 'fallback'")
def fallback(path: pathlib.Path) -> None:
    torch.onnx.export(Mlp().eval(), torch.randn(1, 4), path, fallback=True)


@call(error="takes from 1 to 3 positional arguments but 4 were given")
def verbose_by_position(path: pathlib.Path) -> None:
    torch.onnx.export(Mlp().eval(), torch.randn(1, 4), str(path), True)


@call
def trailing_dict(path: pathlib.Path) -> Given:
    class Model(nn.Module):
        def forward(self, x: Tensor, y: Tensor | None = None, z: Tensor | None = None) -> Tensor:
            return x + (0 if y is None else y) * 2 + (0 if z is None else z)

    x, z = torch.randn(2, 3), torch.randn(3)
    torch.onnx.export(Model(), (x, {"y": None, "z": z}), path)
    return Given(path, Model(), [(x, {"z": z})])


@call
def dict_argument_and_empty_dict(path: pathlib.Path) -> Given:
    """As the documentation of 1.x advises for a last argument that is a dict."""

    class Model(nn.Module):
        def forward(self, k: Tensor, x: dict[Any, Tensor]) -> Tensor:
            return k + x["a"]

    k, x = torch.randn(2), {"a": torch.randn(2)}
    torch.onnx.export(Model(), (k, x, {}), path)
    return Given(path, Model(), [(k, x, {})])


@call
def dict_argument_without_empty_dict(path: pathlib.Path) -> Given:
    class Model(nn.Module):
        def forward(self, k: Tensor, x: dict[Any, Tensor]) -> Tensor:
            return k + x["a"]

    k, x = torch.randn(2), {"a": torch.randn(2)}
    torch.onnx.export(Model(), (k, x), path)
    return Given(path, Model(), [(k, x, {})])


@call
def custom_opsets(path: pathlib.Path) -> Given:
    x = torch.randn(1, 4)
    model = Mlp().eval()
    torch.onnx.export(model, x, path, custom_opsets={"com.microsoft": 1})
    return Given(path, model, [(x,)])


@call
def operator_export_type(path: pathlib.Path) -> Given:
    x = torch.randn(1, 4)
    model = Mlp().eval()
    torch.onnx.export(
        model,
        x,
        path,
        operator_export_type=torch.onnx.OperatorExportTypes.ONNX_ATEN_FALLBACK,
        training=torch.onnx.TrainingMode.EVAL,
    )
    return Given(path, model, [(x,)])


@call
def to_bytes(path: pathlib.Path) -> Given:
    model = Mlp().eval()
    x = torch.randn(1, 4)
    stream = io.BytesIO()
    torch.onnx.export(model, x, stream, opset_version=13)
    return Given(stream.getvalue(), model, [(x,)], opset=13)


@call
def dynamic_shapes_by_argument(path: pathlib.Path) -> Given:
    batch = torch.export.Dim("batch", min=2, max=64)
    x = torch.randn(4, 4)
    model = Mlp().eval()
    torch.onnx.export(model, (x,), path, dynamic_shapes={"x": {0: batch}}, dynamo=True)
    return Given(path, model, [(x,), (torch.randn(9, 4),)])


@call
def dynamic_shapes_auto(path: pathlib.Path) -> Given:
    x = torch.randn(4, 4)
    model = Mlp().eval()
    shapes = ((torch.export.Dim.AUTO, torch.export.Dim.STATIC),)
    torch.onnx.export(model, (x,), path, dynamic_shapes=shapes, dynamo=True)
    return Given(path, model, [(x,), (torch.randn(9, 4),)])


@call
def dynamic_shapes_for_keywords(path: pathlib.Path) -> Given:
    x, y = torch.randn(2, 3), torch.randn(2, 3)
    torch.onnx.export(
        Pair(),
        (x,),
        path,
        kwargs={"y": y},
        dynamic_shapes={"x": {0: "batch"}, "y": {0: "batch"}},
        dynamo=True,
    )
    return Given(path, Pair(), [(x, {"y": y}), (torch.randn(5, 3), {"y": torch.randn(5, 3)})])


@call
def dynamic_shapes_by_input_names(path: pathlib.Path) -> Given:
    x, y = torch.randn(2, 3), torch.randn(2, 3)
    torch.onnx.export(
        Pair(),
        (x, y),
        path,
        input_names=["left", "right"],
        dynamic_shapes={"left": {0: "batch"}, "right": {0: "batch"}},
    )
    return Given(path, Pair(), [(x, y), (torch.randn(5, 3), torch.randn(5, 3))])


@call
def shapes_collection(path: pathlib.Path) -> Given:
    x, y = torch.randn(2, 3), torch.randn(2, 3)
    shapes = torch.export.ShapesCollection()
    shapes[x] = {0: "batch"}
    shapes[y] = {0: "batch"}
    torch.onnx.export(Pair(), (x, y), path, dynamic_shapes=shapes)
    return Given(path, Pair(), [(x, y), (torch.randn(5, 3), torch.randn(5, 3))])


@call
def shapes_collection_nested(path: pathlib.Path) -> Given:
    class Nested(nn.Module):
        def forward(self, x: Tensor, others: list[Tensor]) -> Tensor:
            return x @ others[0] + others[1]

    x, y, z = torch.randn(2, 3), torch.randn(3, 4), torch.randn(4)
    batch = torch.export.Dim("batch")
    shapes = torch.export.ShapesCollection()
    shapes[x] = (batch, 3)
    torch.onnx.export(Nested(), (x, [y, z]), path, dynamic_shapes=shapes)
    return Given(path, Nested(), [(x, [y, z]), (torch.randn(5, 3), [y, z])])


@call
def additional_inputs(path: pathlib.Path) -> Given:
    x, y = torch.randn(2, 3), torch.randn(2, 3)
    shapes = torch.export.AdditionalInputs()
    shapes.add((torch.randn(5, 3), torch.randn(5, 3)))
    torch.onnx.export(Pair(), (x, y), path, dynamic_shapes=shapes)
    return Given(path, Pair(), [(x, y), (torch.randn(6, 3), torch.randn(6, 3))])


@call
def exported_program(path: pathlib.Path) -> Given:
    model = Mlp().eval()
    x = torch.randn(2, 4)
    program = torch.export.export(model, (x,), dynamic_shapes=({0: torch.export.Dim("batch")},))
    torch.onnx.export(program, (x,), path, input_names=["input"], output_names=["output"])
    return Given(path, model, [(x,), (torch.randn(5, 4),)], (["input"], ["output"]))


@call
def exported_program_alone(path: pathlib.Path) -> Given:
    model = Mlp().eval()
    x = torch.randn(2, 4)
    torch.onnx.export(torch.export.export(model, (x,)), f=path)
    return Given(path, model, [(x,)])


@call
def exportable_module(path: pathlib.Path) -> Given:
    class MyExportableModule(torch.onnx.ExportableModule):
        def __init__(self) -> None:
            super().__init__()
            self.model = Mlp()

        def forward(self, x: Tensor) -> Tensor:
            return self.model(x)

        def example_arguments(self) -> Any:
            return (torch.randn(2, 4),), None

        def input_names(self) -> Any:
            return ("input",)

        def output_names(self) -> Any:
            return ("output",)

        def dynamic_shapes(self) -> Any:
            return ({0: "batch_size"},)

    module = MyExportableModule().eval()
    program = module.to_onnx(opset_version=18)
    examples = [(torch.randn(2, 4),), (torch.randn(7, 4),)]
    return Given(program, module, examples, (["input"], ["output"]), opset=18)


@call
def input_observer(path: pathlib.Path) -> Given:
    model = Pair()
    observer = torch.onnx.InputObserver()
    with observer(model):
        for size in (2, 5):
            model(torch.randn(size, 3), torch.randn(size, 3))
    torch.onnx.export(
        model,
        observer.infer_arguments(),
        path,
        dynamic_shapes=observer.infer_dynamic_shapes(set_batch_dimension_for=True),
    )
    return Given(path, model, [(torch.randn(4, 3), torch.randn(4, 3))])


@call
def input_observer_of_keywords(path: pathlib.Path) -> Given:
    model = Pair()
    observer = torch.onnx.InputObserver()
    with observer(model):
        for size in (2, 5):
            model(x=torch.randn(size, 3), y=torch.randn(size, 3))
    torch.onnx.export(
        model,
        (),
        path,
        kwargs=observer.infer_arguments(),
        dynamic_shapes=observer.infer_dynamic_shapes(set_batch_dimension_for=True),
    )
    return Given(path, model, [({"x": torch.randn(4, 3), "y": torch.randn(4, 3)},)])


@call
def lstm_with_states(path: pathlib.Path) -> Given:
    model = Lstm().eval()
    args = torch.randn(2, 5, 3), torch.zeros(1, 2, 4), torch.zeros(1, 2, 4)
    torch.onnx.export(
        model,
        args,
        str(path),
        input_names=["input", "h0", "c0"],
        output_names=["output", "hn", "cn"],
        dynamic_axes={
            "input": {0: "batch", 1: "sequence"},
            "h0": {1: "batch"},
            "c0": {1: "batch"},
            "output": {0: "batch", 1: "sequence"},
            "hn": {1: "batch"},
            "cn": {1: "batch"},
        },
    )
    larger = torch.randn(3, 7, 3), torch.randn(1, 3, 4), torch.randn(1, 3, 4)
    names = (["input", "h0", "c0"], ["output", "hn", "cn"])
    return Given(path, model, [args, larger], names)


@call
def lstm_with_a_tuple_of_states(path: pathlib.Path) -> Given:
    model = nn.LSTM(3, 4, 1, batch_first=True).eval()
    x, states = torch.randn(2, 5, 3), (torch.zeros(1, 2, 4), torch.zeros(1, 2, 4))
    torch.onnx.export(
        model,
        (x, states),
        str(path),
        input_names=["input", "h0", "c0"],
        output_names=["output", "hn", "cn"],
        dynamic_axes={"input": {0: "batch", 1: "sequence"}, "h0": {1: "batch"}, "c0": {1: "batch"}},
    )
    larger = torch.randn(3, 7, 3), (torch.randn(1, 3, 4), torch.randn(1, 3, 4))
    names = (["input", "h0", "c0"], ["output", "hn", "cn"])
    return Given(path, model, [(x, states), larger], names)


@call
def traced(path: pathlib.Path) -> Given:
    model = Classifier().eval()
    x = torch.randn(1, 3, 8, 8)
    torch.onnx.export(torch.jit.trace(model, x), x, str(path), input_names=["image"])
    return Given(path, model, [(x,)])


@call
def a_function(path: pathlib.Path) -> Given:
    def normalize(x: Tensor, mean: Tensor) -> Tensor:
        return (x - mean) / x.std()

    x, mean = torch.randn(2, 4), torch.randn(4)
    torch.onnx.export(normalize, (x, mean), path)
    return Given(path, normalize, [(x, mean)])
