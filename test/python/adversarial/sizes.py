"""Programs that compute with sizes, decide by them, and count with them."""

# mypy: ignore-errors

from __future__ import annotations

import bisect
import functools
import heapq
import itertools
import math
import operator
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from adversarial.program import Table

Tensor = torch.Tensor
PROGRAMS = Table()
program, aside = PROGRAMS.program, PROGRAMS.aside


# Branches.


@program
def branch_on_a_size(x: Tensor) -> Any:
    return x * 2 if x.shape[1] > 100 else x + 1


@program
def branch_on_two_sizes(x: Tensor) -> Any:
    return x * 2 if x.shape[0] < x.shape[1] else x.transpose(0, 1)


@program
def branch_on_a_range(x: Tensor) -> Any:
    return x * 3 if 1 < x.shape[1] < 50 else x


@aside
def branch_on_an_equal_size(x: Tensor) -> Any:
    return x * 3 if x.shape[1] == 5 else x


@program
def branch_on_an_unequal_size(x: Tensor) -> Any:
    return x * 3 if x.shape[1] == 6 else x + 5


@program
def branch_with_and(x: Tensor) -> Any:
    return x * 3 if (x.shape[1] > 3 and x.shape[0] < 10) or x.shape[0] == 77 else x


@program
def branch_on_size_one(x: Tensor) -> Any:
    return x.squeeze(1) if x.shape[1] == 1 else x.sum(1)


@aside
def branch_on_a_remainder(x: Tensor) -> Any:
    return F.pad(x, (0, 0, 0, 1)) if x.shape[1] % 2 == 1 else x


@program
def branch_on_a_quotient(x: Tensor) -> Any:
    return x * 7 if x.shape[1] // 2 > 2 else x - 1


@program
def branch_on_elements(x: Tensor) -> Any:
    return x * 2 if x.numel() > 1000 else x


@program
def truth_of_a_size(x: Tensor) -> Any:
    return x * 2 if x.shape[1] else x


@program
def bool_of_a_size(x: Tensor) -> Any:
    return x * (2 if bool(x.shape[1] - 3) else 5)


@program
def conditional_expressions(x: Tensor) -> Any:
    width = x.shape[1] if x.shape[1] < 8 else 8
    return x[:, :width], F.pad(x, (0, 0, 0, max(0, 8 - x.shape[1])))


@aside
def size_in_a_tuple(x: Tensor) -> Any:
    return x * 2 if x.shape[1] in (3, 5) else x


@aside
def size_in_a_set(x: Tensor) -> Any:
    return x * 2 if x.shape[1] in {3, 5} else x


@aside
def size_in_a_range(x: Tensor) -> Any:
    return x * 2 if x.shape[1] in range(2, 6) else x


@aside
def match_of_a_size(x: Tensor) -> Any:
    match x.shape[1]:
        case 5:
            return x * 2
        case _:
            return x


@program
def assertion_on_a_size(x: Tensor) -> Any:
    assert x.shape[1] <= 512, "too long"
    return x + 1


@program
def caught_assertion(x: Tensor) -> Any:
    try:
        assert x.shape[1] > 5
    except AssertionError:
        return x * 4
    return x


@program
def comparison_of_shapes(x: Tensor) -> Any:
    y = x * 2
    return x + y if x.shape == y.shape else x


@aside
def comparison_with_a_shape(x: Tensor) -> Any:
    return x * 2 if tuple(x.shape) == (2, 5, 4) else x


@aside
def unequal_shapes(x: Tensor) -> Any:
    return x * 2 if x.shape == (2, 9, 4) else x


# Loops.


@aside
def loop_over_a_size(x: Tensor) -> Any:
    for i in range(x.shape[1]):
        x = x + i
    return x


@program
def loop_over_a_static_size(x: Tensor) -> Any:
    for i in range(x.shape[2]):
        x = x + i
    return x


@program
def loop_by_halves(x: Tensor) -> Any:
    n = x.shape[1]
    while n > 1:
        n = n // 2
        x = x + 1
    return x


@aside
def recursion_by_halves(x: Tensor) -> Any:
    def reduce(y: Tensor) -> Tensor:
        if y.shape[1] <= 2:
            return y.sum(1)
        half = y.shape[1] // 2
        return reduce(y[:, :half]) + reduce(y[:, half:])

    return reduce(x)


@aside
def rows(x: Tensor) -> Any:
    return torch.stack([row * i for i, row in enumerate(x)])


@aside
def rows_of_two(x: Tensor) -> Any:
    return torch.stack([a + b for a, b in zip(x, x * 2, strict=True)])


@aside
def unpacked_rows(x: Tensor) -> Any:
    a, b = x
    return a + b


