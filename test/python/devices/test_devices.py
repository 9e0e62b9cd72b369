"""Programs on a device: the models of the CPU, and the answers of the device."""

import copy
import re
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import onnx_native
import pytest
import torch
from devices import placing
from models.recording import assert_native, exported
from torch import nn
from torch.nn import functional as F

placing.load()
pytestmark = pytest.mark.parametrize("device", placing.DEVICES)
X = torch.randn(2, 5, 4, generator=torch.Generator().manual_seed(0))


class Program(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function(*args)


class Bert(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(50, 16)
        self.register_buffer("positions", torch.arange(20)[None])
        self.places = nn.Embedding(20, 16)
        layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, activation="gelu")
        self.layers = nn.TransformerEncoder(layer, 2)
        self.norm = nn.LayerNorm(16)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.norm(self.words(ids) + self.places(self.positions[:, : ids.shape[1]]))
        mask = ids.new_zeros(ids.shape[1], ids.shape[1], dtype=torch.float32)
        return self.layers(x, mask=mask)


class Buffers(nn.Module):
    """Has tensors of every kind, and writes to one of them."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("scale", torch.rand(4))
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))
        self.weight = nn.Parameter(torch.rand(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.steps += 1
        return x * self.scale.to(x.device) + self.weight + self.steps


class Autocast(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.autocast(x.device.type, dtype=torch.bfloat16):
            y = self.linear(x) @ x.new_ones(3, 2)
        return y.float() + 1


def _conv_net() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 8, 3, groups=2),
        nn.BatchNorm2d(8),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Linear(32, 10),
    )


IDS = torch.arange(14).reshape(2, 7)
IMAGES = torch.linspace(-1, 1, 2 * 3 * 16 * 16).reshape(2, 3, 16, 16)
MODULES = [
    (_conv_net, IMAGES, ({0: "batch"},)),
    (Bert, IDS, ({0: "batch", 1: "n"},)),
    (Buffers, X, ({0: "batch"},)),
    (Autocast, X, ({1: "n"},)),
    (lambda: nn.LSTM(4, 3, batch_first=True), X, ({1: "n"},)),
]


def _outputs(values: Any) -> list[torch.Tensor]:
    return [value.detach().cpu() for value in torch.utils._pytree.tree_leaves(values)]


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(("make", "x", "shapes"), MODULES)
def test_model_is_that_of_the_cpu(
    device: str, make: Callable[[], nn.Module], x: torch.Tensor, shapes: Any, dynamic: bool
) -> None:
    module = make().eval()
    state = copy.deepcopy(module.state_dict())
    expected = exported(module, (x,), shapes if dynamic else None)
    with torch.no_grad():
        outputs = _outputs(copy.deepcopy(module)(x))
    module.load_state_dict(state)
    program = exported(module.to(device), (x.to(device),), shapes if dynamic else None)
    assert_native(program)
    assert program.model_proto.SerializeToString() == expected.model_proto.SerializeToString()
    rough = isinstance(module, Autocast)
    torch.testing.assert_close(
        list(program(x.to(device))), outputs, atol=2e-2 if rough else 1e-5, rtol=1e-2 * rough
    )


def moves_and_writes(x: Any) -> Any:
    y = x.to("cpu")
    y.add_(1)  # of a copy
    return y, x


def moves_back(x: Any) -> Any:
    return x.cpu().mul_(2).to(x.device) + x


def asks_for_its_device(x: Any) -> Any:
    return x * 2 if x.device.type == "cpu" or x.is_cpu or x.get_device() < 0 else x * 3


def asks_for_its_device_after_a_move(x: Any) -> Any:
    y = x.cpu()
    return y * 2 if y.is_cpu and not x.is_cpu else y * 3


def makes_tensors(x: Any) -> Any:
    mask = torch.ones(5, 5, device=x.device).tril()
    return mask @ x + torch.arange(4, device=x.device) + torch.tensor([1.0] * 4, device=x.device)


def makes_tensors_on_the_cpu(x: Any) -> Any:
    return x.new_zeros(3, device="cpu") + torch.zeros_like(x, device="cpu").sum() + x.sum().cpu()


def makes_tensors_on_a_default_device(x: Any) -> Any:
    with torch.device(x.device):
        return x + torch.ones(4)


def takes_numbers_of_the_cpu(x: Any) -> Any:
    return torch.where(x > 0, x * torch.tensor(2.5), torch.tensor(0.0)) + torch.tensor(1)


def fills_with_a_number_of_the_cpu(x: Any) -> Any:
    return x.masked_fill(x > 0, torch.tensor(3.0))


def indexes_by_the_cpu(x: Any) -> Any:
    return x[:, torch.tensor([0, 2])], x[torch.tensor([True, False])]


def writes_where_the_cpu_says(x: Any) -> Any:
    y = x.clone()
    y[:, torch.tensor([0, 1])] = torch.tensor(7.0)
    return y


def copies_between_devices(x: Any) -> Any:
    y = torch.zeros(2, 5, 4)
    y.copy_(x)
    y[:, 1] = x[:, 0]
    return y.to(x) + x, torch.ones(4, dtype=torch.int64).type_as(x) + x


def decides_by_elements_on_the_device(x: Any) -> Any:
    flags = torch.tensor([2, 1], device=x.device)
    return x * flags.tolist()[0] + int(flags[1]) + int(flags.cpu().numpy()[0])


def counts_elements(x: Any) -> Any:
    return x + (x > 0).nonzero().shape[0]


def branches(x: Any) -> Any:
    return torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,))


def maps_rows(x: Any) -> Any:
    return torch.vmap(lambda row: row @ torch.eye(4, device=row.device))(x)


def pins(x: Any) -> Any:
    y = x.cpu().pin_memory()
    return y + 1 if y.is_pinned() and not x.is_pinned() else y + 2


def makes_pinned_tensors(x: Any) -> Any:
    return torch.ones(4, pin_memory=True).to(x.device, non_blocking=True) + x


def casts_on_another_device_alone(x: Any) -> Any:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        one = F.linear(x, torch.ones(3, 4, device=x.device))
        return one, F.linear(x.cpu(), torch.ones(3, 4)).float()


@pytest.mark.parametrize(
    "function",
    [
        moves_and_writes,
        moves_back,
        asks_for_its_device,
        asks_for_its_device_after_a_move,
        makes_tensors,
        makes_tensors_on_the_cpu,
        makes_tensors_on_a_default_device,
        takes_numbers_of_the_cpu,
        fills_with_a_number_of_the_cpu,
        indexes_by_the_cpu,
        writes_where_the_cpu_says,
        copies_between_devices,
        decides_by_elements_on_the_device,
        counts_elements,
        branches,
        maps_rows,
        pins,
        makes_pinned_tensors,
        casts_on_another_device_alone,
    ],
    ids=lambda function: function.__name__,
)
def test_program_asks_for_devices(device: str, function: Callable[..., Any]) -> None:
    module, x = Program(function).eval(), X.to(device)
    program = exported(module, (x.clone(),))
    assert_native(program)
    expected = _outputs(module(x.clone()))
    torch.testing.assert_close(list(program(x)), expected, atol=2e-2, rtol=1e-2)


def on_the_default_device(x: Any) -> Any:
    return x + torch.arange(4.0) * torch.ones(4) + torch.tensor(2)


@pytest.mark.parametrize("sets", [torch.device, torch.set_default_device], ids=["with", "set"])
@pytest.mark.parametrize("capture", ["auto", "torch.export"])
def test_default_device_of_the_caller(device: str, capture: Any, sets: Any) -> None:
    module, x = Program(on_the_default_device).eval(), X.to(device)
    with torch.device(device):
        expected = module(x).cpu()
    with ExitStack() as stack:
        stack.callback(torch.set_default_device, None)
        if sets is torch.device:
            stack.enter_context(torch.device(device))
        else:
            torch.set_default_device(device)
        with onnx_native.options(capture=capture):
            program: Any = torch.onnx.export(module, (x,), dynamo=True, verbose=False, verify=True)
        assert torch.ones(1).device.type == device
        assert onnx_native.compare(program).first is None
    torch.testing.assert_close(program(X)[0], expected)
    by = "native" if capture == "auto" else capture
    assert program.export_report["capture"]["by"] == by


def test_other_device_of_the_same_type(device: str) -> None:
    module = Program(lambda x: (x.to(f"{device}:0") * 2).to(x.device)).eval()
    x = X.to(f"{device}:{1 if device == placing.TOY else 0}")
    program = exported(module, (x,))
    assert_native(program)
    torch.testing.assert_close(list(program(x)), [X * 2])


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda x: x + torch.ones(4), "Expected all tensors to be on the same device"),
        (lambda x: torch.cat([x, torch.zeros(2, 1, 4)], 1), "on the same device"),
        (lambda x: x @ torch.ones(4, 4), "same device"),
        (lambda x: x + torch.zeros(3, device="meta").shape[0], "uses the device meta"),
        (lambda x: x.to("xpu") + 1, "(?i)xpu"),
        (lambda x: x + torch.ones(4, device=x.device, pin_memory=True), "pin"),
        (lambda x: x * torch.tensor([1, 2], device=x.device).numpy()[1], "device"),
        (lambda x: (torch.manual_seed(0), x + torch.randn(4, device=x.device))[1], "random"),
    ],
)
def test_refusal_names_the_device(device: str, function: Callable[..., Any], reason: str) -> None:
    """What eager refuses, and what the capture does not know."""
    module, found = Program(function).eval(), ""
    try:
        program = exported(module, (X.to(device),))
        found = program.export_report["capture"]["reason"]
    except Exception as error:
        found = str(error)
    assert re.search(reason, found), found
    assert "internal" not in found


def test_verified_on_the_device(device: str) -> None:
    module, x = Bert().eval().to(device), IDS.to(device)
    program: Any = torch.onnx.export(module, (x,), dynamo=True, verbose=False, verify=True)
    assert_native(program)
    assert onnx_native.compare(program).first is None


def test_legacy(device: str, tmp_path: Any) -> None:
    module = _conv_net().eval()
    for name in ("cpu", device):
        with onnx_native.options(legacy=True):
            torch.onnx.export(
                module.to(name), (IMAGES.to(name),), tmp_path / f"{name}.onnx", dynamo=False
            )
    models = [(tmp_path / f"{name}.onnx").read_bytes() for name in ("cpu", device)]
    assert models[0] == models[1]


class Chooses(nn.Module):
    """Branches on elements, so that it is exported by TorchScript."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 0:
            return x * self.weight
        return x - self.weight


def test_branch_on_elements_of_a_dynamic_size(device: str) -> None:
    module = Chooses().eval()
    shapes = ({0: "batch", 1: "n"},)
    expected = exported(module, (X,), shapes)
    program = exported(module.to(device), (X.to(device),), shapes)
    assert program.export_report["capture"]["by"] == "TorchScript"
    assert program.model_proto.SerializeToString() == expected.model_proto.SerializeToString()


def draws_normally(x: Any) -> Any:
    torch.manual_seed(0)
    return x + torch.randn(2, 5, 4, device=x.device)


def draws_like_an_input(x: Any) -> Any:
    torch.manual_seed(0)
    return x + torch.rand_like(x)


def draws_in_place(x: Any) -> Any:
    torch.manual_seed(0)
    return x + torch.empty(2, 5, 4, device=x.device).uniform_()


def draws_after_a_fork(x: Any) -> Any:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return x + torch.randn(4, device=x.device)


def seeds_the_device(x: Any) -> Any:
    torch.get_device_module(x.device.type).manual_seed(0)
    return x + torch.rand_like(x)


def sets_a_state(x: Any) -> Any:
    state = torch.Generator(x.device if x.is_cuda else "cpu").manual_seed(5).get_state()
    torch.get_device_module(x.device.type).set_rng_state(state)
    return x + torch.rand_like(x)


def forks_the_device(x: Any) -> Any:
    with torch.random.fork_rng(devices=[0], device_type=x.device.type):
        torch.get_device_module(x.device.type).manual_seed(0)
        return x + torch.rand_like(x)


SEEDED = [
    *(draws_normally, draws_like_an_input, draws_in_place, draws_after_a_fork),
    *(seeds_the_device, sets_a_state, forks_the_device),
]


def never_seeds(x: Any) -> Any:
    return x + torch.rand_like(x)


def seeds_before_a_fork(x: Any) -> Any:
    with torch.random.fork_rng(devices=[0], device_type=x.device.type):
        torch.manual_seed(0)
    return x + torch.rand_like(x)


def seeds_the_cpu(x: Any) -> Any:
    torch.default_generator.manual_seed(0)
    return x + torch.rand_like(x)


class Draws(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("function", SEEDED)
def test_seeded_draws_are_refused(device: str, function: Callable[..., Any], dynamic: bool) -> None:
    """The numbers of the device are not those of the CPU."""
    shapes = ({0: "batch"},) if dynamic else None
    with pytest.raises(
        torch.onnx.OnnxExporterError, match="from a generator that it seeds"
    ) as found:
        exported(Draws(function).eval(), (X.to(device),), shapes)
    assert f"draws random numbers on the device {device}" in str(found.value)


@pytest.mark.parametrize("function", SEEDED)
def test_torch_export_does_not_lose_a_seed(device: str, function: Callable[..., Any]) -> None:
    with (
        onnx_native.options(capture="torch.export"),
        pytest.raises(torch.onnx.OnnxExporterError, match="from a generator that it seeds"),
    ):
        exported(Draws(function).eval(), (X.to(device),))


@pytest.mark.parametrize("function", [never_seeds, seeds_before_a_fork, seeds_the_cpu])
def test_other_draws_are_new_in_every_run(device: str, function: Callable[..., Any]) -> None:
    """An export leaves the generators of the device as they were, and draws none of their numbers.

    The numbers are new in eager too.
    """
    generators = [torch.default_generator, *torch.get_device_module(device).default_generators]
    x = X.to(device)
    for each in generators:
        each.manual_seed(7)  # as the program may have done before
    states = [each.get_state() for each in generators]
    program = exported(Draws(function).eval(), (x,))
    assert_native(program)
    assert all(map(torch.equal, states, [each.get_state() for each in generators]))
    assert not torch.equal(program(X)[0], program(X)[0])
    assert not torch.equal(function(x).cpu(), function(x).cpu())


def test_a_seed_of_another_device_is_none_of_the_cpu(device: str) -> None:
    def draws_on_the_cpu(x: torch.Tensor) -> torch.Tensor:
        torch.get_device_module(device).manual_seed(0)
        return x + torch.rand_like(x)

    program = exported(Draws(draws_on_the_cpu).eval(), (X,))
    assert_native(program)
    assert not torch.equal(program(X)[0], program(X)[0])


def test_seeded_draws_of_the_cpu(device: str) -> None:
    """What the program draws on the CPU and moves to the device is constant."""

    def draws_and_moves(x: Any) -> Any:
        torch.manual_seed(0)
        return x + torch.randn(2, 5, 4).to(x.device)

    module = Program(draws_and_moves).eval()
    program = exported(module, (X.to(device),))
    assert_native(program)
    assert torch.equal(program(X)[0], module(X))


class Scripted(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))


class AsksIsCpu(Scripted):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.weight if x.is_cpu else x * 3


class AsksForTheType(Scripted):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.weight if x.device.type == "cpu" else x * 3


class ComparesDevices(Scripted):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.weight if x.device == torch.device("cpu") else x * 3


class AsksForTheNumber(Scripted):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.weight if x.get_device() < 0 else x * 3


class MakesATensor(Scripted):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.weight + torch.zeros(4, device=x.device)


@pytest.mark.parametrize("kind", [AsksIsCpu, AsksForTheType, ComparesDevices, AsksForTheNumber])
def test_script_that_decides_by_its_device_is_an_error(device: str, kind: type[Scripted]) -> None:
    script = torch.jit.script(kind().eval().to(device))
    with pytest.raises(torch.onnx.OnnxExporterError, match=f"on the device {device}:0"):
        exported(script, (X.to(device),))


def test_script_that_places_a_tensor(device: str) -> None:
    module = MakesATensor().eval().to(device)
    program = exported(torch.jit.script(module), (X.to(device),))
    torch.testing.assert_close(list(program(X.to(device))), _outputs(module(X.to(device))))
