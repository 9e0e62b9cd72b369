"""Tensors of safetensors files lie over the mapped files."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest
import torch
from onnx_native.program import _checkpoint

NAMES = {torch.bool: "BOOL", torch.int8: "I8", torch.float32: "F32", torch.uint16: "U16"}


def write(path: pathlib.Path, tensors: dict[str, torch.Tensor]) -> None:
    """Writes tensors one after the other, aligned or not."""
    header: dict[str, Any] = {}
    content = b""
    for name, tensor in tensors.items():
        elements = tensor.numpy().tobytes()
        places = [len(content), len(content) + len(elements)]
        header[name] = {"dtype": NAMES[tensor.dtype], "shape": list(tensor.shape)}
        header[name]["data_offsets"] = places
        content += elements
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + content)


@pytest.mark.parametrize("bytes_before", [0, 1, 4])
def test_tensors(tmp_path: pathlib.Path, bytes_before: int) -> None:
    """Also empty ones, numbers, those that are not aligned, and other dtypes."""
    tensors = {
        "before": torch.arange(bytes_before, dtype=torch.int8),
        "matrix": torch.randn(3, 5),
        "number": torch.tensor(2.5),
        "empty": torch.zeros(0, 4),
        "flags": torch.tensor([True, False, True]),
        "other": torch.arange(3).to(torch.uint16),
        "last": torch.randn(2),
    }
    path = tmp_path / "a.safetensors"
    write(path, tensors)
    found = _checkpoint.Checkpoint(path)
    assert found.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert torch.equal(found[name], tensor), name
        assert found[name].dtype == tensor.dtype
        begin = found.places[name].offset
        elements = path.read_bytes()[begin : begin + tensor.nbytes]
        assert elements == tensor.numpy().tobytes()


def test_the_file_is_mapped_once(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "a.safetensors"
    write(path, {"a": torch.randn(3), "b": torch.randn(4)})
    found = _checkpoint.Checkpoint(path)
    assert found["a"].untyped_storage().data_ptr() == found["b"].untyped_storage().data_ptr()
    assert found["b"].data_ptr() - found["a"].data_ptr() == 12
