"""An export runs the module, and gives back what it changes: elements, attributes and hooks."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_native
import pytest
import torch
from torch import nn

X = torch.ones(3, 4)


class Slots:
    __slots__ = ("cache",)

    def __init__(self) -> None:
        self.cache = torch.ones(4)


@torch.jit.script
def doubled(w: torch.Tensor) -> torch.Tensor:
    return w.mul_(2)


class Writing(nn.Module):
    """Writes to a tensor that it holds in some place."""

    def __init__(self, write: Callable[[Any, torch.Tensor], object]) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.arange(4.0) + 1)
        self.alias = self.weight.detach()[1:]
        self.register_buffer("buffer", torch.ones(4))
        self.plain = torch.ones(4)
        self.items = {"k": [torch.ones(4)], "pair": (torch.ones(4), 1)}
        self.slots = Slots()
        self.array = np.ones(4, dtype=np.float32)
        self.table = nn.Parameter(torch.full((3, 4), 9.0))
        self.norm = nn.LayerNorm(4)
        self.count = 0
        self.text = ""
        self.grown: list[int] = []
        inside = torch.ones(4)
        self.inside = lambda: inside
        self.write = write

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.write(self, x)
        held = [self.buffer, self.plain, self.items["k"][0], self.items["pair"][0]]
        return x * self.weight + sum(held) + self.slots.cache


def no_grad(write: Callable[[Any], object]) -> Callable[[Any, Any], object]:
    def within(m: Any, _: Any) -> None:
        with torch.no_grad():
            write(m)

    return within


def replace(name: str, change: Callable[[Any], Any]) -> Callable[[Any, Any], None]:
    return lambda m, _: setattr(m, name, change(getattr(m, name)))


WRITES: dict[str, Callable[[Any, torch.Tensor], object]] = {
    "weight": no_grad(lambda m: m.weight.mul_(2)),
    "data": lambda m, _: m.weight.data.mul_(2),
    "clamp": lambda m, _: m.weight.data.clamp_(-0.5, 0.5),
    "detached": lambda m, _: m.weight.detach()[:2].add_(1),
    "alias": lambda m, _: m.alias.add_(1),
    "new data": lambda m, _: setattr(m.weight, "data", m.weight.data * 2),
    "out": no_grad(lambda m: torch.mul(m.weight, 2, out=m.weight)),
    "foreach": no_grad(lambda m: torch._foreach_mul_([m.weight, m.buffer], 2)),
    "init": lambda m, _: nn.init.zeros_(m.weight),
    "item": no_grad(lambda m: m.weight.__setitem__(0, 7)),
    "script": no_grad(lambda m: doubled(m.weight)),
    "renorm": no_grad(lambda m: nn.functional.embedding(torch.tensor([1]), m.table, max_norm=1.0)),
    "statistics": no_grad(
        lambda m: nn.functional.batch_norm(X, m.plain, m.weight.data, training=True)
    ),
    "buffer": lambda m, _: m.buffer.add_(1),
    "buffer through NumPy": lambda m, _: m.buffer.numpy().__setitem__(0, 7),
    "another buffer": replace("buffer", lambda old: old + 1),
    "plain": lambda m, _: m.plain.add_(1),
    "another plain": replace("plain", lambda old: old + 1),
    "in a dict": lambda m, _: m.items["k"][0].add_(1),
    "in a tuple": lambda m, _: m.items["pair"][0].add_(1),
    "in slots": lambda m, _: m.slots.cache.add_(1),
    "in a closure": lambda m, _: m.inside().add_(1),
    "resized": lambda m, _: m.plain.resize_(8).resize_(4).zero_(),
    "array": lambda m, _: m.array.__iadd__(1),
    "grad": lambda m, _: setattr(m.weight, "grad", torch.ones(4)),
    "frozen": lambda m, _: m.weight.requires_grad_(False),
    "module": lambda m, _: nn.init.zeros_(m.norm.weight),
    "hook": lambda m, _: m.norm.register_forward_hook(lambda *_: None),
    "count": replace("count", lambda old: old + 1),
    "text": replace("text", lambda old: old + "a"),
    "grown": lambda m, _: m.grown.append(1),
}


def state(model: Any) -> dict[str, Any]:
    tensors = dict(itertools.chain(model.named_parameters(), model.named_buffers()))
    held = {
        "plain": model.plain,
        "alias": model.alias,
        "k": model.items["k"][0],
        "pair": model.items["pair"][0],
        "slots": model.slots.cache,
        "closure": model.inside(),
        **tensors,
    }
    return {
        **{key: (id(value), value.tolist()) for key, value in held.items()},
        "memory": [value.data_ptr() for key, value in held.items() if key != "plain"],
        "gradients": [(p.requires_grad, p.grad is None) for p in model.parameters()],
        "hooks": len(model.norm._forward_hooks),
        "rest": (model.count, model.text, list(model.grown), model.array.tolist()),
    }


def through_bytes(x: torch.Tensor) -> torch.Tensor:
    return torch.frombuffer(bytearray(x.numpy().tobytes()), dtype=torch.float32).reshape(3, 4)


class Failing(Writing):
    """No route has it."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) + through_bytes(x)


