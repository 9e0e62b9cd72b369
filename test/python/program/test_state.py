"""Buffers and inputs that the program updates, as inputs and outputs of the model."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Sequence
from typing import Any

import onnx
import onnx_native
import pytest
import torch
from pages import snippets

pytestmark = pytest.mark.captures("auto", "torch.export")


def export(
    module: torch.nn.Module, args: tuple[Any, ...], state: Any = True, **options: Any
) -> Any:
    with onnx_native.options(state=state), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Exporting a model while it is in training mode")
        program = torch.onnx.export(module, args, dynamo=True, verbose=False, **options)
    assert program is not None
    onnx.checker.check_model(program.model_proto, full_check=True)
    return program


def follow(program: Any, module: torch.nn.Module, steps: Sequence[tuple[Any, ...]]) -> None:
    """Runs both step by step; the model takes the state from its previous step."""
    module = copy.deepcopy(module)
    for args in steps:
        expected = torch.utils._pytree.tree_leaves(module(*copy.deepcopy(args)))
        results = program(*args)
        torch.testing.assert_close(list(results[: len(expected)]), expected)
        program.state = dict(zip(program.state_outputs, results[len(expected) :], strict=True))
        buffers = {name: module.get_buffer(name) for name in program.initial_state}
        torch.testing.assert_close(program.state, buffers)


class Cache(torch.nn.Module):
    """Updates a cache like a layer of transformers' StaticCache."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("keys", torch.zeros(2, 3, 16, 4))
        self.register_buffer("values", torch.zeros(2, 3, 16, 4))

    def forward(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, position: torch.Tensor
    ) -> torch.Tensor:
        self.keys.index_copy_(2, position, key)
        self.values[:, :, position] = value
        mask = torch.arange(16)[None, :] <= position[:, None]
        return torch.nn.functional.scaled_dot_product_attention(
            query, self.keys, self.values, attn_mask=mask
        )


