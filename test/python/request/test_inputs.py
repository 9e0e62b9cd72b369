"""Arguments of every kind: which are inputs of the model, with which names and sizes."""

from __future__ import annotations

import collections
import copy
import dataclasses
import os
import pathlib
import subprocess
import sys
import warnings
from typing import Any, NamedTuple

import onnx
import onnx_native
import pytest
import torch
from models.torchvision_kernels import load_torchvision_kernels
from pages import snippets
from torch.export import Dim

load_torchvision_kernels()  # transformers imports torchvision

import transformers  # noqa: E402

pytestmark = pytest.mark.captures("auto", "torch.export")

ROWS = {0: "rows"}
Signature = list[tuple[str, list[str | int]]]


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


def rows(count: int) -> torch.Tensor:
    return torch.randn(count, 4)


def export(
    module: torch.nn.Module, args: tuple[Any, ...], shapes: Any = None, **kwargs: Any
) -> Any:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=torch.onnx.errors.OnnxExporterWarning)
        program = torch.onnx.export(
            module,
            copy.deepcopy(args),
            kwargs=copy.deepcopy(kwargs),
            dynamo=True,
            dynamic_shapes=shapes,
            verbose=False,
        )
    assert program is not None
    return program


def check(program: Any, module: torch.nn.Module, *examples: tuple[Any, ...], **kwargs: Any) -> None:
    onnx.checker.check_model(program.model_proto, full_check=True)
    for args in examples:
        eager = module(*copy.deepcopy(args), **copy.deepcopy(kwargs))
        leaves = [leaf for leaf in torch.utils._pytree.tree_leaves(eager) if leaf is not None]
        results = program(*copy.deepcopy(args), **copy.deepcopy(kwargs))
        for result, leaf in zip(results, leaves, strict=True):
            of_tensor = isinstance(leaf, torch.Tensor)
            torch.testing.assert_close(result, torch.as_tensor(leaf), check_dtype=of_tensor)


def signature(program: Any) -> Signature:
    return [
        (v.name, [d.dim_param or d.dim_value for d in v.type.tensor_type.shape.dim])
        for v in program.model_proto.graph.input
    ]


def types(program: Any) -> dict[str, int]:
    return {v.name: v.type.tensor_type.elem_type for v in program.model_proto.graph.input}


def sizes(program: Any) -> list[list[str | int]]:
    return [
        [d.dim_param or d.dim_value for d in v.type.tensor_type.shape.dim]
        for v in program.model_proto.graph.output
    ]


class Constants(torch.nn.Module):
    def forward(
        self,
        x: torch.Tensor,
        n: int,
        none: None,
        y: torch.Tensor,
        scale: float = 2.0,
        flag: bool = True,
        mode: str = "a",
    ) -> torch.Tensor:
        return x * n * scale + y if flag and mode == "a" else x


def test_constants_between_tensors() -> None:
    shapes = (ROWS, None, None, {0: "rows"}, None, None, None)
    options: dict[str, Any] = {"scale": 1.5, "flag": True, "mode": "a"}
    program = export(Constants(), (rows(3), 3, None, rows(3)), shapes, **options)
    assert signature(program) == [("x", ["rows", 4]), ("y", ["rows", 4])]
    check(program, Constants(), *((rows(n), 3, None, rows(n)) for n in (3, 5, 1)), **options)


def test_numbers_without_dynamic_shapes_are_constants() -> None:
    program = export(Constants(), (rows(3), 3, None, rows(3), 0.5, True, "a"))
    assert signature(program) == [("x", [3, 4]), ("y", [3, 4])]


class Repeats(torch.nn.Module):
    def forward(self, x: torch.Tensor, n: int) -> Any:
        return x * n, x.new_ones(n), n + 1, x.repeat(n, 1)


