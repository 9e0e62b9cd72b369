"""Exports a captured program and its archive and compares the models."""

from __future__ import annotations

import hashlib
import pathlib
import warnings
from dataclasses import dataclass

import onnx_native
import torch

OPSET = 20


@dataclass(frozen=True)
class Comparison:
    """The outcome of one program; a reason is empty if the step succeeded."""

    captured: str = ""  # why torch.onnx.export cannot export it
    saved: str = ""  # why torch.export.save cannot write it
    archive: str = ""  # how the archive's model differs from the captured program's

    @property
    def counts(self) -> bool:
        """Returns whether there are a model and an archive to compare."""
        return not self.captured and not self.saved


def model_of(source: torch.export.ExportedProgram | str) -> bytes:
    """Returns the model's bytes, without metadata and fallbacks."""
    native = onnx_native._C.Program(source, opset=OPSET, metadata="none")
    return hashlib.sha256(native.serialize()).digest()


def reason(error: Exception) -> str:
    """Returns the error in one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:240]


def difference(program: torch.export.ExportedProgram, archive: pathlib.Path) -> str:
    """Returns the first line in which the programs of the two readers differ."""
    lines = [
        text.splitlines()
        for text in (onnx_native._C.read(program), onnx_native._C.read_pt2(str(archive)))
    ]
    for ours, theirs in zip(*lines, strict=False):
        if ours != theirs:
            return f"{theirs.strip()} instead of {ours.strip()}"
    return "" if len(lines[0]) == len(lines[1]) else "one program is longer"


def compare(program: torch.export.ExportedProgram, folder: pathlib.Path) -> Comparison:
    """Exports the program and its archive, which is saved to the folder."""
    try:
        expected = model_of(program)
    except Exception as error:
        return Comparison(captured=reason(error))
    path = folder / "program.pt2"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.export.save(program, path)
    except Exception as error:
        return Comparison(saved=reason(error))
    try:
        found = model_of(str(path))
        differs = difference(program, path)
    except Exception as error:
        return Comparison(archive=reason(error))
    if found != expected:
        return Comparison(archive=differs or "the models differ, the programs do not")
    return Comparison(archive=differs and f"the models are the same, but {differs}")
