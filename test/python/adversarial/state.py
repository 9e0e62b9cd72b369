"""Programs with state, hooks, contexts, modes, threads, and unusual modules and arguments."""

# mypy: ignore-errors

from __future__ import annotations

import asyncio
import collections
import concurrent.futures
import contextlib
import contextvars
import copy
import functools
import random
import threading
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import parametrizations, parametrize
from torch.overrides import TorchFunctionMode
from torch.utils import checkpoint
from torch.utils._python_dispatch import TorchDispatchMode

from adversarial.program import Table, example

Tensor = torch.Tensor
PROGRAMS = Table()
program, aside, module = PROGRAMS.program, PROGRAMS.aside, PROGRAMS.module


def tensors(batch: int, n: int) -> tuple[Tensor, Tensor]:
    (x,) = example(batch, n)
    return x, x[:, :, :2] * 2


# State.


@module
class CountingCalls(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, x: Tensor) -> Any:
        self.calls += 1
        return x * self.calls


@module(aside=True)
class CountingCallsAside(CountingCalls):
    def forward(self, x: Tensor) -> Any:
        return super().forward(x) * x.sum().item()


@module(aside=True)
class CountingInABuffer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x: Tensor) -> Any:
        self.calls += 1
        return x * self.calls


@module(aside=True)
class AppendingTensors(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Tensor] = []

    def forward(self, x: Tensor) -> Any:
        self.seen.append(x * 2)
        return sum(self.seen)


@module
class AppendingNumbers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[int] = []

    def forward(self, x: Tensor) -> Any:
        self.seen.append(x.dim())
        return x * len(self.seen)


