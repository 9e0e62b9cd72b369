"""A captured program and its archive: both read and exported, what comes out compared."""

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
    """What became of one program; reasons are empty where nothing went wrong."""

    captured: str = ""  # why it is no model of torch.onnx.export's
    saved: str = ""  # why torch.export.save does not write it
    archive: str = ""  # how the archive's model differs from the captured program's

    @property
    def counts(self) -> bool:
        """Whether there are a model and an archive to compare."""
        return not self.captured and not self.saved


def model_of(source: torch.export.ExportedProgram | str) -> bytes:
    """The model's bytes, without metadata and without PyTorch's help."""
    native = onnx_native._C.Program(source, opset=OPSET, metadata=False)
    return hashlib.sha256(native.serialize()).digest()


def reason(error: Exception) -> str:
    """The error in one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:240]


def difference(program: torch.export.ExportedProgram, archive: pathlib.Path) -> str:
    """How the programs that the two readers give differ: the first line that does."""
    lines = [
        text.splitlines()
        for text in (onnx_native._C.read(program), onnx_native._C.read_pt2(str(archive)))
    ]
    for ours, theirs in zip(*lines, strict=False):
        if ours != theirs:
            return f"{theirs.strip()} instead of {ours.strip()}"
    return "" if len(lines[0]) == len(lines[1]) else "one program is longer"


def compare(program: torch.export.ExportedProgram, folder: pathlib.Path) -> Comparison:
    """Exports the program and its archive, which is written to the folder."""
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
