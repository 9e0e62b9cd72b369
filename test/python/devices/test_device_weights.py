"""Weights on a device: read when a file is written, in pieces, and never twice."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import onnx_native
import pytest
import torch
from devices import placing
from models.recording import assert_native, exported
from torch import nn

placing.load()
pytestmark = pytest.mark.parametrize("device", placing.DEVICES)


class Tied(nn.Module):
    """Has a weight with two names, a part of one, and one that is stored transposed."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(30, 8)
        self.head = nn.Linear(8, 30, bias=False)
        self.head.weight = self.words.weight
        self.both = nn.Parameter(torch.randn(2, 8, 8))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.head(self.words(ids) @ self.both[0] @ self.both[1].T)


def _moved(module: nn.Module, device: str) -> nn.Module:
    """The module on the device, where some devices give it new parameters."""
    module.to(device)
    if isinstance(module, Tied):
        module.head.weight = module.words.weight
    return module


IDS = torch.arange(6).reshape(2, 3)
X = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(0))


def _folded() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(144, 5))


def _route(name: str, module: nn.Module, x: torch.Tensor) -> Any:
    if name == "TorchScript":
        return exported(torch.jit.trace(module, (x,)), (x,))
    with onnx_native.options(capture=name):
        return torch.onnx.export(module, (x,), dynamo=True, verbose=False)


@pytest.mark.parametrize("route", ["native", "torch.export", "TorchScript"])
@pytest.mark.parametrize(("make", "x"), [(Tied, IDS), (_folded, X)], ids=["tied", "folded"])
@pytest.mark.parametrize("external", [False, True])
def test_saved_as_they_are_when_saved(
    device: str,
    route: str,
    make: Callable[[], nn.Module],
    x: torch.Tensor,
    external: bool,
    tmp_path: Path,
) -> None:
    """As on the CPU: the file has the values of the weights when it is written."""
    module = make().eval()
    models = []
    for name in ("cpu", device):
        _moved(module, name)
        program = _route(route, module, x.to(name))
        with torch.no_grad():
            for weight in module.parameters():
                weight.mul_(2)
        program.save(tmp_path / "model.onnx", external_data=external)
        models.append(onnx.load(tmp_path / "model.onnx"))
        with torch.no_grad():
            for weight in module.parameters():
                weight.div_(2)
    assert models[0].SerializeToString() == models[1].SerializeToString()


def test_applied_weights(device: str, tmp_path: Path) -> None:
    module = Tied().eval()
    expected = exported(module, (IDS,))
    program = exported(_moved(module, device), (IDS.to(device),))
    state = {name: torch.rand_like(value) for name, value in module.state_dict().items()}
    state["head.weight"] = state["words.weight"]
    program.apply_weights(state)
    expected.apply_weights({name: value.cpu() for name, value in state.items()})
    assert program.model_proto == expected.model_proto
    # Weights of another layout and device than those of the export.
    program.apply_weights({"both": state["both"].cpu().transpose(1, 2).contiguous().mT})
    assert program.model_proto == expected.model_proto


def test_onnx_ir_reads_them(device: str) -> None:
    module = Tied().eval().to(device)
    program = exported(module, (IDS.to(device),))
    weight = program.model.graph.initializers["words.weight"].const_value
    with torch.no_grad():
        module.words.weight.mul_(2)
    torch.testing.assert_close(torch.tensor(weight.numpy()), module.words.weight.detach().cpu())


def _peak() -> int:
    """The most memory that the process has had, in bytes, since the last call of _start."""
    status = Path("/proc/self/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) * 1024


def _start() -> int:
    Path("/proc/self/clear_refs").write_text("5")
    return _peak()


@pytest.mark.parametrize("external", [False, True])
def test_host_has_one_weight_at_a_time(device: str, external: bool, tmp_path: Path) -> None:
    """Also of weights that the file has transposed, which are as large as two pieces."""
    size, count = 1536, 8
    layers = [nn.Linear(size, size, bias=False) for _ in range(count)]
    module = nn.Sequential(*layers).eval().to(device)
    one = size * size * 4
    x = torch.zeros(2, 3, size, device=device)
    module(x)
    program = exported(module, (torch.zeros(2, 3, size, device=device),))
    assert_native(program)
    placing.reset()
    before = _start()
    program.save(tmp_path / "warm.onnx", external_data=external)
    assert _peak() - before < 1.5 * one
    if device == placing.TOY:
        assert placing.copied() == (count, count * one, one)


def test_export_reads_no_weight(device: str) -> None:
    """A large weight that nothing folds stays on the device until the file is written."""
    module = nn.Sequential(*[nn.Linear(512, 512) for _ in range(4)]).eval().to(device)
    x = torch.zeros(2, 512, device=device)
    before = _start()
    placing.reset()
    program = exported(module, (x,))
    assert placing.copied().bytes < 4096
    assert _peak() - before < 16 << 20
    assert_native(program)
