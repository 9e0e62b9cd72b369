"""Programs that the storm found, reduced: right by every route at three sizes."""

import pytest
from storm.program import Input, Program
from storm.routes import RIGHT, Capture, judge

SIZES = [{"n": 3}, {"n": 1}, {"n": 5}]


def program(result, *inputs, **options):
    return Program(list(inputs), [], [], [result], SIZES, **options)


FOUND = {
    "cosine similarity with a number": program(
        "torch.cosine_similarity(x, y)", Input("x", "float32", ["n", 2]), Input("y", "float32", [])
    ),
    "cosine similarity of one column": program(
        "torch.cosine_similarity(x, y, dim=-1)",
        Input("x", "float32", ["n", 4]),
        Input("y", "float32", ["n", 1]),
    ),
    "cosine similarity of fewer dimensions": program(
        "torch.cosine_similarity(y, x, dim=1)",
        Input("x", "float32", [2, 3, "n"]),
        Input("y", "float32", ["n"]),
    ),
}


@pytest.mark.parametrize("name", FOUND)
def test_found_program(name):
    with Capture() as capture:
        for route in FOUND[name].routes:
            outcome = judge(FOUND[name], route, capture)
            assert outcome.verdict == RIGHT, f"{route}: {outcome.verdict}: {outcome.message}"