def export(model: nn.Module, **options: Any) -> Any:
    return torch.onnx.export(model.eval(), (X,), dynamo=True, verbose=False, **options)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", WRITES)
def test_an_export_by_torch_export_changes_nothing(name: str) -> None:
    model = Writing(WRITES[name])
    before = state(model)
    expected = Writing(WRITES[name])(X)
    try:
        with onnx_native.options(capture="torch.export"):
            program = export(model)
    except torch.onnx.errors.OnnxExporterError:  # such as one of x.data
        assert state(model) == before
    else:
        assert state(model) == before
        torch.testing.assert_close(program(X)[0], expected)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", WRITES)
def test_a_failed_export_changes_nothing(name: str) -> None:
    model = Failing(WRITES[name])
    before = state(model)
    with pytest.raises(torch.onnx.errors.OnnxExporterError):
        export(model)
    assert state(model) == before


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", WRITES)
def test_a_verification_changes_nothing(name: str) -> None:
    plain, verified = Writing(WRITES[name]), Writing(WRITES[name])
    expected = Writing(WRITES[name])(X)
    try:
        export(plain)
    except torch.onnx.errors.OnnxExporterError:
        return
    program = export(verified, verify=True)
    ids = [
        {key: value[1] if isinstance(value, tuple) else value for key, value in state(m).items()}
        for m in (plain, verified)
    ]
    for each in ids:
        each.pop("memory")
    assert ids[0] == ids[1]
    torch.testing.assert_close(program(X)[0], expected)


def test_a_parameter_is_copied_only_if_it_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    from onnx_native.modules import _held_tensors, _module_state

    saved = []
    save = _held_tensors._Storage.save

    def noting(self: Any) -> None:
        saved.append(self.name)
        save(self)

    monkeypatch.setattr(_held_tensors._Storage, "save", noting)
    model = nn.Sequential(nn.Linear(4, 4), nn.MultiheadAttention(4, 2))
    model[0].weight.requires_grad_(False)

    def run(x: torch.Tensor) -> torch.Tensor:
        model[0].weight.mul_(2)
        y = model[0](x)
        return model[1](y, y, y)[0]

    _module_state.results(run, model, (X,), {})
    assert saved == ["0.weight"]


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_parameter_that_changes_unseen_is_named() -> None:
    def through_numpy(m: Any, _: Any) -> None:
        m.table.detach().numpy()[0] += 1

    errors = torch.onnx.errors
    named = pytest.warns(errors.OnnxExporterWarning, match="writes to table through")
    with named, pytest.raises(errors.OnnxExporterError):
        export(Failing(through_numpy))


@torch.library.custom_op("held_tensors::product", mutates_args=())
def product(x: torch.Tensor) -> torch.Tensor:
    return x @ x.mT


LAYERS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "attention": nn.MultiheadAttention(4, 2, batch_first=True),
    "encoder": nn.TransformerEncoderLayer(4, 2, 8, batch_first=True),
    "lstm": nn.LSTM(4, 4),
    "norm": nn.BatchNorm1d(3),
    "scripted": torch.jit.script(nn.Sequential(nn.Linear(4, 4), nn.GELU())),
    "custom": product,
    "derivative": torch.func.vmap(torch.func.grad(lambda x: (x**3).sum())),
    "cond": lambda x: torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,)),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("name", "has_autocast"),
    [(name, False) for name in LAYERS] + [(name, True) for name in LAYERS if name != "lstm"],
)
def test_the_mode_does_not_change_results(name: str, has_autocast: bool) -> None:
    from onnx_native.modules import _module_state

    layer = LAYERS[name]
    if isinstance(layer, nn.Module):
        layer.eval()
    x = torch.rand(2, 3, 4)

    def run(x: torch.Tensor) -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=has_autocast):
            return layer(x, x, x) if name == "attention" else layer(x)

    with torch.no_grad():
        expected = torch.utils._pytree.tree_leaves(run(x))
    found = _module_state.results(run, layer, (x,), {})
    torch.testing.assert_close(found, expected, rtol=0, atol=0)
