"""Operators kept as nodes of a domain, for a runtime that implements them."""

from typing import Any

from onnx_native import _fallbacks, _library, _lowerings, _upstream


def keep(
    op: str, *, domain: str | None = None, version: int = 1, op_type: str | None = None
) -> None:
    """Keeps an operator as one ONNX node.

    Tensors are the node's inputs in the order of the operator's schema (an absent one before a
    present one is an empty input), its other arguments are attributes of the schema's names;
    without those that are None. The node has the operator's results. For an operator that writes to
    arguments, what it wrote comes after the results of its own.

    ``onnx_native.remove_lowering(op)`` takes it back.

    Args:
        op: The operator with its overload, as ``"mylib::op"`` or ``"mylib::op.out"``.
        domain: The node's domain: the operator's namespace by default.
        version: The version of the domain's operator set.
        op_type: The node's operator: the operator's name by default.
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
                    f"{argument.name} of {op} is a size that is not constant, an attribute is: "
                    "write a lowering that makes it an input"
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
