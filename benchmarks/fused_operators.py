"""Measures single ONNX operators against the separate operators that compute the same.

    python benchmarks/fused_operators.py [--seconds 0.3] [--only Attention]

Prints a Markdown table: microseconds in ONNX Runtime's CPU provider with one thread, the least of
many interleaved runs, with its default optimizations and without. The lowerings and passes emit the
single operator only where this table shows that it is not slower.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import time
from collections.abc import Callable

import numpy as np
import onnx
import onnx.parser
import onnxruntime as ort

Feeds = dict[str, np.ndarray]
TYPES = {"float32": "float", "float16": "float16", "bool": "bool", "int64": "int64"}
LEVELS = (ort.GraphOptimizationLevel.ORT_ENABLE_ALL, ort.GraphOptimizationLevel.ORT_DISABLE_ALL)


@dataclasses.dataclass(frozen=True)
class Case:
    """Two node lists in ONNX text, which compute y from the same inputs and constants."""

    name: str
    size: str
    inputs: Feeds
    constants: Feeds
    separate: str
    fused: str
    opset: int  # of the fused form; the separate one is of 18
    rank: int = 4
    caches: dict[str, str] = dataclasses.field(default_factory=dict)  # a past and its present
    shared: bool = False  # the fused form writes them in place, into buffers of twice the length


def declared(tensors: Feeds) -> str:
    return ", ".join(
        f"{TYPES[str(x.dtype)]}[{','.join(map(str, x.shape))}] {name}"
        for name, x in tensors.items()
    )


def model(case: Case, body: str, opset: int) -> onnx.ModelProto:
    dtype = TYPES[str(next(iter(case.inputs.values())).dtype)]
    axes = ",".join("abcdef"[: case.rank])
    results = [f"{dtype}[{axes}] y"] + [f"{dtype}[g,h,i,j] {name}" for name in case.caches.values()]
    inputs = declared(case.inputs)
    for name in case.caches:  # of any length
        shape = list(map(str, case.inputs[name].shape))
        inputs = inputs.replace(
            f"[{','.join(shape)}] {name}", f"[{','.join([*shape[:2], 'past', *shape[3:]])}] {name}"
        )
    parsed = onnx.parser.parse_model(
        f'<ir_version: 10, opset_import: ["": {opset}, "com.microsoft": 1]>'
        f"g ({inputs}) => ({', '.join(results)}) {{ {body} }}"
    )
    for name, value in case.constants.items():
        parsed.graph.initializer.append(onnx.numpy_helper.from_array(value, name))
    return parsed


def session(case: Case, body: str, opset: int, level: object) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    options.graph_optimization_level = level
    text = model(case, body, opset).SerializeToString()
    return ort.InferenceSession(text, options, providers=["CPUExecutionProvider"])


def run_in_place(case: Case, loaded: ort.InferenceSession) -> Callable[[], np.ndarray]:
    """Runs with the memory of each past as that of its present."""
    binding = loaded.io_binding()
    for name, value in case.inputs.items():
        if name not in case.caches:
            binding.bind_cpu_input(name, value)
            continue
        buffer = ort.OrtValue.ortvalue_from_numpy(np.concatenate([value, 0 * value], axis=2))
        binding.bind_ortvalue_input(name, buffer)
        binding.bind_ortvalue_output(case.caches[name], buffer)
    binding.bind_output("y")

    def run() -> np.ndarray:
        loaded.run_with_iobinding(binding)
        return binding.get_outputs()[-1].numpy()

    return run


def runs(case: Case, level: object) -> list[Callable[[], np.ndarray]]:
    """The separate and the fused form."""
    separate = session(case, case.separate, 18, level)
    fused = session(case, case.fused, case.opset, level)
    if case.shared:
        return [lambda: separate.run(None, case.inputs)[0], run_in_place(case, fused)]
    return [lambda each=each: each.run(None, case.inputs)[0] for each in (separate, fused)]  # type: ignore[misc]


def measure(case: Case, seconds: float) -> list[float]:
    """Microseconds: separate and fused, with default optimizations, then without."""
    result: list[float] = []
    for level in LEVELS:
        both = runs(case, level)
        wanted, got = (run() for run in both)
        tolerance = 1e-4 if wanted.dtype == np.float32 else 1e-2
        np.testing.assert_allclose(got, wanted, atol=tolerance, rtol=tolerance)
        least = [math.inf, math.inf]
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            for i, run in enumerate(both):
                start = time.perf_counter()
                run()
                least[i] = min(least[i], time.perf_counter() - start)
        result += [1e6 * x for x in least]
    return result


RANDOM = np.random.default_rng(0)


def numbers(*shape: int, dtype: type = np.float32) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(dtype)


def single(value: float) -> np.ndarray:
    return np.array(value, np.float32)


def integers(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def attention(size: tuple[int, ...], kind: str, dtype: type, merged: bool) -> Case:
    """From (batch, length, heads * size) projections, the splitting of the heads included."""
    batch, heads, key_heads, rows, columns, width = size
    inputs = {
        "q": numbers(batch, rows, heads * width, dtype=dtype),
        "k": numbers(batch, columns, key_heads * width, dtype=dtype),
        "v": numbers(batch, columns, key_heads * width, dtype=dtype),
    }
    constants = {
        "by_heads": integers(0, 0, heads, width),
        "by_key_heads": integers(0, 0, key_heads, width),
        "joined": integers(0, 0, heads * width),
        "groups": integers(batch, key_heads, heads // key_heads, rows, width),
        "whole": integers(batch, heads, rows, width),
        "two": integers(2),
        "scale": single(width**-0.5),
        "zero": single(0),
        "infinity": single(-math.inf),
        "causal": np.where(np.tri(rows, columns), 0, -math.inf).astype(np.float32),
        "last": integers(-1),
    }
    if kind == "masked":
        inputs["m"] = RANDOM.random((batch, 1, rows, columns)) > 0.2
    half, grouped, masked = dtype is np.float16, heads > key_heads, kind == "masked"
    split = """q1 = Reshape(q, by_heads) k1 = Reshape(k, by_key_heads) v1 = Reshape(v, by_key_heads)
      q2 = Transpose <perm = [0, 2, 1, 3]> (q1) v2 = Transpose <perm = [0, 2, 1, 3]> (v1)"""
    join = "o2 = Transpose <perm = [0, 2, 1, 3]> (o1) y = Reshape(o2, joined)"
    steps = [split, "k2 = Transpose <perm = [0, 2, 3, 1]> (k1)"]
    q, k, v, scores, output = "q2", "k2", "v2", "s1", "w1"
    if half:
        steps += [f"{x}3 = Cast <to = 1> ({x}2)" for x in "qkv"]
        q, k, v = "q3", "k3", "v3"
    steps.append(f"q4 = Mul({q}, scale)")
    q = "q4"
    if grouped:
        steps.append(f"q5 = Reshape(q4, groups) k5 = Unsqueeze({k}, two) v5 = Unsqueeze({v}, two)")
        q, k, v = "q5", "k5", "v5"
    steps.append(f"s1 = MatMul({q}, {k})")
    if masked:
        steps.append("m1 = Where(m, zero, infinity) seen = Cast <to = 1> (m)")
        steps.append("count = ReduceSum(seen, last) open = Cast <to = 9> (count)")
        steps.append("m2 = Unsqueeze(m1, two) s2 = Add(s1, m2)" if grouped else "s2 = Add(s1, m1)")
    elif kind == "causal":
        steps.append("s2 = Add(s1, causal)")
    if kind != "plain":
        scores = "s2"
    steps.append(f"p = Softmax <axis = -1> ({scores}) w1 = MatMul(p, {v})")
    if grouped:
        steps.append("w2 = Reshape(w1, whole)")
        output = "w2"
    if masked:
        steps.append(f"w3 = Where(open, {output}, zero)")
        output = "w3"
    if half:
        steps.append(f"w4 = Cast <to = 10> ({output})")
        output = "w4"
    join_separate = join.replace("o1", output)
    given = ", m" if masked else ""
    is_causal = int(kind == "causal")
    if merged:
        attributes = f"q_num_heads = {heads}, kv_num_heads = {key_heads}, is_causal = {is_causal}"
        fused = f"y = Attention <{attributes}> (q, k, v{given})"
    else:
        key = "k2 = Transpose <perm = [0, 2, 1, 3]> (k1)"
        call = f"o1 = Attention <is_causal = {is_causal}> (q2, k2, v2{given})"
        fused = " ".join((split, key, call, join))
    name = f"Attention, {3 if merged else 4}-D, {kind}, {np.dtype(dtype).name}"
    return Case(
        name,
        "x".join(map(str, size)),
        inputs,
        constants,
        " ".join([*steps, join_separate]),
        fused,
        23,
        3,
    )


def cache_step(size: tuple[int, ...], operator: str, shared: bool = False) -> Case:
    """One query after a past, whose keys and values grow by one: the step of a decoder."""
    batch, heads, key_heads, past, width = size
    inputs = {
        "q": numbers(batch, 1, heads * width),
        "k": numbers(batch, 1, key_heads * width),
        "v": numbers(batch, 1, key_heads * width),
        "past_k": numbers(batch, key_heads, past, width),
        "past_v": numbers(batch, key_heads, past, width),
        "m": np.where(RANDOM.random((batch, 1, 1, past + 1)) > 0.2, 0, -math.inf).astype(
            np.float32
        ),
    }
    constants = {
        "grouped": integers(0, key_heads, heads // key_heads, width),
        "by_key_heads": integers(0, key_heads, 1, width),
        "joined": integers(0, 1, heads * width),
        "scale": single(width**-0.5),
        "last": np.full(batch, past, np.int32),
        "total": np.array(past + 1, np.int32),
    }
    separate = """q1 = Reshape(q, grouped) k1 = Reshape(k, by_key_heads)
      v1 = Reshape(v, by_key_heads)
      all_k = Concat <axis = 2> (past_k, k1) all_v = Concat <axis = 2> (past_v, v1)
      q2 = Mul(q1, scale) k2 = Transpose <perm = [0, 1, 3, 2]> (all_k) s1 = MatMul(q2, k2)
      s2 = Add(s1, m) p = Softmax <axis = -1> (s2) w = MatMul(p, all_v) y = Reshape(w, joined)"""
    if operator == "Attention":
        fused = f"""y, all_k, all_v = Attention <q_num_heads = {heads}, kv_num_heads = {key_heads}>
          (q, k, v, m, past_k, past_v)"""
    else:  # seqlens_k holds the last index of each sequence
        fused = f"""y, all_k, all_v = com.microsoft.GroupQueryAttention
          <num_heads = {heads}, kv_num_heads = {key_heads}>
          (q, k, v, past_k, past_v, last, total, , , , m)"""
    return Case(
        f"{operator}, {'shared' if shared else 'growing'} cache",
        "x".join(map(str, size)),
        inputs,
        constants,
        separate,
        fused,
        23 if operator == "Attention" else 18,
        3,
        {"past_k": "all_k", "past_v": "all_v"},
        shared,
    )


def rms_norm(shape: tuple[int, ...], dtype: type, contrib: bool = False) -> Case:
    """Standard, or ONNX Runtime's contrib operator."""
    operator = "SimplifiedLayerNormalization" if contrib else "RMSNormalization"
    half = dtype is np.float16
    constants = {
        "w": numbers(shape[-1], dtype=dtype),
        "last": integers(-1),
        "epsilon": single(1e-6),
        "two": single(2),
    }
    separate = """s = Pow(x, two) m = ReduceMean(s, last) e = Add(m, epsilon) r = Sqrt(e)
      d = Div(x, r) y = Mul(d, w)"""
    if half:
        wide = separate.replace("(x,", "(x1,").replace("w)", "w1)").replace("y =", "n =")
        separate = f"x1 = Cast <to = 1> (x) w1 = Cast <to = 1> (w) {wide} y = Cast <to = 10> (n)"
    return Case(
        f"{operator}, {np.dtype(dtype).name}",
        "x".join(map(str, shape)),
        {"x": numbers(*shape, dtype=dtype)},
        constants,
        separate,
        f"y = {operator} <axis = -1, epsilon = 1e-6> (x, w)",
        18 if contrib else 23,
        3,
    )


