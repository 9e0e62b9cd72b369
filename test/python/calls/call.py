"""A call of torch.onnx.export, and what it must give."""

from __future__ import annotations

import dataclasses
import pathlib
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import torch
from torch.utils import _pytree as pytree


@dataclasses.dataclass
class Given:
    """What a call gives: a file or a program that computes what the module computes.

    Attributes:
        result: The path of the file, bytes, or the program.
        module: The module or function.
        examples: Positional arguments of calls that the model must compute as the module does; a
            dict at the end has keyword arguments.
        names: Names of inputs and outputs that the model must have.
        opset: The opset that the model must have.
    """

    result: Any
    module: Callable[..., Any]
    examples: Sequence[tuple[Any, ...]]
    names: tuple[Sequence[str], Sequence[str]] | None = None
    opset: int | None = None


@dataclasses.dataclass
class Call:
    """A call, with the text of the error or of the warning that it must give."""

    name: str
    run: Callable[[pathlib.Path], Given | None]
    error: str | None = None
    warning: str | None = None


CALLS: list[Call] = []


def call(
    function: Callable[..., Any] | None = None,
    *,
    error: str | None = None,
    warning: str | None = None,
) -> Any:
    """Registers a call; `error` and `warning` are regular expressions."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        CALLS.append(Call(function.__name__, function, error, warning))
        return function

    return register if function is None else register(function)


def check(given: Given) -> None:
    """Loads what a call gave, and compares it with the module."""
    if isinstance(given.result, (str, pathlib.Path)):
        model: Any = str(given.result)
        onnx.checker.check_model(model, full_check=True)
        proto = onnx.load(model, load_external_data=False)
    else:
        is_bytes = isinstance(given.result, bytes)
        model = given.result if is_bytes else given.result.model_proto.SerializeToString()
        onnx.checker.check_model(model, full_check=True)
        proto = onnx.ModelProto.FromString(model)
    if given.opset is not None:
        assert proto.opset_import[0].version == given.opset
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    if given.names is not None:
        inputs, outputs = given.names
        assert [value.name for value in session.get_inputs()] == list(inputs)
        assert [value.name for value in session.get_outputs()] == list(outputs)
    for example in given.examples:
        compare(session, given.module, example)


def compare(session: ort.InferenceSession, module: Any, example: tuple[Any, ...]) -> None:
    args, kwargs = (example[:-1], example[-1]) if isinstance(example[-1], dict) else (example, {})
    leaves = [t for t in pytree.tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)]
    feeds = {
        value.name: leaf.numpy(force=True)
        for value, leaf in zip(session.get_inputs(), leaves, strict=True)
    }
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = pytree.tree_leaves(module(*args, **kwargs))
    expected = [value for value in expected if isinstance(value, torch.Tensor)]
    results = session.run(None, feeds)
    assert len(results) == len(expected)
    for result, tensor in zip(results, expected, strict=True):
        assert result.dtype == tensor.numpy(force=True).dtype
        assert result.shape == tuple(tensor.shape)
        np.testing.assert_allclose(result, tensor.numpy(force=True), rtol=1e-4, atol=1e-5)
