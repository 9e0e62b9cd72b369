"""Checkpoints in the safetensors format, whose elements a model can use where they are."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import torch

# The names of dtypes in the format.
_DTYPES = {
    "BOOL": torch.bool,
    "U8": torch.uint8,
    "I8": torch.int8,
    "I16": torch.int16,
    "I32": torch.int32,
    "I64": torch.int64,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "F32": torch.float32,
    "F64": torch.float64,
}

AnyPaths = str | os.PathLike | Sequence[str | os.PathLike]


@dataclasses.dataclass(frozen=True)
class Place:
    """Where the elements of a tensor are: a file, and the offset of the first byte in it."""

    file: pathlib.Path
    offset: int


class Checkpoint(Mapping[str, torch.Tensor]):
    """The tensors of safetensors files by their names, over the memory-mapped files.

    Args:
        paths: One file or several, or a ``.safetensors.index.json`` that lists them.

    Raises:
        FileNotFoundError: A file does not exist.
        ValueError: A file is not in the safetensors format, or two of them have the same tensor.
    """

    def __init__(self, paths: AnyPaths) -> None:
        self.places: dict[str, Place] = {}
        self._tensors: dict[str, torch.Tensor] = {}
        for file in _files(paths):
            self._add(file)

    def _add(self, file: pathlib.Path) -> None:
        import safetensors

        try:
            with safetensors.safe_open(file, framework="pt") as opened:
                header, start = _header(file)
                names = list(opened.keys())
                twice = sorted(set(names) & self._tensors.keys())
                if twice:
                    raise ValueError(
                        f"{file} and another file of the checkpoint both have {twice[0]}"
                    )
                content = torch.from_file(
                    str(file), shared=False, size=file.stat().st_size, dtype=torch.uint8
                )
                for name in names:
                    tensor = _mapped(content[start:], header[name])
                    self._tensors[name] = opened.get_tensor(name) if tensor is None else tensor
                    self.places[name] = Place(file, start + header[name]["data_offsets"][0])
        except safetensors.SafetensorError as error:
            raise ValueError(f"{file} is not a safetensors file: {error}") from error

    def __getitem__(self, name: str) -> torch.Tensor:
        return self._tensors[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)

    def require_some(self, found: Collection[str]) -> None:
        """Raises a ValueError if programs have found none of their weights."""
        if not found:
            raise ValueError(
                "the checkpoint has no weight of the program; the first of its names is "
                f"{next(iter(self), None)!r}"
            )

    def put_beside(self, model: pathlib.Path) -> None:
        """Makes the files appear in the folder of a model.

        They are hard-linked, or copied to another file system: ONNX Runtime reads no files outside
        of the model's folder.

        Raises:
            FileExistsError: The folder has another file of the same name.
        """
        folder = model.absolute().parent
        for file in sorted({place.file for place in self.places.values()}):
            target = folder / file.name
            if target.exists() and os.path.samefile(target, file):
                continue
            if target.exists():
                raise FileExistsError(
                    f"{target} is in the way: the model needs {file} under this name"
                )
            try:
                os.link(file.resolve(), target)
            except OSError:
                shutil.copyfile(file, target)


def _header(file: pathlib.Path) -> tuple[dict[str, Any], int]:
    """Returns what a file has, by the names of tensors, and where their elements begin."""
    with file.open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        return json.loads(stream.read(length)), 8 + length


def _mapped(elements: torch.Tensor, entry: Mapping[str, Any]) -> torch.Tensor | None:
    """Returns a tensor over the bytes of a file; None if it is not aligned, or of another dtype.

    safetensors itself would make the system read the elements ahead.
    """
    begin, end = entry["data_offsets"]
    dtype = _DTYPES.get(entry["dtype"])
    content = elements[begin:end]
    if dtype is None or content.storage_offset() % dtype.itemsize != 0:
        return None
    return content.view(dtype).view(entry["shape"])


def _files(paths: AnyPaths) -> list[pathlib.Path]:
    files = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    result = []
    for file in map(pathlib.Path, files):
        if not file.is_file():
            raise FileNotFoundError(f"there is no checkpoint {str(file)!r}")
        if file.suffix == ".json":
            listed = json.loads(file.read_text())["weight_map"]
            result += [file.parent / name for name in sorted(set(listed.values()))]
        else:
            result.append(file)
    return result
