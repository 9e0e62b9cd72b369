"""The program fuzzer: its generator is deterministic, and its reducer finds the cause."""

import os
import pathlib
import subprocess
import sys

import pytest
import torch
from storm.compare import Rounding, is_rounding
from storm.generate import generate
from storm.maker import Maker
from storm.program import Input, Pack, Program
from storm.reduce import Reducer
from storm.report import Report
from storm.routes import CRASH, RIGHT, TIMEOUT, Capture, Outcome, judge
from storm.worker import Answer, Job


@pytest.mark.parametrize("flavor", ["any", "fx", "scripted"])
def test_a_seed_gives_one_program(flavor):
    first, second = generate(3, flavor), generate(3, flavor)
    assert first.to_json() == second.to_json()
    assert Program.from_json(first.to_json()).source() == first.source()
    assert generate(4, flavor).to_json() != first.to_json()


def test_statements_keep_the_rank_of_earlier_values():
    maker = Maker(1, "any")
    maker.inputs = [Input("x", "float32", ["n", 4])]
    maker.sizes = [{"n": 3}, {"n": 1}, {"n": 5}]
    maker.start()
    assert maker.assign("x * 1")
    assert not maker.add("t1.squeeze_()")
    assert maker.value("t1", 1).dim() == 2
    assert maker.add("t1.unsqueeze_(0)")


def test_right_programs_are_judged_right():
    program = Program(
        inputs=[Input("x", "float32", ["n", 4])],
        inits=["self.register_buffer('seen', torch.zeros(4))"],
        body=["self.seen += x.sum(0)", "y = x[1:] * self.seen"],
        results=["y", "torch.tensor(x.size(0))"],
        sizes=[{"n": 3}, {"n": 1}, {"n": 5}],
        state=True,
    )
    with Capture() as capture:
        verdicts = {route: judge(program, route, capture).verdict for route in program.routes}
    assert verdicts.pop("traced") in (RIGHT, "wrong as captured")
    assert set(verdicts.values()) == {RIGHT}


def test_reduction_keeps_what_fails():
    program = Program(
        inputs=[Input("x", "float64", ["n", 4]), Input("y", "int64", [4])],
        inits=["self.b = nn.Linear(4, 4)"],
        body=[
            "a = x + y",
            "b = torch.cumsum(a.abs() * 2.0, dim=0)",
            "c = b[0].sin()",
            "d = torch.stack([c, c.exp(), c - 1])",
        ],
        results=["a", "b", "d"],
        sizes=[{"n": 3}, {"n": 2}, {"n": 5}],
        state=True,
        opset=26,
    )

    def fails(candidate):
        return "exp()" in "".join(candidate.body) and "d" in candidate.results

    reduced = Reducer(program, fails).run()
    assert len(reduced.body) == 1
    assert reduced.body[0].endswith("c.exp()")
    assert [each.name for each in reduced.inputs] == ["c"]
    assert (reduced.inits, reduced.state, reduced.opset) == ([], False, 20)


# Runs the storm with a faulty route: sinh becomes sin, and cosh crashes the process.
FAULTY = """
import os
from storm import __main__, routes
by_script = routes.EXPORTS["scripted"]
def faulty(program, module, args, capture):
    text = "".join(program.body)
    if "cosh" in text:
        os.abort()
    other = program.copy()
    other.body = [each.replace("sinh", "sin") for each in program.body]
    model = by_script(other, other.module(), args, capture)
    model.reference = None
    return model
routes.EXPORTS["scripted"] = faulty
raise SystemExit(__main__.main())
"""


def run(start, *arguments):
    fuzz = pathlib.Path(__file__).parents[2] / "fuzz"
    return subprocess.run(
        [sys.executable, *start, *map(str, arguments)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path, str(fuzz)])},
    )


def test_show_prints_a_program_and_its_verdicts(tmp_path):
    shown = run(["-m", "storm"], "--show", 4711, "--folder", tmp_path)
    assert shown.returncode == 0, shown.stdout + shown.stderr
    program = generate(4711)
    assert program.source() in shown.stdout
    for route in program.routes:
        assert f"\n{route}: " in shown.stdout
    assert "1 programs" in (tmp_path / "report.md").read_text()


