"""Counts the outcomes of programs and writes them as Markdown."""

from __future__ import annotations

import collections
import pathlib

from storm import routes
from storm.program import Program
from storm.worker import Answer, Finding, Job


class Report:
    """Verdicts by route, refusals by cause, findings by signature."""

    def __init__(self) -> None:
        self.programs = 0
        self.verdicts: collections.Counter[tuple[str, str]] = collections.Counter()
        self.causes: collections.Counter[tuple[str, str, str]] = collections.Counter()
        self.example: dict[tuple[str, str, str], tuple[int, str]] = {}
        self.findings: dict[str, Finding] = {}
        self.counts: collections.Counter[str] = collections.Counter()
        self.keys: dict[str, int] = {}
        self.known: set[str] = set()
        self.seconds: collections.Counter[str] = collections.Counter()
        self.errors: list[str] = []
        self.lost: list[tuple[int, str, str]] = []

    @property
    def runs(self) -> int:
        return sum(count for (route, _), count in self.verdicts.items() if route != routes.NATIVE)

    def take(self, job: Job, answer: Answer) -> None:
        """Adds the answer of one job."""
        seed = job.seed
        self.programs += not job.follows
        if answer.error:
            self.errors.append(f"seed {seed}: {answer.error}")
        for outcome in answer.outcomes:
            self.verdicts[outcome.route, outcome.verdict] += 1
            if outcome.verdict in (routes.CRASH, routes.TIMEOUT):
                self.lost.append((seed, outcome.message, answer.program))
            if outcome.verdict not in (routes.RIGHT, routes.ROUNDED):
                cause = (outcome.route, outcome.verdict, outcome.cause)
                self.causes[cause] += 1
                self.example.setdefault(cause, (seed, outcome.message))
        self.seconds.update(answer.seconds)
        for key in answer.keys:
            self.keys[key] = self.keys.get(key, 0) + 1
        for finding in answer.findings:
            self.counts[finding.signature] += 1
            if finding.known:
                self.known.add(finding.key)
            before = self.findings.get(finding.signature)
            if before is None or len(finding.program) < len(before.program):
                self.findings[finding.signature] = finding

    def faults(self) -> int:
        """Returns the number of runs of our routes that ended in a fault, known ones excluded.

        A timeout does not count, because the machine may be the cause.
        """
        return sum(
            count
            for (route, verdict), count in self.verdicts.items()
            if verdict in routes.FAULTS and verdict != routes.TIMEOUT and route != routes.NATIVE
        )

    def table(self) -> str:
        """Returns verdicts by route."""
        columns = [
            route
            for route in (*routes.ROUTES, routes.NATIVE)
            if any(key[0] == route for key in self.verdicts)
        ]
        lines = [
            f"| verdict | {' | '.join(columns)} |",
            f"| --- |{' ---: |' * len(columns)}",
        ]
        for verdict in routes.VERDICTS:
            counts = [self.verdicts[route, verdict] for route in columns]
            if any(counts):
                lines.append(f"| {verdict} | {' | '.join(map(str, counts))} |")
        totals = [sum(self.verdicts[route, each] for each in routes.VERDICTS) for route in columns]
        lines.append(f"| programs | {' | '.join(map(str, totals))} |")
        return "\n".join(lines)

    def refusals(self, verdict: str = routes.REFUSED, most: int = 60) -> str:
        """Returns causes with counts over all of our routes, the most frequent first."""
        counts: collections.Counter[str] = collections.Counter()
        examples: dict[str, tuple[int, str]] = {}
        for (route, kind, cause), count in self.causes.items():
            if kind == verdict and route != routes.NATIVE:
                counts[cause] += count
                examples.setdefault(cause, self.example[route, kind, cause])
        lines = ["| count | cause | seed |", "| ---: | --- | ---: |"]
        for cause, count in counts.most_common(most):
            text = cause.replace("|", "\\|")
            lines.append(f"| {count} | {text} | {examples[cause][0]} |")
        return "\n".join(lines) if counts else "none"

    def speed(self) -> str:
        """Returns CPU seconds per run."""
        counts = collections.Counter({"generate": self.programs})
        for (route, _), count in self.verdicts.items():
            counts[route] += count
        return ", ".join(
            f"{name} {self.seconds[name] / counts[name]:.3f} s"
            for name in ("generate", *routes.ROUTES, routes.NATIVE)
            if counts[name] and self.seconds[name]
        )

    def text(self) -> str:
        """Returns the whole report."""
        parts = [
            f"{self.programs} programs, {self.runs} exports; per run: {self.speed()}.",
            self.table(),
            "## Refusals by cause",
            self.refusals(),
            "## Not captured, by cause",
            self.refusals(routes.CAPTURE, 40),
            "## Left to torch.export by the native capture, by cause",
            self.refusals(routes.ASIDE, 40),
            "## Wrong as captured",
            self.refusals(routes.CAPTURED_WRONG, 40),
        ]
        if self.findings:
            parts.append("## Findings")
            parts += [
                finding_text(finding, self.counts[signature])
                for signature, finding in sorted(self.findings.items())
            ]
        if self.lost:
            parts.append("## Crashes and timeouts")
            parts += [f"seed {seed}: {why}" for seed, why, _ in self.lost]
        if self.errors:
            parts.append("## Errors of the fuzzer")
            parts += [f"```\n{error}\n```" for error in self.errors[:20]]
        return "\n\n".join(parts) + "\n"

    def write(self, folder: pathlib.Path) -> None:
        """Writes the report, the findings and the programs of crashes."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "report.md").write_text(self.text())
        for number, (signature, finding) in enumerate(sorted(self.findings.items())):
            path = folder / f"finding-{number:03}.md"
            path.write_text(finding_text(finding, self.counts[signature]))
            path.with_suffix(".json").write_text(finding.program)
        for seed, _, program in self.lost:
            (folder / f"lost-{seed}.json").write_text(program)


def finding_text(finding: Finding, count: int) -> str:
    """Formats a finding: the program and the outcome of each route."""
    program = Program.from_json(finding.program)
    known = f"\nKnown: {finding.known}\n" if finding.known else ""
    inputs = ", ".join(f"{each.name}: {each.dtype}{each.dims}" for each in program.inputs)
    outcomes = "\n".join(
        f"- {each.route}: {each.verdict}{': ' + each.message if each.message else ''}"
        for each in finding.outcomes
    )
    source = program.source().split("class M", 1)[1]
    return (
        f"### {finding.signature}\n{known}\n"
        f"seen {count} times, from seed {finding.seed}; opset {program.opset}, "
        f"state {program.state}, functions {program.functions}; inputs {inputs or 'none'}; "
        f"sizes {program.sizes}\n\n"
        f"```python\nclass M{source}```\n\n{outcomes}\n"
    )
