"""Programs that convert sizes, fail and recover, write through views, and share results."""

# mypy: ignore-errors

from __future__ import annotations

import array
import collections
import contextlib
import copy
import ctypes
import decimal
import fractions
import functools
import gc
import itertools
import json
import logging
import numbers
import operator
import statistics
import struct
import warnings
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import rnn

from adversarial.program import BOTH, Table, example

Tensor = torch.Tensor
PROGRAMS = Table()
program, aside, module = PROGRAMS.program, PROGRAMS.aside, PROGRAMS.module


# Conversions of sizes.


@aside
def fraction_of_a_size(x: Tensor) -> Any:
    return x * float(fractions.Fraction(x.shape[1], 2))


@aside
def decimal_of_a_size(x: Tensor) -> Any:
    return x * float(decimal.Decimal(x.shape[1]))


@aside
def mean_of_sizes(x: Tensor) -> Any:
    return x + statistics.mean([x.shape[0], x.shape[1]])


@aside
def packed_size(x: Tensor) -> Any:
    return x * struct.unpack("<i", struct.pack("<i", x.shape[1]))[0]


@aside
def size_in_an_array(x: Tensor) -> Any:
    return x * array.array("q", [x.shape[1]])[0]


@aside
def size_for_c(x: Tensor) -> Any:
    return x * ctypes.c_int64(x.shape[1]).value


@aside
def size_as_json(x: Tensor) -> Any:
    return x * json.loads(json.dumps({"n": x.shape[1]}))["n"]


@aside
def bit_length_of_a_size(x: Tensor) -> Any:
    return x + x.shape[1].bit_length()


@aside
def index_of_an_object(x: Tensor) -> Any:
    return x + operator.index(x.shape[1])


@aside
def repeated_list(x: Tensor) -> Any:
    return x + len([0] * x.shape[1])


@aside
def repeated_text(x: Tensor) -> Any:
    return x + len("a" * x.shape[1])


@aside
def bytes_of_a_size(x: Tensor) -> Any:
    return x + len(bytes(x.shape[1]))


@aside
def slice_of_a_list(x: Tensor) -> Any:
    return x + sum(list(range(100))[: x.shape[1]])


@aside
def first_of_a_generator(x: Tensor) -> Any:
    return x + sum(itertools.islice(itertools.count(), x.shape[1]))


@aside
def bounded_queue(x: Tensor) -> Any:
    return x + len(collections.deque(range(50), maxlen=x.shape[1]))


@aside
def shifted_size(x: Tensor) -> Any:
    return x + (x.shape[1] << 1) + (1 << x.shape[0])


@aside
def power_with_a_size(x: Tensor) -> Any:
    return x + 2 ** x.shape[1] + x.shape[1] ** 2 + x.shape[1] ** -1


