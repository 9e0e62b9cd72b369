"""Workers that are restarted if they crash or time out."""

from __future__ import annotations

import dataclasses
import multiprocessing
import multiprocessing.connection
import os
import pathlib
import time
from collections.abc import Iterator
from typing import Any

from storm import routes, worker
from storm.routes import Outcome
from storm.worker import Answer, Job

JOBS_OF_A_WORKER = 400  # then it is replaced: captures leak memory


@dataclasses.dataclass
class _Worker:
    process: Any
    connection: Any
    job: Job | None = None
    since: float = 0
    spent: float = 0  # the CPU time until `since`
    served: int = 0
    program: str = ""
    route: str = ""
    outcomes: list[Outcome] = dataclasses.field(default_factory=list)


def processor_time(process: int) -> float:
    """Returns the CPU seconds of a process."""
    try:
        fields = pathlib.Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return 0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Pool:
    """Processes that judge programs.

    The processes are forked, so that they share imported modules.
    """

    def __init__(self, count: int, seconds: float = 60) -> None:
        worker.prepare()
        worker.warm_up()
        self._context = multiprocessing.get_context("fork")
        self._seconds = seconds
        self._left: list[Job] = []  # follow-up jobs of programs that ended a worker
        self._workers = [self._start() for _ in range(count)]

    def _start(self) -> _Worker:
        mine, theirs = self._context.Pipe()
        process = self._context.Process(target=worker.serve, args=(theirs,), daemon=True)
        process.start()
        theirs.close()
        return _Worker(process, mine)

    def run(self, jobs: Iterator[Job]) -> Iterator[tuple[Job, Answer]]:
        """Runs the jobs in any order."""
        while True:
            for each in self._workers:
                if each.job is None:
                    job = self._left.pop() if self._left else next(jobs, None)
                    if job is not None:
                        self._give(each, job)
            busy = [each for each in self._workers if each.job is not None]
            if not busy and not self._left:
                return
            by_connection = {each.connection: each for each in busy}
            ready = multiprocessing.connection.wait(list(by_connection), timeout=1)
            for connection in ready:
                each = by_connection[connection]  # type: ignore[index]
                yield from self._take(each)
            for each in busy:
                if each.job is not None and self._is_late(each):
                    yield self._lost(each, routes.TIMEOUT, f"more than {self._seconds} s")

    def _is_late(self, each: _Worker) -> bool:
        """Limits CPU time, because machines may be busy, and wall time, for programs that sleep."""
        return (
            processor_time(each.process.pid) - each.spent > self._seconds
            or time.monotonic() - each.since > 20 * self._seconds
        )

    def _give(self, each: _Worker, job: Job) -> None:
        if each.served >= JOBS_OF_A_WORKER:
            self._end(each)
            self._renew(each)
        each.job, each.program, each.route, each.outcomes = job, job.program, "", []
        self._mark(each)
        each.served += 1
        each.connection.send(job)

    def _take(self, each: _Worker) -> Iterator[tuple[Job, Answer]]:
        try:
            message = each.connection.recv()
        except (EOFError, ConnectionResetError):
            each.process.join(5)
            yield self._lost(each, routes.CRASH, f"the process ended: {each.process.exitcode}")
            return
        if isinstance(message, tuple):
            kind, text = message
            self._mark(each)
            if kind == "program":
                each.program = text
            elif kind == "route":
                each.route = text
            else:
                each.outcomes.append(text)
            return
        job, each.job = each.job, None
        assert job is not None
        yield job, message

    def _lost(self, each: _Worker, verdict: str, message: str) -> tuple[Job, Answer]:
        job, route = each.job, each.route
        assert job is not None
        self._end(each)
        self._renew(each)
        cause = f"{message} in {route or 'the generator'}"
        answer = Answer(each.outcomes, program=each.program, error="" if route else cause)
        if route and "(" not in route:
            answer.outcomes.append(Outcome(route, verdict, cause, cause))
            follows = dataclasses.replace(job, program=each.program, follows=True)
            done = tuple(outcome.route for outcome in answer.outcomes)
            self._left.append(dataclasses.replace(follows, done=(*job.done, *done)))
            if verdict == routes.CRASH and job.reduce:
                self._left.append(dataclasses.replace(follows, crashed=route))
        return job, answer

    def _mark(self, each: _Worker) -> None:
        each.since, each.spent = time.monotonic(), processor_time(each.process.pid)

    def _renew(self, each: _Worker) -> None:
        fresh = self._start()
        each.process, each.connection = fresh.process, fresh.connection
        each.job, each.served = None, 0

    def _end(self, each: _Worker) -> None:
        each.process.kill()
        each.process.join(5)
        each.connection.close()

    def close(self) -> None:
        for each in self._workers:
            self._end(each)
