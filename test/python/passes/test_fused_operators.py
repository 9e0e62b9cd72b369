"""ATen calls that become one ONNX operator if ONNX Runtime gives eager's numbers and is not slower:
several sizes, padding, rows that are masked entirely, sizes of 1, empty tensors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import onnx
import onnx_native
import pytest
import torch
from models import routes
from onnxruntime.tools.symbolic_shape_infer import SymbolicShapeInference
from torch.nn import functional as F

LOWEST = torch.finfo(torch.float32).min
SIZES = ((1, 6, 6), (2, 3, 7), (3, 5, 2))  # batch, queries, keys
OPSETS = (18, 20, 23, 24, 26)
Function = Callable[..., torch.Tensor]


def counts(model: onnx.ModelProto) -> Counter[str]:
    return Counter(node.op_type for node in model.graph.node)


def tensors(
    batch: int, rows: int, columns: int, heads: int = 4, key_heads: int = 4, width: int = 8
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    torch.manual_seed(batch + rows)
    return (
        torch.randn(batch, heads, rows, width),
        torch.randn(batch, key_heads, columns, width),
        torch.randn(batch, key_heads, columns, width - 2),
    )


def padding(side: str, batch: int, rows: int, columns: int) -> torch.Tensor:
    """True for tokens; each sequence is shorter than the last, and of the last nothing is left."""
    lengths = torch.arange(batch, 0, -1) * columns // batch
    lengths[-1] = 0
    positions = torch.arange(columns)
    seen = (
        positions < lengths[:, None] if side == "right" else positions >= columns - lengths[:, None]
    )
    return seen[:, None, None, :].expand(batch, 1, rows, columns).clone()


def as_float(mask: torch.Tensor, masked: float) -> torch.Tensor:
    return torch.zeros(mask.shape).masked_fill(~mask, masked)


MASKS: dict[str, Callable[[int, int, int], torch.Tensor]] = {
    "right": lambda *s: padding("right", *s),
    "left": lambda *s: padding("left", *s),
    "of_keys": lambda *s: padding("left", *s)[:, :, :1],
    "heads": lambda b, r, c: torch.rand(b, 4, r, c) > 0.5,
    "infinity": lambda *s: as_float(padding("right", *s), -torch.inf),
    "lowest": lambda *s: as_float(padding("right", *s), LOWEST),
    "bias": lambda b, r, c: torch.randn(b, 4, r, c),
}
DYNAMIC = [{0: "batch", 2: "rows"}, {0: "batch", 2: "columns"}, {0: "batch", 2: "columns"}]


def mask_axes(example: torch.Tensor) -> dict[int, str]:
    return {0: "batch", 3: "columns"} | ({2: "rows"} if example.shape[2] > 1 else {})


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize("name", MASKS)
def test_masks(name: str, opset: int) -> None:
    sets = [(*tensors(*s), MASKS[name](*s)) for s in ((2, 3, 7), *SIZES)]
    dynamic = [*DYNAMIC, mask_axes(sets[0][3])]
    model = routes.check(
        lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m),
        sets[0],
        "native",
        *sets[1:],
        dynamic=dynamic,
        opset=opset,
    )
    assert ("Attention" in counts(model)) == (opset in (23, 24))


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64])
def test_dtypes(dtype: torch.dtype, opset: int) -> None:
    """The kernel is slower in float16, and has no other dtypes."""
    q, k, v = (x.to(dtype) for x in tensors(2, 3, 7))
    mask = as_float(padding("left", 2, 3, 7), -torch.inf).to(dtype)
    model = routes.check(
        lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m), (q, k, v, mask), "native",
        opset=opset,
    )  # fmt: skip
    assert ("Attention" in counts(model)) == (opset in (23, 24) and dtype is torch.float32)


CALLS: dict[str, Function] = {
    "plain": F.scaled_dot_product_attention,
    "scale": lambda q, k, v: F.scaled_dot_product_attention(q, k, v, scale=0.3),
    "negative_scale": lambda q, k, v: F.scaled_dot_product_attention(q, k, v, scale=-0.3),
    "zero_scale": lambda q, k, v: F.scaled_dot_product_attention(q, k, v, scale=0.0),
    "causal": lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
    "three_axes": lambda q, k, v: F.scaled_dot_product_attention(q[:, 0], k[:, 0], v[:, 0]),
    "three_axes_masked": lambda q, k, v: F.scaled_dot_product_attention(
        q[:, 0], k[:, 0], v[:, 0], k[:, 0, :, 0].unsqueeze(1) > 0
    ),
    "one_mask": lambda q, k, v: F.scaled_dot_product_attention(q, k, v, k[0, 0, None, :, 0] > 0),
}


@pytest.mark.parametrize("opset", [20, 23, 24])
@pytest.mark.parametrize("name", CALLS)
def test_calls(name: str, opset: int) -> None:
    """Queries are fewer, as many and more than keys."""
    sets = [tensors(*s) for s in ((2, 3, 7), (1, 1, 1), *SIZES)]
    model = routes.check(
        CALLS[name], sets[0], "native", *sets[1:], dynamic=DYNAMIC, opset=opset
    )  # fmt: skip
    assert counts(model)["Attention"] == (opset >= 23)


def repeated(x: torch.Tensor, times: int) -> torch.Tensor:
    """As transformers repeats key heads."""
    batch, heads, length, width = x.shape
    x = x[:, :, None].expand(batch, heads, times, length, width)
    return x.reshape(batch, heads * times, length, width)


GROUPED: dict[str, Function] = {
    "by_the_call": lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m, enable_gqa=True),
    "by_repetition": lambda q, k, v, m: F.scaled_dot_product_attention(
        q, repeated(k, 2), repeated(v, 2), m
    ),
    "causal": lambda q, k, v, m: F.scaled_dot_product_attention(
        q, k, v, is_causal=True, enable_gqa=True
    ),
}


@pytest.mark.parametrize("opset", [20, 23, 24])
@pytest.mark.parametrize("name", GROUPED)
def test_grouped_heads(name: str, opset: int) -> None:
    sets = [(*tensors(*s, key_heads=2), padding("left", *s)) for s in ((2, 3, 7), *SIZES)]
    model = routes.check(
        GROUPED[name],
        sets[0],
        "native",
        *sets[1:],
        dynamic=[*DYNAMIC, {0: "batch", 2: "rows", 3: "columns"}],
        opset=opset,
    )
    assert counts(model)["Attention"] == (opset >= 23)
    assert "Expand" not in counts(model)  # of keys


class Cache(torch.nn.Module):
    """A decoder's step: the new keys and values join those of the past."""

    def forward(
        self,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        past_k: torch.Tensor,
        past_v: torch.Tensor,
        mask: torch.Tensor,
    ) -> tuple[torch.Tensor, ...]:
        keys, values = torch.cat((past_k, k), 2), torch.cat((past_v, v), 2)
        y = F.scaled_dot_product_attention(q, keys, values, mask, enable_gqa=True)
        return y, keys, values


