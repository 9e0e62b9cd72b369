"""Each scenario exports, passes the checker, keeps the user's names, and matches eager.

Its archive gives the same model, if torch.export.save can write one.
"""

import pathlib

import pytest
from readers import archives
from scenarios import SCENARIOS, Scenario
from scenarios.scenario import check


@pytest.mark.parametrize("scenario", [pytest.param(s, id=s.name) for s in SCENARIOS])
def test_scenario(scenario: Scenario, tmp_path: pathlib.Path) -> None:
    program = check(scenario).exported_program
    assert program is not None
    assert archives.compare(program, tmp_path).archive == ""


def test_names_are_unique() -> None:
    names = [scenario.name for scenario in SCENARIOS]
    assert len(names) == len(set(names))
    assert len(names) >= 60
