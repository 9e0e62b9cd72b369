"""Replays onnxscript functions, such as those of PyTorch's ONNX library, into the builder."""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from onnx_native import _context, _library
from onnx_native.lowerings._wrong_functions import WRONG_FUNCTIONS
from onnx_native.upstream import _upstream

if TYPE_CHECKING:
    import onnx_ir as ir

Values = dict[Any, Any]  # ir.Value -> the native builder's


@functools.cache
def _function_library() -> Any:
    return _upstream.function_library()


def is_wrong(op: _upstream.OpOverload) -> bool:
    """Returns whether the operator's function in PyTorch's library differs from eager."""
    return op.name().removesuffix(".default") in WRONG_FUNCTIONS


def library_function(node: torch.fx.Node) -> Callable[..., Any] | None:
    """Returns the function of PyTorch's library for this call; None if missing or wrong."""
    if isinstance(node.target, _upstream.OpOverload) and is_wrong(node.target):
        return None
    function, _ = _upstream.dispatch(node, _function_library())
    return function


@_context.one_at_a_time
def replay_call(
    builder: Any,
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    opset_version: int | None = None,
) -> Any:
    """Calls the function on symbolic tensors and builds the resulting nodes.

    Args:
        builder: The native builder.
        function: An onnxscript function, or a Python function that calls onnxscript's operators.
        args: The call's arguments; tensors are values of the native builder.
        kwargs: The call's keyword arguments.
        opset_version: The opset for Python operators in the function (``x + y``); by default that
            of PyTorch's library.
    """
    import onnx_ir as ir
    import onnxscript.evaluator

    version = opset_version or _upstream.TORCHLIB_OPSET
    opset = _upstream.onnxscript_opset(version)
    inputs: Values = {}
    symbolic = functools.partial(_symbolic, opset, inputs)
    arguments = [symbolic(value) for value in args]
    keywords = {name: symbolic(value) for name, value in kwargs.items()}
    if "dtype" in keywords and keywords["dtype"] is None:
        keywords["dtype"] = -1  # how the library encodes None
    recorder = _upstream.op_recorder(opset)
    with onnxscript.evaluator.default_as(recorder):
        made = function(*arguments, **keywords)
    outputs = list(made) if isinstance(made, Sequence) else [made]
    graph = ir.Graph(
        list(inputs), outputs, nodes=recorder.nodes, opset_imports={"": version}, name="call"
    )
    if recorder.functions:
        _inline(graph, recorder.functions)
    return _replay(builder, graph, inputs)


def _symbolic(opset: Any, inputs: Values, value: Any) -> Any:
    """Converts a captured argument for onnxscript functions; records tensors in `inputs`."""
    import onnx_ir as ir

    if isinstance(value, list | tuple):
        return [_symbolic(opset, inputs, item) for item in value]
    if isinstance(value, torch.dtype):
        return _upstream.torch_dtype_to_onnx_dtype(value)
    if not isinstance(value, _library.extension().Value):
        return value
    symbol = _upstream.SymbolicTensor(opset, name=f"input_{len(inputs)}")
    symbol.dtype = _upstream.torch_dtype_to_onnx_dtype(value.dtype)
    symbol.shape = None if value.shape is None else ir.Shape(value.shape)
    inputs[symbol] = value
    return symbol


def _inline(graph: "ir.Graph", functions: Mapping[Any, Any]) -> None:
    import onnx_ir as ir
    import onnx_ir.passes.common as passes

    bodies = [
        function
        if isinstance(function, ir.Function)
        else ir.serde.deserialize_function(function.to_function_proto())
        for function in functions.values()
    ]
    passes.InlinePass()(ir.Model(graph, ir_version=10, functions=bodies))


def _replay(builder: Any, graph: "ir.Graph", values: Values) -> list[Any]:
    for node in graph:
        if node.op_type == "Constant" and node.domain == "":
            values[node.outputs[0]] = builder.constant(_constant(node))
            continue
        inputs = [
            None if value is None else _value(builder, values, value) for value in node.inputs
        ]
        attributes = {
            attribute.name: _attribute(builder, attribute, values)
            for attribute in node.attributes.values()
        }
        if node.domain:
            attributes["domain"] = node.domain
            attributes["domain_version"] = node.version or 1
        made = builder.op(node.op_type, *inputs, outputs=len(node.outputs), **attributes)
        results = [made] if len(node.outputs) == 1 else made
        values.update(zip(node.outputs, results, strict=True))
    return [_value(builder, values, output) for output in graph.outputs]


def _value(builder: Any, values: Values, value: "ir.Value") -> Any:
    if value not in values:
        assert value.const_value is not None
        values[value] = builder.constant(_tensor(value.const_value))
    return values[value]


def _constant(node: "ir.Node") -> Any:
    (attribute,) = node.attributes.values()
    value = attribute.value
    if attribute.name == "value":
        return _tensor(value)
    dtype = torch.float32 if attribute.name in ("value_float", "value_floats") else torch.int64
    return torch.tensor(value, dtype=dtype)


def _tensor(value: Any) -> torch.Tensor:
    return torch.from_numpy(value.numpy().copy())


@functools.cache
def torch_dtypes() -> dict[int, torch.dtype]:
    """Maps ONNX's numbers of element types to PyTorch's dtypes."""
    return {int(onnx): dtype for dtype, onnx in _upstream.TORCH_DTYPE_TO_ONNX.items()}


def _attribute(builder: Any, attribute: "ir.Attr", values: Values) -> Any:
    import onnx_ir as ir

    if attribute.type is ir.AttributeType.GRAPH:
        body = attribute.value

        def build(*inputs: Any) -> list[Any]:
            return _replay(builder, body, values | dict(zip(body.inputs, inputs, strict=True)))

        return build
    if attribute.type is ir.AttributeType.TENSOR:
        return _tensor(attribute.value)
    if attribute.name in ("to", "dtype") and attribute.type is ir.AttributeType.INT:
        return torch_dtypes()[attribute.value]
    value = attribute.value
    return list(value) if isinstance(value, Sequence) and not isinstance(value, str) else value
