"""Programs that write in place: slices, masks, out=, buffers, custom operators."""

import onnx_native
import torch
from torch import nn

from scenarios.scenario import Registry, floats

SCENARIOS = Registry()
scenario = SCENARIOS

BATCH = ({0: "batch"},)
SOME = (floats(3, 4), floats(5, 4, seed=1), floats(1, 4, seed=2))


@scenario(
    (torch.ones(4, 4, 10), torch.tensor([[[10.0, 11.0]]]), torch.tensor([1, 2])),
    (torch.ones(4, 4, 10) * 2, torch.tensor([[[1.0, 2.0]]]), torch.tensor([7, 0])),
)
def set_item_of_the_tutorial(x, update, kv_index):
    x = x.clone()
    x[..., kv_index] = update
    return x


@scenario(
    *((floats(n, 4, 10), floats(1, 1, m), torch.arange(m)) for n, m in ((3, 2), (5, 4), (2, 7))),
    dynamic=({0: "batch"}, {2: "count"}, {0: "count"}),
)
def set_item_dynamic(x, update, kv_index):
    x = x.clone()
    x[..., kv_index] = update
    return x


@scenario(*SOME, dynamic=BATCH)
def set_item_exp(x):
    y = x.clone()
    y[:, :2] = torch.exp(y[:, :2])
    return y


@scenario(*SOME, dynamic=BATCH)
def set_item_square_and_add(x):
    y = x.clone()
    y[:, 1] = y[:, 1] ** 2
    y[:, 1:3] += 3
    return y, y + 1


@scenario(*SOME, dynamic=BATCH)
def set_item_mask(x):
    y = x.clone()
    y[y > 0] = -1.0
    return y


@scenario(*SOME, dynamic=BATCH)
def set_item_last_row(x):
    y = x.clone()
    y[-1] = 0
    y[..., -1] = x[..., 0]
    return y


@scenario(*SOME, dynamic=BATCH)
def add_in_place_then_use(x):
    y = x * 2
    z = y.view(-1)
    z.add_(1)
    y.mul_(y)
    return y, z


@scenario(*SOME, dynamic=BATCH)
def clone_then_add(x):
    y = x.clone()
    y += 1
    return y - x


@scenario(*SOME, dynamic=BATCH)
def out_argument(x):
    y = torch.empty_like(x)
    torch.add(x, 1, out=y)
    z = torch.empty_like(x[:, 0])
    torch.sum(x, dim=1, out=z)
    return y, z


@scenario(*SOME, dynamic=BATCH)
def out_into_slice(x):
    y = torch.zeros(x.shape[0], 8)
    torch.sin(x, out=y[:, :4])
    y[:, 4:].copy_(x)
    return y


@scenario(*SOME, dynamic=BATCH)
def fill_and_copy(x):
    y = torch.empty(x.shape[0], 4)
    y.fill_(2)
    y[:, 2:].copy_(x[:, :2])
    y.transpose(0, 1)[0] = 9
    return y


@scenario(*SOME, dynamic=BATCH)
def diagonal_write(x):
    y = x[:, None] * x[..., None]
    y.diagonal(dim1=1, dim2=2).mul_(10)
    return y


@scenario(*SOME, dynamic=BATCH)
class BufferedConstant(nn.Module):
    """A buffer that is read, and a new constant."""

    def __init__(self):
        super().__init__()
        self.register_buffer("scale", torch.arange(4.0))

    def forward(self, x):
        new = torch.full((x.shape[0], 1), 3.0)
        new[0] = 1
        return x * self.scale + new


@scenario(*SOME, dynamic=BATCH)
def index_put_accumulates(x):
    y = torch.zeros(4, 4)
    y.index_put_((torch.tensor([0, 2, 0]),), x[:1].expand(3, 4), accumulate=True)
    return y.index_add(0, torch.tensor([1]), x[:1])


@scenario(*SOME, dynamic=BATCH)
def masked_and_scatter(x):
    y = x.clone()
    y.masked_fill_(x < 0, 0.5)
    y.scatter_(1, torch.zeros(x.shape[0], 1, dtype=torch.long), 7.0)
    return y


@torch.library.custom_op("scenarios::increase_", mutates_args=("x",))
def increase_(x: torch.Tensor, by: float) -> None:
    """A custom operator that writes to its argument."""
    x.add_(by)


@torch.library.custom_op("scenarios::doubled", mutates_args=())
def doubled(x: torch.Tensor) -> torch.Tensor:
    """A custom operator."""
    return x * 2


doubled.register_fake(torch.empty_like)


@onnx_native.lowering("scenarios::doubled")
def lower_doubled(b, x):
    """Lowers it to ONNX."""
    return b.op("Mul", x, 2.0)


@onnx_native.lowering("scenarios::increase_")
def lower_increase_(b, x, by):
    """Returns the new value of the argument that it writes to."""
    return b.op("Add", x, by)


@scenario(*SOME, dynamic=BATCH)
def custom_operator(x):
    return doubled(x) + 1


@scenario(*SOME, dynamic=BATCH)
def custom_operator_in_place(x):
    y = x.clone()
    increase_(y, 2.0)
    return y * x


@scenario(*SOME, dynamic=BATCH)
def custom_operator_on_slice(x):
    y = x.clone()
    increase_(y[:, 1:3], 2.0)
    return y