class Decoder(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cache = Cache()
        self.register_buffer("step", torch.zeros((), dtype=torch.int64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        positions = self.step + torch.arange(x.shape[2])
        y = self.cache(x, x + 1, x * 2, positions)
        self.step.add_(x.shape[2])
        return y


def test_cache() -> None:
    program = export(
        Decoder(), (torch.randn(2, 3, 5, 4),), dynamic_shapes=({2: "length"},), input_names=["q"]
    )
    assert [v.name for v in program.model_proto.graph.input] == [
        *("q", "step", "cache.keys", "cache.values")
    ]
    assert [v.name for v in program.model_proto.graph.output][1:] == [
        *("step_out", "cache.keys_out", "cache.values_out")
    ]
    assert not program.export_report["warnings"]
    follow(program, Decoder(), [(torch.randn(2, 3, n, 4),) for n in (5, 1, 1, 3)])


def test_running_statistics() -> None:
    module = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4)).train()
    program = export(module, (torch.randn(2, 3, 6, 6),), dynamic_shapes=({0: "batch"},))
    assert set(program.state_outputs) == {
        *("1.running_mean", "1.running_var", "1.num_batches_tracked")
    }
    follow(program, module, [(torch.randn(n, 3, 6, 6),) for n in (2, 5, 3)])


def test_momentum() -> None:
    module = torch.nn.BatchNorm1d(3, momentum=0.3).train()
    program = export(module, (torch.randn(4, 3),), dynamic_shapes=({0: "batch"},))
    follow(program, module, [(torch.randn(n, 3),) for n in (4, 2, 7)])


class NormalizedInABranch(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(3))
        self.register_buffer("variance", torch.ones(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        def normalized(x: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.batch_norm(x, self.mean, self.variance, training=True)

        return torch.cond(x.sum() > 0, normalized, lambda x: x * 2, (x,))


def test_statistics_in_a_branch_are_left_alone() -> None:
    module = NormalizedInABranch()
    program = export(module, (torch.randn(4, 3),), dynamic_shapes=({0: "n"},))
    assert program.state_outputs == {}
    for x in (torch.rand(4, 3), -torch.rand(2, 3)):
        torch.testing.assert_close(program(x)[0], module(x))


class Assigned(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(3))
        self.register_buffer("total_out", torch.zeros(3))
        self.register_buffer("last", torch.zeros(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.total = self.total + x.sum(0)
        self.total_out.copy_(self.total)
        self.last[:] = x[-1]
        return self.total * 2


def test_assignment_and_writes_of_the_whole() -> None:
    program = export(
        Assigned(), (torch.randn(4, 3),), dynamic_shapes=({0: "n"},), output_names=["double"]
    )
    names = [value.name for value in program.model_proto.graph.input]
    assert names == ["x", "total", "total_out", "last"]
    assert program.model_proto.graph.output[0].name == "double"
    follow(program, Assigned(), [(torch.randn(n, 3),) for n in (4, 1, 2)])


def test_decomposed_program() -> None:
    length = torch.export.Dim.DYNAMIC
    captured = torch.export.export(
        Decoder(), (torch.randn(2, 3, 4, 4),), dynamic_shapes=({2: length},)
    ).run_decompositions()
    program = export(captured, ())
    follow(program, Decoder(), [(torch.randn(2, 3, n, 4),) for n in (4, 2)])


def test_instance_statistics() -> None:
    module = torch.nn.InstanceNorm1d(3, track_running_stats=True).train()
    program = export(module, (torch.randn(2, 3, 6),), dynamic_shapes=({0: "batch", 2: "n"},))
    follow(program, module, [(torch.randn(n, 3, n + 2),) for n in (2, 5, 3)])


class Argument(torch.nn.Module):
    def forward(self, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        x[at] = 1.0
        return x.sum()


def test_argument() -> None:
    program = export(
        Argument(),
        (torch.zeros(4), torch.tensor([1])),
        dynamic_shapes=({0: "n"}, None),
        input_names=["memory", "at"],
    )
    assert program.state_outputs == {"memory": "memory_out"}
    assert program.initial_state == {}
    for n in (4, 7):
        x = torch.randn(n)
        written = x.clone()
        total = Argument()(written, torch.tensor([2]))
        torch.testing.assert_close(program(x, torch.tensor([2])), (total, written))


def test_some() -> None:
    with pytest.warns(torch.onnx.errors.OnnxExporterWarning) as caught:
        program = export(Decoder(), (torch.randn(2, 3, 2, 4),), state="step")
    messages = [
        str(w.message) for w in caught if w.category is torch.onnx.errors.OnnxExporterWarning
    ]
    assert messages == [
        "the update of buffer cache.keys is not part of the ONNX model\n"
        "the update of buffer cache.values is not part of the ONNX model"
    ]
    assert program.state_outputs == {"step": "step_out"}


def test_unknown_name() -> None:
    with pytest.raises(torch.onnx.errors.OnnxExporterError, match=r"does not update wrong.*step"):
        export(Decoder(), (torch.randn(2, 3, 2, 4),), state=("step", "wrong"))


def test_default_is_a_warning() -> None:
    with pytest.warns(torch.onnx.errors.OnnxExporterWarning, match="the update of buffer step"):
        program = torch.onnx.export(
            Decoder(), (torch.randn(2, 3, 2, 4),), dynamo=True, verbose=False
        )
    assert program is not None
    assert len(program(torch.randn(2, 3, 2, 4))) == 1


def test_options_are_restored() -> None:
    module, args = Decoder(), (torch.randn(2, 3, 2, 4),)
    with onnx_native.options(state=True):
        with onnx_native.options(state=False), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            plain = torch.onnx.export(module, args, dynamo=True, verbose=False)
        inherited = torch.onnx.export(module, args, dynamo=True, verbose=False)
    assert len(plain.model_proto.graph.output) == 1
    assert len(inherited.model_proto.graph.output) == 4


def test_verified_export_and_later_calls_keep_the_initial_state() -> None:
    module = Decoder()
    program = export(module, (torch.randn(2, 3, 2, 4),), verify=True)
    module(torch.randn(2, 3, 2, 4))
    assert program.initial_state["step"] == 0
    assert not program.initial_state["cache.keys"].any()


def test_a_later_call_does_not_change_the_program() -> None:
    module = Decoder()
    args = (torch.randn(2, 3, 2, 4),)
    program = export(module, args, state=False)
    expected = program(*args)
    module(*args)
    torch.testing.assert_close(program(*args), expected, rtol=0, atol=0)


class Positions(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("cache", None, persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n = x.shape[1]
        if self.cache is None or self.cache.shape[0] < n:
            self.cache = torch.arange(n) * 0.1
        return x + self.cache[:n]


@pytest.mark.captures("auto", "torch.export")
def test_a_cache_of_the_capture_does_not_stay_in_the_module() -> None:
    module, x = Positions().eval(), torch.randn(2, 10)
    program = torch.onnx.export(module, (x,), dynamic_shapes=({1: "n"},), verbose=False)
    assert module.cache is None
    for n in (10, 5, 20):
        x = torch.randn(2, n)
        torch.testing.assert_close(program(x)[0], module(x))
    assert type(module.cache) is torch.Tensor


def test_snippets_of_the_page() -> None:
    after_each = snippets.steps("docs/state.md")
    scope = [next(after_each) for _ in range(3)][-1]
    assert [total.tolist() for total in scope["sums"]] == [[n] * 4 for n in (1.0, 2.0, 3.0)]
    assert scope["pairs"] == {"keys": "keys_out", "step": "step_out"}
    names = [value.name for value in scope["program"].model_proto.graph.output]
    assert names == ["sum_1", "keys_out", "step_out"]
    assert len(list(after_each)) == 1
    assert scope["total"].tolist() == [2.0] * 4
