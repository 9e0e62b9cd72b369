"""Programs recorded natively: right at every size, or captured by torch.export with a reason."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

import onnx
import onnx_native
import pytest
import torch
import torch.nn.functional as F
from models import running, zoo
from models.architecture import SIZES, Architecture
from models.architectures import ARCHITECTURES
from models.calling import Calling
from models.recording import (
    DYNAMIC,
    EXAMPLES,
    LARGER,
    SINGLE,
    Caching,
    Example,
    Function,
    X,
    assert_equal_to_eager,
    assert_native,
    assert_recorded,
    derivative,
    exported,
    reason_of,
)
from onnx_native.program import _contents
from torch import _assert, nn
from torch.export import Dim


def nodes(program: Any) -> list[str]:
    """The nodes of a program as text, without the names of values."""
    return sorted(
        re.sub(r"\([^()]*\)$", "", line.split(" = ", 1)[1].strip())
        for line in _contents.of(program).text().splitlines()
        if " = " in line and line.startswith("  ")
    )


# Real architectures.

RECORDED = [
    "bert",
    "deberta_v2",
    "llama",
    "llama_cache",
    "gpt2",
    "gpt2_cache",
    "qwen3_cache",
    "t5",
    "whisper",
    "mamba",
    "vit",
    "swin",
    "convnext",
    "segformer",
    "detr",
    "clip",
    "internvl",
    "gemma3_vision",
    "qwen2_5_vl_tower",
    "timm_resnet10t",
    "timm_coatnet",
    "timm_efficientformer",
    "timm_levit",
    "timm_mobilevit",
    "timm_vit_dynamic",
    "tv_vit",
    "tv_densenet",
    "diffusers_unet",
    "nn_lstm",
    "nn_transformer",
]


def sized(model: Architecture, **sizes: int) -> dict[str, torch.Tensor]:
    torch.manual_seed(2)
    all_sizes = {name: both[0] for name, both in {**SIZES, **model.sizes}.items()} | sizes
    return {name: one.value(all_sizes) for name, one in model.inputs.items()}


@pytest.mark.parametrize("name", RECORDED)
def test_architecture(name: str) -> None:
    model = ARCHITECTURES[name]
    module = model.module()
    program = exported(module, (), model.dynamic_shapes(), **model.example())
    assert_native(program)
    with zoo.scratch_folder() as folder:
        program.save(folder / "m.onnx")
        onnx.checker.check_model(str(folder / "m.onnx"), full_check=True)
        session = running.session(folder / "m.onnx", optimized=False)
        for example in (model.example(0), model.example(1), sized(model, batch=1)):
            running.assert_same(running.run(session, example), running.eager(module, example))


@pytest.mark.parametrize("name", ["llama", "gpt2", "vit", "convnext", "timm_resnet10t", "nn_lstm"])
def test_same_nodes_as_through_torch_export(name: str) -> None:
    model = ARCHITECTURES[name]
    module = model.module()
    program = exported(module, (), model.dynamic_shapes(), **model.example())
    assert_native(program)
    with onnx_native.options(capture="torch.export"):
        through = torch.onnx.export(
            module,
            (),
            kwargs=model.example(),
            dynamo=True,
            dynamic_shapes=model.dynamic_shapes(),
            verbose=False,
        )
    assert through is not None
    assert through.export_report["capture"]["by"] == "torch.export"
    assert nodes(program) == nodes(through)


# Small programs.


def ones_of_size(x: torch.Tensor) -> Any:
    return x + torch.ones(x.shape[1], x.shape[0] * 2 - x.shape[0] + 3)[:, :4]


def in_place_through_a_view(x: torch.Tensor) -> Any:
    y = x * 2
    y[:, 0] += 1
    y.view(-1).mul_(3)
    return y


def size_times_tensor(x: torch.Tensor) -> Any:
    return x * x.shape[1] + x.shape[0], torch.arange(x.shape[1]) * 2.5


def with_constants(x: torch.Tensor) -> Any:
    scale = torch.tensor([1.0, 2.0, 3.0, 4.0])
    if torch.tensor([3]).item() == 3:
        scale = scale + 1
    return x * scale


def several_results(x: torch.Tensor) -> Any:
    values, indices = x.max(dim=-1)
    first, second = x.chunk(2, dim=-1)
    return {"values": values, "indices": indices, "parts": (first, second), "n": x.shape[1]}


def reshaped(x: torch.Tensor) -> Any:
    b, n, c = x.shape
    heads = x.view(b, n, 2, c // 2).transpose(1, 2)
    return heads.reshape(b, -1), heads.contiguous(), heads.is_contiguous()


def attention(x: torch.Tensor) -> Any:
    mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()
    return F.scaled_dot_product_attention(x, x, x, attn_mask=mask)


def deep_copied_result(x: torch.Tensor) -> Any:
    return (x * 2).clone()


def text_for_an_assertion(x: torch.Tensor) -> Any:
    _assert(x.dim() == 3, f"expected three dimensions, got {x.shape}")
    torch._assert(
        x.shape[1] > 0,
        f"expected elements, got {x.shape[1]} and {x.shape[0] * 2}",
    )
    return x + 1


def ceil_of_a_quotient(x: torch.Tensor) -> Any:
    n = math.ceil(x.shape[1] / 3)
    m = math.floor(x.shape[1] * 0.5 + 0.25) + math.ceil((x.shape[0] + 1) / 4 * 1.5)
    return x * n, torch.ones(n, m), x * (2 if x.shape[1] / 2 >= 0.5 else 3)


def repeated_calls(x: torch.Tensor) -> Any:
    first, second = (F.layer_norm(x, (4,)) for _ in range(2))
    first += 1
    third, fourth = (F.dropout(second, 0.5, False) for _ in range(2))
    third *= 2
    return first, second, third, fourth


RIGHT: list[Function] = [
    repeated_calls,
    text_for_an_assertion,
    ceil_of_a_quotient,
    ones_of_size,
    in_place_through_a_view,
    size_times_tensor,
    with_constants,
    several_results,
    reshaped,
    attention,
    deep_copied_result,
]


@pytest.mark.parametrize("function", RIGHT, ids=lambda f: f.__name__)
def test_small_program(function: Function) -> None:
    assert_recorded(Calling(function), (DYNAMIC,), *EXAMPLES)


@pytest.mark.parametrize("function", RIGHT, ids=lambda f: f.__name__)
def test_small_program_with_static_sizes(function: Function) -> None:
    assert_recorded(Calling(function), None, (X,))


def test_a_batch_of_one_in_the_example_stays_dynamic() -> None:
    module = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)).eval()
    program = exported(module, (SINGLE,), (DYNAMIC[0],))
    assert_native(program)
    assert_equal_to_eager(program, module, (SINGLE,), (X,), (LARGER,))
    dims = program.model_proto.graph.input[0].type.tensor_type.shape.dim
    assert [dim.dim_param for dim in dims] == ["batch", "n", ""]


def test_a_cache_of_what_follows_from_weights() -> None:
    module = Caching(lambda x: torch.arange(4) + 1)
    program = exported(module, (X,), (DYNAMIC[0],))
    assert_native(program)
    assert not module.cache
    assert_equal_to_eager(program, module, (X,), (LARGER,), (SINGLE,))
    assert list(module.cache) == ["x"]
    again = exported(module, (X,), (DYNAMIC[0],))
    assert_equal_to_eager(again, module, (X,), (LARGER,), (SINGLE,))


def test_weights_share_memory_and_keep_their_names() -> None:
    module = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(5)).eval()
    module[0].weight.data.fill_(1.0)
    program = exported(module, (X,), ({0: "batch"},))
    assert_native(program)
    module[0].weight.data.fill_(2.0)
    assert_equal_to_eager(program, module, (X,))
    program.apply_weights({"0.bias": torch.zeros(4)})
    module[0].bias.data.zero_()
    assert_equal_to_eager(program, module, (LARGER[:, :5],))


def test_tied_weights_are_stored_once() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(10, 4)
            self.head = nn.Linear(4, 10, bias=False)
            self.head.weight = self.embedding.weight

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            return self.head(self.embedding(ids))

    module = Tied()
    program = exported(module, (torch.tensor([[1, 2]]),), ({1: "n"},))
    assert_native(program)
    assert_equal_to_eager(program, module, (torch.tensor([[1, 2]]),), (torch.tensor([[3, 9, 4]]),))
    program.apply_weights({"head.weight": torch.ones(10, 4)})
    module.head.weight.data.fill_(1.0)
    assert_equal_to_eager(program, module, (torch.tensor([[1, 2]]),))


@onnx_native.options(branches="example")
def test_a_branch_on_a_size_is_a_guard_with_its_line() -> None:
    def branch(x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.shape[1] > 100 else x + 1

    module = Calling(branch)
    message = r"valid only where\n  n <= 100 \(test_recording.py:\d+\)"
    with pytest.warns(torch.onnx.errors.OnnxExporterWarning, match=message):
        program = exported(module, (X,), (DYNAMIC,))
    assert_native(program)
    (guard,) = program.export_report["capture"]["guards"]
    assert guard["condition"] == "n <= 100"
    assert guard["source"].startswith("test_recording.py:")
    assert_equal_to_eager(program, module, (X,), (LARGER,))


class Named(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> Any:
        values, indices = self.layer(self.layer(x)).max(dim=0)
        first, second = values.chunk(2)
        return first.sum() * second + second.sum(), indices


def test_nodes_have_the_metadata_of_torch_export() -> None:
    def metadata(program: Any) -> list[dict[str, str]]:
        nodes = program.model_proto.graph.node
        return [{prop.key: prop.value for prop in node.metadata_props} for node in nodes]

    module = Named().eval()
    program = exported(module, (X,))
    assert_native(program)
    with onnx_native.options(capture="torch.export"):
        through = torch.onnx.export(module, (X,), dynamo=True, verbose=False)
    found = metadata(program)
    assert found == metadata(through)
    assert found[0]["pkg.torch.onnx.name_scopes"] == "['', 'layer', 'linear']"


def test_torch_export_takes_over_and_the_report_says_why() -> None:
    module = Calling(derivative)
    program = exported(module, (X,))
    found = program.export_report["capture"]
    assert found["by"] == "torch.export"
    assert "torch.func for derivatives" in found["reason"]
    got = program(X)[0]
    torch.testing.assert_close(got, module(X), atol=0.1, rtol=0.1)


def test_auto_captures_natively_where_possible() -> None:
    with onnx_native.options(capture="auto"):
        recorded = torch.onnx.export(
            Calling(ones_of_size), (X,), dynamic_shapes=(DYNAMIC,), dynamo=True, verbose=False
        )
        left = torch.onnx.export(Calling(derivative), (X,), dynamo=True, verbose=False)
    assert recorded is not None
    assert left is not None
    assert_native(recorded)
    assert left.export_report["capture"]["by"] == "torch.export"
    assert "torch.func for derivatives" in left.export_report["capture"]["reason"]


def test_the_exported_program_is_made_on_demand() -> None:
    module = nn.Sequential(nn.Linear(4, 3), nn.ReLU())
    program = exported(module, (X,), ({0: "batch"},))
    assert_native(program)
    assert "exported_program=\n        None" in repr(program)
    captured = program.exported_program
    assert isinstance(captured, torch.export.ExportedProgram)
    assert program.exported_program is captured
    torch.testing.assert_close(captured.module()(LARGER[:, :5]), module(LARGER[:, :5]))
    assert_equal_to_eager(program, module, (X,), (LARGER[:, :5],))


def test_verification_of_a_recorded_program(capsys: pytest.CaptureFixture[str]) -> None:
    with onnx_native.options(capture="native"):
        program = torch.onnx.export(nn.Linear(4, 3), (X,), dynamo=True, verbose=True, verify=True)
    assert_native(program)
    assert "Verify output accuracy... ✅" in capsys.readouterr().out


def test_inputs_that_are_not_plain() -> None:
    module = Calling(lambda x: x * 2)
    sparse = torch.eye(3).to_sparse()
    assert reason_of(module, (sparse,), None).startswith("the input ")
    assert "is not a torch.nn.Module" in reason_of(lambda x: x, (X,), None)


# dynamic_shapes in all forms.


class TwoInputs(nn.Module):
    def forward(self, x: torch.Tensor, pair: list[torch.Tensor]) -> torch.Tensor:
        return x @ pair[0] + pair[1]


PAIR = [torch.randn(4, 3), torch.randn(3)]
FORMS: Sequence[Any] = [
    ({0: "n"}, None),
    ({0: Dim("n", min=1, max=64)}, [None, None]),
    ({0: Dim.DYNAMIC}, None),
    ({0: Dim.AUTO, 1: Dim.STATIC}, None),
    {"x": {0: "n"}, "pair": None},
    ([2 * Dim("half", min=1), None], None),
    None,
]


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_dynamic_shapes(form: Any) -> None:
    x = torch.randn(6, 4)
    program = exported(TwoInputs(), (x, PAIR), form)
    assert_native(program)
    examples = [(x, PAIR)] if form is None else [(x, PAIR), (torch.randn(2, 4), PAIR)]
    assert_equal_to_eager(program, TwoInputs(), *examples)


class Cached(nn.Module):
    """Appends to a cache and uses a mask over all of it."""

    def forward(self, past: torch.Tensor, new: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        whole = torch.cat((past, new), dim=1)
        assert whole.shape[1] == mask.shape[1]
        return whole * mask[:, : whole.shape[1], None] + mask.shape[1]


@pytest.mark.parametrize("kind", ["hint", "name"])
def test_a_size_that_is_the_sum_of_two_others(kind: str) -> None:
    def example(past: int, new: int) -> Example:
        return torch.randn(2, past, 4), torch.randn(2, new, 4), torch.randn(2, past + new)

    total = {"hint": Dim.AUTO, "name": "total"}[kind]
    shapes = ({1: Dim("past", min=1)}, {1: Dim("new", min=1)}, {1: total})
    program = exported(Cached(), example(3, 2), shapes)
    assert_native(program)
    dims = program.model_proto.graph.input[2].type.tensor_type.shape.dim
    assert dims[1].dim_param in ("past + new", "new + past")
    assert_equal_to_eager(program, Cached(), example(3, 2), example(1, 1), example(2, 7))


@onnx_native.options(branches="example")
def test_hints_for_equal_sizes() -> None:
    def add(x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.shape[0] == x.shape[1] else x + 1

    square = torch.randn(3, 3)
    program = exported(Calling(add), (square,), (({0: Dim.AUTO, 1: Dim.AUTO},),))
    assert_native(program)
    assert_equal_to_eager(program, Calling(add), (square,), (torch.randn(5, 5),))
    reason = reason_of(Calling(add), (square,), (({0: "rows", 1: "columns"},),))
    assert "the program depends on rows == columns" in reason


def test_the_option_is_checked() -> None:
    with pytest.raises(ValueError, match="capture="), onnx_native.options(capture="jit"):
        pass


# Known gap, the same as through torch.export.


def branch_on_the_type_of_a_size(x: torch.Tensor) -> torch.Tensor:
    return x * (2 if type(x.shape[1]) is int else 3)


def test_the_type_of_a_size() -> None:
    module = Calling(branch_on_the_type_of_a_size)
    program = exported(module, (X,), (DYNAMIC,))
    assert_equal_to_eager(program, module, (X,))


@pytest.mark.parametrize(("limit", "guards"), [(None, ["n <= 100"]), (100, [])])
@onnx_native.options(branches="example")
def test_a_branch_on_a_declared_size(limit: int | None, guards: list[str]) -> None:
    def branch(x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.shape[1] > 100 else x + 1

    program = exported(Calling(branch), (X,), (({1: Dim("n", max=limit)},),))
    assert_native(program)
    found = program.export_report["capture"]["guards"]
    assert [guard["condition"] for guard in found] == guards


def test_the_environment_sets_the_capture(monkeypatch: pytest.MonkeyPatch) -> None:
    for capture, by in {"torch.export": "torch.export", "auto": "native"}.items():
        monkeypatch.setenv("ONNX_NATIVE_CAPTURE", capture)
        program = torch.onnx.export(nn.Linear(4, 3), (X,), dynamo=True, verbose=False)
        assert program is not None
        assert program.export_report["capture"]["by"] == by  # type: ignore[attr-defined]
    monkeypatch.setenv("ONNX_NATIVE_CAPTURE", "jit")
    with pytest.raises(ValueError, match="ONNX_NATIVE_CAPTURE"):
        torch.onnx.export(nn.Linear(4, 3), (X,), dynamo=True, verbose=False)


def test_numbers_of_a_module_that_the_recorder_leaves() -> None:
    class Counting(nn.Module):
        calls = 0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls = self.calls + 1
            with torch.autocast("cpu", dtype=torch.bfloat16):
                (x @ x.mT).sum()
            return x * self.calls

    module = Counting()
    module.calls = 5
    program = exported(module, (X,), (DYNAMIC[0],))
    torch.testing.assert_close(program(X)[0], X * 6)
    assert module.calls == 5
