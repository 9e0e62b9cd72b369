"""Each scenario exports, passes the checker, keeps the user's names, and gives eager's numbers."""

import pytest
from scenarios import SCENARIOS, Scenario
from scenarios.scenario import check


@pytest.mark.parametrize("scenario", [pytest.param(s, id=s.name) for s in SCENARIOS])
def test_scenario(scenario: Scenario) -> None:
    check(scenario)


def test_names_are_unique() -> None:
    names = [scenario.name for scenario in SCENARIOS]
    assert len(names) == len(set(names))
    assert len(names) >= 60
