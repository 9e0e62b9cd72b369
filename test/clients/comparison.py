"""Exports models, and compares each in ONNX Runtime with PyTorch. Prints a line for each.

ONNX Runtime does not optimize: some of its fusions round activations.
"""

from __future__ import annotations

import io
import logging
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import onnx_native
import onnxruntime as ort
import torch
from torch.utils import _pytree as pytree

Example = tuple[Any, ...]
# A function that makes the model, its examples, and dynamic_shapes. It is exported at the first
# example, and compared at all of them.
Case = tuple[Callable[[], Any], Sequence[Example], Any]

OPTIONS = ort.SessionOptions()
OPTIONS.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL


def start() -> None:
    """Loads the exporter for both values of `dynamo`."""
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    torch.ops.load_library(onnx_native.library_path())
    onnx_native.enable(legacy=True)
    torch.manual_seed(0)
    torch.set_grad_enabled(False)


def chosen(cases: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """The cases whose names have one of the words of the command line."""
    words = [word for word in sys.argv[1:] if not word.startswith("-")]
    for name, case in cases.items():
        if not words or any(word in name for word in words):
            yield name, case


def of_models(cases: dict[str, Case]) -> None:
    for name, (make, examples, dynamic_shapes) in chosen(cases):
        print(f"{name} | {_of_model(make, examples, dynamic_shapes)}", flush=True)


def of_calls(cases: dict[str, Callable[[], object]]) -> None:
    """Runs programs that call torch.onnx.export, and compares each file with its module."""
    for name, program in chosen(cases):
        with _watched(name):
            try:
                program()
            except Exception as error:
                print(f"{name} | failed: {_short(error)}", flush=True)


def _of_model(make: Callable[[], Any], examples: Sequence[Example], dynamic_shapes: Any) -> str:
    try:
        model = make()
        begin = time.perf_counter()
        program = torch.onnx.export(
            model, examples[0], dynamo=True, dynamic_shapes=dynamic_shapes, verbose=False
        )
    except Exception as error:
        return f"refused: {_short(error)}"
    seconds = time.perf_counter() - begin
    report = program.export_report
    by = report["capture"]["by"]
    file = program.model_proto.SerializeToString()
    for number, inputs in enumerate(examples):
        difference = _difference(model, inputs, {}, file)
        if difference:
            return f"{seconds:.2f} s, {by}, WRONG for example {number}: {difference}"
    return f"{seconds:.2f} s, right, {by}" + "".join(f"; {each}" for each in report["warnings"])


@contextmanager
def _watched(name: str) -> Iterator[None]:
    export = torch.onnx.export

    def watched(model: Any, args: Any = (), f: Any = None, *rest: Any, **kwargs: Any) -> Any:
        begin = time.perf_counter()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            result = export(model, args, f, *rest, **kwargs)
        seconds = time.perf_counter() - begin
        args = args if isinstance(args, tuple) else (args,)
        named = dict(kwargs.get("kwargs") or {})
        if args and isinstance(args[-1], dict) and not named:
            args, named = args[:-1], args[-1]
        file = f.getvalue() if isinstance(f, io.BytesIO) else f
        if isinstance(model, torch.nn.Module):
            model.eval()
        difference = _difference(model, args, named, file)
        lines = "".join(
            f"; {' '.join(str(each.message).split())[:300]}"
            for each in caught
            if issubclass(each.category, torch.onnx.errors.OnnxExporterWarning)
        )
        state = f"WRONG: {difference}" if difference else "right"
        by = f"dynamo={kwargs.get('dynamo', True)}"
        print(f"{name} | {seconds:.2f} s, {state}, {by}{lines}", flush=True)
        return result

    torch.onnx.export = watched
    try:
        yield
    finally:
        torch.onnx.export = export


def _difference(model: Any, args: Any, kwargs: dict[str, Any], file: str | bytes) -> str:
    """Returns how the file's results differ from the module's; empty if they agree."""
    try:
        session = ort.InferenceSession(file, OPTIONS)
        leaves = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if leaf is not None]
        arrays = [torch.as_tensor(leaf).numpy(force=True) for leaf in leaves]
        names = [value.name for value in session.get_inputs()]
        found = session.run(None, dict(zip(names, arrays, strict=True)))
        results = model(*args, **kwargs)
        results = results.to_tuple() if hasattr(results, "to_tuple") else results
        torch.testing.assert_close(
            [torch.from_numpy(each) for each in found],
            [leaf for leaf in pytree.tree_leaves(results) if isinstance(leaf, torch.Tensor)],
            rtol=1e-3,
            atol=1e-4,
        )
    except Exception as error:
        return _short(error)
    return ""


def _short(error: Exception) -> str:
    if "-v" in sys.argv:
        traceback.print_exception(error)
    return f"{type(error).__name__}: " + " ".join(str(error.__cause__ or error).split())[:300]
