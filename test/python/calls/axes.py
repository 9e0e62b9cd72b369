# Calls hand over what types forbid.
# mypy: disable-error-code="arg-type,call-arg,method-assign,assignment,misc,union-attr,type-var"
"""Forms of dynamic_axes."""

from __future__ import annotations

import pathlib
from typing import Any

import torch
from torch import Tensor, nn

from calls.call import Given, call
from calls.modules import Mlp, Pair


@call
def negative_axis(path: pathlib.Path) -> Given:
    x = torch.randn(2, 3)
    torch.onnx.export(
        Pair(),
        (x, x),
        path,
        input_names=["x", "y"],
        dynamic_axes={"x": {-1: "width"}, "y": {-1: "width"}},
    )
    return Given(path, Pair(), [(x, x), (torch.randn(2, 8), torch.randn(2, 8))])


@call
def negative_axis_in_a_list(path: pathlib.Path) -> Given:
    x = torch.randn(2, 3)
    torch.onnx.export(
        Pair(), (x, x), path, input_names=["x", "y"], dynamic_axes={"x": [-2], "y": [-2]}
    )
    return Given(path, Pair(), [(x, x), (torch.randn(5, 3), torch.randn(5, 3))])


@call
def axes_as_a_tuple(path: pathlib.Path) -> Given:
    x = torch.randn(2, 3)
    torch.onnx.export(
        Pair(), (x, x), path, input_names=["x", "y"], dynamic_axes={"x": (0,), "y": (0,)}
    )
    return Given(path, Pair(), [(x, x), (torch.randn(5, 3), torch.randn(5, 3))])


@call(error="'x'.*axis 4|axis 4.*x")
def axis_out_of_range(path: pathlib.Path) -> None:
    x = torch.randn(2, 3)
    torch.onnx.export(Pair(), (x, x), path, input_names=["x", "y"], dynamic_axes={"x": {4: "b"}})


@call(error="'x'.*'zero'")
def axis_that_is_no_number(path: pathlib.Path) -> None:
    x = torch.randn(2, 3)
    axes: Any = {"x": {"zero": 0}}
    torch.onnx.export(Pair(), (x, x), path, input_names=["x", "y"], dynamic_axes=axes)


@call
def axes_by_parameter_names(path: pathlib.Path) -> Given:
    x = torch.randn(2, 3)
    axes = {"x": {0: "batch"}, "y": {0: "batch"}}
    torch.onnx.export(Pair(), (x, x), path, dynamic_axes=axes)
    return Given(path, Pair(), [(x, x), (torch.randn(5, 3), torch.randn(5, 3))])


@call
def axes_of_one_input(path: pathlib.Path) -> Given:
    class Scaled(nn.Module):
        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            return x * y

    x, y = torch.randn(2, 3), torch.randn(3)
    torch.onnx.export(Scaled(), (x, y), path, input_names=["x", "y"], dynamic_axes={"x": {0: "n"}})
    return Given(path, Scaled(), [(x, y), (torch.randn(5, 3), y)])


@call
def axes_of_variadic_arguments(path: pathlib.Path) -> Given:
    class Concatenated(nn.Module):
        def forward(self, *xs: Tensor) -> Tensor:
            return torch.cat(xs, 1)

    xs = torch.randn(2, 3), torch.randn(2, 4)
    torch.onnx.export(
        Concatenated(),
        xs,
        path,
        input_names=["first", "second"],
        dynamic_axes={"first": {0: "batch"}, "second": {0: "batch"}},
    )
    return Given(path, Concatenated(), [xs, (torch.randn(5, 3), torch.randn(5, 4))])


@call
def axes_of_variadic_keywords(path: pathlib.Path) -> Given:
    class Summed(nn.Module):
        def forward(self, **features: Tensor) -> Tensor:
            return features["a"] + features["b"]

    kwargs = {"a": torch.randn(2, 3), "b": torch.randn(2, 3)}
    torch.onnx.export(
        Summed(),
        (),
        path,
        kwargs=kwargs,
        input_names=["a", "b"],
        dynamic_axes={"a": {0: "batch"}, "b": {0: "batch"}},
    )
    return Given(path, Summed(), [(kwargs,), ({"a": torch.randn(5, 3), "b": torch.randn(5, 3)},)])


@call
def axes_with_a_trailing_dict(path: pathlib.Path) -> Given:
    x = torch.randn(2, 3)
    torch.onnx.export(
        Pair(),
        (x, {"y": x}),
        path,
        input_names=["x", "y"],
        dynamic_axes={"x": {0: "batch"}, "y": {0: "batch"}},
    )
    return Given(path, Pair(), [(x, x), (torch.randn(5, 3), torch.randn(5, 3))])


@call
def axes_of_a_list_argument(path: pathlib.Path) -> Given:
    """Each tensor of a list has its own name."""

    class Fused(nn.Module):
        def forward(self, features: list[Tensor], scale: Tensor) -> Tensor:
            return (features[0].mean((2, 3)) + features[1].mean((2, 3))) * scale

    features = [torch.randn(1, 2, 8, 8), torch.randn(1, 2, 4, 4)]
    scale = torch.randn(1, 2)
    torch.onnx.export(
        Fused(),
        (features, scale),
        path,
        input_names=["p3", "p4", "scale"],
        dynamic_axes={"p3": {2: "h3", 3: "w3"}, "p4": {2: "h4", 3: "w4"}},
    )
    grown = [torch.randn(1, 2, 9, 7), torch.randn(1, 2, 5, 3)]
    return Given(path, Fused(), [(features, scale), (grown, scale)])


