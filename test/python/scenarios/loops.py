"""Programs with while_loop."""

import torch
from torch import nn
from torch._higher_order_ops.while_loop import while_loop

from scenarios.scenario import Registry, floats

SCENARIOS = Registry()
scenario = SCENARIOS

BATCH = ({0: "batch"},)
SOME = (floats(3, 4), floats(5, 4, seed=1), floats(1, 4, seed=2))
COUNTED = tuple((torch.tensor(n), floats(m, 4)) for n, m in ((3, 3), (0, 2), (7, 5)))
COUNTED_SHAPES = (None, {0: "batch"})


@scenario(*COUNTED, dynamic=COUNTED_SHAPES)
def while_counts_down(n, x):
    return while_loop(lambda i, a: i > 0, lambda i, a: (i - 1, a * 1.5 + 1), (n, x))


@scenario(*COUNTED, dynamic=COUNTED_SHAPES)
def while_with_captured_value(n, x):
    outer = x.mean(0)
    return while_loop(lambda i, a: i > 0, lambda i, a: (i - 1, a + outer), (n, x))[1]


@scenario(*SOME, dynamic=BATCH)
def while_int_counter(x):
    return while_loop(lambda i, a: i < 4, lambda i, a: (i + 1, a + i), (0, x))[1]


@scenario(*SOME, dynamic=BATCH)
def while_as_many_steps_as_rows(x):
    rows = torch.tensor(0)
    return while_loop(
        lambda i, a: i < x.shape[0], lambda i, a: (i + 1, a + x[i.item() * 0] + i), (rows, x)
    )


@scenario(*SOME, dynamic=BATCH)
def while_until_small(x):
    return while_loop(lambda a: a.abs().max() > 0.1, lambda a: (a * 0.5,), (x,))[0]


@scenario(*COUNTED, dynamic=COUNTED_SHAPES)
def while_nested(n, x):
    def outer(i, a):
        j, b = while_loop(lambda j, b: j > 0, lambda j, b: (j - 1, b * 0.9 + j), (i.clone(), a))
        return i - 1, b + j

    return while_loop(lambda i, a: i > 0, outer, (n, x))


@scenario(*COUNTED, dynamic=COUNTED_SHAPES)
def while_with_branch(n, x):
    def step(i, a):
        return i - 1, torch.cond(i % 2 == 0, lambda b: b + 1, lambda b: b * 2, (a,))

    return while_loop(lambda i, a: i > 0, step, (n, x))


@scenario(*((*given, floats(4)) for given in COUNTED), dynamic=(None, {0: "batch"}, None))
def while_several_states(n, x, y):
    def step(i, a, b, c):
        return i - 1, a + b, b * 0.5, c + a.sum()

    return while_loop(lambda i, a, b, c: (i > 0) & (c < 100), step, (n, x, y, x.sum()))


@scenario(*COUNTED, dynamic=COUNTED_SHAPES)
def while_writes_in_body(n, x):
    def step(i, a):
        b = a.clone()
        b[:, 0] = b[:, 0] + i
        b[0].mul_(2)
        return i - 1, b

    return while_loop(lambda i, a: i > 0, step, (n, x))


@scenario(*COUNTED, dynamic=COUNTED_SHAPES)
class WhileWithWeights(nn.Module):
    """A layer that is applied repeatedly."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.register_buffer("limit", torch.tensor(50.0))

    def forward(self, n, x):
        return while_loop(
            lambda i, a: (i > 0) & (a.abs().sum() < self.limit),
            lambda i, a: (i - 1, self.layer(a).tanh()),
            (n, x),
        )


@scenario(*SOME, dynamic=BATCH)
def while_in_branch(x):
    def loop(a):
        return while_loop(lambda b: b.abs().max() > 0.5, lambda b: (b * 0.7,), (a,))[0]

    return torch.cond(x.sum() > 0, loop, lambda a: a + 1, (x,))


@scenario(*COUNTED, dynamic=COUNTED_SHAPES)
def while_then_more(n, x):
    i, a = while_loop(lambda i, a: i > 0, lambda i, a: (i - 1, a + 1), (n, x))
    return a.reshape(-1, 2).sum(1) + i, a @ a.T


@scenario(*COUNTED, dynamic=COUNTED_SHAPES)
def while_of_bools_and_integers(n, x):
    def step(go, i, mask):
        return i < n - 1, i + 1, ~mask

    return while_loop(lambda go, i, mask: go & True, step, (n > 0, torch.zeros_like(n), x > 0))


@scenario(*SOME, dynamic=BATCH)
def while_carries_a_size(x):
    return while_loop(lambda i, a: i > 0, lambda i, a: (i - 1, a + i), (x.shape[0], x))[1]
