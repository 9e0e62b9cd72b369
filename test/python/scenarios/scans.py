"""Programs with scan, map and associative_scan."""

from typing import Any

import torch
from torch import nn
from torch._higher_order_ops.associative_scan import associative_scan
from torch._higher_order_ops.map import map as torch_map
from torch._higher_order_ops.scan import scan

from scenarios.scenario import Registry, floats

SCENARIOS = Registry()
scenario = SCENARIOS
map_over: Any = torch_map  # its type annotations allow only tuples of operands

ROWS = ({0: "rows"},)
SOME = (floats(5, 4), floats(3, 4, seed=1), floats(1, 4, seed=2))
SQUARE = tuple((floats(n, 3), floats(m, 3, seed=1)) for n, m in ((5, 4), (3, 7), (1, 2)))
SQUARE_SHAPES = ({0: "n"}, {0: "m"})


@scenario(torch.arange(1.0, 10).reshape(3, 3), floats(3, 3))
def scan_of_the_tutorial(x):
    def add(carry, y):
        following = carry + y
        return [following, following]

    start = torch.zeros_like(x[0])
    carry, _ = torch.ops.higher_order.scan(add, [start], [x], additional_inputs=())
    return carry


@scenario(*SOME, dynamic=ROWS)
def scan_running_sums(x):
    return scan(lambda c, y: (c + y, c * y), torch.zeros_like(x[0]), x)


@scenario(*SOME, dynamic=ROWS)
def scan_reverse(x):
    return scan(lambda c, y: (c * 0.5 + y, c + y), torch.zeros_like(x[0]), x, reverse=True)


@scenario(*(x.T.contiguous() for x in SOME), dynamic=({1: "columns"},))
def scan_along_second_dim(x):
    return scan(lambda c, y: (c + y, c * y), torch.zeros_like(x[:, 0]), x, dim=1, reverse=True)


@scenario(*SOME, dynamic=ROWS)
def scan_with_captured_values(x):
    weight = x.mean(0)
    return scan(lambda c, y: (c + y * weight, torch.relu(c - weight)), weight + 1, x)


@scenario(*SOME, dynamic=ROWS)
def scan_several_states(x):
    def step(carry, y):
        total, count = carry
        return (total + y, count + 1), (total / (count + 1), y.sum())

    return scan(step, (torch.zeros_like(x[0]), torch.zeros(())), x)


@scenario(*SOME, dynamic=ROWS)
def scan_several_inputs(x):
    def step(carry, xs):
        return carry + xs["a"] * xs["b"], {"c": carry - xs["a"], "d": xs["b"].sum()}

    return scan(step, torch.ones(4), {"a": x, "b": x.sin()})


@scenario(*SQUARE, dynamic=SQUARE_SHAPES)
def scan_distances(x, y):
    def step(points, row):
        return points.clone(), (points - row).square().sum(1).sqrt()

    return scan(step, y, x)[1]


@scenario(*((x,) for x, _ in SQUARE), dynamic=({0: "n"},))
def scan_distances_of_one(x):
    def step(points, row):
        return points.clone(), (points - row.reshape(1, -1)).abs().sum(1)

    return scan(step, x, x)[1]


@scenario(*SOME, dynamic=ROWS)
def scan_nested(x):
    def inner(carry, y):
        return scan(lambda c, z: (c + z, c * z), carry, y)

    def step(carry, y):
        total, parts = inner(carry, y)
        return total, parts.sum() + y

    return scan(step, torch.zeros(()), x)


@scenario(*SOME, dynamic=ROWS)
def scan_with_branch(x):
    def step(carry, y):
        following = torch.cond(y.sum() > 0, lambda a, b: a + b, lambda a, b: a - b, (carry, y))
        return following, following * 2

    return scan(step, torch.zeros(4), x)


@scenario(*SOME, dynamic=ROWS)
def scan_writes_in_body(x):
    def step(carry, y):
        following = carry.clone()
        following[1:3] += y[1:3]
        following[0] = y.sum()
        return following, following.sin()

    return scan(step, torch.zeros(4), x)


@scenario(
    *((torch.arange(n), floats(m, 4)) for n, m in ((3, 8), (5, 6), (1, 2))),
    dynamic=({0: "steps"}, {0: "rows"}),
)
def scan_over_indices(indices, x):
    def step(carry, i):
        row = torch.index_select(x, 0, i.reshape(1) % x.shape[0])
        return carry + row[0], row[0] * 2

    return scan(step, torch.zeros(4), indices)


@scenario(*SOME, dynamic=ROWS)
class ScanRecurrentCell(nn.Module):
    """A recurrent cell with weights."""

    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(4, 6)

    def forward(self, x):
        def step(hidden, y):
            following = self.cell(y.unsqueeze(0), hidden)
            return following, following[0].clone()

        return scan(step, torch.zeros(1, 6), x)


@scenario(
    *(floats(n, b, 4, seed=n) for n, b in ((5, 2), (3, 3), (1, 1))),
    dynamic=({0: "steps", 1: "batch"},),
)
class ScanWithBatch(nn.Module):
    """Two dynamic sizes, one of them in the loop-carried state."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        def step(carry, y):
            following = (self.layer(y) + carry).tanh()
            return following, following.sum(1)

        return scan(step, torch.zeros_like(x[0]), x)


@scenario(*SOME, dynamic=ROWS)
def scan_only_results(x):
    return scan(lambda c, y: (c + 1, y * c), torch.ones(()), x)[1].cumsum(0)


@scenario(*((x, floats(4)) for x in SOME), dynamic=({0: "rows"}, None))
def map_with_operand(x, y):
    return map_over(lambda row, a: row.sin() + a, x, y)


@scenario(*SOME, dynamic=ROWS)
def map_trees(x):
    return map_over(lambda pair: {"s": pair[0] + pair[1], "m": pair[0].max()}, (x, x.cos()))


@scenario(*SOME, dynamic=ROWS)
def map_captured(x):
    outer = x.mean(0)
    return map_over(lambda row: row * outer, x)


@scenario(
    *(floats(n, m, 4) for n, m in ((3, 2), (2, 5), (1, 1))), dynamic=({0: "rows", 1: "columns"},)
)
def map_nested(x):
    return map_over(lambda rows: map_over(lambda row: row.softmax(0), rows), x)


@scenario(*SOME, dynamic=ROWS)
class MapWithWeights(nn.Module):
    """A layer applied row by row."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 2))

    def forward(self, x):
        return map_over(lambda row: self.layers(row), x)


@scenario(floats(5, 4), floats(5, 4, seed=1))
def associative_scan_sums(x):
    return associative_scan(torch.add, x, 0, combine_mode="generic")


@scenario(floats(5, 4), floats(5, 4, seed=1))
def associative_scan_reverse(x):
    return associative_scan(lambda a, b: a * b, x, 1, reverse=True, combine_mode="generic")


@scenario((floats(7, 4), floats(7, 4, seed=1)), (floats(7, 4, seed=2), floats(7, 4, seed=3)))
def associative_scan_recurrence(a, b):
    def combine(x, y):
        return x[0] * y[0], x[1] * y[0] + y[1]

    return associative_scan(combine, (a.sigmoid(), b), 0, combine_mode="generic")