@pytest.mark.parametrize("spec", ["n", Dim("n"), Dim.DYNAMIC, Dim.AUTO])
def test_int(spec: Any) -> None:
    program = export(Repeats(), (rows(3), 3), (ROWS, spec))
    assert signature(program) == [("x", ["rows", 4]), ("n", [])]
    assert types(program)["n"] == onnx.TensorProto.INT64
    if not isinstance(spec, (str, Dim)):
        assert isinstance(sizes(program)[1][0], str)
    else:
        assert sizes(program) == [["rows", 4], ["n"], [], ["n*rows", 4]]
    check(program, Repeats(), (rows(3), 3), (rows(5), 7), (rows(2), 2))


class Scaled(torch.nn.Module):
    def forward(self, x: torch.Tensor, more: dict[str, Any], scale: float) -> Any:
        y = x * scale + torch.full((4,), scale)
        return y / more["by"], scale * 2, torch.where(x > scale, x, scale), y * more["flag"]


@pytest.mark.parametrize("spec", ["s", Dim.DYNAMIC, Dim.AUTO])
def test_float_and_bool(spec: Any) -> None:
    shapes = (ROWS, {"by": spec, "flag": spec}, spec)
    program = export(Scaled(), (rows(3), {"by": 2.0, "flag": True}, 0.5), shapes)
    assert signature(program) == [
        *(("x", ["rows", 4]), ("more_by", []), ("more_flag", []), ("scale", []))
    ]
    assert list(types(program).values())[1:] == [
        *(onnx.TensorProto.FLOAT, onnx.TensorProto.BOOL, onnx.TensorProto.FLOAT)
    ]
    examples: list[tuple[Any, ...]] = [
        (rows(3), {"by": 2.0, "flag": True}, 0.5),
        (rows(5), {"by": 0.5, "flag": False}, -1.25),
        (rows(2), {"by": -4.0, "flag": True}, 0.0),
    ]
    check(program, Scaled(), *examples)


def test_verified_export_with_float() -> None:
    module = Scaled()
    program = torch.onnx.export(
        module,
        (rows(3), {"by": 2.0, "flag": True}, 0.5),
        dynamo=True,
        dynamic_shapes=(ROWS, {"by": None, "flag": None}, Dim.DYNAMIC),
        verbose=False,
        verify=True,
    )
    assert program is not None
    assert [name for name, _ in signature(program)] == ["x", "scale"]
    assert "forward" not in vars(module)


class Chosen(torch.nn.Module):
    def forward(self, x: torch.Tensor, flag: bool) -> torch.Tensor:
        return torch.cond(flag, lambda x: x + 1, lambda x: x * 2, (x,))


def test_bool_decides() -> None:
    program = export(Chosen(), (rows(3), True), (ROWS, Dim.DYNAMIC))
    assert types(program) == {"x": onnx.TensorProto.FLOAT, "flag": onnx.TensorProto.BOOL}
    check(program, Chosen(), (rows(3), True), (rows(5), False))


class Pair(NamedTuple):
    first: torch.Tensor
    second: torch.Tensor


@dataclasses.dataclass
class Record:
    value: torch.Tensor
    missing: torch.Tensor | None = None


torch.export.register_dataclass(Record, serialized_type_name="test_inputs.Record")


class Nested(torch.nn.Module):
    def forward(
        self,
        tree: dict[str, Any],
        items: list[torch.Tensor],
        one: tuple[torch.Tensor],
        pair: Pair,
        record: Record,
        none: None,
    ) -> Any:
        return (
            {"sum": tree["a"] + tree["inner"]["b"], "items": [items[0] * 2, items[1] - 1]},
            Pair(one[0] * 3, pair.first + pair.second),
            Record(record.value * 4),
            none,
        )


def nested(n: int) -> tuple[Any, ...]:
    tree = {"a": rows(n), "inner": {"b": rows(n)}}
    return tree, [rows(n), rows(n)], (rows(n),), Pair(rows(n), rows(n)), Record(rows(n)), None


