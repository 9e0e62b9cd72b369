"""Every operator of the op table in a traced program, where torch.jit.trace takes it."""

import onnx_native
import pytest
import torch
from ops import checking
from ops.row import Case, Row
from ops.rows import ROWS

# Why torch.jit.trace refuses some calls of a row.
UNTRACEABLE = {
    "higher_order::": "control flow of torch.export",
    "prims::": "arguments that are devices or lists",
}
TESTS = [
    pytest.param(row, test, id=f"{row.title}-{test}")
    for row in ROWS
    for test in row.tests()
    if test != "dynamic" and test not in row.xfails
]


@pytest.mark.parametrize(("row", "test"), TESTS)
@torch.no_grad()
def test_traced(row: Row, test: str) -> None:
    for number, case in enumerate(row.samples(test)):
        try:
            traced = torch.jit.trace(checking.Calling(case), case.inputs, check_trace=False)
        except Exception as e:
            print("TRACE", row.title, test, number, str(e)[:60])
            continue
        try:
            program = torch.onnx.export(traced, case.inputs, dynamo=True, verbose=False)
            checking.compare(row, checking.session(program), Case(traced, *case.inputs), case.inputs)
        except Exception as error:
            error.add_note(f"in sample {number} of {row.title}, {test}")
            raise
