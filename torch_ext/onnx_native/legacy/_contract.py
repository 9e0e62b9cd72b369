"""Makes a model what callers of PyTorch's older exporter expect, where the two differ."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING

from onnx_native.program import _contents
from onnx_native.program._program import ONNXProgram

if TYPE_CHECKING:
    import onnx
    import onnx_ir as ir


def fit(
    program: ONNXProgram,
    *,
    parameters: Mapping[str, str],
    order: Collection[str],
    output_axes: Mapping[str, Mapping[int, str]],
    labels: Mapping[str, str],
    custom_opsets: Mapping[str, int],
) -> None:
    """Changes the model of a program where it has to be changed.

    Inputs that nothing reads are removed. One of which the program reads only a dynamic size stays,
    as in the older exporter, where that is a node, also if the model reads it from another input.

    Args:
        program: The program.
        parameters: New names of parameters.
        order: The parameters in the order that the caller expects, if that matters.
        output_axes: Names of dynamic sizes of outputs.
        labels: Names of sizes that the model calls otherwise.
        custom_opsets: Versions of the domains that are not ONNX's.
    """
    contents = _contents.of(program)
    proto = contents.proto_without_weights()
    graph = proto.graph
    names = contents.native.input_names
    sources = [names[position] for position in contents.origin.reads]
    unread = {value.name for value in graph.input}.difference(_read(graph), sources)
    weights = {value.name for value in graph.initializer}
    renamed = {old: new for old, new in parameters.items() if old in weights and old != new}
    axes = _other_names(graph, output_axes, labels)
    domains = {entry.domain: entry.version for entry in proto.opset_import}
    versions = {
        domain: version
        for domain, version in custom_opsets.items()
        if domains.get(domain, version) != version
    }
    if not (unread or renamed or order or axes or versions):
        return
    model = program.model
    for value in [value for value in model.graph.inputs if value.name in unread]:
        model.graph.inputs.remove(value)
    places = {name: i for i, name in enumerate(order)}
    stored = dict(model.graph.initializers)
    for name in sorted(stored, key=lambda name: places.get(name, len(places))):
        del model.graph.initializers[name]  # and put back in order, with its new name
        new = renamed.get(name, name)
        stored[name].name = new
        model.graph.initializers[new] = stored[name]
    for value in (*model.graph.inputs, *model.graph.outputs):
        if value.name in axes:
            _name_axes(value, axes[value.name])
    model.opset_imports.update(versions)


def _read(graph: onnx.GraphProto) -> Iterator[str]:
    """The names of the values that a graph reads or returns, with its branches and loops."""
    yield from (value.name for value in graph.output)
    for node in graph.node:
        yield from node.input
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _read(attribute.g)


def _other_names(
    graph: onnx.GraphProto, wanted: Mapping[str, Mapping[int, str]], labels: Mapping[str, str]
) -> dict[str, dict[int, str]]:
    """The names of sizes of inputs and outputs that the model does not have yet.

    A size of an output keeps the name that the model gives it where the wanted one is a size of an
    input: two sizes of one name are equal. Sizes that are numbers keep these.
    """
    result: dict[str, dict[int, str]] = {}
    taken = set(labels.values())
    for value in graph.input:
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            taken.add(dim.dim_param)
            if dim.dim_param in labels:
                result.setdefault(value.name, {})[axis] = labels[dim.dim_param]
    for value in graph.output:
        dims = value.type.tensor_type.shape.dim
        names = {
            axis % len(dims): name
            for axis, name in wanted.get(value.name, {}).items()
            if -len(dims) <= axis < len(dims) and name not in taken
        }
        for axis, dim in enumerate(dims):
            name = labels.get(dim.dim_param) or names.get(axis)
            if name is not None and name != dim.dim_param and not dim.HasField("dim_value"):
                result.setdefault(value.name, {})[axis] = name
    return result


def _name_axes(value: ir.Value, names: Mapping[int, str]) -> None:
    import onnx_ir as ir

    assert value.shape is not None
    sizes = list(value.shape)
    for axis, name in names.items():
        sizes[axis] = ir.SymbolicDim(name)
    value.shape = ir.Shape(sizes)
