"""Programs with torch.cond."""

import torch
from torch import nn

from scenarios.scenario import Registry, floats

SCENARIOS = Registry()
scenario = SCENARIOS

POSITIVE = floats(3, 4).abs()
BATCH = ({0: "batch"},)
BOTH_WAYS = (POSITIVE, -POSITIVE, floats(5, 4, seed=1).abs() + 1, -floats(1, 4).abs())


@scenario(*BOTH_WAYS, dynamic=BATCH)
def cond_one_operand(x):
    return torch.cond(x.sum() > 0, lambda a: a.sin(), lambda a: a.cos(), (x,))


@scenario(
    (POSITIVE, floats(3, 4)), (-floats(2, 4).abs(), floats(2, 4)), dynamic=({0: "b"}, {0: "b"})
)
def cond_two_operands(x, y):
    return torch.cond(x.sum() > y.sum() - 5, lambda a, b: a + b, lambda a, b: a - 2 * b, (x, y))


@scenario(*BOTH_WAYS, dynamic=BATCH)
def cond_two_results(x):
    return torch.cond(x.sum() > 0, lambda a: (a * 2, a.sum(0)), lambda a: (a - 1, a.amax(0)), (x,))


@scenario(*BOTH_WAYS, dynamic=BATCH)
def cond_dict_results(x):
    def grow(a):
        return {"values": a + 1, "total": a.sum()}

    def shrink(a):
        return {"values": a - 1, "total": a.mean()}

    return torch.cond(x.sum() > 0, grow, shrink, (x,))


@scenario(*BOTH_WAYS, dynamic=BATCH)
def cond_captured_value(x):
    outer = x.exp().sum(0)
    return torch.cond(x.sum() > 0, lambda a: a + outer, lambda a: a * outer, (x,))


@scenario(*BOTH_WAYS, dynamic=BATCH)
def cond_no_operands(x):
    return torch.cond(x.sum() > 0, lambda: x + 1, lambda: x - 1, ())


@scenario(*BOTH_WAYS, POSITIVE * 0.01, POSITIVE * 10, dynamic=BATCH)
def cond_nested(x):
    def inner(a):
        return torch.cond(a.max() > 1, lambda b: b * 2, lambda b: b / 2, (a,))

    return torch.cond(x.sum() > 0, inner, lambda a: -a, (x,))


@scenario(*BOTH_WAYS, POSITIVE * 0.01, POSITIVE * 10, dynamic=BATCH)
def cond_nested_thrice_with_captures(x):
    outer = x.mean()

    def innermost(b):
        return torch.cond(b.min() < 0.1, lambda c: c + outer, lambda c: c - outer, (b,))

    def inner(a):
        middle = a.sum(0)
        return torch.cond(a.max() > 1, lambda b: innermost(b) * middle, innermost, (a,))

    return torch.cond(x.sum() > 0, inner, lambda a: a * outer, (x,))


@scenario(*BOTH_WAYS, dynamic=BATCH)
def cond_identity(x):
    return torch.cond(x.sum() > 0, lambda a: a.clone(), lambda a: a + 1, (x,))


@scenario(*BOTH_WAYS, dynamic=BATCH)
def cond_returns_captured(x):
    kept = x * 3
    return torch.cond(x.sum() > 0, lambda a: kept.clone(), lambda a: a + kept, (x,))


@scenario(*BOTH_WAYS, dynamic=BATCH)
def cond_constants(x):
    return x + torch.cond(
        x.sum() > 0, lambda: torch.full((4,), 2.0), lambda: torch.arange(4, dtype=torch.float), ()
    )


@scenario(*BOTH_WAYS, dynamic=BATCH)
def cond_size_operand(x):
    size = x.shape[0]
    return torch.cond(x.sum() > 0, lambda a: a + size, lambda a: a * size, (x,))


