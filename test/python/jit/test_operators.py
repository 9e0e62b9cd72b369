"""Every operator of the op table in traced programs, where torch.jit.trace supports it."""

import pytest
import torch
from ops import checking
from ops.row import Case, Row
from ops.rows import ROWS

# Row -> tests with calls that torch.jit.trace rejects, or whose trace PyTorch cannot run.
ALL_DTYPES = "float32 float16 int64 bool"
UNTRACEABLE = {
    **dict.fromkeys(("arange", "constants", "masked_scatter", "overwritten"), "cases dynamic"),
    **dict.fromkeys(("random numbers", "view.dtype", "view.dtype of complex"), "cases dynamic"),
    **dict.fromkeys(("fill.Scalar of complex", "fill.Tensor of complex"), "cases dynamic"),
    **dict.fromkeys(("prims::broadcast_in_dim", "prims::device_put"), "cases dynamic"),
    **dict.fromkeys(("prims::iota", "prims::reshape"), "cases dynamic"),
    **dict.fromkeys(("prims::scalar_tensor", "zero of complex"), "cases dynamic"),
    **dict.fromkeys(("higher_order::cond", "higher_order::scan"), "cases dynamic"),
    **dict.fromkeys(("higher_order::flex_attention", "higher_order::map_impl"), "cases dynamic"),
    **dict.fromkeys(("affine_grid_generator", "_unsafe_view of complex"), "dynamic"),
    **dict.fromkeys(("native_group_norm", "shapes"), "dynamic"),
    **dict.fromkeys(("index_add", "index_fill.int_Scalar"), "bool"),
    **dict.fromkeys(("dropout in training", "higher_order::while_loop"), "cases"),
    "gradient": "cases float32",
    "resize_": f"cases {ALL_DTYPES} dynamic",
    "resize_as_": ALL_DTYPES,
}
PIECES = "TorchScript does not know how many pieces a tensor of indices asks for"
TWO = "a tensor and a list of tensors as results"
WRITTEN = "the trace records the result of resize_ as a constant; the export refuses a write to it"
XFAILS = {
    "resize_-cases": WRITTEN,
    "tensor_split.tensor_indices_or_sections-cases": PIECES,
    "tensor_split.tensor_indices_or_sections-dynamic": PIECES,
    "histogramdd-float32": TWO,
    "histogramdd.TensorList_bins-cases": TWO,
}


def parameters(row: Row, test: str) -> object:
    name = f"{row.title}-{test}"
    marks = pytest.mark.xfail(strict=True, reason=XFAILS[name]) if name in XFAILS else ()
    return pytest.param(row, test, id=name, marks=marks)


TESTS = [parameters(row, test) for row in ROWS for test in row.tests() if test not in row.xfails]


def trace(case: Case, *sets: tuple[torch.Tensor, ...]) -> Case | None:
    """Returns the traced case; None if PyTorch cannot trace it or run the trace on all inputs."""
    try:
        traced = torch.jit.trace(checking.Calling(case), case.inputs, check_trace=False)
        for inputs in (case.inputs, *sets):
            traced(*inputs)
    except Exception:
        return None
    return Case(traced, *case.inputs)


def check(row: Row, case: Case, *sets: tuple[torch.Tensor, ...], shapes: object = None) -> None:
    program = torch.onnx.export(
        case.function, case.inputs, dynamo=True, dynamic_shapes=shapes, verbose=False
    )
    running = checking.session(program)
    for inputs in (case.inputs, *sets):
        checking.compare(row, running, case, inputs)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("row", "test"), TESTS)
@torch.no_grad()
def test_traced(row: Row, test: str) -> None:
    is_refused = False
    for number, case in enumerate(row.samples(test)):
        sets, shapes = [], None
        if test == "dynamic":
            try:
                grows, longer = case.grown()
            except ValueError:
                continue
            sets, shapes = [longer], [{0: "n"} if grow else None for grow in grows]
        traced = trace(case, *sets)
        is_refused |= traced is None
        try:
            if traced:
                check(row, traced, *sets, shapes=shapes)
        except Exception as error:
            error.add_note(f"in sample {number} of {row.title}, {test}")
            raise
        if test == "dynamic":
            break
    assert is_refused == (test in UNTRACEABLE.get(row.title, "").split())
