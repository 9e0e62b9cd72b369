"""Checks the arguments of torch.onnx.export before anything runs."""

from __future__ import annotations

import inspect
import io
import operator
import os
import pathlib
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Any

import torch

from onnx_native import _library, _warnings
from onnx_native.upstream import _upstream


def opset_of(version: Any) -> int:
    """Returns the opset of the model.

    Raises:
        TypeError: The version is not an integer.
        ConversionError: The opset is not supported.
    """
    if version is None:
        version = _upstream.DEFAULT_OPSET
    try:
        if isinstance(version, bool):
            raise TypeError
        opset = operator.index(version)
    except TypeError:
        hint = ""
        if isinstance(version, (str, float)) and _is_whole(version):
            hint = f"; write opset_version={int(float(version))}"
        raise TypeError(
            f"opset_version must be an int, not the {type(version).__name__} {version!r}{hint}"
        ) from None
    oldest, newest = _library.extension().opsets()
    if not oldest <= opset <= newest:
        error = _upstream.ConversionError(
            f"opset {opset} is not supported; choose {oldest} to {newest}, or leave out "
            "opset_version for the default"
        )
        error.kind, error.cause = "invalid argument", str(error)  # type: ignore[attr-defined]
        raise error
    return opset


def _is_whole(version: str | float) -> bool:
    try:
        return float(version).is_integer()
    except ValueError:
        return False


def destination(f: Any) -> None:
    """Checks where the model goes: a path in a folder that exists, or a binary stream.

    Raises:
        TypeError: It is neither.
        FileNotFoundError: The folder does not exist.
    """
    if f is None or is_stream(f):
        return
    if not isinstance(f, (str, os.PathLike)):
        raise TypeError(
            f"f must be the path of the file, or None, not {type(f).__name__}; the returned "
            "program has the model"
        )
    if not pathlib.Path(f).absolute().parent.is_dir():
        raise FileNotFoundError(f"the folder to save the ONNX model in does not exist: {str(f)!r}")


def is_stream(f: Any) -> bool:
    """Whether the model goes to a stream of bytes, as PyTorch's older exporter allowed."""
    if isinstance(f, io.TextIOBase):
        raise TypeError('f is open for text; open it with open(path, "wb"), or pass the path')
    return hasattr(f, "write") and not isinstance(f, os.PathLike)


def training_mode(model: Any) -> None:
    """Warns of a module in training mode."""
    if getattr(model, "training", False):  # frozen TorchScript has no such attribute
        _warnings.warn(
            "Exporting a model while it is in training mode. "
            "Please ensure that this is intended, as it may lead to "
            "different behavior during inference. "
            "Calling model.eval() before export is recommended.",
            UserWarning,
        )


# Arguments of torch.onnx.export that have no effect with dynamo=True: the value that asks for
# nothing, and what to do in place of the argument.
_IGNORED: Mapping[str, tuple[Any, str]] = {
    "operator_export_type": (
        torch.onnx.OperatorExportTypes.ONNX,
        "operators without a lowering are an error that lists them",
    ),
    "custom_opsets": (None, "the versions of custom domains are those of their operators, or 1"),
    "export_modules_as_functions": (False, "use onnx_native.options(functions={MyLayer})"),
    "do_constant_folding": (True, "constants are folded; optimize=False switches that off"),
    "autograd_inlining": (True, "autograd functions are inlined unless they have `symbolic`"),
}


def ignored_arguments(model: Any) -> None:
    """Warns of arguments of the calling torch.onnx.export that have no effect."""
    frame: FrameType | None = sys._getframe(1)
    code = inspect.unwrap(torch.onnx.export).__code__
    while frame is not None and frame.f_code is not code:
        frame = frame.f_back
    if frame is None:
        return
    given = frame.f_locals
    messages = [
        f"{name}={given[name]!r} has no effect: {hint}"
        for name, (nothing, hint) in _IGNORED.items()
        if name in given and given[name] is not None and given[name] != nothing
    ]
    modes = torch.onnx.TrainingMode
    if given.get("training") is modes.TRAINING and not getattr(model, "training", True):
        messages.append(
            "training=TrainingMode.TRAINING has no effect: the model is exported in evaluation "
            "mode, as it is; call model.train() before the export"
        )
    if messages:
        _warnings.warn("\n".join(messages))


@contextmanager
def no_cycle(what: str) -> Iterator[None]:
    """Raises OnnxExporterError where containers are flattened that contain themselves.

    Args:
        what: Says where the container is, such as "the example has a container".
    """
    try:
        yield
    except RecursionError as error:
        raise torch.onnx.OnnxExporterError(
            f"{what} that contains itself, or containers in it are nested too deeply"
        ) from error


def other_threads() -> None:
    """Warns that torch.export disturbs other threads, if there are some."""
    if threading.active_count() > 1:
        _warnings.warn(
            "torch.export changes flags of PyTorch for the whole process while it captures, so "
            "that PyTorch may compute something else in the other threads of this process"
        )
