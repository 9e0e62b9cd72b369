"""Exports one function by any route and compares ONNX Runtime with eager PyTorch."""

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import onnx
import onnx_native
import onnxruntime
import torch
from ops import checking
from torch.utils import _pytree as pytree

from models.calling import Calling

ROUTES = ("native", "fx", "pt2", "trace", "script")
Inputs = tuple[torch.Tensor, ...]
# For each input, the names of its dynamic dimensions or torch.export's hints.
Dynamic = Sequence[Mapping[int, Any]]

TOLERANCES = {
    torch.float16: 5e-3,
    torch.bfloat16: 2e-2,
    torch.float32: 1e-5,
    torch.float64: 1e-9,
}


def export(
    function: Callable[..., Any],
    inputs: Inputs,
    route: str,
    dynamic: Dynamic | None = None,
    opset: int | None = None,
) -> onnx.ModelProto:
    """Returns the model of a function of tensors; "script" requires the function's source."""
    if route in ("trace", "script"):
        program: Any = (
            torch.jit.script(function)
            if route == "script"
            else torch.jit.trace(Calling(function).eval(), inputs, check_trace=False)
        )
        named = None if dynamic is None else [dict(names) for names in dynamic]
        return _exported(program, inputs, dynamic_shapes=named, opset_version=opset)
    dims: dict[str, Any] = {}
    shapes: Any = None
    if dynamic is not None:
        for names in dynamic:
            dims |= {n: torch.export.Dim(n) for n in names.values() if isinstance(n, str)}
        shapes = (
            tuple(
                {i: dims[n] if isinstance(n, str) else n for i, n in names.items()}
                for names in dynamic
            ),
        )
    module = Calling(function).eval()
    if route in ("native", "fx"):
        with onnx_native.options(capture="torch.export" if route == "fx" else "native"):
            return _exported(module, inputs, dynamic_shapes=shapes, opset_version=opset)
    with tempfile.TemporaryDirectory() as folder:
        archive, path = Path(folder, "program.pt2"), Path(folder, "model.onnx")
        torch.export.save(torch.export.export(module, inputs, dynamic_shapes=shapes), archive)
        options = [] if opset is None else ["--opset", str(opset)]
        assert onnx_native._C.command_line([str(archive), "-o", str(path), *options]) == 0
        return onnx.load(path)


def _exported(model: Any, inputs: Inputs, **options: Any) -> onnx.ModelProto:
    program = torch.onnx.export(model, inputs, dynamo=True, verbose=False, **options)
    assert program is not None
    return program.model_proto


def session(model: onnx.ModelProto) -> onnxruntime.InferenceSession:
    """Checks the model and loads it in ONNX Runtime without optimizations."""
    onnx.checker.check_model(model, full_check=True)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def run(running: onnxruntime.InferenceSession, inputs: Inputs) -> list[torch.Tensor]:
    names = [argument.name for argument in running.get_inputs()]
    feeds = {name: checking.ort_value(x) for name, x in zip(names, inputs, strict=True)}
    outputs = [output.name for output in running.get_outputs()]
    return [
        torch.from_dlpack(result._ortvalue.to_dlpack())
        if result.data_type() == "tensor(bfloat16)"
        else checking.from_numpy(result.numpy())
        for result in running.run_with_ort_values(outputs, feeds)
    ]


def assert_same(result: torch.Tensor, wanted: torch.Tensor, *, signs: bool = False) -> None:
    """Asserts equal dtype, shape and values; with `signs`, also equal signs of zeros."""
    tolerance = TOLERANCES.get(wanted.dtype, 0)
    torch.testing.assert_close(result, wanted, rtol=tolerance, atol=tolerance, equal_nan=True)
    if signs and wanted.is_floating_point():
        numbers = ~wanted.isnan()
        assert torch.equal(result.signbit()[numbers], wanted.signbit()[numbers]), (result, wanted)


def check(
    function: Callable[..., Any],
    inputs: Inputs,
    route: str,
    *others: Inputs,
    dynamic: Dynamic | None = None,
    opset: int | None = None,
    signs: bool = False,
) -> onnx.ModelProto:
    """Exports for the first inputs and compares with eager for all inputs."""
    model = export(function, inputs, route, dynamic, opset)
    running = session(model)
    for values in (inputs, *others):
        expected = [
            checking.real(torch.as_tensor(leaf))
            for leaf in pytree.tree_leaves(function(*(x.clone() for x in values)))
            if leaf is not None
        ]
        results = run(running, values)
        assert len(results) == len(expected)
        for result, wanted in zip(results, expected, strict=True):
            assert_same(result, wanted, signs=signs)
    return model
