"""Runs the storm: `python -m storm [--seconds N] [--programs N] [--seed N] ...`."""

from __future__ import annotations

import argparse
import itertools
import os
import pathlib
import sys
import time
from collections.abc import Iterator

os.environ.setdefault("ONNX_NATIVE_FALLBACKS", "0")


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="storm", description=__doc__)
    parser.add_argument("--seconds", type=float, default=0, help="stop after this time")
    parser.add_argument("--programs", type=int, default=0, help="how many; 0: no limit")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--routes", nargs="*", default=[], help="fx pt2 traced scripted")
    parser.add_argument("--flavor", choices=("any", "fx", "scripted"))
    parser.add_argument("--pytorch", action="store_true", help="PyTorch's own exporter as well")
    parser.add_argument("--no-reduce", action="store_true", help="count faults only")
    parser.add_argument("--show", type=int, help="print the program of a seed, and its verdicts")
    parser.add_argument("--replay", type=pathlib.Path, help="judge the program of a JSON file")
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path("build/storm"))
    return parser.parse_args()


def main() -> int:
    arguments = parsed()
    from storm import report
    from storm.generate import generate
    from storm.opsets import newest_opset
    from storm.pool import Pool
    from storm.worker import Job

    newest = newest_opset()

    def jobs() -> Iterator[Job]:
        if arguments.show is not None or arguments.replay is not None:
            text = arguments.replay.read_text() if arguments.replay else ""
            yield Job(
                arguments.show or 0, arguments.flavor, newest, text, pytorch=arguments.pytorch
            )
            return
        end = time.monotonic() + arguments.seconds
        for seed in itertools.count(arguments.seed):
            if arguments.programs and seed >= arguments.seed + arguments.programs:
                return
            if arguments.seconds and time.monotonic() > end:
                return
            yield Job(
                *(seed, arguments.flavor, newest),
                routes=tuple(arguments.routes),
                pytorch=arguments.pytorch,
                reduce=not arguments.no_reduce,
                seen=total.keys,
                known=total.known,
            )

    if arguments.show is not None:
        print(generate(arguments.show, arguments.flavor, newest).source())
    total = report.Report()
    pool = Pool(1 if arguments.show is not None else arguments.workers)
    last = time.monotonic()
    for job, answer in pool.run(jobs()):
        total.take(job, answer)
        for finding in answer.findings:
            print(report.finding_text(finding, total.counts[finding.signature]), flush=True)
        if arguments.show is not None or arguments.replay is not None:
            for outcome in answer.outcomes:
                print(f"{outcome.route}: {outcome.verdict}: {outcome.message}")
        if time.monotonic() - last > 60:
            last = time.monotonic()
            total.write(arguments.folder)
            print(f"... {total.programs} programs, {total.runs} exports", flush=True)
    pool.close()
    total.write(arguments.folder)
    print(total.table())
    print(f"{total.programs} programs, {total.runs} exports; {total.speed()}")
    unexplained = [each for each in total.findings.values() if not each.known]
    faults = total.faults()
    print(f"{faults} faults, {len(unexplained)} findings that are not known differences")
    for seed, why, _ in total.lost:
        print(f"seed {seed}: {why}")
    for error in total.errors[:5]:
        print(error, file=sys.stderr)
    return 1 if unexplained or faults or total.errors else 0


if __name__ == "__main__":
    sys.exit(main())
