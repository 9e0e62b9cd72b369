"""A number that the model computes, as every number argument of every operator of the op table.

Each sample of the operators' rows is traced; then one argument at a time is read from a tensor.
Numbers (`Scalar`, `float`) must come out right, apart from the few in `CONSTANT`. Integers are
often dims or attributes: those come out right, or the export says that they must be constant.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
import torch

from ops import checking
from ops.row import Case, Row
from ops.rows import ROWS

INTEGERS = {"int", "Optional[int]", "SymInt"}
NUMBERS = {"number", "Scalar", "float", "Optional[number]", "Optional[float]"}
# Operator and argument -> why it must be constant.
RESIZE = "an attribute of Resize"
CONSTANT = {
    "aten::_transformer_encoder_layer_fwd eps": "an attribute of LayerNormalization",
    "aten::_upsample_bilinear2d_aa scales_h": RESIZE,
    "aten::_upsample_bilinear2d_aa scales_w": RESIZE,
    "aten::_upsample_nearest_exact2d scales_h": RESIZE,
    "aten::upsample_bicubic2d scales_h": RESIZE,
    "aten::upsample_bilinear2d scales_h": RESIZE,
    "aten::upsample_nearest2d scales_h": RESIZE,
    "aten::kaiser_window.beta beta": "decides how many terms the series has",
    "aten::linalg_cond p": "decides which operators there are",
    "aten::linalg_matrix_norm ord": "decides which operators there are",
    "aten::linalg_norm ord": "decides which operators there are, of matrices",
}


class Argument(NamedTuple):
    """A constant in a trace, by the place of its node and its place in the node's inputs."""

    key: str
    name: str
    node: int
    place: int
    value: float
    is_integer_type: bool

    @property
    def title(self) -> str:
        return f"{self.key} {self.name}"


def arguments(graph: torch.Graph, keys: tuple[str, ...]) -> Iterator[Argument]:
    """The constant numbers that operators with these keys take."""
    for number, node in enumerate(graph.nodes()):
        if not node.kind().startswith("aten::") or node.schema() == "(no schema)":
            continue
        schema = torch._C.parse_schema(node.schema())
        key = schema.name + ("." + schema.overload_name if schema.overload_name else "")
        if key not in keys:
            continue
        for place, argument in enumerate(schema.arguments):
            constant: Any = node.inputsAt(place).node()
            kind = argument.type.annotation_str
            if kind not in INTEGERS | NUMBERS or constant.kind() != "prim::Constant":
                continue
            if not constant.hasAttribute("value") or constant.kindOf("value") not in "if":
                continue
            value = getattr(constant, constant.kindOf("value"))("value")
            yield Argument(key, argument.name, number, place, value, kind in INTEGERS)


def reading(graph: torch.Graph, argument: Argument) -> Any:
    """The traced function with one more input, a tensor that the argument is read from."""
    changed: Any = graph.copy()
    node = list(changed.nodes())[argument.node]
    tensor = changed.addInput("number")
    tensor.setType(torch._C.TensorType.get())
    whole = isinstance(argument.value, int)
    item = changed.create("aten::IntImplicit" if whole else "aten::FloatImplicit", [tensor], 1)
    item.output().setType(torch._C.IntType.get() if whole else torch._C.FloatType.get())
    item.insertBefore(node)
    node.replaceInput(argument.place, item.output())
    return torch._C._create_function_from_graph("reading", changed)


def programs(row: Row) -> Iterator[tuple[Argument, Case]]:
    """For each argument the first sample that PyTorch itself runs so."""
    seen: set[str] = set()
    for test in row.tests():
        if test not in ("cases", "float32", "int64"):
            continue
        for case in row.samples(test):
            try:
                graph = torch.jit.trace(case.function, case.inputs, check_trace=False).graph
            except Exception:  # not a function of tensors
                continue
            for argument in arguments(graph, row.all_keys):
                if argument.title in seen:
                    continue
                function = reading(graph, argument)
                number = torch.tensor(argument.value, dtype=torch.float64)
                if isinstance(argument.value, int):
                    number = number.to(torch.int64)
                try:
                    function(*case.inputs, number)
                except Exception:
                    continue
                seen.add(argument.title)
                yield argument, Case(function, *case.inputs, number)


def refusal(row: Row, case: Case) -> str:
    """What the export says; "" where the model computes what PyTorch computes."""
    try:
        program = torch.onnx.export(case.function, case.inputs, dynamo=True, verbose=False)
    except torch.onnx.OnnxExporterError as error:
        return str(error.__cause__ or error)
    checking.compare(row, checking.session(program), case, case.inputs)
    return ""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("row", [pytest.param(row, id=row.title) for row in ROWS])
@torch.no_grad()
def test_right_or_refused(row: Row) -> None:
    for argument, case in programs(row):
        said = refusal(row, case)
        assert "[internal]" not in said
        if argument.is_integer_type:
            assert not said or any(w in said for w in ("constant", "changes", "a dtype", "known"))
        else:
            assert not said or argument.title in CONSTANT, (argument.title, said)
            assert not said or "but ONNX needs a constant here" in said
