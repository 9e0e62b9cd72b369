"""Checks each lowering's parameters against the operator's schema in the installed PyTorch."""

import onnx_native
import pytest
import torch

# Kind of parameter -> schema types that it reads (csrc/ops/engine/binder.h).
ACCEPTED = {
    "Value": {"Tensor", "Scalar", "SymInt", "int", "float", "bool"},
    "Value?": {"Tensor?", "Scalar?", "int?", "float?", "SymInt?"},
    "Values": {"Tensor[]"},
    "Value?[]": {"Tensor?[]", "Tensor[]"},
    "int": {"int", "SymInt"},
    "int?": {"int?", "SymInt?"},
    "Dim": {"int", "SymInt", "Scalar"},
    "Dim?": {"int?", "SymInt?"},
    "Ints": {"int[]", "SymInt[]"},
    "Ints?": {"int[]?", "SymInt[]?"},
    "Shape": {"int[]", "SymInt[]"},
    "Shape?": {"int[]?", "SymInt[]?"},
    "float": {"float", "Scalar"},
    "float?": {"float?", "Scalar?"},
    "float[]": {"float[]", "Scalar[]"},
    "float[]?": {"float[]?"},
    "bool": {"bool", "SymBool"},
    "bool?": {"bool?"},
    "bool[]": {"bool[]"},
    "Number": {"Scalar", "float", "int", "SymInt"},
    "Number?": {"Scalar?", "float?", "int?"},
    "Number[]": {"float[]", "Scalar[]"},
    "Scalar": {"Scalar", "float", "int", "SymInt"},
    "Scalar?": {"Scalar?", "float?", "int?"},
    "Scalar[]": {"Scalar[]"},
    "str": {"str"},
    "str?": {"str?"},
    "DType": {"ScalarType"},
    "DType?": {"ScalarType?"},
}
PLACEMENT = {"Layout", "Device", "MemoryFormat", "Generator", "DeviceObjType"}
PLACEMENT_NAMES = {"pin_memory", "non_blocking", "copy"}


def schema_of(op: str) -> torch.FunctionSchema | None:
    """Returns the schema in the dispatcher; None for operators that are not in it."""
    name, _, overload = op.partition(".")
    try:
        return torch._C._get_schema(name, overload)
    except RuntimeError:
        return None


def argument_type(argument: torch.Argument) -> str:
    """Returns the type in the format of native_functions.yaml: "int[]?", "ScalarType"."""
    text = argument.real_type.annotation_str if hasattr(argument, "real_type") else ""
    return _yaml_type(text or argument.type.annotation_str)


def _yaml_type(text: str) -> str:
    if text.startswith("Optional["):
        return _yaml_type(text[len("Optional[") : -1]) + "?"
    if text.startswith("List["):
        return _yaml_type(text[len("List[") : -1]) + "[]"
    return {"number": "Scalar"}.get(text, text)


def problems(op: str, parameters: list[str]) -> list[str]:
    """Returns descriptions of all mismatches."""
    schema = schema_of(op)
    if schema is None:
        return [] if not op.startswith("aten::") else [f"{op}: no such operator"]
    found = []
    arguments = schema.arguments
    if len(parameters) > len(arguments):
        return [f"{op}: {len(parameters)} parameters for {len(arguments)} arguments"]
    for argument, parameter in zip(arguments, parameters, strict=False):
        type_name = argument_type(argument)
        accepted = ACCEPTED.get(parameter)
        if parameter not in ("Ignored", "Graph") and (
            accepted is None or type_name not in accepted
        ):
            found.append(f"{op}: `{argument.name}` is {type_name}, read as {parameter}")
    for argument in arguments[len(parameters) :]:
        placed = (
            argument_type(argument).rstrip("?") in PLACEMENT or argument.name in PLACEMENT_NAMES
        )
        if not placed and not argument.has_default_value():
            found.append(f"{op}: `{argument.name}` is not read and has no default")
    return found


@pytest.mark.parametrize(
    ("op", "key"), [pytest.param(*pair, id="-".join(pair)) for pair in onnx_native._C.table_keys()]
)
def test_parameters_fit_the_schema(op: str, key: str) -> None:
    assert problems(op, onnx_native._C.table_parameters(op, key)) == []


def test_misfits_are_found() -> None:
    assert problems("aten::relu", ["Value"]) == []
    assert problems("aten::cumsum", ["Value"]) == [
        "aten::cumsum: `dim` is not read and has no default"
    ]
    assert problems("aten::relu", ["Ints"]) == ["aten::relu: `self` is Tensor, read as Ints"]
    assert problems("aten::relu", ["Value", "int"]) == ["aten::relu: 2 parameters for 1 arguments"]
    assert problems("aten::no_such", ["Value"]) == ["aten::no_such: no such operator"]
