"""Modules that no capture records are exported as TorchScript: they branch or loop by elements."""

from __future__ import annotations

from typing import Any

import onnx
import onnx_native
import pytest
import torch
from onnx_native.upstream import _upstream
from torch import nn
from torch.nn import functional as F


class Suppression(nn.Module):
    """Keeps boxes that do not overlap with better ones; how many depends on the elements."""

    def forward(self, starts: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        order = scores.argsort(descending=True)
        keep: list[torch.Tensor] = []
        while order.numel() > 0:
            best = order[0]
            keep.append(best)
            rest = order[1:]
            order = rest[(starts[rest] - starts[best]).abs() > 1]
        return torch.stack(keep)


class Decoder(nn.Module):
    """A loop over a dynamic size, whose steps depend on each other, and which an element ends."""

    steps: int
    calls: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(4, 8)
        self.head = nn.Linear(8, 4)
        self.register_buffer("calls", torch.zeros(()))
        self.steps = 0

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        self.calls += 1
        self.steps += 1
        h = x.new_zeros(x.shape[0], 8)
        token = x[:, 0]
        chosen = torch.zeros(x.shape[:2], dtype=torch.int64)
        for t in range(x.shape[1]):
            h = self.cell(x[:, t] + token, h)
            best = self.head(h).argmax(-1)
            token = F.one_hot(best, 4).to(x.dtype)
            chosen[:, t] = best
            if h.abs().max() > 100:
                break
        return chosen, h


class Halves(nn.Module):
    """Branches by elements, with arguments of several types."""

    def forward(
        self, x: torch.Tensor, limits: dict[str, torch.Tensor], mask: torch.Tensor | None = None
    ) -> dict[str, torch.Tensor]:
        if mask is not None:
            x = x.masked_fill(mask, 0.0)
        while x.abs().max() > limits["most"]:
            x = x / 2
        return {"x": x, "sum": x.sum(0)}


class Unannotated(nn.Module):
    def forward(self, x, steps, weights, pair, more=None, scale=2.0):  # type: ignore
        for i in range(steps):
            while x.abs().max() > 1:
                x = x / scale
            x = x * weights["w"] + pair[0] + i
        if more is not None:
            x = x + more
        return x + pair[1][0]


class Untyped(nn.Module):
    """What Python allows and TorchScript does not, as people write it."""

    def __init__(self):  # type: ignore
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])

    def step(self, x, scale, shift=None):  # type: ignore
        return x * scale if shift is None else x * scale + shift

    def forward(self, x):  # type: ignore
        for layer in self.layers:
            if x.mean() > 0.3:
                continue
            x = torch.tanh(layer(x))
        chosen = []
        rows = []
        norms = {}
        for i in range(x.shape[0]):
            y = self.step(x[i], 0.5, x[0]) if i > 0 else self.step(x[i], 2.0)
            if y.sum() > 0.5:
                continue
            chosen.append(i)
            rows.append(y)
            if len(chosen) > 4:
                break
        for _, row in enumerate(rows):
            x = x + row
        norms["x"] = x.norm()
        for _ in range(2):
            x = x + 1
        for step in range(9):  # noqa: B007
            if x.sum() > 40:
                break
            x = x * 1.5
        return x, step, torch.tensor(chosen, dtype=torch.int64), norms


class OnlyRecorded(nn.Module):
    """TorchScript has no such arguments, and no scan has steps that differ."""

    def forward(self, x: torch.Tensor, **_: Any) -> Any:
        y = x[:, 0]
        for t in range(x.shape[1]):
            y = y * 0.5 + (x[:, t] if t % 2 else x[:, t].exp())
        return y, x.sum()


