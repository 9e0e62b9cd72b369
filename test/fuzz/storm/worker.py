"""A process that judges programs, one after the other, and reduces those that fail."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import time
import traceback
import warnings
from multiprocessing.connection import Connection
from typing import Any

import onnx_native
import torch

from storm import reduce, routes
from storm.generate import generate
from storm.program import SETS, Input, Program
from storm.routes import Capture, Outcome


@dataclasses.dataclass
class Finding:
    """A fault in its smallest form.

    Attributes:
        signature: Verdict, operators and message: one text for one cause.
        verdict: The verdict.
        program: The reduced program, as JSON.
        outcomes: What becomes of the reduced program by each route.
        seed: The seed of the program that it comes from.
        known: Why it is no fault, if it is none.
    """

    signature: str
    verdict: str
    program: str
    outcomes: list[Outcome]
    seed: int
    known: str = ""


@dataclasses.dataclass
class Job:
    """Seeds to generate a program from, or a program."""

    seed: int = 0
    flavor: str | None = None
    newest: int = 26
    program: str = ""
    routes: tuple[str, ...] = ()
    pytorch: bool = False
    reduce: bool = True
    seen: dict[str, int] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class Answer:
    """What came of a job."""

    outcomes: list[Outcome] = dataclasses.field(default_factory=list)
    findings: list[Finding] = dataclasses.field(default_factory=list)
    keys: list[str] = dataclasses.field(default_factory=list)
    seconds: dict[str, float] = dataclasses.field(default_factory=dict)
    program: str = ""
    error: str = ""  # the fuzzer's own


def serve(connection: Connection) -> None:
    """Answers jobs until None comes."""
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    prepare()
    while True:
        try:
            job = connection.recv()
        except EOFError:
            return
        if job is None:
            return
        answer = Answer()
        try:
            _answer(job, answer, connection)
        except Exception:
            answer.error = traceback.format_exc()
        connection.send(answer)


def prepare() -> None:
    """Settings of every process that judges."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.ops.load_library(onnx_native.library_path())


def warm_up() -> None:
    """Imports what the first export imports, so that forked processes have it."""
    program = Program(
        [Input("x", "float32", ["n"])],
        [],
        ["y = cond(x.sum() > 0, lambda x: x, lambda x: -x, (x,))"],
        ["y"],
        [{"n": 3}] * SETS,
    )
    with Capture() as capture, torch.no_grad():
        for route in ("fx", "pt2"):
            routes.EXPORTS[route](program, program.module(), program.arguments(0), capture)


def _answer(job: Job, answer: Answer, connection: Connection) -> None:
    start = time.process_time()
    program = (
        Program.from_json(job.program)
        if job.program
        else generate(job.seed, job.flavor, job.newest)
    )
    answer.seconds["generate"] = time.process_time() - start
    answer.program = program.to_json()
    chosen = [route for route in program.routes if not job.routes or route in job.routes]
    if job.pytorch and "fx" in program.routes:
        chosen.append(routes.NATIVE)
    connection.send(("program", answer.program))
    with Capture() as capture:
        for route in chosen:
            connection.send(("route", route))
            start = time.process_time()
            answer.outcomes.append(routes.judge(program, route, capture))
            answer.seconds[route] = time.process_time() - start
    done = set()
    for outcome in sorted(answer.outcomes, key=lambda each: _ORDER.get(each.route, 9)):
        kind = (outcome.verdict, outcome.cause if outcome.verdict != routes.WRONG else "")
        if job.reduce and outcome.is_fault and outcome.route != routes.NATIVE and kind not in done:
            done.add(kind)
            connection.send(("route", f"{outcome.route} (reducing)"))
            find(job, program, outcome, answer)


# The quickest first.
_ORDER = {"traced": 0, "scripted": 1, "fx": 2, "pt2": 3}


def find(job: Job, program: Program, outcome: Outcome, answer: Answer) -> None:
    """Reduces a fault, unless its like has been seen often enough."""

    def fails(candidate: Program) -> bool:
        with contextlib.suppress(Exception), Capture() as capture:
            if outcome.route == "pt2":
                routes.judge(candidate, "fx", capture)
            return same(routes.judge(candidate, outcome.route, capture), outcome)
        return False

    reducer = reduce.Reducer(program, fails)
    short = reducer.shortest_prefix()
    last = Program.operators(dataclasses.replace(short, inits=[], body=short.body[-1:], results=[]))
    key = f"{outcome.verdict}: {' '.join(last)}"
    if outcome.verdict != routes.WRONG:
        key += f": {outcome.cause}"
    answer.keys.append(key)
    if job.seen.get(key, 0) >= 2 or any(key in other for other in answer.keys[:-1]):
        return
    reduced = reducer.run()
    outcomes = []
    with Capture() as capture:
        for route in program.routes:
            with contextlib.suppress(Exception):
                outcomes.append(routes.judge(reduced, route, capture))
    final = next((each for each in outcomes if each.route == outcome.route), outcome)
    signature = f"{outcome.verdict}: {' '.join(reduced.operators())}"
    if outcome.verdict != routes.WRONG:
        signature = f"{outcome.verdict}: {final.cause}"
    answer.findings.append(
        Finding(
            signature=signature,
            verdict=outcome.verdict,
            program=reduced.to_json(),
            outcomes=outcomes,
            seed=job.seed,
            known=routes.is_known(reduced, final),
        )
    )


def same(outcome: Outcome, wanted: Outcome) -> bool:
    """Whether a smaller program fails as the larger one does."""
    if outcome.verdict != wanted.verdict:
        return False
    return wanted.verdict == routes.WRONG or outcome.cause == wanted.cause


def isolated(program: Program, route: str) -> Any:
    """The verdict on a program that may end the process."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        verdict = "?"
        with contextlib.suppress(Exception), Capture() as capture:
            if route == "pt2":
                routes.judge(program, "fx", capture)
            verdict = routes.judge(program, route, capture).verdict
        os.write(writing, verdict.encode())
        os._exit(0)
    os.close(writing)
    text = b""
    while part := os.read(reading, 100):
        text += part
    os.close(reading)
    _, status = os.waitpid(child, 0)
    return text.decode() if os.WIFEXITED(status) and text else routes.CRASH