@aside
def length_of_a_tensor(x: Tensor) -> Any:
    return x * len(x)


@aside
def list_of_a_size(x: Tensor) -> Any:
    return x * len([0] * x.shape[1])


@aside
def pieces(x: Tensor) -> Any:
    return torch.stack([piece.sum() for piece in x.split(1, 1)])


@program
def two_halves(x: Tensor) -> Any:
    half = x.shape[1] // 2
    return x.split([half, x.shape[1] - half], 1)


@program
def chunks_of_a_static_size(x: Tensor) -> Any:
    a, b = x.chunk(2, -1)
    return a * b


@aside
def chunks_of_a_dynamic_size(x: Tensor) -> Any:
    return sum(piece.sum() for piece in x.chunk(2, 1))


@aside
def enumerate_unbind(x: Tensor) -> Any:
    return sum(i * piece for i, piece in enumerate(x.unbind(1)))


@aside
def accumulated_sizes(x: Tensor) -> Any:
    return x * sum(itertools.accumulate(range(x.shape[1])))


# Numbers from sizes.


@aside
def int_of_a_float(x: Tensor) -> Any:
    return x * int(x.shape[1] * 0.3)


@aside
def int_of_a_size(x: Tensor) -> Any:
    return x[:, : int(x.shape[1])]


@aside
def float_of_a_size(x: Tensor) -> Any:
    return x * float(x.shape[1])


@aside
def quotient_of_a_size(x: Tensor) -> Any:
    return x * (x.shape[1] / 3)


@aside
def root_of_a_size(x: Tensor) -> Any:
    return x / math.sqrt(x.shape[1]), x * x.shape[1] ** 0.5


@aside
def logarithm_of_a_size(x: Tensor) -> Any:
    return x * math.log2(x.shape[1])


@aside
def integer_root_of_a_size(x: Tensor) -> Any:
    return x * math.isqrt(x.shape[1])


@aside
def greatest_common_divisor(x: Tensor) -> Any:
    return x * math.gcd(x.shape[1], 10)


@aside
def product_by_math(x: Tensor) -> Any:
    return x.reshape(math.prod(x.shape)) * math.prod(x.shape[:2])


