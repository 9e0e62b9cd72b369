"""Native capture: the user's module runs once, and the C++ recorder writes down what it calls.

The module runs on tensors without elements that know their sizes as expressions. Where the recorder
is not sure of a program, it steps aside with a reason, and torch.export captures the program.
"""

from __future__ import annotations

import contextlib

import torch

from onnx_native._refusals import Kind
from onnx_native.modules import _placeholders
from onnx_native.recording import _recorder, _size_forks
from onnx_native.request import _inputs


def capture(
    model: torch.nn.Module,
    inputs: _inputs.Inputs,
    opset: int | None = None,
    *,
    forks: bool = False,
    unrolls: bool = True,
    ways: bool = False,
) -> _recorder.Recorded:
    """Records a module for a model of this opset.

    Args:
        model: The module.
        inputs: The example.
        opset: The opset; None stands for PyTorch's default.
        forks: Whether both ways of branches on elements are recorded.
        unrolls: Whether a size that the user only named may become static, because the program
            loops over it.
        ways: Whether other ways are recorded that the program takes for other sizes.

    Raises:
        StepAsideError: The recorder is not sure of the program, or the program fails.
    """
    if not isinstance(model, torch.nn.Module):
        raise _recorder.StepAsideError("the program is not a torch.nn.Module")
    with _placeholders.in_module(model):
        recorder = _recorder.Recorder(model, inputs, opset, forks=forks, unrolls=unrolls)
        try:
            recorded = recorder.captured()
        except _recorder.StepAsideError as error:
            if error.kind is Kind.UNROLLED:
                raise
            if error.kind is Kind.PINNED_SIZE and ways:
                with contextlib.suppress(_recorder.StepAsideError):
                    return _size_forks.of_pinned(recorder)
            with contextlib.suppress(_recorder.StepAsideError):
                return recorder.with_static_sizes()
            raise
        if ways and not _size_forks.join(recorder, recorded):
            return recorder.captured()
        return recorded


def capture_elsewhere(
    model: torch.nn.Module, inputs: _inputs.Inputs, opset: int | None = None
) -> _recorder.Recorded:
    """Records a module with larger sizes than the example's, where it may decide otherwise.

    Such a program has a branch as in ``if n != self.n: resize(...)``.

    Raises:
        StepAsideError: The recorder is not sure of the program, or the program fails.
    """
    with _placeholders.in_module(model):
        return _recorder.Recorder(model, inputs, opset).elsewhere()
