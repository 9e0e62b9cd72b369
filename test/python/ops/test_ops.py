"""Every operator of the op table: exported, checked, run and compared with eager PyTorch."""

import collections
import functools
import os
from collections.abc import Callable

import onnx_native
import pytest
import torch

from ops import checking
from ops.limits import ONLY_IN_NATIVE_CAPTURE, ONLY_IN_TORCHSCRIPT
from ops.row import NOT_AT_OPSET_11, OLDER_OPSET, OLDEST_OPSET, Case, Row
from ops.rows import ROWS

TESTS = [
    pytest.param(
        row,
        test,
        id=f"{row.title}-{test}",
        marks=pytest.mark.xfail(strict=True, reason=row.xfails[test]) if test in row.xfails else (),
    )
    for row in ROWS
    for test in row.tests()
]

# Of these rows all tests run also through torch.export. 1 for all rows: ONNX_NATIVE_EACH_ROW=1
EACH = int(os.environ.get("ONNX_NATIVE_EACH_ROW", "5"))
OF_SOME_ROWS = {row.title for row in ROWS[::EACH] if not row.native_only}
ALSO_TORCH_EXPORT = [test for test in TESTS if test.values[0].title in OF_SOME_ROWS]


def key_text(op: str, dispatch_key: str) -> str:
    """Formats a table key like the rows."""
    return op if dispatch_key == "dense" else f"{op}@{dispatch_key}"


@pytest.mark.parametrize(("row", "test"), TESTS)
def test_operator(row: Row, test: str) -> None:
    check_operator(row, test)


@pytest.mark.captures("torch.export")
@pytest.mark.parametrize(("row", "test"), ALSO_TORCH_EXPORT)
def test_operator_captured_by_torch_export(row: Row, test: str) -> None:
    check_operator(row, test, captured=True)


@pytest.mark.one_sample
@pytest.mark.parametrize("row", [pytest.param(row, id=row.title) for row in ROWS])
@torch.no_grad()
def test_one_sample(row: Row) -> None:
    """Stands for the tests of a row in `make check`: one export, at two sizes where it can."""
    tests = [test for test in row.tests() if test not in row.xfails]
    if "dynamic" in tests:
        check_dynamic(row)
        return
    case = row.samples(tests[0])[0]
    checking.compare(row, checking.session(checking.export(case)), case, case.inputs)


@torch.no_grad()
def check_operator(row: Row, test: str, *, captured: bool = False) -> None:
    """Checks the samples of a test; with `captured`, they come through torch.export."""
    if test == "dynamic":
        check_dynamic(row)
        return
    reached: set[str] = set()
    programs = []
    for number, case in enumerate(row.samples(test)):
        try:
            program = checking.export(case)
            programs.append(program)
            reached |= checking.operators(program)
            checking.compare(row, checking.session(program), case, case.inputs)
            if test == row.tests()[0] and number == 0:
                check_opsets(row, case, program.exported_program if captured else None)
        except Exception as error:
            error.add_note(f"in sample {number} of {row.title}, {test}")
            raise
    if test == row.tests()[0] and not set(row.all_keys) <= reached:
        # The native capture writes comparisons of sizes in fewer operators than torch.export.
        for program in programs:
            assert program.exported_program is not None
            reached |= checking.operators(checking.export_program(program.exported_program))
        assert set(row.all_keys) <= reached, "keys that no sample reached"


def check_opsets(row: Row, case: Case, program: torch.export.ExportedProgram | None) -> None:
    """Checks the lowest opset of the row, the newest, and the error below the lowest.

    Opset 11 can express exactly the rows that `not_at_opset_11.txt` does not list.
    """
    at_opset = (
        functools.partial(checking.export, case, ())
        if program is None
        else functools.partial(checking.export_program, program)
    )
    if oldest := export_at_oldest(at_opset):
        checking.compare(row, checking.session(oldest), case, case.inputs)
    assert (oldest is None) == (row.title in NOT_AT_OPSET_11)
    for opset in (row.opset, row.newest):
        checking.compare(row, checking.session(at_opset(opset)), case, case.inputs)
    if row.opset > OLDEST_OPSET:
        with pytest.raises(torch.onnx.OnnxExporterError, match="opset"):
            at_opset(row.opset - 1)


def export_at_oldest(
    at_opset: Callable[[int], torch.onnx.ONNXProgram],
) -> torch.onnx.ONNXProgram | None:
    """Returns the model at opset 11, or None if an error says that the opset cannot express it."""
    try:
        return at_opset(OLDER_OPSET)
    except torch.onnx.OnnxExporterError as error:
        if "opset" not in str(error):
            raise
        return None


def check_dynamic(row: Row) -> None:
    """Runs one sample with a dynamic first dimension at two sizes."""
    reasons = []
    for case in row.samples("dynamic"):
        try:
            grows, longer = case.grown()
        except ValueError as error:
            reasons.append(str(error))
            continue
        running = checking.session(checking.export(case, grows))
        checking.compare(row, running, case, case.inputs)
        checking.compare(row, running, case, longer)
        return
    pytest.fail(f"say in `static` why no sample has a dynamic dimension: {reasons}")


def table_keys() -> set[str]:
    return {key_text(op, key) for op, key in onnx_native._C.table_keys()}


def row_keys() -> set[str]:
    return {key for row in ROWS for key in row.all_keys}


def test_rows_name_keys_of_the_table() -> None:
    assert sorted(row_keys() - table_keys()) == []


def test_every_key_has_a_row() -> None:
    elsewhere = {*ONLY_IN_TORCHSCRIPT, *ONLY_IN_NATIVE_CAPTURE}
    assert sorted(table_keys() - row_keys() - elsewhere) == []


def test_titles_are_unique() -> None:
    counts = collections.Counter(row.title for row in ROWS)
    assert [title for title, count in counts.items() if count > 1] == []


def test_rows_of_newer_opsets_exist() -> None:
    assert {row.title for row in ROWS} >= NOT_AT_OPSET_11


def test_xfails_name_tests() -> None:
    """Every expected failure belongs to a test that runs."""
    assert [row.title for row in ROWS if not set(row.xfails) <= set(row.tests())] == []