def test_nested() -> None:
    tree = {"a": ROWS, "inner": {"b": ROWS}}
    shapes = (tree, [ROWS, ROWS], (ROWS,), Pair(ROWS, ROWS), [ROWS], None)  # type: ignore[arg-type]
    program = export(Nested(), nested(3), shapes)
    names = ["tree_a", "tree_inner_b", "items_0", "items_1", "one_0", "pair_first", "pair_second"]
    assert signature(program) == [(name, ["rows", 4]) for name in (*names, "record_value")]
    assert sizes(program) == [["rows", 4]] * 6
    check(program, Nested(), nested(3), nested(5), nested(1))
    with onnx_native.disabled():
        theirs = export(Nested(), nested(3), shapes)
    assert [name for name, _ in signature(theirs)] == [name for name, _ in signature(program)]


class Optional(torch.nn.Module):
    def forward(
        self, x: torch.Tensor, y: torch.Tensor | None = None, z: torch.Tensor | None = None
    ) -> torch.Tensor:
        return x - (z if y is None else y)


def test_keywords() -> None:
    program = export(Optional(), (rows(3),), {"x": ROWS, "z": {0: "rows"}}, z=rows(3))
    assert signature(program) == [("x", ["rows", 4]), ("z", ["rows", 4])]
    z = rows(3)
    check(program, Optional(), (rows(3),), z=z)
    program = export(Optional(), (rows(3), None, rows(3)), (ROWS, None, ROWS))
    assert signature(program) == [("x", ["rows", 4]), ("z", ["rows", 4])]
    check(program, Optional(), (rows(5), None, rows(5)))


class Ordered(torch.nn.Module):
    def forward(self, named: dict[str, torch.Tensor], *rest: torch.Tensor) -> torch.Tensor:
        return named["q"] - named["p"] * rest[0] + rest[1]


def test_ordered_dict_and_varargs() -> None:
    def example(n: int) -> tuple[Any, ...]:
        return collections.OrderedDict(q=rows(n), p=rows(n)), rows(n), rows(n)

    shapes = (collections.OrderedDict(q=ROWS, p=ROWS), (ROWS, ROWS))
    program = export(Ordered(), example(3), shapes)
    names = ["named_q", "named_p", "rest_0", "rest_1"]
    assert signature(program) == [(name, ["rows", 4]) for name in names]
    check(program, Ordered(), example(3), example(6))


def dynamic_cache(batch: int, length: int) -> transformers.DynamicCache:
    cache = transformers.DynamicCache()
    for layer in range(2):
        cache.update(
            torch.randn(batch, 2, length, 8), torch.randn(batch, 2, length, 8), layer_idx=layer
        )
    return cache


class Cached(torch.nn.Module):
    def forward(self, x: torch.Tensor, past: Any) -> Any:
        keys, values = past.update(x, x + 1, 0)
        past.update(x * 2, x, 1)
        return keys.mean() + values.mean(), past


def test_dynamic_cache() -> None:
    spec = {0: "batch", 2: "past"}

    def example(batch: int, length: int) -> tuple[Any, ...]:
        return torch.randn(batch, 2, 1, 8), dynamic_cache(batch, length)

    program = export(Cached(), example(2, 3), ({0: "batch"}, [spec] * 4))
    assert signature(program)[1:] == [(f"past_{i}", ["batch", 2, "past", 8]) for i in range(4)]
    assert sizes(program)[1:] == [["batch", 2, "past + 1", 8]] * 4
    with onnx_native.disabled():
        theirs = export(Cached(), example(2, 3), ({0: "batch"}, [spec] * 4))
    assert signature(program) == signature(theirs)
    assert sizes(program) == sizes(theirs)
    check_caches(program, Cached(), example(2, 3), example(5, 7))


def check_caches(program: Any, module: torch.nn.Module, *examples: tuple[Any, ...]) -> None:
    """Like `check`, but also compares the caches that eager updates, which are results."""
    check(program, module, *examples)
    assert len(program.model_proto.graph.output) == len(
        torch.utils._pytree.tree_leaves(module(*copy.deepcopy(examples[0])))
    )


CONFIG = transformers.LlamaConfig(
    hidden_size=16,
    num_hidden_layers=2,
    num_attention_heads=2,
    num_key_value_heads=2,
    intermediate_size=16,
    vocab_size=32,
)


