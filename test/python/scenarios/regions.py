"""Programs with regions: gradient modes, autocast, hints, checkpoints, compile regions, effects."""

import onnx_native
import torch
from torch import nn
from torch._higher_order_ops.effects import _register_effectful_op
from torch._higher_order_ops.hints_wrap import hints_wrapper
from torch._higher_order_ops.run_const_graph import run_const_graph
from torch._library.effects import EffectType
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils.checkpoint import checkpoint

from scenarios.scenario import Registry, floats

SCENARIOS = Registry()
scenario = SCENARIOS

BATCH = ({0: "batch"},)
SOME = (floats(3, 4), floats(5, 4, seed=1), floats(1, 4, seed=2))


@scenario(*SOME, dynamic=BATCH)
class NoGradRegion(nn.Module):
    """A program that runs partly without gradients."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        with torch.no_grad():
            y = self.layer(x) + 1
        return self.layer(y) + y


@scenario(*SOME, dynamic=BATCH)
def grad_modes_nested(x):
    with torch.no_grad():
        y = x + 1
        with torch.enable_grad():
            z = y * x
        w = z - y
    torch.set_grad_enabled(False)
    v = w.sin()
    torch.set_grad_enabled(True)
    return v, z


@scenario(*SOME, dynamic=BATCH)
def no_grad_writes(x):
    y = x.clone()
    with torch.no_grad():
        y.add_(1)
        y[:, 0] = 5.0
    return y * 2


@scenario(*SOME, dynamic=BATCH)
class AutocastRegion(nn.Module):
    """Matrix products in bfloat16."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 6)

    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = self.layer(x)
        return y.float() + 1


@scenario(*SOME, dynamic=BATCH)
class AutocastNested(nn.Module):
    """Autocast that is disabled in an inner region."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = self.layer(x)
            with torch.autocast("cpu", enabled=False):
                z = self.layer(x)
            w = z @ y.transpose(0, 1)
        return w.float(), z


@scenario(*SOME, dynamic=BATCH)
def hinted(x):
    def body(a, b):
        return a.sin() + b

    return hints_wrapper(body, (x, x.cos()), {}, hints={"outer": True}) * 2


@scenario(*SOME, dynamic=BATCH)
class Checkpointed(nn.Module):
    """Activation checkpoints, which have no effect in inference."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        return checkpoint(lambda a: self.layer(a).relu(), x, use_reentrant=False) + x


@torch.compiler.nested_compile_region
def region(x, weight):
    """A compiled region with an operand."""
    return (x * weight).sin() + x


@scenario(*SOME, dynamic=BATCH)
def compile_region(x):
    return region(x, x.cos())


@scenario(*SOME, dynamic=BATCH)
def compile_region_thrice(x):
    return region(region(region(x, x), x + 1), x - 1)


@scenario(*SOME, dynamic=BATCH)
def compile_region_other_shapes(x):
    return region(x, x + 1), region(x[:, :2] * 2, x[:, 2:] * 3)


@scenario(*SOME, dynamic=BATCH)
class CompileRegionWithWeights(nn.Module):
    """Repeated layers with separate weights."""

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 4)
            self.norm = nn.LayerNorm(4)

        @torch.compiler.nested_compile_region
        def forward(self, x):
            return x + self.layer(self.norm(x)).relu()

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(self.Block() for _ in range(3))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


@scenario(*SOME, dynamic=BATCH)
def compile_region_in_branch(x):
    return torch.cond(x.sum() > 0, lambda a: region(a, a + 1), lambda a: region(a, a - 1) * 2, (x,))


@scenario(*SOME, dynamic=BATCH)
def wrapped(x):
    def body(a):
        return a.exp() + 1

    return torch.ops.higher_order.wrap(body, x)


_DOUBLE = make_fx(lambda a: a * 2 + 1, tracing_mode="fake")(floats(3, 4))


@scenario(floats(3, 4), floats(3, 4, seed=1))
def constant_graph(x):
    return run_const_graph(_DOUBLE, (x,)) + x


ANY_BATCH = {"x": {0: torch.export.Dim("batch")}}


@scenario(*SOME, dynamic=ANY_BATCH, strict=True)
def subgraph_called_thrice(x):
    return region(region(region(x, x.cos()), x + 1), x - 1)


@scenario(*SOME, dynamic=ANY_BATCH, strict=True)
class SubgraphWithWeights(CompileRegionWithWeights):
    """The layers as calls of one subgraph."""


@scenario(*SOME, dynamic=ANY_BATCH, strict=True)
def subgraph_in_branch(x):
    return torch.cond(x.sum() > 0, lambda a: region(a, a + 1), lambda a: region(a, a - 1) * 2, (x,))


@torch.library.custom_op("scenarios::noted", mutates_args=())
def noted(x: torch.Tensor) -> torch.Tensor:
    """An operator with a side effect; PyTorch keeps its calls in order."""
    return x * 2


noted.register_fake(torch.empty_like)
_register_effectful_op(torch.ops.scenarios.noted.default, EffectType.ORDERED)


@onnx_native.lowering("scenarios::noted")
def lower_noted(b, x):
    """Returns its value, without the side effect."""
    return b.op("Mul", x, 2.0)


@scenario(*SOME, dynamic=BATCH)
def ordered_effects(x):
    y = noted(x) + 1
    torch.ops.higher_order.print("sum {}", y.sum())
    return noted(y) - x


@scenario(*SOME, dynamic=ANY_BATCH, decomposed=True)
def ordered_effects_with_tokens(x):
    y = noted(x) + 1
    torch.ops.higher_order.print("sum {}", y.sum())
    return noted(y) - x