@program
def arithmetic(x: Tensor) -> Any:
    n, b = x.shape[1], x.shape[0]
    return x * (n * 2 - b + n // 2 + n % 3 - (-n) + n**2 + 3 * (n - 1))


@aside
def absolute_size(x: Tensor) -> Any:
    return x * abs(x.shape[1] - 3)


@aside
def divmod_of_a_size(x: Tensor) -> Any:
    q, r = divmod(x.shape[1], 2)
    return x * q + r


@aside
def bits_of_a_size(x: Tensor) -> Any:
    return x * (x.shape[1] & 1), x * (x.shape[1] << 1), x * (x.shape[1] | 1)


@aside
def rounded_size(x: Tensor) -> Any:
    return x * round(x.shape[1] / 2), x * round(x.shape[1], -1)


@program
def ceiling_of_a_size(x: Tensor) -> Any:
    return x * math.ceil(x.shape[1] / 2), x * -(-x.shape[1] // 2)


@program
def negative_floor(x: Tensor) -> Any:
    return x * (-x.shape[1] // 2) + (3 - x.shape[1]) % 4


@aside
def divisor_that_is_a_size(x: Tensor) -> Any:
    return x * (100 // x.shape[1]) + 100 % x.shape[1]


@program
def least_and_greatest(x: Tensor) -> Any:
    return x * max(x.shape[1], 3) + min(x.shape[1], x.shape[0])


@program
def least_and_greatest_of_a_shape(x: Tensor) -> Any:
    return x * max(x.shape) - min(x.shape)


@program
def symbolic_least(x: Tensor) -> Any:
    return x * torch.sym_max(x.shape[1], 3) + torch.sym_min(x.shape[1], 4)


@aside
def symbolic_int(x: Tensor) -> Any:
    return x * torch.sym_int(x.shape[1] / 2)


@program
def sum_of_a_shape(x: Tensor) -> Any:
    return x * sum(x.shape)


@program
def sorted_shape(x: Tensor) -> Any:
    return x * sorted(x.shape)[0] + sorted(x.shape, reverse=True)[1]


@program
def tensors_sorted_by_size(x: Tensor) -> Any:
    y = torch.cat([x, x], 1)
    return [t.sum() for t in sorted([y, x, x[:, :1]], key=lambda t: t.shape[1])]


@program
def bisected_size(x: Tensor) -> Any:
    return x * bisect.bisect([1, 3, 10, 100], x.shape[1])


@program
def heap_of_sizes(x: Tensor) -> Any:
    heap = [x.shape[1], x.shape[0], 3]
    heapq.heapify(heap)
    return x * heapq.heappop(heap)


@aside
def index_of_a_size(x: Tensor) -> Any:
    return x * operator.index(x.shape[1]) + [*range(100)][x.shape[1]]


@aside
def choice_by_a_size(x: Tensor) -> Any:
    return x * [1, 2, 3, 4, 5, 6, 7, 8][x.shape[1] % 4]


# Text, hashes and caches.


@aside
def text_of_a_size(x: Tensor) -> Any:
    return x * len(str(x.shape[1])) + len(repr(x.shape))


@aside
def formatted_size(x: Tensor) -> Any:
    return x * int(f"{x.shape[1]}")


@aside
def size_by_percent(x: Tensor) -> Any:
    return x * int("%d" % x.shape[1]) + float("%f" % x.shape[0])  # noqa: UP031


@aside
def formatted_shape(x: Tensor) -> Any:
    return x * len("{}".format(x.shape))  # noqa: UP032


@aside
def equation_of_a_size(x: Tensor) -> Any:
    return torch.einsum("bnc->" + "bnc"[: x.shape[0]], x)


@aside
def size_as_key(x: Tensor) -> Any:
    return x * {2: 3.0, 5: 4.0}.get(x.shape[1], 5.0)


@aside
def hash_of_a_size(x: Tensor) -> Any:
    return x * (hash(x.shape[1]) % 3)


@aside
def hash_of_a_shape(x: Tensor) -> Any:
    return x * (7 if hash(tuple(x.shape)) == hash((2, 5, 4)) else 3)


@functools.lru_cache
def cached_scale(n: int) -> float:
    return n * 1.5


@aside
def cached_by_a_size(x: Tensor) -> Any:
    return x * cached_scale(x.shape[1])


@aside
def counted_sizes(x: Tensor) -> Any:
    return x * list(x.shape).count(5) + x.shape.index(4)


@aside
def different_sizes(x: Tensor) -> Any:
    return x * len(set(x.shape))


# Sizes as arguments.


@program
def made_of_sizes(x: Tensor) -> Any:
    n = x.shape[1]
    made = torch.arange(n) + torch.ones(n) + torch.zeros([n]) + torch.full((n,), 2.0)
    return x + made[:, None], torch.eye(n), torch.empty(n).fill_(3)


@aside
def evenly_spaced(x: Tensor) -> Any:
    return torch.linspace(0, 1, x.shape[1])


@program
def full_of_a_size(x: Tensor) -> Any:
    return torch.full((3,), x.shape[1]), x.new_full((2,), x.shape[1]), x + x.shape[1]


@aside
def tensor_of_a_size(x: Tensor) -> Any:
    return x * torch.tensor(x.shape[1])


@aside
def tensor_of_a_shape(x: Tensor) -> Any:
    return x * torch.tensor(x.shape).sum(), x * torch.tensor([x.shape[1], 1]).max()


@aside
def tensors_of_a_size(x: Tensor) -> Any:
    return torch.as_tensor(x.shape[1]), x.new_tensor([x.shape[1]]), torch.LongTensor([x.shape[1]])


@aside
def scalar_tensor_of_a_size(x: Tensor) -> Any:
    return torch.scalar_tensor(x.shape[1]) * x


@aside
def uninitialized_of_a_size(x: Tensor) -> Any:
    return torch.Tensor(x.shape[1]).fill_(2) + torch.Tensor(x.size())[0, 0, 0].fill_(1)


@program
def slices(x: Tensor) -> Any:
    n = x.shape[1]
    return x[:, n // 2 :], x[:, : n - 1], x[:, -1], x[:, ::2], x[:, 1:3], x[:, :-1]


@aside
def index_that_is_a_size(x: Tensor) -> Any:
    return x[:, x.shape[1] - 1]


@program
def slices_past_the_end(x: Tensor) -> Any:
    return x[:, :100], x[:, 4:], x[:, -3:], x[-1:, :2]


@program
def narrowed(x: Tensor) -> Any:
    return x.narrow(1, x.shape[1] - 1, 1), x.select(1, x.shape[1] - 1)


@program
def indexed_by_a_range(x: Tensor) -> Any:
    return x[:, torch.arange(x.shape[1])], x.index_select(1, torch.arange(x.shape[1] - 1))


@program
def reshaped(x: Tensor) -> Any:
    b, n, c = x.shape
    return x.view(-1, n * c), x.reshape(b * n, c), x.flatten(1), x.view(b, n, 2, c // 2), x.ravel()


@program
def shape_arithmetic(x: Tensor) -> Any:
    *lead, last = x.shape
    joined = x.shape[:-1] + (2, 2)  # noqa: RUF005
    return x.view(*lead, 2, last // 2), x.reshape(joined), x.expand(3, *x.shape)


@program
def size_objects(x: Tensor) -> Any:
    return (
        torch.zeros(torch.Size([x.shape[1], 1])),
        x.new_zeros(x.size()),
        torch.ones(torch.Size(x.shape)),
        torch.empty(x.shape[1:]).zero_(),
    )


@aside
def elements_of_a_size_object(x: Tensor) -> Any:
    return x * x.shape.numel() + x.shape[1:].numel()


@program
def expanded_and_repeated(x: Tensor) -> Any:
    n = x.shape[1]
    return x[:, :1].expand(-1, n, -1), x.repeat(1, 2, 1), x[:1, :1].repeat(1, n, 1)


@program
def rolled(x: Tensor) -> Any:
    return x.roll(1, 1), x.flip(1), x.roll(x.shape[1] // 2, 1)


@program
def triangles(x: Tensor) -> Any:
    n = x.shape[1]
    y = x @ x.mT
    return y.tril(), torch.ones(n, n).triu(1), y.masked_fill(torch.ones(n, n).tril() == 0, -1e9)


@program
def diagonal_by_a_size(x: Tensor) -> Any:
    return torch.ones(8, 8).tril(x.shape[1] - 5)


@aside
def one_hot_of_a_size(x: Tensor) -> Any:
    return F.one_hot(torch.arange(x.shape[1]), x.shape[1])


@program
def interpolated(x: Tensor) -> Any:
    y = x.transpose(1, 2)
    return F.interpolate(y, size=x.shape[1] * 2), F.interpolate(y, scale_factor=2.0)


@program
def pooled(x: Tensor) -> Any:
    y = x.transpose(1, 2)
    return F.adaptive_avg_pool1d(y, 1), F.avg_pool1d(y, 3, padding=1), F.max_pool1d(y, 1)


@aside
def pooled_by_a_size(x: Tensor) -> Any:
    return F.avg_pool1d(x.transpose(1, 2), x.shape[1])


@aside
def normalized_over_a_size(x: Tensor) -> Any:
    return F.layer_norm(x, x.shape[1:])


@program
def largest_of_a_size(x: Tensor) -> Any:
    return x.topk(x.shape[1], 1)[0], x.topk(min(3, x.shape[1]), dim=1).values


@program
def broadcast_with_itself(x: Tensor) -> Any:
    return x + x[:, :1], x + x[:1], x * x.sum(1, keepdim=True), x[:, None] - x[:, :, None]


@program
def squeezed(x: Tensor) -> Any:
    return x.squeeze(1).sum(-1)


@program
def squeezed_everywhere(x: Tensor) -> Any:
    return x.squeeze().sum(-1)


@program
def counted_elements(x: Tensor) -> Any:
    return x * x.numel() + x.nelement() + x.size(1) + x.dim() + x.ndim


@program
def bytes_of_elements(x: Tensor) -> Any:
    return x * x.element_size() + x.itemsize


@aside
def bytes_of_a_tensor(x: Tensor) -> Any:
    return x * x.nbytes


# NumPy.


@aside
def numpy_root(x: Tensor) -> Any:
    return x * float(np.sqrt(x.shape[1]))


@aside
def numpy_int(x: Tensor) -> Any:
    return x * int(np.int64(x.shape[1]))


@aside
def numpy_shape(x: Tensor) -> Any:
    return x * int(np.prod(x.shape)), x * float(np.array(x.shape).mean())


@aside
def numpy_range(x: Tensor) -> Any:
    return x * torch.from_numpy(np.arange(x.shape[1], dtype=np.float32))[:, None]


@program
def numpy_constants(x: Tensor) -> Any:
    table = torch.from_numpy(np.linspace(0, 1, 4).astype(np.float32))
    return x * table + np.float32(2) * x + x * np.float64(3) + np.pi


@program
def size_from_a_closure(x: Tensor) -> Any:
    n = x.shape[1]

    def inner(y: Tensor, *, count: int = n) -> Tensor:
        return y[:, : count - 1] * n

    return functools.partial(inner, count=n)(x), (lambda y: y + n)(x)


@program
def guard_in_a_generator(x: Tensor) -> Any:
    return sum(t.sum() for t in (x, x * 2, x * 3) if t.shape[1] < 50)


@program
def instance_of_int(x: Tensor) -> Any:
    is_int = isinstance(x.shape[1], int) and isinstance(x.shape[1] * 2, int)
    return x * (2 if is_int and isinstance(x.shape[1] > 1, bool) else 3)


@program
def sizes_as_results(x: Tensor) -> Any:
    return x * 2, x.shape[1], x.shape[0] * 3, x.shape[2]
