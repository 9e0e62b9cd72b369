"""ONNX Runtime's default optimizations make a Slice of a Gather by a Range; it must be right."""

from collections.abc import Callable
from typing import Any

import onnxruntime
import pytest
import torch
from models.calling import Calling
from torch import Tensor
from torch.nn import functional as F

PROGRAMS: dict[str, Callable[[Tensor], Any]] = {
    "reversed": lambda x: x[torch.arange(x.shape[0] - 1, -1, -1)],
    "reversed, of another axis": lambda x: x[:, torch.arange(x.shape[1] - 1, -1, -1)],
    "index_select": lambda x: x.index_select(0, torch.arange(x.shape[0] - 1, -1, -1)),
    "embedding": lambda x: F.embedding(torch.arange(x.shape[0] - 1, -1, -1), x),
    "from the end": lambda x: x[torch.arange(-x.shape[0], 0)],
    "around the end": lambda x: x[torch.arange(-1, x.shape[0] - 1)],
    "down from 0": lambda x: x[torch.arange(0, -x.shape[0], -1)],
    "every second": lambda x: x[torch.arange(x.shape[0] - 1, -1, -2)],
    "forward": lambda x: x[torch.arange(x.shape[0])],
    "some": lambda x: x[torch.arange(1, x.shape[0] - 1)],
}


@pytest.mark.parametrize("optimize", [True, False])
@pytest.mark.parametrize("name", PROGRAMS)
def test_elements_in_the_order_of_a_range(name: str, optimize: bool) -> None:
    module = Calling(PROGRAMS[name]).eval()
    program: Any = torch.onnx.export(
        module,
        (torch.rand(5, 3),),
        dynamo=True,
        dynamic_shapes=(({0: "n", 1: "m"},),),
        optimize=optimize,
        verbose=False,
    )
    session = onnxruntime.InferenceSession(program.model_proto.SerializeToString())
    for sizes in ((5, 3), (8, 2), (2, 7)):
        x = torch.rand(sizes)
        (found,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
        torch.testing.assert_close(torch.from_numpy(found), module(x))
    kinds = [node.op_type for node in program.model_proto.graph.node]
    assert ("Neg" in kinds) == (name != "forward"), kinds
