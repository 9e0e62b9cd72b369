"""Programs that branch, loop, mutate and take all kinds of arguments: one registry for all."""

from scenarios import attention, branches, loops, mutation, regions, scans, signatures
from scenarios.scenario import Scenario

SCENARIOS: tuple[Scenario, ...] = tuple(
    scenario
    for module in (branches, loops, scans, regions, attention, mutation, signatures)
    for scenario in module.SCENARIOS.scenarios
)

__all__ = ["SCENARIOS", "Scenario"]
