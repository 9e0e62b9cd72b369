"""Programs with all kinds of arguments and results."""

from typing import NamedTuple

import torch
from torch import nn

from scenarios.scenario import Registry, floats

SCENARIOS = Registry()
scenario = SCENARIOS

BATCH = ({0: "batch"},)
SOME = (floats(3, 4), floats(5, 4, seed=1), floats(1, 4, seed=2))
PAIRS = tuple((x, x.cos()) for x in SOME)


@scenario(*((x, 1.5) for x in SOME), dynamic=({0: "batch"}, None))
def takes_float(x, alpha):
    return x * alpha


@scenario(*((x, 2) for x in SOME), dynamic=({0: "batch"}, None))
def takes_int(x, i):
    return x[:, i]


@scenario(
    *((x, i) for x, i in zip(SOME, (2, 3, 5), strict=True)),
    dynamic=({0: "batch"}, torch.export.Dim.DYNAMIC),
)
def takes_dynamic_int(x, i):
    return x + i


@scenario(*((x, True) for x in SOME), dynamic=({0: "batch"}, None))
def takes_bool(x, flag: bool = False):
    return x + 1 if flag else x - 1


@scenario(*((x, "sin") for x in SOME), dynamic=({0: "batch"}, None))
def takes_string(x, how: str):
    return x.sin() if how == "sin" else x.cos()


@scenario(*((x, None) for x in SOME), dynamic=({0: "batch"}, None))
def takes_none(x, y=None):
    return x if y is None else x + y


@scenario(*((list(pair),) for pair in PAIRS), dynamic=([{0: "batch"}, {0: "batch"}],))
def takes_list(xs):
    return xs[0] + xs[1]


@scenario(*((pair,) for pair in PAIRS), dynamic=(({0: "batch"}, {0: "batch"}),))
def takes_tuple(xs):
    return sum(xs) * len(xs)


@scenario(
    *((x, {"y": y}) for x, y in PAIRS),
    dynamic={"x": {0: "batch"}, "y": {0: "batch"}},
)
def takes_keyword(x, *, y):
    return x - 2 * y


@scenario(
    *((pair[0], [pair[1], (pair[0], {"k": pair[1]})]) for pair in PAIRS),
    dynamic=({0: "batch"}, [{0: "batch"}, ({0: "batch"}, {"k": {0: "batch"}})]),
)
def takes_nested(x, tree):
    return x + tree[0] * tree[1][0] - tree[1][1]["k"]


@scenario(*PAIRS, dynamic={"tensors": ({0: "batch"}, {0: "batch"})})
def takes_var_args(*tensors):
    return torch.cat(tensors, dim=1)


@scenario(
    *((x, [x, None, x + 1]) for x in SOME),
    dynamic=({0: "batch"}, [{0: "batch"}, None, {0: "batch"}]),
)
def takes_list_with_none(x, xs):
    return sum((y for y in xs if y is not None), x)


class Pair(NamedTuple):
    """A named tuple."""

    first: torch.Tensor
    second: torch.Tensor


@scenario(*SOME, dynamic=BATCH)
def gives_dict(x):
    return {"sum": x.sum(), "list": [x + 1, (x + 2,)]}


@scenario(*SOME, dynamic=BATCH)
def gives_named_tuple(x):
    return Pair(x + 1, x.sum(0))


@scenario(*SOME, dynamic=BATCH)
def gives_input_and_none(x):
    return x, None, x + 1


@scenario(*SOME, dynamic=BATCH)
def gives_same_twice(x):
    y = x.exp()
    return y, y


@scenario(*SOME, dynamic=BATCH)
def gives_sizes(x):
    return x.shape[0] * 2 + 1, x + 1


@scenario(*SOME, dynamic=BATCH)
def gives_constant(x):
    return torch.arange(3), x


@scenario(*PAIRS, dynamic=({0: "batch"}, {0: "batch"}))
def unused_argument(x, unused):
    return x + 1


