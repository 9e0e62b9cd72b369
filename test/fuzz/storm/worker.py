"""A process that examines programs one after the other and reduces those that fail."""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import multiprocessing
import os
import resource
import signal
import time
import traceback
import warnings
from multiprocessing.connection import Connection

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
        signature: Verdict, operators and message; equal for equal causes.
        verdict: The verdict.
        program: The reduced program, as JSON.
        outcomes: The outcome of the reduced program by each route.
        seed: The seed of the original program.
        known: Why it is not a fault; empty if it is one.
        key: The verdict and the operators of the first statement that fails.
    """

    signature: str
    verdict: str
    program: str
    outcomes: list[Outcome]
    seed: int
    known: str = ""
    key: str = ""


@dataclasses.dataclass
class Job:
    """A seed or a program, and the work to do on it."""

    seed: int = 0
    flavor: str | None = None
    newest: int = 26
    program: str = ""
    routes: tuple[str, ...] = ()
    pytorch: bool = False
    reduce: bool = True
    done: tuple[str, ...] = ()  # routes to skip
    follows: bool = False  # the program is already counted
    crashed: str = ""  # the route on which the program ends the process; reduce the program
    seen: dict[str, int] = dataclasses.field(default_factory=dict)  # findings by key
    known: set[str] = dataclasses.field(default_factory=set)  # keys of known differences


@dataclasses.dataclass
class Answer:
    """The result of a job."""

    outcomes: list[Outcome] = dataclasses.field(default_factory=list)
    findings: list[Finding] = dataclasses.field(default_factory=list)
    keys: list[str] = dataclasses.field(default_factory=list)
    seconds: dict[str, float] = dataclasses.field(default_factory=dict)
    program: str = ""
    error: str = ""  # an error of the fuzzer itself


def serve(connection: Connection) -> None:
    """Answers jobs until it receives None."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # the process ends with its parent
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
    """Applies the settings of every worker process."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.ops.load_library(onnx_native.library_path())


def warm_up() -> None:
    """Imports the modules that the first export needs, so that forked processes share them."""
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
    chosen = [
        route for route in (*program.routes, "native") if not job.routes or route in job.routes
    ]
    if job.pytorch and "fx" in program.routes:
        chosen.append(routes.NATIVE)
    chosen = [route for route in chosen if route not in job.done]
    connection.send(("program", answer.program))
    if job.crashed:
        connection.send(("route", f"{job.crashed} (reducing)"))
        crash = f"the process ends in {job.crashed}"
        find(job, program, Outcome(job.crashed, routes.CRASH, crash, crash), answer)
        return
    with Capture() as capture:
        if "fx" in job.done and {"pt2", "decomposed"} & set(chosen):
            routes.judge(program, "fx", capture)
        for route in chosen:
            connection.send(("route", route))
            start = time.process_time()
            answer.outcomes.append(routes.judge(program, route, capture))
            answer.seconds[route] = time.process_time() - start
            connection.send(("outcome", answer.outcomes[-1]))
    done = set()
    for outcome in sorted(answer.outcomes, key=lambda each: _ORDER.get(each.route, 9)):
        kind = (outcome.verdict, outcome.cause if outcome.verdict != routes.WRONG else "")
        if job.reduce and outcome.is_fault and outcome.route != routes.NATIVE and kind not in done:
            done.add(kind)
            connection.send(("route", f"{outcome.route} (reducing)"))
            find(job, program, outcome, answer)


# The fastest route first.
_ORDER = {"native": 0, "traced": 1, "scripted": 2, "fx": 3, "pt2": 4}


def find(job: Job, program: Program, outcome: Outcome, answer: Answer) -> None:
    """Reduces a fault, unless similar ones have been seen often enough."""

    def fails(candidate: Program) -> bool:
        if outcome.verdict == routes.CRASH:
            return isolated(candidate, outcome.route).verdict == routes.CRASH
        with contextlib.suppress(Exception):
            return same(judged(candidate, outcome.route), outcome)
        return False

    reducer = reduce.Reducer(program, fails)
    short = reducer.shortest_prefix()
    last = Program.operators(dataclasses.replace(short, inits=[], body=short.body[-1:], results=[]))
    key = f"{outcome.verdict}: {' '.join(last)}"
    if outcome.verdict != routes.WRONG:
        key += f": {outcome.cause}"
    answer.keys.append(key)
    is_known = key in job.known
    if (not is_known and job.seen.get(key, 0) >= 2) or any(
        key in other for other in answer.keys[:-1]
    ):
        return
    reduced = reducer.run()
    every = dict.fromkeys((*program.routes, outcome.route))
    outcomes = [isolated(reduced, route) for route in every]
    final = next((each for each in outcomes if each.route == outcome.route), outcome)
    reason = routes.is_known(reduced, final)
    if reason:
        verdict = outcome.verdict  # of one of answer.outcomes, which changes below
        alike = {each.route for each in outcomes if each.verdict == verdict}
        for each in answer.outcomes:
            if each.route in alike and each.verdict == verdict:
                each.verdict = routes.KNOWN
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
            known=reason,
            key=key,
        )
    )


def same(outcome: Outcome, wanted: Outcome) -> bool:
    """Returns whether a smaller program fails like the larger one."""
    if outcome.verdict != wanted.verdict:
        return False
    return wanted.verdict == routes.WRONG or outcome.cause == wanted.cause


def judged(program: Program, route: str) -> Outcome:
    """Returns the verdict on one route, with the capture that it needs."""
    with Capture() as capture:
        if route in ("pt2", "decomposed"):
            routes.judge(program, "fx", capture)
        return routes.judge(program, route, capture)


def isolated(program: Program, route: str, seconds: int = 60) -> Outcome:
    """Returns the verdict from a separate process, which the program may crash or block."""
    mine, theirs = multiprocessing.Pipe(duplex=False)
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        with contextlib.suppress(Exception):
            theirs.send(judged(program, route))
        os._exit(0)
    theirs.close()
    outcome = None
    with contextlib.suppress(EOFError):
        outcome = mine.recv()
    mine.close()
    _, status = os.waitpid(child, 0)
    if isinstance(outcome, Outcome):
        return outcome
    late = os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGXCPU, signal.SIGKILL)
    verdict = routes.TIMEOUT if late else routes.CRASH
    if os.WIFEXITED(status):
        verdict = routes.CAPTURE  # the examination raised an exception
    cause = f"the process ended with status {status} in {route}"
    return Outcome(route, verdict, cause, cause)
