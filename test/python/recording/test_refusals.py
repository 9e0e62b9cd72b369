"""What the recorder's refusals are about."""

from __future__ import annotations

import pytest
import torch
from models.calling import Calling
from models.recording import DYNAMIC, Function, X
from onnx_native import _C
from onnx_native._refusals import Kind
from onnx_native.recording import _capture, _recorder
from onnx_native.request import _inputs, _request


def branch_on_a_tensor(x: torch.Tensor) -> torch.Tensor:
    return x + 1 if x.sum() > 0 else x - 1


def branch_on_an_integer(x: torch.Tensor) -> torch.Tensor:
    return x + 1 if 2 * x.argmax().item() > 3 else x - 1


def branch_on_a_float(x: torch.Tensor) -> torch.Tensor:
    return x + 1 if x.mean().item() * x.shape[1] > 0.5 else x - 1


def branch_on_the_floor_of_a_float(x: torch.Tensor) -> torch.Tensor:
    return x + 1 if int(x.abs().sum().item() / 2) > 3 else x - 1


def branch_after_random_numbers(x: torch.Tensor) -> torch.Tensor:
    y = torch.rand_like(x)
    return y if y.sum() > 0 else y - 1


def loop_over_a_size(x: torch.Tensor) -> torch.Tensor:
    total = torch.zeros(4)
    for i in range(x.shape[1]):
        total = total + x[0, i] * i
    return total


def loop_by_an_element(x: torch.Tensor) -> torch.Tensor:
    for _ in range(int(x.argmax())):
        x = x + 1
    return x


def rows(x: torch.Tensor) -> torch.Tensor:
    return sum(x.unbind(1), torch.zeros(4))


def fixed_size(x: torch.Tensor) -> torch.Tensor:
    return x if x.shape[1] == 5 else x + 1


def text_of_a_size(x: torch.Tensor) -> torch.Tensor:
    return {f"{x.shape[1]}": x}["5"]


def branch_on_a_count(x: torch.Tensor) -> torch.Tensor:
    return x + 1 if x.nonzero().shape[0] > 3 else x - 1


def misleading_error(x: torch.Tensor) -> torch.Tensor:
    raise ValueError(f"this branches on the elements of a tensor: {x.dtype}")


KINDS = [
    (branch_on_a_tensor, Kind.CONTROL_FLOW),
    (branch_on_an_integer, Kind.CONTROL_FLOW),
    (branch_on_a_float, Kind.CONTROL_FLOW),
    (branch_on_the_floor_of_a_float, Kind.CONTROL_FLOW),
    (branch_after_random_numbers, Kind.CONTROL_FLOW),
    (loop_over_a_size, Kind.LOOP),
    (loop_by_an_element, Kind.CONTROL_FLOW),
    (rows, Kind.LOOP),
    (fixed_size, Kind.PINNED_SIZE),
    (text_of_a_size, Kind.PINNED_SIZE),
    (branch_on_a_count, Kind.OTHER),
    (misleading_error, Kind.FAILURE),
]


@pytest.mark.parametrize(("function", "kind"), KINDS, ids=[each[0].__name__ for each in KINDS])
def test_a_refusal_has_a_kind(function: Function, kind: Kind) -> None:
    sizes = ({0: torch.export.Dim("batch"), 1: torch.export.Dim("n", min=2)},)
    module = Calling(function)
    inputs = _request.Request(module, (X,), None, (sizes,), None, None, None).inputs()
    assert isinstance(inputs, _inputs.Inputs)
    with pytest.raises(_recorder.StepAsideError) as raised:
        _capture.capture(module, inputs)
    assert raised.value.kind is kind, str(raised.value)


def test_the_kinds_of_the_recorder_are_kinds_of_refusals() -> None:
    assert set(_C.RefusalKind.__members__) <= {kind.name for kind in Kind}


def test_a_branch_on_a_float_is_recorded_both_ways() -> None:
    def branch(x: torch.Tensor) -> torch.Tensor:
        steps = {bool: lambda y: y + 1}  # TorchScript has no lambda
        return steps[bool](x) if x.mean().item() > 0.25 else x - 1

    module = Calling(branch).eval()
    program = torch.onnx.export(module, (X,), dynamo=True, dynamic_shapes=(DYNAMIC,), verbose=False)
    assert program is not None
    routes = [each["route"] for each in program.export_report["capture"]["attempts"]]
    assert routes == ["native", "TorchScript", "native, both ways"]
    for x in (X, X.abs() + 1):
        torch.testing.assert_close(program(x)[0], branch(x))