@module(aside=True)
class KeepingASize(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.longest = 0

    def forward(self, x: Tensor) -> Any:
        self.longest = max(self.longest, x.shape[1])
        return x * self.longest


@module(aside=True)
class CachingByLength(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.length = -1
        self.mask = torch.zeros(0)

    def forward(self, x: Tensor) -> Any:
        if x.shape[1] != self.length:
            self.length = x.shape[1]
            self.mask = torch.ones(x.shape[1], 4)
        return x * self.mask


@module(aside=True)
class GrowingTable(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("table", torch.arange(4.0)[:, None])

    def forward(self, x: Tensor) -> Any:
        if x.shape[1] > self.table.shape[0]:
            self.table = torch.arange(float(x.shape[1]))[:, None]
        return x + self.table[: x.shape[1]]


GLOBAL = {"calls": 0}


@program
def global_number(x: Tensor) -> Any:
    GLOBAL["calls"] += 1
    return x * (GLOBAL["calls"] > 0)


KEPT: list[Any] = []


@aside
def global_tensor(x: Tensor) -> Any:
    KEPT[:] = [x * 2]
    return KEPT[0] + 1


@aside
def suspended_generator(x: Tensor) -> Any:
    def steps() -> Iterator[Tensor]:
        y = x
        while True:
            y = y + 1
            yield y

    KEPT[:] = [steps()]
    return next(KEPT[0]) + next(KEPT[0])


@program
def generator(x: Tensor) -> Any:
    def steps(y: Tensor) -> Iterator[Tensor]:
        for i in range(3):
            y = y + i
            yield y

    def outer(y: Tensor) -> Iterator[Tensor]:
        yield from steps(y)

    return sum(outer(x))


@module
class ModulesMadeInside(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(4)
        self.made = nn.Linear(4, 4)
        self.layers = nn.ModuleList([nn.Linear(4, 4)])

    def forward(self, x: Tensor) -> Any:
        for layer in (*self.layers, self.made):
            x = layer(x)
        return x


@module(aside=True)
class GrowingModules(ModulesMadeInside):
    def forward(self, x: Tensor) -> Any:
        if len(self.layers) < 2:
            self.layers.append(nn.Identity())
        return super().forward(x) * len(self.layers)


@module(aside=True)
class ReplacingAModule(ModulesMadeInside):
    def forward(self, x: Tensor) -> Any:
        y = super().forward(x)
        self.made = nn.Identity()
        return y


@module
class UnregisteredModules(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.hidden = [nn.Linear(4, 4), nn.Linear(4, 4)]

    def forward(self, x: Tensor) -> Any:
        return self.hidden[1](self.hidden[0](x))


@module(aside=True)
class DeepCopiedModule(ModulesMadeInside):
    def __init__(self) -> None:
        torch.manual_seed(6)
        super().__init__()

    def forward(self, x: Tensor) -> Any:
        return copy.deepcopy(self.made)(x)


@module(aside=True)
class WritingWeights(ModulesMadeInside):
    def __init__(self) -> None:
        torch.manual_seed(7)
        super().__init__()

    def forward(self, x: Tensor) -> Any:
        self.made.weight.data.clamp_(-0.1, 0.1)
        return self.made(x)


@module
class WithProperties(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.arange(4.0))

    @property
    def scale(self) -> Tensor:
        return self.weight * 2

    @functools.cached_property
    def shift(self) -> float:
        return 3.0

    def __getattr__(self, name: str) -> Any:
        return 5.0 if name == "virtual" else super().__getattr__(name)

    def forward(self, x: Tensor) -> Any:
        return x * self.scale + self.shift + self.virtual


@module(aside=True)
class CachedProperty(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.arange(4.0))

    @functools.cached_property
    def scale(self) -> Tensor:
        return self.weight * 2

    def forward(self, x: Tensor) -> Any:
        return x * self.scale


# Hooks and parametrizations.


@module
def hooked() -> nn.Module:
    torch.manual_seed(8)
    made = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    made[0].register_forward_pre_hook(lambda _, args: (args[0] * 2,))
    made[1].register_forward_hook(lambda _, args, result: result + args[0])
    return made


@module
def weight_norm() -> nn.Module:
    torch.manual_seed(9)
    return parametrizations.weight_norm(nn.Linear(4, 4))


@module
def spectral_norm() -> nn.Module:
    torch.manual_seed(10)
    return parametrizations.spectral_norm(nn.Linear(4, 4))


@module
def orthogonal() -> nn.Module:
    torch.manual_seed(11)
    return parametrizations.orthogonal(nn.Linear(4, 4))


class Symmetric(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.triu() + x.triu(1).mT


@module
class CachedParametrization(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(12)
        self.layer = nn.Linear(4, 4)
        parametrize.register_parametrization(self.layer, "weight", Symmetric())

    def forward(self, x: Tensor) -> Any:
        with parametrize.cached():
            return self.layer(self.layer(x)) @ self.layer.weight


# Modes, contexts and threads.


@aside
def autocast(x: Tensor) -> Any:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return (x @ x.mT).float() > 0


@program
def autocast_switched_off(x: Tensor) -> Any:
    with torch.autocast("cpu", enabled=False):
        return x @ x.mT


@program
def grad_modes(x: Tensor) -> Any:
    with torch.no_grad():
        y = x * 2
    with torch.enable_grad():
        y = y + 1
    with torch.inference_mode():
        y = y * 3
    return y * (2 if torch.is_grad_enabled() else 5)


@program
def default_dtype(x: Tensor) -> Any:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        y = torch.ones(4) * 1.5
    finally:
        torch.set_default_dtype(before)
    return x * y


@program
def default_device(x: Tensor) -> Any:
    with torch.device("cpu"):
        return x * torch.arange(4)


@aside
def meta_device(x: Tensor) -> Any:
    with torch.device("meta"):
        y = torch.empty(x.shape)
    return x * y.dim() + torch.zeros(y.shape)


class Doubling(TorchFunctionMode):
    def __torch_function__(self, function: Any, _: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        return result * 2 if function is torch.sin else result


@program
def function_mode(x: Tensor) -> Any:
    with Doubling():
        return torch.sin(x) + 1


class Tripling(TorchDispatchMode):
    def __torch_dispatch__(self, function: Any, _: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        return result * 3 if function is torch.ops.aten.sin.default else result


@aside
def dispatch_mode(x: Tensor) -> Any:
    with Tripling():
        return torch.sin(x) + 1


class Scaled(Tensor):
    @classmethod
    def __torch_function__(
        cls, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        result = super().__torch_function__(function, types, args, kwargs or {})
        return result * 3 if function is torch.sin else result


@aside
def subclass_made_inside(x: Tensor) -> Any:
    return torch.sin(x.as_subclass(Scaled)).as_subclass(Tensor)


@module(aside=True, inputs=lambda b, n: (example(b, n)[0].as_subclass(Scaled),))
class SubclassInput(nn.Module):
    def forward(self, x: Tensor) -> Any:
        return torch.sin(x)


@aside
def vmapped(x: Tensor) -> Any:
    return torch.vmap(lambda row: row * row.sum())(x)


@aside
def jacobian(x: Tensor) -> Any:
    return torch.func.jacrev(lambda row: (row * row).sum())(x[0, 0]) * x


@aside
def function_gradient(x: Tensor) -> Any:
    return torch.func.grad(lambda y: (y**2).sum())(x)


@module
class CalledWithOtherWeights(ModulesMadeInside):
    def __init__(self) -> None:
        torch.manual_seed(13)
        super().__init__()

    def forward(self, x: Tensor) -> Any:
        weights = {"weight": self.layers[0].weight * 2}
        return torch.func.functional_call(self.made, weights, (x,))


@torch.jit.script
def scripted_branch(x: Tensor) -> Tensor:
    if x.size(1) > 5:
        x = x * 2
    return x + 1


@program(aside=True)
def scripted_inside(x: Tensor) -> Any:
    return scripted_branch(x)


@module
def traced_inside() -> nn.Module:
    torch.manual_seed(14)
    traced = torch.jit.trace(nn.Sequential(nn.Linear(4, 4), nn.ReLU()).eval(), torch.ones(2, 3, 4))
    return nn.Sequential(nn.Tanh(), traced)


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return gradient * 3 * x * x


@program
def autograd_function(x: Tensor) -> Any:
    return Cube.apply(x) + 1


@program
def checkpointed(x: Tensor) -> Any:
    return checkpoint.checkpoint(lambda y: y.sin() * 2, x, use_reentrant=False)


@aside
def thread(x: Tensor) -> Any:
    results: list[Tensor] = []
    worker = threading.Thread(target=lambda: results.append(x * 2))
    worker.start()
    worker.join()
    return results[0] + 1


@aside
def pool_of_threads(x: Tensor) -> Any:
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        return sum(pool.map(lambda i: x * i, range(3)))


@aside
def failed_thread(x: Tensor) -> Any:
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        future = pool.submit(lambda: x * 2)
    try:
        return future.result()
    except RuntimeError:
        return x * 3


@program
def coroutine(x: Tensor) -> Any:
    async def double(y: Tensor) -> Tensor:
        await asyncio.sleep(0)
        return y * 2

    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(double(x)) + 1
    finally:
        loop.close()


VARIABLE: contextvars.ContextVar[float] = contextvars.ContextVar("scale", default=2.0)


@program
def context_variable(x: Tensor) -> Any:
    token = VARIABLE.set(4.0)
    try:
        return x * VARIABLE.get()
    finally:
        VARIABLE.reset(token)


@program
def exporting_flags(x: Tensor) -> Any:
    tracing = torch.jit.is_tracing() or torch.jit.is_scripting()
    return x * (3 if tracing else 2)


@program
def evaluated_text(x: Tensor) -> Any:
    names = {"x": x}
    exec("y = x * 2", names)
    return eval("y + x.shape[1]", names)


# Errors that the program catches.


@aside
def caught_shape_error(x: Tensor) -> Any:
    try:
        return x @ torch.ones(7, 2)
    except RuntimeError:
        return x * 2


@aside
def suppressed_error(x: Tensor) -> Any:
    with contextlib.suppress(RuntimeError):
        x = x.view(-1, 3) * 2
    return x + 1


@program
def caught_type_error(x: Tensor) -> Any:
    try:
        return x + "text"
    except TypeError:
        return x * 2


@program
def caught_attribute_error(x: Tensor) -> Any:
    try:
        return x.no_such_method()
    except AttributeError:
        return x * 2


@aside
def caught_index_error(x: Tensor) -> Any:
    try:
        return x[:, 6]
    except IndexError:
        return x[:, 0]


@program
def finally_block(x: Tensor) -> Any:
    try:
        y = x * 2
    finally:
        x = x + 1
    return x + y


# Random numbers and training mode.


@program(random=True)
def random_of_a_size(x: Tensor) -> Any:
    return torch.rand(x.shape[1]), torch.randn_like(x), torch.randint(0, 5, (x.shape[0],))


@program
def random_that_does_not_matter(x: Tensor) -> Any:
    return x + torch.rand_like(x) * 0, F.dropout(x, 0.5, training=False)


# A model draws its own numbers.
@program(random=True)
def seeded(x: Tensor) -> Any:
    torch.manual_seed(3)
    return x + torch.rand(4)


@aside
def own_generator(x: Tensor) -> Any:
    return x + torch.rand(4, generator=torch.Generator().manual_seed(3))


@program
def python_random(x: Tensor) -> Any:
    return x * random.Random(3).random()


@program(random=True)
def dropout_in_training(x: Tensor) -> Any:
    return F.dropout(x, 0.5, training=True)


@program(aside=True)
def batch_norm_in_training(x: Tensor) -> Any:
    mean, variance = torch.zeros(4), torch.ones(4)
    y = F.batch_norm(x.transpose(1, 2), mean, variance, training=True)
    return y, mean, variance


# Arguments and results.


@module(inputs=lambda b, n: (example(b, n)[0], None), shapes=({0: "batch", 1: "n"}, None))
class NoneArgument(nn.Module):
    def forward(self, x: Tensor, y: Tensor | None = None) -> Any:
        return x * 2 if y is None else x + y


@module(inputs=lambda b, n: (example(b, n)[0], 3, 0.5, True, "mode"))
class NumberArguments(nn.Module):
    def forward(self, x: Tensor, i: int, f: float, flag: bool, mode: str) -> Any:
        return x * i * f if flag and mode == "mode" else x


@module(inputs=tensors)
class DefaultArguments(nn.Module):
    def forward(self, x: Tensor, y: Tensor, scale: float = 2.0, *, shift: Any = None) -> Any:
        return x * scale + y.sum(-1, keepdim=True) + (0 if shift is None else shift)


@module(inputs=lambda b, n: ({"z": example(b, n)[0], "a": [tensors(b, n)[1]]}, example(b, n)))
class NestedArguments(nn.Module):
    def forward(self, tree: dict[str, Any], pair: tuple[Tensor, ...]) -> Any:
        assert isinstance(tree, dict)
        return tree["z"] + pair[0] * tree["a"][0].sum(-1, keepdim=True)


@module(inputs=lambda b, n: (example(b, n)[0], example(b, n)[0] * 2))
class VariableArguments(nn.Module):
    def forward(self, *args: Tensor, **kwargs: Tensor) -> Any:
        return args[0] * len(args) + args[1] + len(kwargs)


class Point(NamedTuple):
    first: Tensor
    second: Any


class Result:
    def __init__(self, value: Tensor) -> None:
        self.value = value


@program
def named_tuple(x: Tensor) -> Any:
    return Point(x * 2, {"b": x, "a": [x + 1, x.shape[1]]}), collections.OrderedDict(z=x, a=x * 3)


@aside
def unregistered_result(x: Tensor) -> Any:
    return Result(x * 2)


@module(inputs=lambda b, n: (example(b, n)[0], example(b, n)[0] + 1))
class SameShapes(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Any:
        return x + y, torch.cat([x, y], 1), x @ y.mT


@module(
    inputs=lambda b, n: (example(b, n)[0], example(1, 3)[0]),
    shapes=({0: "batch", 1: "n"}, {1: "m"}),
)
class OtherShapes(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Any:
        return torch.cat([x, y.expand(x.shape[0], -1, -1)], 1), x @ y.mT


def transformer() -> nn.Module:
    torch.manual_seed(15)
    layer = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)
    return nn.TransformerEncoder(layer, 2)


module(transformer)


@module
class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(16)
        self.lstm = nn.LSTM(4, 6, 2, batch_first=True, bidirectional=True)
        self.gru = nn.GRU(12, 3, batch_first=True)

    def forward(self, x: Tensor) -> Any:
        y, (h, _) = self.lstm(x)
        return self.gru(y)[0], h


@module(aside=True)
class Packed(Recurrent):
    def forward(self, x: Tensor) -> Any:
        lengths = torch.full((x.shape[0],), x.shape[1])
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True)
        return nn.utils.rnn.pad_packed_sequence(self.lstm(packed)[0], batch_first=True)[0]