@call(error="names no input or output|name no input or output")
def axes_of_a_misnamed_input(path: pathlib.Path) -> None:
    torch.onnx.export(
        Mlp().eval(),
        torch.randn(2, 4),
        path,
        input_names=["input"],
        output_names=["output"],
        dynamic_axes={"inputs": {0: "batch"}, "output": {0: "batch"}},
    )


@call(warning="token_type_ids.*no effect")
def axes_of_an_absent_input(path: pathlib.Path) -> Given:
    x = torch.randn(2, 3)
    axes = {"x": {0: "batch"}, "y": {0: "batch"}, "token_type_ids": {0: "batch"}}
    torch.onnx.export(Pair(), (x, x), path, input_names=["x", "y"], dynamic_axes=axes)
    return Given(path, Pair(), [(x, x), (torch.randn(5, 3), torch.randn(5, 3))])


@call
def axes_of_outputs_only(path: pathlib.Path) -> Given:
    model, x = Mlp().eval(), torch.randn(2, 4)
    torch.onnx.export(
        model, x, path, output_names=["output"], dynamic_axes={"output": {0: "batch"}}
    )
    return Given(path, model, [(x,)])


@call
def one_name_for_different_sizes(path: pathlib.Path) -> Given:
    class Scaled(nn.Module):
        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            return x * y.sum(0)

    x, y = torch.randn(2, 3), torch.randn(7, 3)
    axes = {"x": {0: "batch"}, "y": {0: "batch"}}
    torch.onnx.export(Scaled(), (x, y), path, input_names=["x", "y"], dynamic_axes=axes)
    return Given(path, Scaled(), [(x, y), (torch.randn(5, 3), torch.randn(9, 3))])


@call
def axes_of_a_dict_argument(path: pathlib.Path) -> Given:
    class Model(nn.Module):
        def forward(self, batch: dict[str, Tensor], scale: Tensor) -> Tensor:
            return (batch["a"] + batch["b"]) * scale

    def arguments(size: int) -> Any:
        return {"a": torch.randn(size, 3), "b": torch.randn(size, 3)}, torch.randn(3)

    args = arguments(2)
    torch.onnx.export(
        Model(),
        args,
        path,
        input_names=["a", "b", "scale"],
        dynamic_axes={"a": {0: "batch"}, "b": {0: "batch"}},
    )
    return Given(path, Model(), [args, arguments(6)])


@call
def axes_for_a_scripted_module(path: pathlib.Path) -> Given:
    class Branch(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            if x.sum() > 0:
                return x * 2
            return x - 1

    x = torch.randn(2, 3)
    torch.onnx.export(
        torch.jit.script(Branch()),
        (x,),
        path,
        input_names=["input"],
        dynamic_axes={"input": {-2: "batch"}},
    )
    return Given(path, Branch(), [(x,), (torch.randn(5, 3),), (torch.ones(5, 3),)])


@call(error="(?s)names? no input or output.*'inputs'|'inputs'.*names? no input or output")
def axes_for_a_scripted_module_misnamed(path: pathlib.Path) -> None:
    torch.onnx.export(
        torch.jit.script(Mlp().eval()),
        (torch.randn(2, 4),),
        path,
        input_names=["input"],
        dynamic_axes={"inputs": {0: "batch"}},
    )


@call
def axes_beside_dynamic_shapes(path: pathlib.Path) -> Given:
    """dynamic_shapes wins, as in PyTorch's exporter."""
    model, x = Mlp().eval(), torch.randn(2, 4)
    torch.onnx.export(
        model,
        (x,),
        path,
        input_names=["input"],
        dynamic_axes={"input": {0: "other"}},
        dynamic_shapes=({0: "batch"},),
    )
    return Given(path, model, [(x,), (torch.randn(5, 4),)])


@call
def an_axis_named_by_a_number(path: pathlib.Path) -> Given:
    model, x = Mlp().eval(), torch.randn(2, 4)
    axes: Any = {"input": {0: -1}}
    torch.onnx.export(model, x, path, input_names=["input"], dynamic_axes=axes)
    return Given(path, model, [(x,), (torch.randn(5, 4),)])


@call
def empty_axes(path: pathlib.Path) -> Given:
    model, x = Mlp().eval(), torch.randn(2, 4)
    torch.onnx.export(model, x, path, dynamic_axes={})
    return Given(path, model, [(x,)])


@call
def all_axes_of_a_batch_of_one(path: pathlib.Path) -> Given:
    """The example's batch is 1, as in most public code."""
    model, x = Mlp().eval(), torch.randn(1, 4)
    torch.onnx.export(
        model,
        x,
        path,
        input_names=["input"],
        output_names=["output"],
        dynamic_axes={"input": {0: "batch"}, "output": {0: "batch"}},
    )
    return Given(path, model, [(x,), (torch.randn(5, 4),)])


@call
def dynamic_shapes_with_a_negative_axis(path: pathlib.Path) -> Given:
    x = torch.randn(2, 3)
    shapes = ({-2: "batch"}, {-2: "batch"})
    torch.onnx.export(Pair(), (x, x.clone()), path, dynamic_shapes=shapes)
    return Given(path, Pair(), [(x, x), (torch.randn(5, 3), torch.randn(5, 3))])