def rotary(
    shape: tuple[int, ...], rotated: int, neighbors: bool, dtype: type, contrib: bool = False
) -> Case:
    """Of (batch, heads, length, size) heads; the tables hold each angle twice, or once.

    The fused operator is standard, or ONNX Runtime's contrib operator.
    """
    batch, heads, length, size = shape
    angles = RANDOM.uniform(0, 6, (batch, length, rotated // 2))
    twice = np.repeat(angles, 2, -1) if neighbors else np.concatenate([angles, angles], -1)
    inputs = {"x": numbers(*shape, dtype=dtype)}
    constants = {
        "cos": np.cos(angles).astype(dtype),
        "sin": np.sin(angles).astype(dtype),
        "cos2": np.cos(twice).astype(dtype)[:, None],
        "sin2": np.sin(twice).astype(dtype)[:, None],
        "zero": integers(0),
        "one": integers(1),
        "two": integers(2),
        "half": integers(rotated // 2),
        "end": integers(rotated),
        "size": integers(size),
        "last": integers(3),
        "pair": integers(4),
        "whole": integers(0, 0, 0, rotated),
        "rows": integers(-1, rotated // 2),
        "ids": np.arange(batch * length).reshape(batch, length),
    }
    steps = "r = Slice(x, zero, end, last) rest = Slice(x, end, size, last) "
    f = "x" if rotated == size else "r"
    if neighbors:
        steps += f"""a = Slice({f}, zero, end, last, two) b = Slice({f}, one, end, last, two)
          n = Neg(b) n1 = Unsqueeze(n, pair) a1 = Unsqueeze(a, pair)
          p = Concat <axis = 4> (n1, a1) t = Reshape(p, whole)"""
    else:
        steps += f"""a = Slice({f}, zero, half, last) b = Slice({f}, half, end, last) n = Neg(b)
          t = Concat <axis = 3> (n, a)"""
    result = "y" if rotated == size else "z"
    steps += f" c = Mul({f}, cos2) s = Mul(t, sin2) {result} = Add(c, s)"
    if rotated != size:
        steps += " y = Concat <axis = 3> (z, rest)"
    else:
        steps = steps.replace("r = Slice(x, zero, end, last) rest = Slice(x, end, size, last) ", "")
    attributes = f"interleaved = {int(neighbors)}"
    if rotated != size:
        attributes += f", rotary_embedding_dim = {rotated}"
    fused = f"y = RotaryEmbedding <{attributes}> (x, cos, sin)"
    if contrib:
        fused = f"""c1 = Reshape(cos, rows) s1 = Reshape(sin, rows)
          y = com.microsoft.RotaryEmbedding <{attributes}, num_heads = {heads}> (x, ids, c1, s1)"""
    form = ("neighbors" if neighbors else "halves") + ("" if rotated == size else f" of {rotated}")
    return Case(
        f"{'com.microsoft.' * contrib}RotaryEmbedding, {form}, {np.dtype(dtype).name}",
        "x".join(map(str, shape)),
        inputs,
        constants,
        steps,
        fused,
        18 if contrib else 23,
    )


def group_norm(shape: tuple[int, ...], groups: int) -> Case:
    channels = shape[1]
    constants = {
        "one": np.ones(groups, np.float32),
        "none": np.zeros(groups, np.float32),
        "by_group": integers(0, groups, -1),
        "whole": integers(*shape),
        "w": numbers(channels),
        "b": numbers(channels),
    }
    constants |= {"w1": constants["w"].reshape(-1, 1, 1), "b1": constants["b"].reshape(-1, 1, 1)}
    return Case(
        "GroupNormalization",
        "x".join(map(str, shape)),
        {"x": numbers(*shape)},
        constants,
        """g = Reshape(x, by_group) n = InstanceNormalization <epsilon = 1e-5> (g, one, none)
        z = Reshape(n, whole) m = Mul(z, w1) y = Add(m, b1)""",
        f"y = GroupNormalization <num_groups = {groups}, epsilon = 1e-5> (x, w, b)",
        21,
    )


def activation(name: str, separate: str, opset: int, shape: tuple[int, ...]) -> Case:
    constants = {
        "half": single(0.5),
        "one": single(1),
        "root": single(0.5**0.5),
        "cubic": single(0.044715),
        "factor": single((2 / math.pi) ** 0.5),
    }
    operator = name.replace(", tanh", ' <approximate = "tanh">')
    return Case(
        name,
        "x".join(map(str, shape)),
        {"x": numbers(*shape)},
        constants,
        separate,
        f"y = {operator} (x)",
        opset,
        3,
    )


ACTIVATIONS = (
    ("Gelu", "h = Mul(x, half) r = Mul(x, root) e = Erf(r) p = Add(e, one) y = Mul(h, p)", 20),
    (
        "Gelu, tanh",
        """h = Mul(x, half) a = Mul(x, x) b = Mul(a, x) c = Mul(b, cubic) d = Add(x, c)
        e = Mul(d, factor) t = Tanh(e) p = Add(t, one) y = Mul(h, p)""",
        20,
    ),
    ("HardSwish", "s = HardSigmoid <alpha = 0.16666667> (x) y = Mul(x, s)", 18),
    ("Mish", "s = Softplus(x) t = Tanh(s) y = Mul(x, t)", 18),
    ("Swish", "s = Sigmoid(x) y = Mul(x, s)", 24),
)


def cases() -> list[Case]:
    result = []
    for merged in (True, False):
        for dtype in (np.float32, np.float16):
            for kind in ("plain", "causal", "masked"):
                for size in ((1, 12, 12, 16, 16, 64), (1, 12, 12, 128, 128, 64)):
                    result.append(attention(size, kind, dtype, merged))
            result.append(attention((1, 32, 8, 1, 1024, 64), "masked", dtype, merged))
    steps = ((1, 8, 2, 1024, 32), (1, 32, 8, 128, 64), (1, 32, 8, 1024, 64), (1, 12, 12, 1024, 64))
    result += [cache_step(size, "Attention") for size in steps]
    for shared in (False, True):
        result += [cache_step(size, "GroupQueryAttention", shared) for size in steps]
    shapes = ((1, 16, 64), (1, 128, 768), (8, 128, 1024))
    for contrib in (False, True):
        for dtype in (np.float32, np.float16):
            result += [rms_norm(shape, dtype, contrib) for shape in shapes]
    for contrib in (False, True):
        for dtype in (np.float32, np.float16):
            for heads in ((1, 32, 1, 64), (1, 12, 128, 64)):
                for rotated, neighbors in ((64, False), (64, True), (32, False)):
                    result.append(rotary(heads, rotated, neighbors, dtype, contrib))
    result += [group_norm((1, 64, 16, 16), 8), group_norm((1, 320, 32, 32), 32)]
    result += [activation(*each, shape) for each in ACTIVATIONS for shape in shapes[:2]]
    return result


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=0.3, help="for each case and level")
    parser.add_argument("--only", default="", help="a part of the operator's name")
    arguments = parser.parse_args()
    print(f"ONNX Runtime {ort.__version__}, one thread, microseconds\n")
    print("| operator | size | separate | fused | ratio | unoptimized: separate | fused | ratio |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for case in cases():
        if arguments.only not in case.name:
            continue
        a, b, c, d = measure(case, arguments.seconds)
        print(
            f"| {case.name} | {case.size} | {a:.0f} | {b:.0f} | {b / a:.2f}"
            f" | {c:.0f} | {d:.0f} | {d / c:.2f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
