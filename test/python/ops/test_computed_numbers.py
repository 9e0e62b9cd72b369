"""Computed numbers as number arguments of every operator of the op table.

Each sample of the operators' rows is traced. Then one argument at a time is read from a tensor.
Numbers (`Scalar`, `float`) must give the right result, except for those in `CONSTANT`. Integers are
often dims or attributes: the result is right, or the export reports that they must be constant.
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
# Operator and argument -> the reason why it must be constant.
RESIZE = "an attribute of Resize"
CONSTANT = {
    "aten::_transformer_encoder_layer_fwd eps": "an attribute of LayerNormalization",
    "aten::_upsample_bilinear2d_aa scales_h": RESIZE,
    "aten::_upsample_bilinear2d_aa scales_w": RESIZE,
    "aten::_upsample_nearest_exact2d scales_h": RESIZE,
    "aten::upsample_bicubic2d scales_h": RESIZE,
    "aten::upsample_bilinear2d scales_h": RESIZE,
    "aten::upsample_nearest2d scales_h": RESIZE,
    "aten::kaiser_window.beta beta": "determines the number of terms of the series",
    "aten::linalg_cond p": "determines the nodes",
    "aten::linalg_lstsq rcond": "the driver gelsy takes only small ones",
    "aten::linalg_matrix_norm ord": "determines the nodes",
    "aten::linalg_norm ord": "determines the nodes, for matrices",
}


class Argument(NamedTuple):
    """A constant in a trace: the index of its node, and its index in the node's inputs."""

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
    """Yields the constant number arguments of operators with these keys."""
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
    """Adds an input to the traced function, a tensor from which the argument is read."""
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
    """Yields, for each argument, the first sample that PyTorch itself can run."""
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
    """Returns the error of the export, or "" if the model matches PyTorch."""
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
            assert not said or any(w in said for w in ("constant", "a dtype", "known"))
        else:
            assert not said or argument.title in CONSTANT, (argument.title, said)
            assert not said or "but ONNX needs a constant here" in said