@program
def arithmetic_with_negative_numbers(x: Tensor) -> Any:
    n = x.shape[1]
    return x + (-n // 2) * 1000 + (n % -3) * 100 + (-n % 4) * 10 + (n // -2)


@program
def mixed_comparison(x: Tensor) -> Any:
    return x + 1 if x.shape[1] > 2.5 and x.shape[1] != 2.5 else x - 1


@aside
def integral_size(x: Tensor) -> Any:
    return x + 1 if isinstance(x.shape[1], numbers.Integral) else x - 1


@program
def exact_type_of_a_size(x: Tensor) -> Any:
    return x + 1 if type(x.shape[1]) is int else x - 1


@program
def types_of_other_objects(x: Tensor) -> Any:
    made = type("Made", (list,), {"scale": 2})([type(x)])
    same = isinstance(type(made), type) and type(made).mro()[1] is list
    return x * made.scale if same and made[0] is type(x) and type.__name__ == "type" else x


@functools.singledispatch
def kind_of(_: Any) -> int:
    return 1


@kind_of.register
def _(_: int) -> int:
    return 2


@aside
def dispatched_by_the_type_of_a_size(x: Tensor) -> Any:
    return x * kind_of(x.shape[1])


@aside
def copied_size(x: Tensor) -> Any:
    return x * copy.deepcopy(x.shape[1]) + copy.copy(x.shape[0])


@aside
def array_of_a_size(x: Tensor) -> Any:
    return x + torch.from_numpy(np.arange(x.shape[1])).sum()


@program
def any_size(x: Tensor) -> Any:
    return x * 2 if any(size > 6 for size in x.shape) else x


@aside
def text_in_a_log(x: Tensor) -> Any:
    logging.getLogger("adversarial").debug("the shape is %s", x.shape)
    return x * 2


@aside
def text_in_a_warning(x: Tensor) -> Any:
    if x.shape[1] > 100:
        warnings.warn(f"{x.shape[1]} rows", stacklevel=2)
    return x * 2


# Shapes that are computed.


@program
def broadcast_shapes(x: Tensor) -> Any:
    shape = torch.broadcast_shapes(x.shape, (x.shape[0], 1, 4))
    return torch.ones(shape) * x[:, :1]


@aside
def product_of_a_part_of_a_shape(x: Tensor) -> Any:
    return x.reshape(x.shape[:2].numel(), 4) + 1


@program
def last_rows(x: Tensor) -> Any:
    n = x.shape[1]
    return x[:, -n:], x[:, n // 2 :], x[:, : (n + 1) // 2], x[:, n - 1]


@program
def windows_of_rows(x: Tensor) -> Any:
    return F.pad(x, (0, 0, 1, 1)).unfold(1, 3, 1).sum(-1)


@program
def grids(x: Tensor) -> Any:
    rows, columns = torch.meshgrid(
        torch.arange(x.shape[1]), torch.arange(x.shape[0]), indexing="ij"
    )
    return rows * 10 + columns, torch.eye(x.shape[1]), torch.tril(torch.ones(3, x.shape[1]))


@aside
def indices_of_a_triangle(x: Tensor) -> Any:
    return torch.triu_indices(x.shape[1], x.shape[1])


@aside
def window_of_a_size(x: Tensor) -> Any:
    return x * torch.hann_window(x.shape[1])[None, :, None]


@aside
def steps_between_sizes(x: Tensor) -> Any:
    return x * torch.linspace(0, 1, x.shape[1])[None, :, None]


@program
def padded_to_a_multiple(x: Tensor) -> Any:
    return F.pad(x, (0, 0, 0, -x.shape[1] % 4))


@program
def fewer_rows_than_asked(x: Tensor) -> Any:
    return x[:, :3] * 2, x[:, 2:], x[:, -3:]


# Exceptions that decide.


@aside
def view_or_reshape(x: Tensor) -> Any:
    try:
        return x.transpose(0, 1).view(-1, 4) * 2
    except RuntimeError:
        return x.transpose(0, 1).reshape(-1, 4) * 3


@aside
def product_or_sum(x: Tensor) -> Any:
    try:
        return x @ x[0]
    except RuntimeError:
        return x + 1


@aside
def suppressed_index(x: Tensor) -> Any:
    result = x
    with contextlib.suppress(IndexError):
        result = x[:, 6] + 100
    return result


@aside
def unpacked_shape(x: Tensor) -> Any:
    try:
        _, _ = x.shape
    except ValueError:
        return x * 3
    return x


@aside
def collected_garbage(x: Tensor) -> Any:
    y = x * 2
    gc.collect(1)  # all of it takes seconds in the tests' process
    return y


# Writes through views.


@program
def written_pieces(x: Tensor) -> Any:
    y = x * 1
    for i, piece in enumerate(y.unbind(2)):
        piece.add_(i)
    y[:, ::2].mul_(2)
    return y


@program
def written_halves(x: Tensor) -> Any:
    y = x * 1
    left, right = y.chunk(2, dim=2)
    left.copy_(right.clone() + 1)
    right.zero_()
    return y, left


@program
def written_diagonal(x: Tensor) -> Any:
    y = torch.zeros(x.shape[1], x.shape[1])
    y.diagonal().copy_(x[0, :, 0])
    y.fill_diagonal_(0.0) if x.shape[1] > 100 else None
    return y


@program
def exchanged_rows(x: Tensor) -> Any:
    y = x.clone()
    y[:, 0], y[:, -1] = y[:, -1].clone(), y[:, 0].clone()
    return y


@program
def augmented_assignments(x: Tensor) -> Any:
    y = x.clone()
    z = y
    y += 1
    y[..., 0] *= 2
    y = y - 3
    return y, z


@aside
def written_where(x: Tensor) -> Any:
    y = x.clone()
    y[y < 0] *= -1
    y[..., 1:][y[..., 1:] > 1] = 1
    return y


@program
def scattered(x: Tensor) -> Any:
    index = torch.zeros(x.shape[1], dtype=torch.long)
    y = torch.zeros(x.shape[0], 1, 4)
    y.index_add_(1, index, x)
    return y, torch.zeros_like(x).index_put((index[:1],), x[:1], accumulate=True)


@program
def written_after_it_was_returned(x: Tensor) -> Any:
    results = [x + 1]
    results.append(results[0])
    results[0].mul_(2)
    return results, results[0].view(-1)


@module
class ReturningABuffer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("table", torch.arange(4.0))

    def forward(self, x: Tensor) -> Any:
        return self.table, x + self.table, self.table[1:]


@module(aside=True)
class ReturningAWrittenBuffer(ReturningABuffer):
    def forward(self, x: Tensor) -> Any:
        before = self.table * 1
        self.table.add_(1)
        return self.table, before, x


# Modules and functions that are called in unusual ways.


@module
class ForwardOfAnInstance(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)
        torch.nn.init.constant_(self.layer.weight, 0.5)
        torch.nn.init.constant_(self.layer.bias, 0.1)
        plain = self.layer.forward
        self.layer.forward = lambda x: plain(x) * 2

    def forward(self, x: Tensor) -> Any:
        return self.layer(x) + self.layer.forward(x)


@module
class HookWithKeywords(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = Scaling()
        self.inner.register_forward_pre_hook(
            lambda module, args, kwargs: (args, {"scale": kwargs["scale"] + 1}), with_kwargs=True
        )
        self.inner.register_forward_hook(lambda module, args, result: result - 1)

    def forward(self, x: Tensor) -> Any:
        return self.inner(x, scale=2)


class Scaling(nn.Module):
    def forward(self, x: Tensor, scale: float = 1) -> Any:
        return x * scale


@program
def mutable_default(x: Tensor, seen: list[int] = []) -> Any:  # noqa: B006
    return x + len(seen)


@program
def partial_function(x: Tensor) -> Any:
    double = functools.partial(torch.mul, other=torch.tensor(2.0))
    return functools.reduce(operator.add, map(double, x.unbind(2)))


@program
def modes_of_evaluation(x: Tensor) -> Any:
    with torch.inference_mode():
        y = x * 2
    with torch.set_grad_enabled(True):
        z = y + 1
    return z.detach().requires_grad_(False)


@program
def padded_sequences(x: Tensor) -> Any:
    return rnn.pad_sequence([x[0], x[0, :1], x[0, :1] * 2], batch_first=True, padding_value=-1)


@aside
def sequence_lengths(x: Tensor) -> Any:
    lengths = (x[..., 0] > 0).sum(1).clamp(min=1)
    mask = torch.arange(x.shape[1])[None] < lengths[:, None]
    return x * mask[..., None], lengths.max()


@program
def spectrum(x: Tensor) -> Any:
    return torch.fft.rfft(x, dim=2).abs(), torch.view_as_real(torch.fft.fft(x[..., :2]))


@aside
def spectrum_over_a_size(x: Tensor) -> Any:
    return torch.fft.rfft(x, dim=1).abs()


@aside
def largest_elements(x: Tensor) -> Any:
    values, indices = x.topk(min(3, x.shape[1]), dim=1)
    return values, indices


@program
def types_of_results(x: Tensor) -> Any:
    return (
        x.to(torch.int32) / 2,
        x.long() // 2,
        torch.arange(x.shape[1]) * 0.5,
        x.half() + torch.ones(4),
        (x > 0) + 1,
        x.bool().sum(1),
    )


@aside
def empty_slices(x: Tensor) -> Any:
    return torch.cat([x[:, :0], x, x[:, 100:]], 1), x[:, 1:].sum(1), x[:, :0].sum(1)


def two(batch: int, n: int) -> tuple[Tensor, Tensor]:
    (x,) = example(batch, n)
    return x, x.flip(1)


@program(inputs=two, shapes=((BOTH, BOTH),))
def written_input_and_its_twin(x: Tensor, y: Tensor) -> Any:
    y = y.clone()
    torch.add(x, 1, out=y)
    return y, x


@program(inputs=two, shapes=((BOTH, BOTH),))
def compared_shapes_of_two(x: Tensor, y: Tensor) -> Any:
    return x * y if x.shape == y.shape else x
