"""Write the ONNX operator schemas of the installed onnx package as a C++ table."""

from __future__ import annotations

import argparse
import pathlib
from typing import Any

import onnx
from onnx import defs

ATTRIBUTE_KINDS = {
    "INT": "integer",
    "FLOAT": "floating",
    "STRING": "string",
    "INTS": "integers",
    "FLOATS": "floats",
    "STRINGS": "strings",
    "TENSOR": "tensor",
    "GRAPH": "graph",
}
NO_LIMIT = 2**31 - 1
# "tensor(float)" -> TensorProto.FLOAT
DTYPES = {f"tensor({name.lower()})": number for name, number in onnx.TensorProto.DataType.items()}


class Slices:
    """Rows of one C++ array; equal runs of rows are written once."""

    def __init__(self) -> None:
        self.rows: list[str] = []
        self._starts: dict[tuple[str, ...], int] = {}

    def add(self, rows: list[str]) -> tuple[int, int]:
        key = tuple(rows)
        if key not in self._starts:
            self._starts[key] = len(self.rows)
            self.rows.extend(rows)
        return self._starts[key], len(rows)


def parameter(formal: Any, schema: Any) -> str:
    bits = 0
    for type_name in formal.types:
        number = DTYPES.get(type_name, 32)
        if number < 32:
            bits |= 1 << number
    variables = {constraint.type_param_str for constraint in schema.type_constraints}
    variable = formal.type_str if formal.type_str in variables else ""
    option = formal.option.name.lower()
    homogeneous = "true" if formal.is_homogeneous else "false"
    return (
        f'{{"{formal.name}", "{variable}", {bits:#x}u, '
        f"SchemaParameter::Option::{option}, {homogeneous}}},"
    )


def attribute(name: str, attribute: Any) -> str:
    kind = ATTRIBUTE_KINDS.get(attribute.type.name, "other")
    required = "true" if attribute.required else "false"
    return f'{{"{name}", AttributeKind::{kind}, {required}}},'


def table() -> str:
    schemas = [s for s in defs.get_all_schemas_with_history() if s.domain == ""]
    schemas.sort(key=lambda s: (s.name.encode(), s.since_version))
    parameters = Slices()
    attributes = Slices()
    rows = []
    for s in schemas:
        inputs = parameters.add([parameter(p, s) for p in s.inputs])
        outputs = parameters.add([parameter(p, s) for p in s.outputs])
        named = attributes.add([attribute(n, a) for n, a in sorted(s.attributes.items())])
        counts = (s.min_input, s.max_input, s.min_output, s.max_output)
        rows.append(
            f'{{"{s.name}", {s.since_version}, {"true" if s.deprecated else "false"}, '
            + ", ".join(str(min(count, NO_LIMIT)) for count in counts)
            + f", {{kParameters + {inputs[0]}, {inputs[1]}}}"
            + f", {{kParameters + {outputs[0]}, {outputs[1]}}}"
            + f", {{kAttributes + {named[0]}, {named[1]}}}}},"
        )
    lines = [
        f"// Operators of ai.onnx in onnx {onnx.__version__}; made by generate_schemas.py.",
        f"constexpr int64_t kNewestOpset = {defs.onnx_opset_version()};",
        "constexpr SchemaParameter kParameters[] = {",
        *parameters.rows,
        "};",
        "constexpr SchemaAttribute kAttributes[] = {",
        *attributes.rows,
        "};",
        "// In the order of the name's bytes, then of the version.",
        "constexpr OpSchema kSchemas[] = {",
        *rows,
        "};",
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=pathlib.Path, required=True)
    parser.parse_args().output.write_text(table(), encoding="utf-8")


if __name__ == "__main__":
    main()
