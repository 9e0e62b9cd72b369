"""Exports several models, and saves them with one file of weights."""

from __future__ import annotations

import contextlib
import inspect
import pathlib
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import torch

from onnx_native import _library
from onnx_native.program import _checkpoint, _contents, _progress, _saving
from onnx_native.routes import _hook

if TYPE_CHECKING:
    import os

    from onnx_native.program._program import ONNXProgram

# Arguments of torch.onnx.export that say where and how one model is saved.
_OF_FILES = ("f", "export_params", "keep_initializers_as_inputs", "external_data", "dynamo")


class Part:
    """One of the models that ``onnx_native.export_many`` exports: a call of torch.onnx.export.

    Args:
        model: The module, a method of a module such as ``model.encode``, or a function.
        args: Its positional arguments.
        arguments: Other arguments of ``torch.onnx.export``, such as ``kwargs``, ``dynamic_shapes``,
            ``input_names`` and ``output_names``.

    Raises:
        TypeError: ``torch.onnx.export`` has no such argument, or it is about files.
    """

    def __init__(self, model: Any, args: tuple[Any, ...] = (), **arguments: Any) -> None:
        check_arguments(arguments)
        self.model = model
        self.args = args
        self.arguments = arguments


def export_many(
    parts: Mapping[str, Part],
    folder: str | os.PathLike | None = None,
    *,
    checkpoint: _checkpoint.AnyPaths | None = None,
    max_shard_size: int | str | None = None,
    **arguments: Any,
) -> dict[str, ONNXProgram]:
    """Exports several models that share weights, natively, and saves them with one data file.

    The parts may be modules that share tensors, or methods of one module::

        onnx_native.export_many(
            {
                "encoder": onnx_native.Part(model.encode, (image,)),
                "decoder": onnx_native.Part(model.decode, (features, points)),
            },
            "folder",
        )

    The folder then has ``encoder.onnx``, ``decoder.onnx`` and ``encoder+decoder.data``. See
    docs/large-models.md.

    Args:
        parts: The calls to export, by the names of the models.
        folder: Where to save the models; None: nowhere.
        checkpoint: See ``onnx_native.save_many``.
        max_shard_size: See ``onnx_native.save_many``.
        arguments: Arguments of ``torch.onnx.export`` for all parts, such as ``opset_version``;
            those of a part take precedence.

    Returns:
        The programs by the names of the models. ``onnx_native.save_many`` saves them.

    Raises:
        ValueError: There are no parts, a name cannot be that of a file, or ``max_shard_size`` is no
            size.
        TypeError: A part is not a ``Part``, or ``torch.onnx.export`` has no such argument.
        torch.onnx.OnnxExporterError: The export of a part failed. Nothing is saved then.
        OSError: Writing failed. No file is replaced then.
    """
    check_arguments(arguments)
    if checkpoint is not None and folder is None:
        raise ValueError("a checkpoint is for the files of the models; pass a folder too")
    for name, part in parts.items():
        if not isinstance(part, Part):
            raise TypeError(f"parts[{name!r}] is a {type(part).__name__}, not an onnx_native.Part")
    _files_of(parts)
    _bytes_of(max_shard_size)
    programs = {}
    for name, part in parts.items():
        try:
            programs[name] = export(part.model, part.args, **{**arguments, **part.arguments})
        except Exception as error:
            _add_note(error, f"while export_many exported {name!r}")
            raise
    if folder is not None:
        save_many(programs, folder, checkpoint=checkpoint, max_shard_size=max_shard_size)
    return programs