def step(batch: int, rows: int, past: int, key_heads: int, mask: str) -> tuple[torch.Tensor, ...]:
    q, k, v = tensors(batch, rows, rows, key_heads=key_heads)
    _, past_k, past_v = tensors(batch, rows, past, key_heads=key_heads)
    return q, k, v, past_k, past_v, MASKS[mask](batch, rows, past + rows)


@pytest.mark.parametrize("opset", [20, 23, 24])
@pytest.mark.parametrize("target", ["onnx", "onnxruntime-cpu"])
@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("key_heads", [4, 2])
@pytest.mark.parametrize("mask", ["left", "heads", "infinity"])
def test_caches(mask: str, key_heads: int, rows: int, target: str, opset: int) -> None:
    sizes = ((2, 6), (1, 1), (3, 9))  # batch, past
    sets = [step(batch, rows, past, key_heads, mask) for batch, past in sizes]
    batch, past = torch.export.Dim("batch"), torch.export.Dim("past")
    cached = {0: batch, 2: past}
    dynamic = [{0: batch}] * 3 + [cached, cached, {0: batch, 3: past + rows}]
    with onnx_native.options(target=target):
        model = routes.check(Cache(), sets[0], "native", *sets[1:], dynamic=dynamic, opset=opset)
    assert counts(model)["Attention"] == (opset >= 23)
    if opset >= 23:
        assert "Concat" not in counts(model)


