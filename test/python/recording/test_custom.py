"""Native capture of custom operators: recorded as eager runs them, or left to torch.export."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import onnx_native
import pytest
import torch
from models.calling import Calling
from models.recording import (
    DYNAMIC,
    EXAMPLES,
    Function,
    X,
    assert_equal_to_eager,
    assert_native,
    assert_recorded,
    exported,
    function_id,
    reason_of,
)

NAMESPACE = "onnx_native_recorded"
library = torch.library.Library(NAMESPACE, "FRAGMENT")
ops: Any = torch.ops.onnx_native_recorded
Lowering = Callable[..., Any]
LOWERINGS: dict[str, Lowering] = {}


def define(
    name: str,
    signature: str,
    body: Callable[..., Any],
    fake: Callable[..., Any] | None,
    lowering: Lowering | None,
    key: str = "CPU",
) -> None:
    """Defines an operator; its fake kernel may be missing."""
    library.define(f"{name}{signature}")
    library.impl(name, body, key)
    if fake is not None:
        torch.library.register_fake(f"{NAMESPACE}::{name}", fake, lib=library)
    if lowering is not None:
        LOWERINGS[f"{NAMESPACE}::{name}"] = lowering


@contextmanager
def lowered() -> Iterator[None]:
    for op, function in LOWERINGS.items():
        onnx_native.lowering(op)(function)
    try:
        yield
    finally:
        for op in LOWERINGS:
            onnx_native.remove_lowering(op)


@pytest.fixture(autouse=True)
def _lowered() -> Iterator[None]:
    with lowered():
        yield


def tile(b: Any, x: Any, n: Any) -> Any:
    count = b.op("Reshape", b.constant(n) if isinstance(n, int) else n, [1])
    return b.op("Tile", x, b.op("Concat", count, [1, 1], axis=0))


def positions_fake(x: torch.Tensor) -> torch.Tensor:
    count = torch.library.get_ctx().new_dynamic_size()
    return x.new_empty((count, x.dim()), dtype=torch.int64)


def first_fake(x: torch.Tensor, most: int) -> torch.Tensor:
    count = torch.library.get_ctx().new_dynamic_size(max=most)
    return x.new_empty(count)


def weighted(
    x: torch.Tensor, y: torch.Tensor | None, more: list[torch.Tensor], weight: float = 0.5
) -> tuple[torch.Tensor, torch.Tensor]:
    total = x * weight if y is None else x * weight + y
    return total, torch.cat([x, *more], 1)


def halves_lowering(b: Any, x: Any) -> Any:
    return b.op("Split", x, [2, 2], axis=-1, outputs=2)


def branching_fake(x: torch.Tensor) -> torch.Tensor:
    return x.new_empty(x.shape if x.shape[1] > 4 else x.shape[:2])


define(
    "scaled",
    "(Tensor x, float scale=2.0) -> Tensor",
    lambda x, scale=2.0: x * scale,
    lambda x, scale=2.0: torch.empty_like(x),
    lambda b, x, scale: b.op("Mul", x, scale),
)
define(
    "repeated",
    "(Tensor x, SymInt n) -> Tensor",
    lambda x, n: x.repeat(n, 1, 1),
    lambda x, n: x.new_empty((x.shape[0] * n, *x.shape[1:])),
    tile,
)
define(
    "weighted",
    "(Tensor x, Tensor? y, Tensor[] more, float weight=0.5) -> (Tensor, Tensor)",
    weighted,
    weighted,
    lambda b, x, y, more, weight: (
        b.op("Mul", x, weight) if y is None else b.op("Add", b.op("Mul", x, weight), y),
        b.op("Concat", x, *more, axis=1),
    ),
)
define(
    "halves",
    "(Tensor x) -> Tensor[]",
    lambda x: [half.clone() for half in x.split(2, -1)],
    lambda x: [torch.empty_like(half) for half in x.split(2, -1)],
    halves_lowering,
)
define(
    "positions",
    "(Tensor x) -> Tensor",
    torch.nonzero,
    positions_fake,
    lambda b, x: b.op("Transpose", b.op("NonZero", x)),
)
define(
    "first",
    "(Tensor x, SymInt most) -> Tensor",
    lambda x, most: x[x > 0][:most],
    first_fake,
    lambda b, x, most: b.op("Slice", b.op("Compress", x, b.op("Greater", x, 0)), [0], [most]),
)
define(
    "increase_",
    "(Tensor(a!) x, float by) -> ()",
    lambda x, by: (x.add_(by), None)[1],
    lambda x, by: None,
    lambda b, x, by: b.op("Add", x, by),
)
define(
    "doubled_",
    "(Tensor(a!) x) -> Tensor(a!)",
    lambda x: x.mul_(2),
    lambda x: x,
    lambda b, x: b.op("Mul", x, 2),
)
define(
    "pop",
    "(Tensor(a!) x, Tensor y) -> Tensor",
    lambda x, y: x.sub_(y).sum((0, 1)),
    lambda x, y: x.new_empty(x.shape[2]),
    lambda b, x, y: (
        b.op("ReduceSum", b.op("Sub", x, y), [0, 1], keepdims=0),
        b.op("Sub", x, y),
    ),
)
define(
    "branching",
    "(Tensor x) -> Tensor",
    lambda x: x + 1 if x.shape[1] > 4 else x.sum(2),
    branching_fake,
    lambda b, x: b.op("Add", x, 1),
)
define("meta", "(Tensor x) -> Tensor", lambda x: x + 1, None, lambda b, x: b.op("Add", x, 1))
library.impl("meta", lambda x: torch.empty(x.shape, dtype=x.dtype, device="meta"), "Meta")
define(
    "composed",
    "(Tensor x) -> Tensor",
    lambda x: torch.softmax(x @ x.mT, -1),
    None,
    lambda b, x: b.op("Softmax", b.op("MatMul", x, b.op("Transpose", x, perm=[0, 2, 1])), axis=-1),
    "CompositeExplicitAutograd",
)


# Programs.


def of_scaled(x: torch.Tensor) -> Any:
    return ops.scaled(x, 3.0) + ops.scaled(x.transpose(0, 1)).transpose(0, 1)


def of_a_size(x: torch.Tensor) -> Any:
    return ops.repeated(x, x.shape[1]).sum(0), ops.repeated(x, 2)


def of_several(x: torch.Tensor) -> Any:
    one, two = ops.weighted(x, None, [x, x[:, :1]])
    return one, two.shape[1], two * ops.weighted(x, x, [], weight=0.1)[0].sum()


def of_lists(x: torch.Tensor) -> Any:
    first, second = ops.halves(x + 1)
    return first * second.shape[1], second


def of_data(x: torch.Tensor) -> Any:
    found = ops.positions(x.relu())
    return found, found.shape[0] * 2, x[found[:, 0], found[:, 1], found[:, 2]]


def of_bounded_data(x: torch.Tensor) -> Any:
    return ops.first(x[0, 0], 3).cumsum(0)


def of_writes(x: torch.Tensor) -> Any:
    y = x.clone()
    ops.increase_(y[:, 1:], 2.0)
    z = ops.doubled_(y)
    taken = ops.pop(y, x)
    return y, z + 1, taken


def of_meta(x: torch.Tensor) -> Any:
    return ops.meta(x[:, 1:]).mean(1)


def of_composed(x: torch.Tensor) -> Any:
    return ops.composed(x), ops.composed(x[:, :2])


def of_branching(x: torch.Tensor) -> Any:
    return ops.branching(x).sum(-1)


def in_branches(x: torch.Tensor) -> Any:
    return torch.cond(x.sum() > 0, lambda: ops.scaled(x), lambda: ops.scaled(x, -1.0))


RECORDED: list[Function] = [
    of_scaled,
    of_a_size,
    of_several,
    of_lists,
    of_data,
    of_bounded_data,
    of_writes,
    of_meta,
    of_composed,
    of_branching,
    in_branches,
]


@pytest.mark.parametrize("shapes", [(DYNAMIC,), None], ids=["dynamic", "static"])
@pytest.mark.parametrize("function", RECORDED, ids=function_id)
def test_recorded(function: Function, shapes: Any) -> None:
    assert_recorded(Calling(function), shapes, *(EXAMPLES if shapes else EXAMPLES[:1]))


def test_a_decision_of_a_fake_kernel_is_a_guard() -> None:
    with pytest.warns(torch.onnx.errors.OnnxExporterWarning, match=r"n > 4 \(.*test_custom"):
        exported(Calling(of_branching), (X,), (DYNAMIC,))


# What changes the meaning of a custom operator.


@torch.library.custom_op(f"{NAMESPACE}::product", mutates_args=())
def product(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x @ y


@product.register_fake
def _(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x.new_empty((*x.shape[:-1], y.shape[-1]))


@torch.library.custom_op(f"{NAMESPACE}::half_product", mutates_args=())
def half_product(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x @ y


half_product.register_fake(lambda x, y: x.new_empty((*x.shape[:-1], y.shape[-1])))
torch.library.register_autocast(half_product, "cpu", torch.bfloat16)


@torch.library.custom_op(f"{NAMESPACE}::shifted", mutates_args=())
def shifted(x: torch.Tensor, by: float) -> torch.Tensor:
    return x + by


shifted.register_fake(lambda x, by: torch.empty_like(x))
shifted.register_autograd(lambda ctx, grad: (grad, None))


@shifted.register_vmap
def _(info: Any, in_dims: Any, x: torch.Tensor, by: float) -> Any:
    return shifted(x.movedim(in_dims[0], 0), by * 2), 0  # not what the operator does


LOWERINGS |= {
    f"{NAMESPACE}::product": lambda b, x, y: b.op("MatMul", x, y),
    f"{NAMESPACE}::half_product": lambda b, x, y: b.op("MatMul", x, y),
    f"{NAMESPACE}::shifted": lambda b, x, by: b.op("Add", x, by),
}


def without_autocast(x: torch.Tensor) -> Any:
    with torch.autocast("cpu", dtype=torch.bfloat16), torch.autocast("cpu", enabled=False):
        return product(x, x.mT)


def with_a_rule(x: torch.Tensor) -> Any:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return half_product(x, x.mT), half_product(x, x.mT).float() + 1


def composed_in_autocast(x: torch.Tensor) -> Any:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return ops.composed(x)


def mapped_by_a_rule(x: torch.Tensor) -> Any:
    return torch.vmap(lambda row: shifted(row, 1.0))(x), shifted(x, 1.0)


def with_gradients(x: torch.Tensor) -> Any:
    with torch.enable_grad():
        return shifted(x, 1.0)


@pytest.mark.parametrize("shapes", [(DYNAMIC,), None], ids=["dynamic", "static"])
@pytest.mark.parametrize(
    "function",
    [without_autocast, with_a_rule, composed_in_autocast, mapped_by_a_rule, with_gradients],
    ids=function_id,
)
def test_meanings(function: Function, shapes: Any) -> None:
    module = Calling(function)
    program = exported(module, (X,), shapes)
    assert_native(program)
    for (x,) in EXAMPLES if shapes else EXAMPLES[:1]:
        with torch.no_grad():
            expected = torch.utils._pytree.tree_leaves(module(x))
        for one, other in zip(program(x), expected, strict=True):
            torch.testing.assert_close(one, other, atol=0.05, rtol=0.05)  # bfloat16


# torch.onnx.ops.symbolic.


def of_symbolic(x: torch.Tensor) -> Any:
    made = torch.onnx.ops.symbolic(
        "Softmax", (x,), {"axis": 1}, dtype=x.dtype, shape=x.shape, version=13
    )
    values, indices = torch.onnx.ops.symbolic_multi_out(
        "TopK",
        (x, torch.tensor([2])),
        {"axis": 2},
        dtypes=(x.dtype, torch.int64),
        shapes=((x.shape[0], x.shape[1], 2), (*x.shape[:2], 2)),
        version=11,
    )
    return made + values.sum(2, keepdim=True), indices * made.shape[1], values


def of_symbolic_in_eager(x: torch.Tensor) -> Any:
    values, indices = x.topk(2, 2)
    made = x.softmax(1)
    return made + values.sum(2, keepdim=True), indices * made.shape[1], values


@pytest.mark.parametrize("shapes", [(DYNAMIC,), None], ids=["dynamic", "static"])
def test_symbolic(shapes: Any) -> None:
    program = exported(Calling(of_symbolic), (X,), shapes)
    assert_native(program)
    examples = EXAMPLES if shapes else EXAMPLES[:1]
    assert_equal_to_eager(program, Calling(of_symbolic_in_eager), *examples)


def test_symbolic_in_autocast() -> None:
    def function(x: torch.Tensor) -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return torch.onnx.ops.symbolic("mine::Foo", (x,), dtype=x.dtype, shape=(x.shape[1],))

    program = exported(Calling(function), (X,), (DYNAMIC,))
    assert_native(program)
    (output,) = program.model.graph.outputs
    assert (tuple(output.shape), str(output.dtype)) == (("n",), "FLOAT")


def of_attention(x: torch.Tensor) -> Any:
    query = x.unsqueeze(1)
    return torch.onnx.ops.attention(query, query, query, scale=0.5)[0]


def test_operators_of_onnx() -> None:
    with onnx_native.options(capture="native"):
        program = torch.onnx.export(
            Calling(of_attention),
            (X,),
            dynamo=True,
            dynamic_shapes=(DYNAMIC,),
            opset_version=23,
            verbose=False,
        )
    assert_native(program)
    assert_equal_to_eager(program, Calling(of_attention), *EXAMPLES)


# What the recorder leaves to torch.export.

define(
    "without_fake", "(Tensor x) -> Tensor", lambda x: x + 1, None, lambda b, x: b.op("Add", x, 1)
)
define("aliasing", "(Tensor x) -> Tensor", lambda x: x, lambda x: x, lambda b, x: x)
define(
    "rows",
    "(Tensor(a) x) -> Tensor(a)",
    lambda x: x[:1],
    lambda x: torch.empty_like(x[:1]),
    lambda b, x: b.op("Slice", x, [0], [1]),
)
define("count", "(Tensor x) -> int", lambda x: x.numel(), lambda x: 1, lambda b, x: b.op("Size", x))
define(
    "reading",
    "(Tensor x) -> Tensor",
    lambda x: x * x.shape[0],
    lambda x: x.new_empty(operator.index(x.shape[1]), 4),
    lambda b, x: x,
)
define(
    "failing",
    "(Tensor x) -> Tensor",
    lambda x: x + 1,
    lambda x: torch.empty_like(x).fill_(x.sum().item()).numpy(),
    lambda b, x: x,
)


def in_autocast(x: torch.Tensor) -> Any:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return product(x, x.mT)


def in_autocast_without_fake(x: torch.Tensor) -> Any:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return ops.without_fake(x)


ASIDE: list[tuple[Function, str]] = [
    (in_autocast, "product in a region of torch.autocast"),
    (in_autocast_without_fake, "without_fake in a region of torch.autocast"),
    (lambda x: ops.without_fake(x), "without_fake"),
    (lambda x: ops.aliasing(x), "returns an argument"),
    (lambda x: ops.rows(x), "returns no view of an argument"),
    (lambda x: x * ops.count(x), "a result that is not a tensor"),
    (lambda x: ops.reading(x), "needs the number n"),
    (lambda x: ops.failing(x), ""),
]


@pytest.mark.parametrize(("function", "reason"), ASIDE)
def test_steps_aside(function: Function, reason: str) -> None:
    assert reason in reason_of(Calling(function), (X,), (DYNAMIC,))


@pytest.mark.parametrize(("function", "reason"), ASIDE[:6])
def test_steps_aside_at_static_sizes(function: Function, reason: str) -> None:
    assert reason_of(Calling(function), (X,), None)


def test_torch_export_warns_of_a_region_of_autocast() -> None:
    reason = r"::product is called in a region of torch.autocast \(\w+\.py:\d+\)(.|\n)*register_"
    with pytest.warns(torch.onnx.errors.OnnxExporterWarning, match=reason):
        program = exported(Calling(in_autocast), (X,), (DYNAMIC,))
    assert program.export_report["capture"]["by"] == "torch.export"


@pytest.mark.parametrize("function", [without_autocast, with_a_rule, of_symbolic])
def test_torch_export_does_not_warn_of_autocast(function: Function) -> None:
    with onnx_native.options(capture="torch.export"):
        program = torch.onnx.export(
            Calling(function), (X,), dynamo=True, dynamic_shapes=(DYNAMIC,), verbose=False
        )
    assert program is not None
    assert program.export_report["warnings"] == []
