"""Keeps operators as nodes of a custom domain, for runtimes that implement them."""

from typing import Any

from onnx_native import _library
from onnx_native.lowerings import _fallbacks, _lowerings
from onnx_native.upstream import _upstream


def keep(
    op: str, *, domain: str | None = None, version: int = 1, op_type: str | None = None
) -> None:
    """Keeps an operator as one ONNX node.

    Tensors become the node's inputs, in the order of the operator's schema; an absent tensor before
    a present one becomes an empty input. The other arguments become attributes with their names in
    the schema; those that are None are left out. The node has the operator's results, followed by
    the new value of each argument that the operator writes to.

    ``onnx_native.remove_lowering(op)`` undoes this.

    Args:
        op: The operator with its overload, such as ``"mylib::op"`` or ``"mylib::op.out"``.
        domain: The node's domain; by default the operator's namespace.
        version: The version of the domain's operator set.
        op_type: The node's ``op_type``; by default the operator's name.
    """
    namespace, _, name = op.partition("::")

    def node(b: Any, *args: Any, **kwargs: Any) -> Any:
        schema = _upstream.schema(_fallbacks.overload(op))
        positional = [argument for argument in schema.arguments if not argument.kwarg_only]
        values = dict(zip((argument.name for argument in positional), args, strict=True)) | kwargs
        inputs: list[Any] = []
        attributes: dict[str, Any] = {}
        for argument in schema.arguments:
            value = values.get(argument.name)
            if "Tensor" in str(argument.type):
                inputs.extend(value if isinstance(value, list) else [value])
            elif isinstance(value, _library.extension().Value):
                raise ValueError(
                    f"`{argument.name}` of {op} is a symbolic size, but an ONNX attribute must be "
                    "constant; write a lowering that passes it as an input"
                )
            elif value is not None:
                attributes[argument.name] = value
        while inputs and inputs[-1] is None:
            inputs.pop()
        return b.op(
            op_type or name.partition(".")[0],
            *inputs,
            outputs=b.results,
            domain=namespace if domain is None else domain,
            domain_version=version,
            **attributes,
        )

    _lowerings.lowering(op)(node)