def multi_head(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    def split(x: torch.Tensor) -> torch.Tensor:
        return x.view(x.shape[0], x.shape[1], 4, -1).transpose(1, 2)

    y = F.scaled_dot_product_attention(split(q), split(k), split(v))
    return y.transpose(1, 2).reshape(q.shape[0], q.shape[1], -1)


@pytest.mark.parametrize("opset", [20, 23, 24])
def test_no_transpositions(opset: int) -> None:
    """Heads that are split and joined around the call are the operator's business."""
    sets = [
        (torch.randn(b, r, 32), torch.randn(b, c, 32), torch.randn(b, c, 24))
        for b, r, c in ((2, 3, 7), *SIZES)
    ]
    dynamic = [{0: "b", 1: "r"}, {0: "b", 1: "c"}, {0: "b", 1: "c"}]
    model = routes.check(multi_head, sets[0], "native", *sets[1:], dynamic=dynamic, opset=opset)
    if opset >= 23:
        assert [node.op_type for node in model.graph.node] == ["Attention"]


def packed_heads(x: torch.Tensor) -> torch.Tensor:
    """As timm's vision transformers take one projection apart."""
    q, k, v = x.reshape(*x.shape[:2], 3, 4, 8).permute(2, 0, 3, 1, 4).unbind(0)
    y = F.scaled_dot_product_attention(q, k, v)
    return y.transpose(1, 2).reshape(x.shape[0], x.shape[1], 32)


def packed_norms(x: torch.Tensor) -> torch.Tensor:
    """Values first; the heads of queries and keys are normalized."""
    v, q, k = x.reshape(*x.shape[:2], 3, 4, 8).permute(2, 0, 3, 1, 4).unbind(0)
    q, k = (F.rms_norm(each, [8], torch.linspace(0.5, 2, 8, dtype=x.dtype)) for each in (q, k))
    y = F.scaled_dot_product_attention(q, k, v)
    return y.transpose(1, 2).reshape(x.shape[0], x.shape[1], 32)


@pytest.mark.parametrize("opset", [20, 23, 24])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("function", [packed_heads, packed_norms])
def test_packed_projections(function: Function, dtype: torch.dtype, opset: int) -> None:
    """Query, key and value of one projection are split, not transposed."""
    sets = [(torch.randn(b, r, 96).to(dtype),) for b, r in ((2, 7), (1, 6), (3, 5), (1, 1))]
    model = routes.check(
        function, sets[0], "native", *sets[1:], dynamic=[{0: "b", 1: "r"}], opset=opset
    )  # fmt: skip
    assert counts(model)["Attention"] == (opset >= 23)
    if opset >= 23 and dtype == torch.float32:  # float16 is computed in float32
        assert counts(model)["Split"] == 1
        assert counts(model)["Transpose"] == counts(model)["Gather"] == 0


@pytest.mark.parametrize("opset", [20, 23])
@pytest.mark.parametrize("empty", ["batch", "rows", "columns"])
def test_empty(empty: str, opset: int) -> None:
    sizes = {"batch": 2, "rows": 3, "columns": 4} | {empty: 0}
    routes.check(
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v),
        tensors(*sizes.values()),
        "native",
        opset=opset,
    )


