"""Makes a model what callers of PyTorch's older exporter expect, where the two differ."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
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
    moved = _sizes_elsewhere(graph, sources)
    read = _read(node for node in graph.node if node.output[0] not in moved)
    outputs = [value.name for value in graph.output]
    unread = {value.name for value in graph.input}.difference(read, outputs, sources)
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
    import onnx_ir as ir

    model = program.model
    inputs = {value.name: value for value in model.graph.inputs}
    for node in model.graph:
        asked = node.inputs[0] if node.outputs[0].name in moved else None
        if asked is None or asked.name not in unread:
            continue
        name, start, end = moved[node.outputs[0].name or ""]
        node.replace_input_with(0, inputs[name])
        if node.attributes:
            node.attributes.add(ir.AttrInt64("start", start))
            node.attributes.add(ir.AttrInt64("end", end))
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


def _read(nodes: Iterable[onnx.NodeProto]) -> Iterator[str]:
    """The names of the values that nodes read, and that their branches and loops return."""
    for node in nodes:
        yield from node.input
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from (value.name for value in attribute.g.output)
                yield from _read(attribute.g.node)


def _sizes_elsewhere(
    graph: onnx.GraphProto, sources: Collection[str]
) -> dict[str, tuple[str, int, int]]:
    """Finds the nodes that can read sizes from inputs of which the program reads them.

    Returns:
        An input and its first and last axis, by the name of the result.
    """
    shapes = {
        value.name: [dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim]
        for value in graph.input
    }
    found = {}
    for node in graph.node:
        if node.op_type != "Shape" or node.input[0] not in shapes or node.input[0] in sources:
            continue
        bounds = {attribute.name: attribute.i for attribute in node.attribute}
        sizes = shapes[node.input[0]][bounds.get("start", 0) : bounds.get("end")]
        for name in sources:
            if not bounds and len(shapes[name]) != len(sizes):
                continue  # older opsets have no bounds
            for start in range(len(shapes[name]) - len(sizes) + 1):
                end = start + len(sizes)
                if shapes[name][start:end] == sizes:
                    found[node.output[0]] = (name, start, end)
    return found


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
