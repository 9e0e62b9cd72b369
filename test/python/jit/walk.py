"""Walks TorchScript's operators on numbers, strings, lists and dicts with samples of arguments.

    PYTHONPATH=build/python:test/python python -m jit.walk [part of a schema ...]

Each operator that PyTorch registers for TorchScript only runs on several samples. The numbers of
a sample are constants, sizes or elements of an input. A sample returns the operator's results and
the containers that the operator changes. The model must return the same as the script, or the
export must refuse the program.
"""

from __future__ import annotations

import collections
import dataclasses
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import onnx_native
import torch

from jit.samples import NoSampleError, Type, Writer, parse, values_of

SOURCES = ("constants", "sizes", "data")
# PyTorch ends the process where these divide by 0.
DIVISIONS = (
    *("aten::remainder", "aten::floordiv", "aten::divmod"),
    *("aten::__range_length", "aten::__round_to_zero_floordiv"),
)
# Operators of the compiler, which trust their arguments, and those that change the process.
NOT_CALLED = ("prim::ReductionSizes", "prim::AddStatValue", "aten::save", "aten::set_grad_enabled")
X = torch.tensor([[0.0], [1.0], [2.0], [3.0], [4.0]])


def operators() -> list[Any]:
    """Returns the schemas that only TorchScript has."""
    return [
        schema
        for schema in torch._C._jit_get_all_schemas()
        if schema.name.startswith(("aten::", "prim::"))
        and schema.name not in NOT_CALLED
        and not torch._C._dispatch_has_kernel(key_of(schema))
    ]


def key_of(schema: Any) -> str:
    overload = schema.overload_name
    return schema.name + ("." + overload if overload else "")


@dataclasses.dataclass
class Sample:
    """A function that calls an operator, and what it returns for X."""

    function: Any
    expected: list[Any]


def samples(schema: Any, source: str, count: int) -> Iterator[Sample]:
    """Yields samples for which the script itself succeeds."""
    seen = set()
    for n in range(count):
        try:
            text, kinds = call(schema, source, n)
        except NoSampleError:
            continue
        if text in seen:
            continue
        seen.add(text)
        try:
            results = function(text, list(kinds.items()))(X)
        except Exception:
            continue
        results = results if len(kinds) > 1 else (results,)
        writer = Writer(source, "e")
        expected: list[Any] = []
        outputs: list[tuple[str, Type]] = []
        try:
            for (name, kind), value in zip(list(kinds.items()), results, strict=True):
                encode(writer, name, kind, value, outputs, expected)
        except NoSampleError:
            continue
        if expected:
            yield Sample(function("\n".join([text, *writer.lines]), outputs), expected)


def call(schema: Any, source: str, n: int) -> tuple[str, dict[str, Type]]:
    """Returns the text of a call, and the names and types of what it changes and returns."""
    writer = Writer(source)
    stands_for = ("int", "Tensor", "str", "List[int]")[n % 4]
    names = []
    changed: dict[str, Type] = {}
    for position, argument in enumerate(schema.arguments):
        kind = parse(argument.type.annotation_str, stands_for)
        if schema.name in DIVISIONS and values_of(kind, n + position) == 0:
            raise NoSampleError
        name = writer.value(kind, n + position)
        names.append(name)
        if argument.alias_info is not None and argument.alias_info.is_write:
            changed[name] = kind
    returns = [parse(value.type.annotation_str, stands_for) for value in schema.returns]
    results = [f"%r{i}" for i in range(len(returns))]
    typed = ", ".join(f"{name} : {kind.text}" for name, kind in zip(results, returns, strict=True))
    equals = " = " if typed else ""
    writer.lines.append(f"{typed}{equals}{schema.name}({', '.join(names)})")
    named = dict(zip(results, returns, strict=True))
    if not named and not changed:
        raise NoSampleError
    return "\n".join(writer.lines), {**named, **changed}


