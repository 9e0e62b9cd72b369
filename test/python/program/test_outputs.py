"""Results that are not tensors: numbers become outputs of the model; None and strings do not."""

import onnx
import pytest
import torch
from models import routes


def numbers(x: torch.Tensor) -> tuple[torch.Tensor, int, bool, float, int]:
    return x + 1, x.size(0), False, 2.5, x.size(1)


def mixed(x: torch.Tensor) -> object:
    return {"sum": x.sum(), "text": "text", "nothing": None, "numbers": [7, (True, -0.5)]}


def names(model: onnx.ModelProto) -> list[str]:
    return [output.name for output in model.graph.output]


@pytest.mark.parametrize("dynamic", [None, ({0: "n"},)])
@pytest.mark.parametrize("route", ["fx", "pt2", "script"])
def test_numbers(route: str, dynamic: routes.Dynamic | None) -> None:
    x = torch.randn(3, 4)
    others = [] if dynamic is None else [(torch.randn(5, 4),)]
    model = routes.check(numbers, (x,), route, *others, dynamic=dynamic)
    assert len(set(names(model))) == 5


@pytest.mark.parametrize("route", ["fx", "pt2"])
def test_nothing_and_text_are_no_outputs(route: str) -> None:
    x = torch.randn(3, 4)
    model = routes.export(mixed, (x,), route)
    wanted = [x.sum(), torch.tensor(7), torch.tensor(True), torch.tensor(-0.5)]
    results = routes.run(routes.session(model), (x,))
    assert len(results) == len(wanted)
    for result, expected in zip(results, wanted, strict=True):
        routes.assert_same(result, expected)


@pytest.mark.parametrize("route", ["fx", "pt2"])
def test_only_constants(route: str) -> None:
    routes.check(lambda x: (1, 2.0, True), (torch.zeros(2),), route)


def test_names_given_by_the_user() -> None:
    class Numbers(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> object:
            return numbers(x)

    x = torch.randn(3, 4)
    given = ["a", "b", "c", "d", "e"]
    program = torch.onnx.export(
        Numbers(), (x,), dynamo=True, output_names=given, verify=True, verbose=False
    )
    assert program is not None
    assert names(program.model_proto) == given
    assert [result.tolist() for result in program(x)[1:]] == [3, False, 2.5, 4]


def computed(x: torch.Tensor) -> tuple[float, float, float]:
    return x.sum().item() + 1.0, x.size(0) * 0.5, x.double().sum().item()


@pytest.mark.parametrize("route", ["fx", "pt2"])
def test_computed_floats_have_the_default_dtype(route: str) -> None:
    x = torch.ones(3, 4)
    routes.check(computed, (x,), route, (torch.ones(6, 4),), dynamic=({0: "n"},))