@scenario(*BOTH_WAYS, dynamic=BATCH)
def cond_on_size(x):
    return torch.cond(x.shape[0] > 4, lambda a: a + 1, lambda a: a - 1, (x,))


@scenario(*BOTH_WAYS, dynamic=BATCH)
def cond_reads_size_in_branch(x):
    return torch.cond(
        x.sum() > 0,
        lambda a: a.reshape(a.shape[0] * 2, -1).sum(1),
        lambda a: a.new_ones(a.shape[0] * 2),
        (x,),
    )


@scenario(*BOTH_WAYS, dynamic=BATCH)
def cond_different_sizes(x):
    return torch.cond(x.sum() > 0, lambda a: a[:-1] + 1, lambda a: torch.cat([a, a]), (x,))


@scenario(floats(6, 4).abs(), -floats(8, 4).abs(), dynamic=BATCH)
def cond_different_sizes_then_more(x):
    part = torch.cond(x.sum() > 0, lambda a: a[:2] + 1, lambda a: a[:5] * 2, (x,))
    return part.sum(0) + x, part * part.shape[0]


@scenario(*BOTH_WAYS, dynamic=BATCH)
def cond_integers_and_bools(x):
    return torch.cond(
        x.sum() > 0,
        lambda a: (a.argmax(1), a > 0.5),
        lambda a: (a.argmin(1), a < -0.5),
        (x,),
    )


@scenario(*BOTH_WAYS, dynamic=BATCH)
def cond_predicate_of_one_element(x):
    return torch.cond((x.sum() > 0).reshape(1), lambda a: a + 1, lambda a: a - 1, (x,))


@scenario(*BOTH_WAYS, dynamic=BATCH)
def cond_writes_in_branch(x):
    def write(a):
        b = a.clone()
        b[:, 1] = 7.0
        b.mul_(2)
        return b

    return torch.cond(x.sum() > 0, write, lambda a: a.clone().zero_(), (x,))


@scenario(
    (POSITIVE, torch.tensor(True)),
    (POSITIVE, torch.tensor(False)),
    dynamic=({0: "batch"}, None),
)
def cond_predicate_is_input(x, flag):
    return torch.cond(flag, lambda a: a + 1, lambda a: a - 1, (x,))


@scenario(*BOTH_WAYS, dynamic=BATCH)
class CondWithWeights(nn.Module):
    """Branches that are modules with a shared layer."""

    def __init__(self):
        super().__init__()
        self.one = nn.Linear(4, 3)
        self.two = nn.Linear(4, 4)
        self.shared = nn.Linear(3, 2)

    def forward(self, x):
        def long(a):
            return self.shared(self.one(self.two(a).relu()))

        def short(a):
            return self.shared(self.one(a))

        return torch.cond(x.sum() > 0, long, short, (x,))


@scenario(*BOTH_WAYS, POSITIVE * 10, dynamic=BATCH)
class CondInSubmodules(nn.Module):
    """A module whose branch is nested in a branch of another module."""

    class Inner(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.randn(4))

        def forward(self, x):
            return torch.cond(
                x.max() > 2, lambda a: a * self.weight, lambda a: a + self.weight, (x,)
            )

    def __init__(self):
        super().__init__()
        self.inner = self.Inner()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        return torch.cond(x.sum() > 0, self.inner, self.layer, (x,))


@scenario(*BOTH_WAYS, dynamic=BATCH)
def cond_twice(x):
    y = torch.cond(x.sum() > 0, lambda a: a.exp(), lambda a: a.tanh(), (x,))
    return torch.cond(y.mean() > 1, lambda a, b: a + b, lambda a, b: a - b, (x, y))


@scenario(floats(3, 4), floats(1, 4), floats(9, 4), dynamic=BATCH)
def cond_on_count_of_nonzero(x):
    found = torch.nonzero(x[:, 0] > 0)
    return torch.cond(
        torch.tensor(found.shape[0]) > 2, lambda a: a + 1, lambda a: a - 1, (x,)
    ), found
