"""The fuzzer of programs: its generator is deterministic, its reducer finds the cause."""

import pytest
from storm.generate import generate
from storm.program import Input, Program
from storm.reduce import Reducer
from storm.routes import RIGHT, Capture, judge


@pytest.mark.parametrize("flavor", ["any", "fx", "scripted"])
def test_a_seed_gives_one_program(flavor):
    first, second = generate(3, flavor), generate(3, flavor)
    assert first.to_json() == second.to_json()
    assert Program.from_json(first.to_json()).source() == first.source()
    assert generate(4, flavor).to_json() != first.to_json()


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
