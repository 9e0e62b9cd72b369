"""Writes captured programs and models of onnx_ir: completely or not at all, over what is there."""

import fcntl
import io
import os
import pathlib
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO, TYPE_CHECKING, Any, cast

import torch

from onnx_native import _library

if TYPE_CHECKING:
    import onnx
    import onnx_ir as ir


def save(model: "ir.Model", path: pathlib.Path, external_data: bool | None) -> None:
    """Saves a model so that its files appear completely or not at all.

    Raises:
        OSError: Writing failed.
    """
    import onnx
    import onnx_ir as ir

    extension = _library.extension()
    with io_errors():
        if not external_data or extension.is_direct(path):
            content = ir.serde.serialize_model(model).SerializeToString()
            extension.save_bytes(path, "", lambda _: content)
            return
        with _temporary_folder(path) as folder:
            written, data = folder / "model.onnx", folder / "data"
            ir.save(model, written, external_data=data.name)
            proto = onnx.load(written, load_external_data=False)

            def model_bytes(location: str) -> bytes:
                _rename_data(proto, data.name, location)
                return proto.SerializeToString()

            extension.save_bytes(path, data if data.exists() else "", model_bytes)


def save_program(program: torch.export.ExportedProgram, path: pathlib.Path) -> None:
    """Saves a captured program; leaves no file behind if that fails.

    Raises:
        OSError: Writing failed.
    """
    with path.open("wb") as file:
        stream = _KeepsErrors(file)
        try:
            torch.export.save(program, cast(IO[bytes], stream))
            stream.finish()
        except BaseException:
            path.unlink()
            raise


class _KeepsErrors(io.RawIOBase):
    """A file for PyTorch's writer, which ends the process if its last write fails."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._error: OSError | None = None

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._file.seek(offset, whence)

    def write(self, piece: Any) -> int:
        size = memoryview(piece).nbytes
        if self._error is None:
            try:
                self._file.write(piece)
            except OSError as error:
                self._error = error
        return size

    def finish(self) -> None:
        """Raises the first error of all writes."""
        if self._error is not None:
            raise self._error
        self._file.flush()


@contextmanager
def io_errors() -> Iterator[None]:
    """Raises the errors of the library that are about files as OSError."""
    extension = _library.extension()
    try:
        yield
    except extension.ExportError as error:
        if error.kind == "io":
            raise OSError(error.cause) from error
        raise


@contextmanager
def _temporary_folder(path: pathlib.Path) -> Iterator[pathlib.Path]:
    """Makes a folder beside a model. If the process is killed, the next save removes it."""
    while True:
        folder = pathlib.Path(_library.extension().temporary_path(path.absolute()))
        folder.mkdir()
        if (descriptor := _locked(folder)) is not None:
            break
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(descriptor)


def _locked(folder: pathlib.Path) -> int | None:
    """Locks a new folder; None if another save took it for an abandoned one."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        with suppress(OSError):  # file systems without locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        if os.path.samestat(os.fstat(descriptor), folder.stat()):
            return descriptor
    except FileNotFoundError:
        pass
    os.close(descriptor)
    return None


def _rename_data(model: "onnx.ModelProto", old: str, new: str) -> None:
    """Gives the data file of a model another name."""
    graphs = [model.graph]
    while graphs:
        graph = graphs.pop()
        for weight in graph.initializer:
            for entry in weight.external_data:
                if entry.key == "location" and entry.value == old:
                    entry.value = new
        graphs += [each.g for node in graph.node for each in node.attribute if each.HasField("g")]
        graphs += [each for node in graph.node for attr in node.attribute for each in attr.graphs]


@contextmanager
def with_initializers(
    graph: "ir.Graph", include: bool, as_inputs: bool, *, kept: set[str]
) -> Iterator[None]:
    """Removes initializers or adds them as inputs while the block runs, except those in `kept`."""
    initializers = dict(graph.initializers)
    weights = {name: value for name, value in initializers.items() if name not in kept}
    inputs = list(graph.inputs)
    if as_inputs:
        graph.inputs.extend(weights.values())
    if not include:
        for name in weights:
            del graph.initializers[name]
    try:
        yield
    finally:
        if not include:
            graph.initializers.clear()
            graph.initializers.update(initializers)
        if as_inputs:
            graph.inputs.clear()
            graph.inputs.extend(inputs)