class ScriptsToAnother(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.dim() * 4611686018427387904 * 2 < 0:  # integers of TorchScript have 64 bits
            return x + 1
        while x.sum() > 0:
            x = x - 1
        return x


class NotScriptable(nn.Module):
    def forward(self, x: torch.Tensor, **_: Any) -> torch.Tensor:
        while x.sum() > 0:
            x = x - 1
        return x


def exported(module: nn.Module, args: Any, **options: Any) -> Any:
    program: Any = torch.onnx.export(module.eval(), args, verbose=False, **options)
    onnx.checker.check_model(program.model_proto, full_check=True)
    return program


def assert_scripted(program: Any) -> None:
    capture = program.export_report["capture"]
    assert capture["by"] == "TorchScript"
    assert "test_scripting.py:" in capture["reason"]


def assert_runs(program: Any, module: nn.Module, *args: Any) -> None:
    expected = torch.utils._pytree.tree_leaves(module(*args))
    for one, other in zip(program(*args), expected, strict=True):
        torch.testing.assert_close(one, torch.as_tensor(other).detach())


def test_a_loop_by_elements() -> None:
    starts, scores = torch.tensor([0.0, 0.5, 3.0, 3.2, 9.0]), torch.rand(5)
    shapes = ({0: "boxes"}, {0: "boxes"})
    program = exported(Suppression(), (starts, scores), dynamic_shapes=shapes)
    assert_scripted(program)
    (one, two) = (x.type.tensor_type.shape.dim[0] for x in program.model_proto.graph.input)
    assert one.dim_param == two.dim_param == "boxes"
    for count in (5, 1, 12):
        assert_runs(program, Suppression(), torch.rand(count) * 6, torch.rand(count))


def test_a_loop_over_a_dynamic_size_and_state() -> None:
    torch.manual_seed(0)
    module = Decoder()
    shapes = ({0: "batch", 1: torch.export.Dim("steps")},)
    program = exported(module, (torch.randn(2, 5, 4),), dynamic_shapes=shapes)
    assert_scripted(program)
    assert (module.calls.item(), module.steps) == (0, 0)
    assert {"cell.weight_ih", "head.bias"} <= {
        w.name for w in program.model_proto.graph.initializer
    }
    for batch, steps in ((2, 5), (1, 1), (3, 9)):
        assert_runs(program, module, torch.randn(batch, steps, 4))


def test_arguments_of_several_types() -> None:
    x, limits = torch.randn(3, 4) * 9, {"most": torch.tensor(1.0)}
    mask = torch.eye(3, 4, dtype=torch.bool)
    shapes = {"x": {0: "n"}, "limits": {"most": {}}, "mask": {0: "n"}}
    program = exported(Halves(), (x, limits), kwargs={"mask": mask}, dynamic_shapes=shapes)
    assert_scripted(program)
    assert_runs(program, Halves(), x, limits, mask)
    assert_runs(program, Halves(), torch.rand(5, 4), limits, torch.zeros(5, 4, dtype=torch.bool))
    assert_scripted(exported(Halves(), (x, limits)))


def test_arguments_without_annotations() -> None:
    x, weights, pair = torch.randn(3, 4) * 9, {"w": torch.rand(4)}, (torch.rand(4), [torch.rand(4)])
    for more in ((), (torch.rand(4),)):
        args = (x, 2, weights, pair, *more)
        program = exported(Unannotated(), args)
        assert_scripted(program)
        assert_runs(program, Unannotated(), *args)


def test_source_that_torchscript_does_not_accept() -> None:
    torch.manual_seed(3)
    module = Untyped()
    x = torch.randn(3, 4)
    with pytest.raises(RuntimeError):
        torch.jit.script(module)
    program = exported(module, (x,), dynamic_shapes=({0: "rows"},))
    assert_scripted(program)
    for rows in (3, 1, 9):
        assert_runs(program, module, torch.randn(rows, 4))
    with pytest.raises(RuntimeError):
        torch.jit.script(module)  # as before


def test_the_model_is_verified(caplog: pytest.LogCaptureFixture) -> None:
    module = Decoder()
    shapes = ({1: torch.export.Dim("steps")},)
    program = exported(module, (torch.randn(2, 5, 4),), verify=True, dynamic_shapes=shapes)
    rows = program.export_report["verification"]
    assert [row["is_accurate"] for row in rows] == [True, True]
    assert not [one for one in caplog.records if one.name == "onnx_native"]
    assert (module.calls.item(), module.steps) == (0, 0)


def test_a_program_that_only_the_native_capture_records_is_verified() -> None:
    """A string leaves the choice of a static size: the loop is unrolled, which warns."""
    with pytest.warns(torch.onnx.errors.OnnxExporterWarning, match="a loop is unrolled"):
        program = exported(
            OnlyRecorded(), (torch.randn(2, 5, 4),), verify=True, dynamic_shapes=({1: "steps"},)
        )
    assert program.export_report["capture"]["by"] == "native"
    rows = program.export_report["verification"]
    assert [row["is_accurate"] for row in rows] == [True, True]


def test_scripted_modules_are_verified() -> None:
    script = torch.jit.script(Suppression())
    program = exported(script, (torch.rand(4), torch.rand(4)), verify=True)
    (row,) = program.export_report["verification"]
    assert row["is_accurate"]


def failure(module: nn.Module, x: torch.Tensor) -> str:
    with pytest.raises(torch.onnx.OnnxExporterError) as raised:
        exported(module, (x,))
    return str(raised.value)


def test_a_module_that_scripts_to_something_else_is_refused() -> None:
    text = failure(ScriptsToAnother(), torch.full((3,), 3.0))
    assert "TorchScript cannot stand for the program: it computes something else" in text


class Reordered(nn.Module):
    """TorchScript puts the axis of the index of elements first, which has size 1."""

    def forward(self, x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        while x.sum() > 0:
            x = x - 1
        return x[:, i % 2, 1:, [-1]]


def test_a_module_that_scripts_to_something_else_at_other_sizes_is_refused() -> None:
    args = (torch.ones(1, 2, 2, 2), torch.tensor(1))
    with pytest.raises(torch.onnx.OnnxExporterError) as raised:
        exported(Reordered(), args, dynamic_shapes=({2: "n"}, None))
    assert "it computes something else for larger sizes" in str(raised.value)


class Masked(nn.Module):
    """TorchScript stores True as 1, but leaves the product out when it runs."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x * 2 if x.sum() > 0 else x
        return (y > 1) * True


class Renormalized(nn.Module):
    """TorchScript removes the renormalization as dead code."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(4, 2, max_norm=1.0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.embedding(x.long())
        return y * 2 if x.sum() > 0 else y


def test_a_script_with_results_of_other_dtypes_is_not_used() -> None:
    x = torch.ones(3)
    program = exported(Masked(), (x,))
    assert program.export_report["capture"]["by"] == "native"  # it follows both ways
    assert torch.equal(program(-x)[0], Masked()(-x))


def test_an_embedding_with_max_norm_is_not_scripted() -> None:
    text = failure(Renormalized(), torch.ones(3))
    assert "TorchScript cannot stand for the program: TorchScript ignores max_norm" in text


def test_a_module_that_torchscript_cannot_compile_is_refused() -> None:
    text = failure(NotScriptable(), torch.ones(3))
    assert "data-dependent" in text
    assert "TorchScript cannot stand for the program: " in text


def test_a_module_without_elements_is_refused() -> None:
    module = Suppression().to("meta")
    module.scale = nn.Parameter(torch.ones(3, device="meta"))
    with pytest.raises(torch.onnx.OnnxExporterError, match="no elements to compare"):
        exported(module, (torch.rand(3), torch.rand(3)))


def test_a_choice_of_torch_export_is_kept() -> None:
    with onnx_native.options(capture="torch.export"):
        text = failure(ScriptsToAnother(), torch.full((3,), 3.0))
    assert "TorchScript" not in text


class Sign(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 0:
            return x * 2
        return x - 1


def test_an_export_frees_what_its_runs_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch keeps the plans of each script that ran, and so the script."""
    scripts: list[Any] = []
    forget = _upstream.forget_runs

    def plans(script: Any) -> int:
        try:
            return len(script.get_debug_state().execution_plans)
        except RuntimeError:  # it has not run
            return 0

    def observed(script: Any) -> None:
        script(torch.ones(4))  # only the plan of a second run is shown
        script(torch.ones(4))
        assert plans(script) > 0
        forget(script)
        scripts.append(script)

    monkeypatch.setattr(_upstream, "forget_runs", observed)
    torch.onnx.export(Sign(), (torch.ones(4),), verbose=False)
    assert [plans(script) for script in scripts] == [0]


class AugmentedAssignments(nn.Module):
    """TorchScript drops some of these writes, and rounds some in another way."""

    def forward(self, x: torch.Tensor) -> Any:
        count = 0
        for k in range(x.size(0)):
            if bool(x[k] > 0):
                count += 1
        bits, parts, mask, real = x.clone(), x.clone(), x > 1, x * 0.5
        bits[0] |= 3
        bits[None, 1] &= 6
        bits[2] ^= 5
        parts[0] //= 2
        parts[1] **= 2
        parts[2] >>= 1
        parts[3:] %= -3
        mask[1:] &= x[1:] > 3
        alias, halves = mask, real
        mask |= x < -4
        real %= 1.25
        real //= 0.5
        numbers = [1, 2, 3]
        numbers[1] |= 8
        numbers[0] //= 2
        count %= 4
        count //= 2
        return bits, parts, alias, halves, x + numbers[0] * numbers[1] + count


def test_augmented_assignments_write_as_in_python() -> None:
    module = AugmentedAssignments()
    program = torch.onnx.export(
        module, (torch.tensor([-5, 6, 7, 8]),), dynamo=True, dynamic_shapes=({0: "n"},)
    )
    assert program.export_report["capture"]["by"] == "TorchScript"
    for x in (torch.tensor([-5, 6, 7, 8]), torch.tensor([9, -2, 1, 0, -7, 4])):
        torch.testing.assert_close(tuple(program(x)), module(x))


class Powers(nn.Module):
    """A power of integers may be a fraction."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        count = 0
        for k in range(x.size(0)):
            if bool(x[k] > 0):
                count += 1
        return x * 2**-count + count**2 + (count + 1) ** (count - 2)


@pytest.mark.parametrize("is_script", [True, False])
def test_powers_of_integers(is_script: bool) -> None:
    module = torch.jit.script(Powers()) if is_script else Powers()
    program = torch.onnx.export(
        module, (torch.tensor([1.0, -2.0, 3.0]),), dynamo=True, dynamic_shapes=({0: "n"},)
    )
    for x in (torch.tensor([1.0, -2.0, 3.0]), torch.tensor([1.0, 2.0, 3.0, 4.0]), -torch.ones(2)):
        torch.testing.assert_close(program(x)[0], Powers()(x))


class Growing(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        while x.sum() < 100:
            x = x * 2
        return x


def test_the_older_executor() -> None:
    """speechbrain's import turns it on."""
    before = torch._C._jit_set_profiling_executor(False)
    try:
        program: Any = torch.onnx.export(
            Growing().eval(), (torch.rand(3) + 1,), dynamo=True, verbose=False
        )
    finally:
        torch._C._jit_set_profiling_executor(before)
    x = torch.tensor([0.5, 3.0, 2.0])
    torch.testing.assert_close(program(x)[0], Growing()(x))
