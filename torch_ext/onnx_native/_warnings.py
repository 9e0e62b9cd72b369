"""Warnings for the user, at the line of the user's program that calls the package."""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from types import FrameType

import torch

from onnx_native import _library

# The files of code between the user's and the package's: decorators and contexts.
_BETWEEN = (*_library.NOT_OF_USER, contextlib.__file__)


def warn(message: str, category: type[Warning] | None = None) -> None:
    """Warns at the innermost line that is neither PyTorch's nor the package's.

    Args:
        message: The text.
        category: Its class; by default that of PyTorch's exporter.
    """
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_BETWEEN):
        frame = frame.f_back
    warnings.warn_explicit(
        message,
        torch.onnx.errors.OnnxExporterWarning if category is None else category,
        frame.f_code.co_filename,
        frame.f_lineno,
        frame.f_globals.get("__name__"),
        frame.f_globals.setdefault("__warningregistry__", {}),
    )


def frame_outside(files: tuple[str, ...]) -> FrameType | None:
    """The innermost frame of code that is in none of these files and folders."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(files):
        frame = frame.f_back
    return frame


def user_line() -> str:
    """The innermost line of the user's code."""
    frame = frame_outside(_library.NOT_OF_USER)
    if frame is None:
        return "an unknown line"
    return f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"