def test_static_cache() -> None:
    def example() -> tuple[Any, ...]:
        cache = transformers.StaticCache(config=CONFIG, max_cache_len=8)
        for layer in range(2):
            cache.update(torch.randn(2, 2, 1, 8), torch.randn(2, 2, 1, 8), layer)
        return torch.randn(2, 2, 3, 8), cache

    program = export(Cached(), example())
    with onnx_native.disabled():
        assert signature(program) == signature(export(Cached(), example()))
    check_caches(program, Cached(), example(), example())
    with onnx_native.options(state=True):
        outputs = export(Cached(), example()).state_outputs
    assert outputs == {f"past_{i}": f"past_{i}_out" for i in range(6)}


class CrossAttended(torch.nn.Module):
    def forward(self, x: torch.Tensor, past: Any) -> Any:
        keys, _ = past.self_attention_cache.update(x, x + 1, 0)
        # Sums of that many numbers around 0 would differ by the rounding of the order of additions.
        return keys.mean() + past.cross_attention_cache.layers[0].keys.mean(), past


def test_encoder_decoder_cache() -> None:
    spec, cross = {0: "batch", 2: "past"}, {0: "batch", 2: "encoded"}

    def example(batch: int, past: int, encoded: int) -> tuple[Any, ...]:
        caches = dynamic_cache(batch, past), dynamic_cache(batch, encoded)
        return torch.randn(batch, 2, 1, 8), transformers.EncoderDecoderCache(*caches)

    shapes = ({0: "batch"}, [spec] * 4 + [cross] * 4)
    program = export(CrossAttended(), example(2, 3, 4), shapes)
    lengths = ["past"] * 4 + ["encoded"] * 4
    assert signature(program)[1:] == [
        (f"past_{i}", ["batch", 2, length, 8]) for i, length in enumerate(lengths)
    ]
    check_caches(program, CrossAttended(), example(2, 3, 4), example(5, 2, 9))


def test_decoder_with_cache() -> None:
    model = transformers.LlamaForCausalLM(CONFIG).eval()

    def example(batch: int, length: int, past: int) -> dict[str, Any]:
        return {
            "input_ids": torch.randint(0, 32, (batch, length)),
            "attention_mask": torch.ones(batch, past + length, dtype=torch.int64),
            "past_key_values": dynamic_cache(batch, past),
        }

    shapes = {
        "input_ids": {0: "batch", 1: "length"},
        "attention_mask": {0: "batch", 1: "total"},
        "past_key_values": [{0: "batch", 2: "past"}] * 4,
    }
    program = export(model, (), shapes, **example(2, 3, 4))
    assert signature(program)[2] == ("past_key_values_0", ["batch", 2, "past", 8])
    for batch, length, past in ((2, 3, 4), (3, 1, 6)):
        kwargs = example(batch, length, past)
        with torch.no_grad():
            check(program, model, (), **kwargs)


def test_snippet_of_the_page() -> None:
    (scope,) = snippets.steps("docs/inputs.md")
    assert scope["zeros"].shape == (5,)
    assert scope["y"].shape == (7, 4)
    inputs = [("x", ["batch", 4]), ("count", []), ("scale", []), ("shift", [])]
    assert signature(scope["program"]) == inputs
    assert sizes(scope["program"]) == [["batch", 4], ["count"]]


def test_cache_that_only_the_model_makes() -> None:
    """Runs in a separate process, because the registration of a cache is global."""
    code = """
import transformers, torch, onnx_native
from request.test_inputs import CONFIG, check, export
model = transformers.LlamaForCausalLM(CONFIG).eval()
ids = torch.randint(0, 32, (2, 5))
program = export(model, (), {"input_ids": {0: "batch", 1: "length"}}, input_ids=ids)
assert len(program.model_proto.graph.output) == 5
with torch.no_grad():
    check(program, model, (), input_ids=ids)
    check(program, model, (), input_ids=ids[:1, :3])
"""
    folder = pathlib.Path(__file__).parent
    command = [sys.executable, "-c", f"import conftest\n{code}"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
