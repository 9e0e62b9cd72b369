"""Each scenario exports, passes the checker, keeps the user's names, and matches eager.

Its archive gives the same model, if torch.export.save can write one.
"""

import contextlib
import pathlib

import onnx_native
import pytest
from models.recording import LeftToTorchExport, only_native
from readers import archives
from scenarios import SCENARIOS, Scenario
from scenarios.scenario import check

pytestmark = pytest.mark.usefixtures("compiles_anew")
EACH = pytest.mark.parametrize("scenario", [pytest.param(s, id=s.name) for s in SCENARIOS])


@EACH
def test_scenario(scenario: Scenario, tmp_path: pathlib.Path) -> None:
    with onnx_native.options(capture="torch.export"):  # the reader of FX graphs
        program = check(scenario).exported_program
    assert program is not None
    assert archives.compare(program, tmp_path).archive == ""


@EACH
def test_recorded_scenario(scenario: Scenario) -> None:
    """Right through the native capture too, or left to torch.export."""
    with contextlib.suppress(LeftToTorchExport), only_native():
        check(scenario)


def test_names_are_unique() -> None:
    names = [scenario.name for scenario in SCENARIOS]
    assert len(names) == len(set(names))
    assert len(names) >= 60