@pytest.mark.parametrize("opset", [20, 23])
def test_keys_and_values_named_apart(opset: int) -> None:
    """As torch.export names the past lengths of a cache."""

    def step(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        mask = (torch.arange(v.shape[2] + 1) % 3 > 0)[None, None, None]
        key, value = torch.cat([k, k[:, :, :1]], 2), torch.cat([v, v[:, :, :1]], 2)
        return F.scaled_dot_product_attention(q, key, value, mask)

    sets = [tensors(b, 1, c) for b, _, c in ((2, 1, 7), *SIZES)]
    dynamic = [{0: "b"}, {0: "b", 2: "keys"}, {0: "b", 2: "values"}]
    model = routes.check(step, sets[0], "trace", *sets[1:], dynamic=dynamic, opset=opset)
    assert counts(model)["Attention"] == (opset >= 23)


@pytest.mark.parametrize("opset", [20, 23])
def test_sizes_from_data(opset: int) -> None:
    """The number of keys depends on data, so that it may be 0."""

    def kept(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        keys = k[k[:, 0] > 0][None, None]
        return F.scaled_dot_product_attention(q, keys, keys)

    q, k = torch.randn(1, 1, 3, 8), torch.randn(5, 8)
    model = routes.check(kept, (q, k), "trace", (q, -k.abs()), opset=opset)
    assert "Attention" not in counts(model)


# Each row has an open key, provably: no row needs to become zeros.
OPEN: dict[str, Function] = {
    "causal": lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
    "tril": lambda q, k, v: F.scaled_dot_product_attention(
        q, k, v, torch.ones(q.shape[2], k.shape[2], dtype=torch.bool).tril()
    ),
    "ranges": lambda q, k, v: F.scaled_dot_product_attention(
        q, k, v, torch.arange(k.shape[2])[None] <= torch.arange(q.shape[2])[:, None]
    ),
    "filled": lambda q, k, v: F.scaled_dot_product_attention(
        q, k, v, torch.zeros(q.shape[2], k.shape[2]).masked_fill(
            torch.arange(k.shape[2])[None] > torch.arange(q.shape[2])[:, None], -torch.inf
        ),
    ),
    "or": lambda q, k, v: F.scaled_dot_product_attention(
        q, k, v, (torch.arange(k.shape[2]) <= torch.arange(q.shape[2])[:, None]) | (q[..., :1] > 0)
    ),
}  # fmt: skip
# A row may be masked entirely.
CLOSED: dict[str, Function] = {
    "and": lambda q, k, v: F.scaled_dot_product_attention(
        q, k, v, (torch.arange(k.shape[2]) <= torch.arange(q.shape[2])[:, None]) & (q[..., :1] > 0)
    ),
    "strict": lambda q, k, v: F.scaled_dot_product_attention(
        q, k, v, torch.arange(k.shape[2]) < torch.arange(q.shape[2])[:, None]
    ),
    "late": lambda q, k, v: F.scaled_dot_product_attention(
        q, k, v, torch.arange(1, k.shape[2] + 1) <= torch.arange(q.shape[2])[:, None]
    ),
    "upper": lambda q, k, v: F.scaled_dot_product_attention(
        q, k, v, torch.ones(q.shape[2], k.shape[2], dtype=torch.bool).triu()
    ),
    "other_side": lambda q, k, v: F.scaled_dot_product_attention(
        q, k, v, torch.arange(k.shape[2]) > torch.arange(q.shape[2])[:, None]
    ),
}


@pytest.mark.parametrize("opset", [18, 20, 23])
@pytest.mark.parametrize("name", [*OPEN, *CLOSED])
def test_rows(name: str, opset: int) -> None:
    sets = [tensors(*s) for s in ((2, 3, 7), *SIZES)]
    function = (OPEN | CLOSED)[name]
    model = routes.check(function, sets[0], "native", *sets[1:], dynamic=DYNAMIC, opset=opset)
    if opset < 23:
        assert counts(model)["ReduceSum"] == (name in CLOSED)


def sees(q: torch.Tensor, k: torch.Tensor, bound: int) -> torch.Tensor:
    """As transformers makes the mask of an encoder: of positions, which are not negative."""
    positions = (torch.arange(q.shape[2]) + 0)[None, None, :, None]
    return (positions >= bound).expand(q.shape[0], -1, q.shape[2], k.shape[2])


NOTHING_MASKED: dict[str, Function] = {
    "compared": lambda q, k, v: F.scaled_dot_product_attention(q, k, v, sees(q, k, 0)),
    "ones": lambda q, k, v: F.scaled_dot_product_attention(
        q, k, v, torch.ones(q.shape[2], k.shape[2], dtype=torch.bool) & sees(q, k, -1)
    ),
}
SOMETHING_MASKED: dict[str, Function] = {
    "compared_with_one": lambda q, k, v: F.scaled_dot_product_attention(q, k, v, sees(q, k, 1)),
    "zeros": lambda q, k, v: F.scaled_dot_product_attention(
        q, k, v, torch.zeros(q.shape[2], k.shape[2], dtype=torch.bool) | sees(q, k, 1)
    ),
}


@pytest.mark.parametrize("opset", [20, 23])
@pytest.mark.parametrize("name", [*NOTHING_MASKED, *SOMETHING_MASKED])
def test_masks_without_effect(name: str, opset: int) -> None:
    sets = [tensors(*s) for s in ((2, 3, 7), *SIZES)]
    function = (NOTHING_MASKED | SOMETHING_MASKED)[name]
    model = routes.check(function, sets[0], "native", *sets[1:], dynamic=DYNAMIC, opset=opset)
    assert ("Range" in counts(model)) == (name in SOMETHING_MASKED)


@pytest.mark.parametrize("opset", [18, 20])
def test_symbolic_shape_inference(opset: int) -> None:
    """ONNX Runtime's quantization tools need it."""
    for name in ("right", "infinity"):
        inputs = (*tensors(2, 3, 7), MASKS[name](2, 3, 7))
        model = routes.export(
            lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m),
            inputs,
            "native",
            [*DYNAMIC, mask_axes(inputs[3])],
            opset,
        )
        inferred = SymbolicShapeInference.infer_shapes(model, auto_merge=True)
        known = {value.name for value in inferred.graph.value_info}
        outputs = {o for node in model.graph.node for o in node.output}
        assert known >= outputs - {value.name for value in model.graph.output}


@pytest.mark.parametrize("opset", [20, 23])
def test_shared_mask(opset: int) -> None:
    """Layers share what is computed from their mask."""

    def layers(q: torch.Tensor, m: torch.Tensor) -> torch.Tensor:
        for _ in range(4):
            q = q + F.scaled_dot_product_attention(q, q, q, m)
        return q

    q = torch.randn(2, 4, 3, 8)
    model = routes.check(layers, (q, padding("left", 2, 3, 3)[:, :, :1]), "native", opset=opset)
    shared = {"ReduceSum": 1, "Sign": 1} if opset == 20 else {"Expand": 1, "Attention": 4}
    assert shared.items() <= counts(model).items()


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64])
def test_rms_norm(dtype: torch.dtype, opset: int) -> None:
    for axes in (1, 2):
        for weight in (torch.randn((5, 8)[-axes:]).to(dtype), None):
            for eps in (None, 1e-6):
                sets = [(torch.randn(n, 5, 8).to(dtype),) for n in (3, 1, 2)]
                model = routes.check(
                    lambda x, w=weight, n=axes, e=eps: F.rms_norm(x, x.shape[-n:], w, e),
                    sets[0],
                    "native",
                    *sets[1:],
                    dynamic=[{0: "n"}],
                    opset=opset,
                )
                one = opset >= 23 and dtype is not torch.float64
                assert counts(model)["RMSNormalization"] == one