@scenario(
    *((floats(n, m), floats(m, k)) for n, m, k in ((2, 3, 4), (5, 2, 7), (1, 6, 1))),
    dynamic=({0: "rows", 1: "inner"}, {0: "inner", 1: "columns"}),
)
def three_names(x, y):
    return x @ y


@scenario(
    *((floats(n), floats(2 * n + 1)) for n in (3, 5, 2)),
    dynamic=({0: torch.export.Dim("n")}, {0: 2 * torch.export.Dim("n") + 1}),
)
def derived_dimension(x, y):
    return torch.cat([x, x + 1, y]), y[1:] + torch.cat([x, x])


@scenario(*SOME, dynamic=({0: torch.export.Dim("rows", min=1, max=64)},))
def bounded_dimension(x):
    return x.reshape(2, -1).sum(0) if x.shape[0] > 100 else x.reshape(-1, 2).sum(1)


@scenario(*SOME, dynamic=BATCH)
def shape_as_index(x):
    return x[:, : x.shape[1] - 1], torch.arange(x.shape[0]) + x.size(0)


@scenario(*SOME, dynamic=BATCH)
def created_from_shape(x):
    return torch.zeros(x.shape[0] + 1, 2), torch.ones_like(x), x.new_full((2 * x.shape[0],), 7)


@scenario(
    *((x, torch.tensor([n])) for x, n in zip(SOME, (2, 1, 3), strict=True)),
    dynamic=({0: "batch"}, None),
)
def cropped_by_content(x, n):
    size = n.item()
    torch._check(size >= 0)
    torch._check(size <= x.shape[1])
    return x[:, :size]


@scenario(
    *((x, floats(2, n)) for x, n in zip(SOME, (2, 3, 4), strict=True)),
    dynamic=({0: "batch"}, {1: "size"}),
)
def cropped_by_shape(x, y):
    return x[:, : y.shape[1]]


@scenario(*SOME, dynamic=BATCH)
def non_zero(x):
    return torch.nonzero(x > 0), *torch.nonzero(x < 0, as_tuple=True)


@scenario(*SOME, dynamic=BATCH)
def built_in_tests(x):
    parts = [x] if isinstance(x, torch.Tensor) else list(x)
    return parts[0] + len(parts) if x.ndim == 2 else -x


@scenario(
    *((floats(n, 4), torch.zeros(n, 0)) for n in (3, 5, 1)),
    dynamic=({0: "batch"}, {0: "batch"}),
)
def empty_dimension(x, empty):
    if empty.numel() == 0:
        return torch.cat([empty, x], dim=1)
    return x


@scenario(*SOME, dynamic=BATCH)
def vmapped(x):
    return torch.vmap(lambda a: a * a.sum() - a.max())(x)


@scenario(*((x.to(torch.bfloat16),) for x in SOME[:1]))
def in_bfloat16(x):
    return (x * 2 + x).float()


@scenario(*PAIRS, dynamic=({0: "batch"}, {0: "batch"}))
def complex_parts(x, y):
    return torch.view_as_real(torch.polar(x.abs(), y))


@scenario(*SOME, dynamic=BATCH)
def rolled(x):
    return torch.roll(x, 1, -1), torch.roll(x.relu(), -1, 0)


@scenario(
    *((floats(n, 2, 4, 5), floats(n, 2, m, 5, seed=1)) for n, m in ((2, 1), (3, 2), (1, 4))),
    dynamic=({0: "batch"}, {0: "batch", 2: "new"}),
)
def grown_cache(cache, new):
    keys = torch.cat([cache, new], dim=2)
    return keys, torch.nn.functional.scaled_dot_product_attention(new, keys, keys)


@scenario(*SOME, dynamic=BATCH)
class Submodules(nn.Module):
    """Nested modules; one is used twice, one is in a list."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.others = nn.ModuleList([nn.Linear(4, 4), nn.Sequential(nn.Linear(4, 4), nn.Tanh())])
        self.tied = self.first

    def forward(self, x):
        for layer in self.others:
            x = layer(x)
        return self.tied(self.first(x))