def save_many(
    programs: Mapping[str, ONNXProgram],
    folder: str | os.PathLike,
    *,
    checkpoint: _checkpoint.AnyPaths | None = None,
    max_shard_size: int | str | None = None,
) -> None:
    """Saves programs in one folder, with one data file for the weights of all of them.

    A weight that several programs hold is stored once. If they would store it in different
    layouts, all of them store it transposed from now on, see docs/weights.md. The models are
    replaced only when all files have been written.

    Args:
        programs: The programs by the names of their models: ``"encoder"`` gives ``encoder.onnx``.
        folder: The path of the folder, which is made if needed.
        checkpoint: ``.safetensors`` files to which the models refer, see ``ONNXProgram.save``.
        max_shard_size: The largest size of a data file, in bytes or as ``"5GB"``. Larger data is in
            several files, ``encoder+decoder-00001-of-00003.data``. None: one file.

    Raises:
        ValueError: There are no programs, a name cannot be that of a file, a program was edited,
            the checkpoint has no weight of the programs, or ``max_shard_size`` is no size.
        OSError: Writing failed.
    """
    files = _files_of(programs)
    shard_bytes = _bytes_of(max_shard_size)
    contents = {name: _contents.of(program) for name, program in programs.items()}
    for name, each in contents.items():
        if each.edited is not None:
            raise ValueError(
                f"the program {name!r} may have been edited, because its model was accessed; save "
                "it by itself, or all of them before the first access to program.model"
            )
    path = pathlib.Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    places: dict[str, dict[str, Any]] = {name: {} for name in contents}
    if checkpoint is not None:
        opened = _checkpoint.Checkpoint(checkpoint)
        places = {name: each.places_in(opened) for name, each in contents.items()}
        opened.require_some([weight for found in places.values() for weight in found])
        opened.put_beside(path / files[0])
    parts = [
        (each.native, path / file, places[name])
        for file, (name, each) in zip(files, contents.items(), strict=True)
    ]
    size = sum(each.native.weight_bytes for each in contents.values())
    shown = not all(each.is_silent for each in contents.values())
    with _saving.io_errors(), _progress.saving(path, size, shown=shown) as progress:
        _library.extension().save_together(parts, path, shard_bytes, progress)


def export(model: Any, args: tuple[Any, ...], **arguments: Any) -> ONNXProgram:
    """Calls torch.onnx.export natively, also where ``onnx_native.disable()`` is in force."""
    with _natively():
        return torch.onnx.export(  # type: ignore[return-value]
            model, args, dynamo=True, **{"verbose": False, **arguments}
        )


@contextlib.contextmanager
def _natively() -> Iterator[None]:
    was_installed = _hook.is_installed()
    _library.extension()
    _hook.install()
    try:
        yield
    finally:
        if not was_installed:
            _hook.uninstall()


def check_arguments(arguments: Mapping[str, Any]) -> None:
    """Checks that torch.onnx.export has these arguments, and that they are not about files.

    Raises:
        TypeError: It has not, or they are.
    """
    known = inspect.signature(torch.onnx.export).parameters
    for name in arguments:
        if name in _OF_FILES:
            raise TypeError(f"{name}= is about the files of one model; save_many writes all files")
        if name not in known:
            raise TypeError(f"torch.onnx.export has no argument {name!r}")


def _files_of(models: Mapping[str, Any]) -> list[str]:
    """Returns the names of the files.

    Raises:
        ValueError: There is none, two are the same, or one is not the name of a file.
    """
    if not models:
        raise ValueError("there are no models to save together")
    files = [name if name.endswith(".onnx") else f"{name}.onnx" for name in models]
    for name, file in zip(models, files, strict=True):
        if name in ("", ".onnx") or pathlib.PurePath(file).name != file:
            raise ValueError(f"{name!r} cannot be the name of a model in the folder")
        if files.count(file) > 1:
            raise ValueError(f"two models have the file {file}")
    return files


def _bytes_of(size: int | str | None) -> int | None:
    """Returns the number of bytes.

    Raises:
        ValueError: It is not the size of a file.
    """
    if size is None:
        return None
    number = size
    if isinstance(size, str):
        found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(i?)B", size.strip(), re.IGNORECASE)
        power = " KMGT".index(found[2].upper() or " ") if found else 0
        number = int(float(found[1]) * (1024 if found[3] else 1000) ** power) if found else 0
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise ValueError(
            f'max_shard_size= takes a number of bytes or a text like "5GB", not {size!r}'
        )
    return number


def _add_note(error: Exception, note: str) -> None:
    """Adds a line to the traceback of an error, where Python can (3.11)."""
    if hasattr(error, "add_note"):
        error.add_note(note)