@pytest.mark.parametrize("opset", [20, 23])
def test_rms_norm_of_large_and_mixed(opset: int) -> None:
    """The squares exceed float16; a float32 weight."""
    x = (100 * torch.randn(2, 3, 16)).half()
    weight = torch.randn(16)
    for w in (weight, weight.half()):
        routes.check(lambda x, w=w: F.rms_norm(x, (16,), w), (x,), "native", opset=opset)
    for size in ((0, 4), (3, 0)):
        routes.check(
            lambda x: F.rms_norm(x, x.shape[1:]), (torch.ones(size),), "native", opset=opset
        )


@pytest.mark.parametrize("opset", [18, 23])
def test_group_norm_by_channel(opset: int) -> None:
    """As many groups as channels are an InstanceNormalization."""
    weight, bias = torch.randn(4), torch.randn(4)
    model = routes.check(
        lambda x: F.group_norm(x, 4, weight, bias),
        (torch.randn(2, 4, 3, 5),),
        "native",
        opset=opset,
    )
    assert [node.op_type for node in model.graph.node] == ["InstanceNormalization"]


@pytest.mark.parametrize("opset", [18, 23])
def test_group_norm_of_a_large_mean(opset: int) -> None:
    """The function of GroupNormalization would be wrong by 6e-5 here, and by 0.45 at 1000."""
    weight, bias = torch.randn(16), torch.randn(16)
    x = 10 + torch.randn(2, 16, 9, 9)
    routes.check(lambda x: F.group_norm(x, 4, weight, bias), (x,), "native", opset=opset)


@pytest.mark.parametrize("opset", [13, 18, 23])
@pytest.mark.parametrize(
    ("function", "op_type", "since"),
    [(F.hardswish, "HardSwish", 14), (F.mish, "Mish", 18), (F.gelu, "Gelu", 20)],
)
def test_activations(function: Function, op_type: str, since: int, opset: int) -> None:
    model = routes.check(function, (torch.randn(3, 5),), "native", opset=opset)
    if opset >= since:
        assert [node.op_type for node in model.graph.node] == [op_type]


def test_conv_attributes() -> None:
    weight = torch.randn(4, 3, 2, 3)
    model = routes.check(lambda x: F.conv2d(x, weight), (torch.randn(1, 3, 5, 6),), "native")
    (node,) = model.graph.node
    attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    assert attributes == {
        "kernel_shape": [2, 3],
        "strides": [1, 1],
        "pads": [0, 0, 0, 0],
        "dilations": [1, 1],
        "group": 1,
    }
