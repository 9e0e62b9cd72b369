"""torch.trapezoid and its kin in every dtype, as eager computes them: sums of integers wrap."""

import pytest
from storm.program import Input, Program
from storm.routes import RIGHT, ROUNDED, Capture, judge

ROUTES = ["fx", "pt2", "decomposed", "native", "traced", "scripted"]
SIZES = [{"n": 3}, {"n": 1}, {"n": 5}]
INTEGERS = ["uint8", "int8", "int16", "int32", "int64"]
FLOATS = ["float16", "bfloat16", "float32", "float64"]

UNIFORM = [
    "torch.trapezoid(y, dim=0)",
    "torch.trapezoid(y, dx=0.3)",
    "torch.trapz(y, dx=3.0)",
    "torch.cumulative_trapezoid(y, dim=0)",
    "torch.cumulative_trapezoid(y, dx=0.3)",
]
AT_POINTS = [
    "torch.trapezoid(y, x, dim=0)",
    "torch.trapz(y, y[0])",
    "torch.cumulative_trapezoid(y, x, dim=0)",
    "torch.cumulative_trapezoid(y, x.unsqueeze(1).expand(-1, 4) + y, dim=-1)",
]


def matrix(dtype):
    low, high = (0, 250) if dtype == "uint8" else (-128, 127)
    return Input("y", dtype, ["n", 4], low, high)


def judged(program, route):
    with Capture() as capture:
        judge(program, "fx", capture)
        return judge(program, route, capture)


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("dtype", INTEGERS + FLOATS)
def test_uniform_steps(dtype, route):
    outcome = judged(Program([matrix(dtype)], [], [], UNIFORM, SIZES), route)
    assert outcome.verdict == RIGHT, outcome


@pytest.mark.parametrize(
    ("of", "at"),
    [(dtype, dtype) for dtype in INTEGERS + FLOATS]
    + [("uint8", "int8"), ("int8", "float32"), ("float16", "int64"), ("int32", "float16")],
)
@pytest.mark.parametrize("route", ["fx", "native", "traced"])
def test_points(of, at, route):
    low, high = (0, 250) if at == "uint8" else (-128, 127)
    points = Input("x", at, ["n"], low, high)
    outcome = judged(Program([matrix(of), points], [], [], AT_POINTS, SIZES), route)
    assert outcome.verdict == RIGHT or (of == "float16" and outcome.verdict == ROUNDED), outcome


@pytest.mark.parametrize("route", ROUTES)
def test_points_of_other_ranks(route):
    """Fewer dimensions than y's are padded in front."""
    results = [
        "torch.trapezoid(y, x, dim=1)",
        "torch.cumulative_trapezoid(y, x, dim=-1)",
    ]
    inputs = [Input("y", "float32", [3, "n", 4]), Input("x", "float32", ["n", 4])]
    outcome = judged(Program(inputs, [], [], results, SIZES), route)
    assert outcome.verdict == RIGHT, outcome


@pytest.mark.parametrize("route", ["fx", "native", "traced", "scripted"])
def test_empty_rows_at_run_time(route):
    sizes = [{"n": 3}, {"n": 0}, {"n": 5}]
    results = ["torch.trapezoid(y, dim=0)", "torch.trapezoid(y, dx=0.5)", "torch.trapezoid(y, y)"]
    outcome = judged(Program([Input("y", "float32", ["n", 4])], [], [], results, sizes), route)
    assert outcome.verdict == RIGHT, outcome
