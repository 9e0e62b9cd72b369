"""The registry of programs that branch, loop, mutate and take arguments of all kinds."""

from scenarios import attention, branches, loops, mutation, regions, scans, signatures
from scenarios.scenario import Scenario

SCENARIOS: tuple[Scenario, ...] = tuple(
    scenario
    for module in (branches, loops, scans, regions, attention, mutation, signatures)
    for scenario in module.SCENARIOS.scenarios
)

__all__ = ["SCENARIOS", "Scenario"]
