"""Writes models that onnx_ir holds: completely or not at all, over what is there."""

import os
import pathlib
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import onnx_ir as ir


def save(model: "ir.Model", path: pathlib.Path, external_data: bool | None) -> None:
    """Saves a model so that its files appear completely or not at all."""
    import onnx_ir as ir

    target = path.resolve()
    with tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as folder:
        written = pathlib.Path(folder) / target.name
        ir.save(model, written, external_data=f"{path.name}.data" if external_data else None)
        data = written.with_name(f"{path.name}.data")
        stale = None if external_data else _data_of(path)
        if data.exists():
            _move(data, path.absolute().with_name(data.name))
        _move(written, target)
        if stale is not None:
            stale.unlink()


def _move(written: pathlib.Path, target: pathlib.Path) -> None:
    """Puts a finished file in place of another one, which keeps its mode and its hard links."""
    if target.exists() and (target.stat().st_nlink > 1 or not target.is_file()):
        shutil.copyfile(written, target)
        return
    if target.exists():
        shutil.copymode(target, written)
    os.replace(written, target)


def _data_of(path: pathlib.Path) -> pathlib.Path | None:
    """The data file that the present model at this path refers to."""
    data = path.with_name(f"{path.name}.data")
    if not (path.is_file() and data.is_file()):
        return None
    import onnx
    from google.protobuf.message import DecodeError

    try:
        model = onnx.load(path, load_external_data=False)
    except DecodeError:
        return None
    places = (entry for weight in model.graph.initializer for entry in weight.external_data)
    is_used = any(place.key == "location" and place.value == data.name for place in places)
    return data if is_used else None


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
