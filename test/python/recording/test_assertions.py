"""Assertions about elements, which the native capture takes to hold."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from adversarial import assertions
from models.calling import Calling
from models.recording import (
    DYNAMIC,
    EXAMPLES,
    Function,
    X,
    assert_recorded,
    exported,
)
from torch import nn
from torch.nn.functional import scaled_dot_product_attention


@pytest.mark.parametrize("function", assertions.HOLD)
def test_assertions_hold(function: Function) -> None:
    assert_recorded(Calling(function), (DYNAMIC,), *EXAMPLES)


def branch(x: torch.Tensor) -> Any:
    if torch.isnan(x).any():
        raise AssertionError
    return x


def branch_before_an_assertion(x: torch.Tensor) -> Any:
    if x.sum() > 0:
        x = x * 2
    assert x.shape[2] == 4
    return x


def not_alone(x: torch.Tensor) -> Any:
    ok = bool((x == x).all())
    assert ok
    return x


@pytest.mark.parametrize("function", [branch, branch_before_an_assertion, not_alone])
def test_other_branches_go_both_ways_that_do_not_raise(function: Function) -> None:
    program = exported(Calling(function), (X,), (DYNAMIC,))
    assert program.export_report["capture"]["by"] == "native"
    for x in (X, -X.abs()):
        torch.testing.assert_close(program(x)[0], function(x))


def test_checks_of_torch_nn() -> None:
    def loss(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.gaussian_nll_loss(x, x.roll(1, 1), x * x)

    assert_recorded(Calling(loss), (DYNAMIC,), *EXAMPLES)


def halved(x: torch.Tensor) -> Any:
    while x.abs().max() > 0.01:
        x = x / 2
    return x


def test_assertions_about_weights_are_checked() -> None:
    class Checked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("scale", torch.tensor([1.0, 2.0, 3.0, -4.0]))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            assert (self.scale > 0).all(), "a negative scale"
            return x * self.scale

    with pytest.raises(Exception, match="a negative scale"):
        exported(Checked(), (X,), DYNAMIC)


def test_conditions_on_sizes_as_is_causal() -> None:
    def attend(x: torch.Tensor) -> torch.Tensor:
        return scaled_dot_product_attention(x, x, x, is_causal=x.shape[1] > 1)

    program = assert_recorded(Calling(attend), (DYNAMIC,), *EXAMPLES, (X[:, :1],))
    assert program.export_report["capture"]["guards"] == []


def test_a_failed_capture_leaves_no_marks_on_the_example() -> None:
    x = X.clone()
    with pytest.raises(Exception, match="branches on the elements of a tensor"):
        exported(Calling(halved), (x,), (DYNAMIC,))
    assert vars(x) == {}


@pytest.mark.parametrize("make", [assertions.Catches, assertions.Suppresses])
def test_assertions_that_the_program_catches(make: type[torch.nn.Module]) -> None:
    x = torch.tensor([1.0, 2.0])
    program = torch.onnx.export(make(), (x,), dynamo=True, verbose=False)
    for each in (x, x * 2):
        torch.testing.assert_close(program(each)[0], make()(each))


class Divides(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        try:
            return torch.linalg.inv(x)
        except RuntimeError:
            return x * 9


CAUGHT = r"the program catches exceptions \(test_assertions\.py:\d+\), and the model does not"


def test_assertions_whose_exception_goes_on() -> None:
    x = torch.tensor([1.0, 2.0])
    program = torch.onnx.export(assertions.PassesOn(), (x,), dynamo=True, verbose=False)
    assert "If" not in [node.op_type for node in program.model_proto.graph.node]
    assert not any("catches exceptions" in each for each in program.export_report["warnings"])


def test_exceptions_that_elements_cause() -> None:
    x = torch.tensor([[1.0, 2.0], [0.0, 1.0]])
    with pytest.warns(torch.onnx.errors.OnnxExporterWarning, match=CAUGHT):
        torch.onnx.export(Divides(), (x,), dynamo=True, verbose=False)