@pytest.mark.parametrize(
    ("call", "verdict", "statement"),
    [("sinh", "wrong", "a.sinh()"), ("cosh", "crash", "a.cosh()")],
)
def test_replay_reduces_a_fault(tmp_path, call, verdict, statement):
    program = Program(
        inputs=[Input("x", "float32", ["n"])],
        inits=[],
        body=["a = x + 1", "b = a.abs()", f"c = a.{call}()", "d = c * 2"],
        results=["a", "b", "d"],
        sizes=[{"n": 3}] * 3,
        routes=("traced", "scripted"),
    )
    path = tmp_path / "program.json"
    path.write_text(program.to_json())
    replayed = run(["-c", FAULTY], "--replay", path, "--folder", tmp_path)
    assert replayed.returncode == 1, replayed.stdout + replayed.stderr
    assert "| right | 1 | 1 | 0 |" in replayed.stdout  # native, traced
    assert f"\nscripted: {verdict}" in replayed.stdout
    reduced = Program.from_json((tmp_path / "finding-000.json").read_text())
    assert [each.split(" = ")[1] for each in reduced.body] == [statement]
    assert len(reduced.results) == 1


def test_timeouts_do_not_fail_a_run():
    total = Report()
    outcome = Outcome("fx", TIMEOUT, "more than 60 s", "more than 60 s")
    total.take(Job(seed=3), Answer(outcomes=[outcome]))
    assert total.faults() == 0
    assert total.lost == [(3, "more than 60 s", "")]
    outcome = Outcome("fx", CRASH, "the process ended", "the process ended")
    total.take(Job(seed=4), Answer(outcomes=[outcome]))
    assert total.faults() == 1


@pytest.mark.parametrize("kind", ["tuple", "list", "dict"])
@pytest.mark.parametrize("form", ["list", "dict", "nested"])
def test_containers_of_inputs_and_results(kind, form):
    program = Program(
        inputs=[
            Input("x", "float32", ["n", 4]),
            Input("y", "float32", [4]),
            Input("z", "int64", []),
        ],
        inits=[],
        body=["a = x + y", "b = a * z"],
        results=["a", "b", "z + 1"],
        sizes=[{"n": 3}, {"n": 1}, {"n": 5}],
        packs=[Pack(kind, ["x", "y"])],
        form=form,
        keywords=1,
    )
    with Capture() as capture:
        for route in program.routes:
            outcome = judge(program, route, capture)
            assert outcome.verdict == RIGHT, f"{route}: {outcome.message}"


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_rounding_moves_sums_of_16_bits(dtype):
    """Also those that are multiples of 1/64, and beside writes to expanded tensors."""
    x, weight = torch.full((1, 3), 0.5, dtype=dtype), torch.full((2, 3), 0.25, dtype=dtype)

    def run():
        torch.zeros(1).expand(3)[torch.tensor([0, 1])] = 0.0
        return torch.nn.functional.linear(x, weight).float()

    def again(seed):
        with Rounding(seed):
            return run()

    wanted = run()
    assert (wanted == 0.375).all()
    assert is_rounding(wanted + torch.finfo(dtype).eps / 4, wanted, again)
    assert not is_rounding(wanted + 1, wanted, again)


def test_rounding_moves_the_tail_of_gelu():
    """The tail is 1 + erf(x), so its relative error is large; the rest of the function's is not."""
    x = torch.tensor([-4.0, 2.0])

    def run():
        return 4.0 // torch.nn.functional.gelu(x)

    def again(seed):
        with Rounding(seed):
            return run()

    wanted = run()
    assert is_rounding(wanted + torch.tensor([16.0, 0.0]), wanted, again)
    assert not is_rounding(wanted + torch.tensor([2000.0, 0.0]), wanted, again)
    assert not is_rounding(wanted + torch.tensor([0.0, 1.0]), wanted, again)


def test_rounding_moves_complex_numbers():
    """Eager's z / z is not 1, and the derivative of asin is infinite there."""
    z = torch.tensor(-0.6 + 2.1j)

    def run():
        return (z / z).asin() + z.sigmoid() * 0

    def again(seed):
        with Rounding(seed):
            return run()

    wanted = torch.view_as_real(run())
    assert is_rounding(wanted - torch.tensor([3e-4, 0.0]), run(), again)
    assert not is_rounding(wanted - torch.tensor([0.5, 0.0]), run(), again)