def encode(
    writer: Writer,
    name: str,
    kind: Type,
    value: Any,
    outputs: list[tuple[str, Type]],
    expected: list[Any],
) -> None:
    """Adds what a model can return of a value: a string becomes whether it is the right one."""
    boolean = Type("bool")
    if kind.name == "str" or (kind.name == "List" and kind.of[0].name == "str"):
        same = writer.call("bool", "aten::eq", name, writer.literal(kind, value))
        outputs.append((same, boolean))
        expected.append(True)
    elif kind.name == "Optional" and value is not None and kind.has("str"):
        raise NoSampleError
    elif kind.name == "Dict":
        for part, elements, inner in (
            ("keys", value.keys(), kind.of[0]),
            ("values", value.values(), kind.of[1]),
        ):
            listed = Type("List", (inner,))
            name_of_part = writer.call(listed.text, f"aten::{part}", name)
            encode(writer, name_of_part, listed, list(elements), outputs, expected)
    elif kind.name == "Tuple" and kind.has("str"):
        parts = [f"{name}_{i}" for i in range(len(kind.of))]
        typed = [f"{part} : {inner.text}" for part, inner in zip(parts, kind.of, strict=True)]
        writer.lines.append(f"{', '.join(typed)} = prim::TupleUnpack({name})")
        for part, inner, element in zip(parts, kind.of, value, strict=True):
            encode(writer, part, inner, element, outputs, expected)
    elif kind.name == "List" and kind.has("str"):
        for i, element in enumerate(value):
            index = writer.literal(Type("int"), i)
            item = writer.call(kind.of[0].text, "aten::__getitem__", name, index)
            encode(writer, item, kind.of[0], element, outputs, expected)
    elif kind.name not in ("NoneType", "Device"):
        outputs.append((name, kind))
        # PyTorch's optimizer makes an int of the float that a division by 1 returns.
        value = float(value) if kind.name == "float" else value
        expected += [v for v in torch.utils._pytree.tree_leaves(value) if v is not None]


def function(text: str, outputs: list[tuple[str, Type]]) -> Any:
    names = ", ".join(name for name, _ in outputs)
    kinds = ", ".join(kind.text for _, kind in outputs)
    lines = ["graph(%x : Tensor):", *text.splitlines()]
    if len(outputs) > 1:
        lines.append(f"%all : ({kinds}) = prim::TupleConstruct({names})")
        names = "%all"
    graph = torch._C.parse_ir("\n  ".join([*lines, f"return ({names})"]) + "\n")
    return torch._C._create_function_from_graph("forward", graph)


@dataclasses.dataclass
class Outcome:
    """How an export ended: right, refused or wrong."""

    what: str
    why: str = ""


def outcome(sample: Sample, source: str) -> Outcome:
    sizes = {0: "n"} if source == "sizes" else None
    try:
        program = torch.onnx.export(
            sample.function,
            (X,),
            dynamo=True,
            verbose=False,
            dynamic_shapes=None if sizes is None else (sizes,),
        )
    except torch.onnx.OnnxExporterError as error:
        text = str(error)
        is_refusal = "[unsupported" in text or "[invalid program]" in text
        return Outcome("refused" if is_refusal else "wrong", text)
    assert program is not None
    try:
        actual = program(X)
        wanted = [real(torch.as_tensor(value)) for value in sample.expected]
        torch.testing.assert_close(list(actual), wanted, equal_nan=True)
    except Exception as error:
        return Outcome("wrong", f"{type(error).__name__}: {error}")
    return Outcome("right")


def real(tensor: torch.Tensor) -> torch.Tensor:
    """Returns a tensor as models have it: complex numbers are pairs."""
    return torch.view_as_real(tensor) if tensor.is_complex() else tensor


@dataclasses.dataclass
class Walk:
    """The outcomes of all samples.

    Attributes:
        tried: The number of samples by outcome.
        operators: The number of operators with a sample.
        without: Operators without a sample.
        wrong, refused: The key, source, function and reason of these samples.
    """

    tried: collections.Counter[str]
    operators: int
    without: list[str]
    wrong: list[tuple[str, str, str, str]]
    refused: list[tuple[str, str, str, str]]


@torch.no_grad()
def walk(wanted: tuple[str, ...] = (), count: int = 4) -> Walk:
    result = Walk(collections.Counter(), 0, [], [], [])
    for schema in operators():
        if wanted and not any(part in str(schema) for part in wanted):
            continue
        found = False
        texts = set()
        for source in SOURCES:
            for sample in samples(schema, source, count):
                text = str(sample.function.graph)
                if text in texts:
                    continue
                texts.add(text)
                found = True
                ended = outcome(sample, source)
                result.tried[ended.what] += 1
                kept = {"wrong": result.wrong, "refused": result.refused}.get(ended.what)
                if kept is not None:
                    kept.append((key_of(schema), source, text, ended.why))
        result.operators += found
        if not found:
            result.without.append(str(schema))
    return result


def main() -> int:
    warnings.simplefilter("ignore")
    torch.ops.load_library(onnx_native.library_path())
    arguments = sys.argv[1:]
    is_long = "-v" in arguments
    result = walk(tuple(part for part in arguments if part != "-v"))
    for title, kept in (("refused", result.refused), ("wrong", result.wrong)):
        for key, source, text, why in kept:
            print(f"{title}: {key} ({source}): {' '.join(why.split())[:300]}")
            if is_long:
                print(text)
    print("without a sample:", *result.without, sep="\n    ")
    total = sum(result.tried.values())
    print(f"operators {result.operators}, tried {total}, {dict(result.tried)}")
    return bool(result.wrong)


if __name__ == "__main__":
    sys.exit(main())
