"""Writes the kernels that a provider of ONNX Runtime registers, as a C++ table.

    python csrc/onnx/generate_provider_kernels.py cpu
    python csrc/onnx/generate_provider_kernels.py cuda --library libonnxruntime_providers_cuda.so
    python csrc/onnx/generate_provider_kernels.py webgpu \
        --library libonnxruntime_providers_webgpu.so

Each writes csrc/onnx/providers_<name>.inc. The facts are those of ONNX Runtime's own list of
kernels, docs/OperatorKernels.md, which it writes from the same registries: the installed package
says what its providers registered. The repository contains the result, so that the build does not
need ONNX Runtime. A library of a provider lists its kernels where it finds a device;
stand_in_device.py runs a command where it seems to find one.

A row holds an operator, the oldest opset that it is about, and what its kernels ask of the types:
inputs and outputs (bit sets of their places) and the dtypes (a bit set) that they may have.
Several rows of one operator and opset are alternatives. A row without a kernel allows no dtype.
"""

from __future__ import annotations

import argparse
import pathlib
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import onnx.defs
import onnxruntime
import onnxruntime.capi.onnxruntime_pybind11_state as state

FOLDER = pathlib.Path(__file__).parent
OLDEST_OPSET = 9
PROVIDERS = {
    "cpu": "CPUExecutionProvider",
    "cuda": "CUDAExecutionProvider",
    "webgpu": "WebGpuExecutionProvider",
}
DOMAINS = ("", "com.microsoft")
DTYPES = {f"tensor({name.lower()})": number for name, number in onnx.TensorProto.DataType.items()}
PLACES = 32  # bits of a set of places; a variadic input has all from its own on
OPEN = 2**31 - 1  # the last opset of a kernel that is for all newer ones

Asked = tuple[int, int, int]  # bit sets of inputs, outputs and dtypes
Kernel = tuple[Asked, ...]
NONE: Kernel = ((2**PLACES - 1, 2**PLACES - 1, 0),)  # no kernel
ANY: Kernel = ()  # a kernel for all dtypes of the operator
Row = tuple[str, str, int, Kernel]  # domain, operator, oldest opset, kernel


def mask(types: Iterable[str]) -> int:
    """Returns the bit set of the dtypes of tensors; sequences and optionals have none."""
    return sum(1 << DTYPES[each] for each in set(types) if each in DTYPES)


def schemas() -> dict[tuple[str, str], list[Any]]:
    """Returns the schemas of the runtime's operators by domain and name, oldest first."""
    found: dict[tuple[str, str], list[Any]] = defaultdict(list)
    for schema in sorted(state.get_all_operator_schema(), key=lambda each: each.since_version):
        if schema.domain in DOMAINS and not schema.deprecated:
            found[schema.domain, schema.name].append(schema)
    return found


def is_expanded(schema: Any) -> bool:
    """Returns whether the runtime expands an operator that has no kernel."""
    if schema.domain or not onnx.defs.has(schema.name, schema.since_version):
        return False
    known = onnx.defs.get_schema(schema.name, schema.since_version)
    return known.has_function or known.has_context_dependent_function


def is_valid(kernel: Any, since: int) -> bool:
    """Returns whether a kernel is for this version of its operator, as the runtime decides it."""
    first, last = kernel.version_range
    return first == since or (first < since <= last != OPEN)


def allowed(schema: Any) -> dict[str, int]:
    """Returns the dtypes of an operator's type parameters."""
    return {each.type_param_str: mask(each.allowed_type_strs) for each in schema.type_constraints}


def places_of(formals: Any, name: str) -> int:
    """Returns the places of the inputs or outputs that a type constraint is about."""
    variadic = type(formals[0].option).Variadic if formals else None
    return sum(
        (1 << PLACES) - (1 << i) if formal.option == variadic else 1 << i
        for i, formal in enumerate(formals)
        if name in (formal.typeStr, formal.name)
    )


def asked(kernel: Any, schema: Any) -> Kernel:
    """Returns what a kernel asks of types, less what the operator's schema says."""
    result = []
    for name, types in kernel.type_constraints.items():
        places = [places_of(formals, name) for formals in (schema.inputs, schema.outputs)]
        formals = [*schema.inputs, *schema.outputs]
        kind = next((f.typeStr for f in formals if name in (f.typeStr, f.name)), "")
        if any(places) and allowed(schema).get(kind, mask([kind])) & ~mask(types):
            result.append((places[0], places[1], mask(types)))
    return tuple(sorted(result))


def joined(kernels: Iterable[Kernel]) -> list[Kernel]:
    """Joins kernels that differ in the dtypes of one place."""
    left = set(kernels)
    if ANY in left:
        return [ANY]
    while pair := next(
        (
            (a, b, i)
            for a in sorted(left)
            for b in sorted(left)
            if a < b and [each[:2] for each in a] == [each[:2] for each in b]
            for i in [k for k in range(len(a)) if a[k] != b[k]]
            if a[:i] == b[:i] and a[i + 1 :] == b[i + 1 :]
        ),
        None,
    ):
        a, b, i = pair
        left -= {a, b}
        left.add((*a[:i], (*a[i][:2], a[i][2] | b[i][2]), *a[i + 1 :]))
    return sorted(left)


def in_float32(kernels: list[Kernel]) -> list[Kernel]:
    """Returns kernels of the CPU provider, which takes float16 where a kernel takes float32."""
    half, full = 1 << onnx.TensorProto.FLOAT16, 1 << onnx.TensorProto.FLOAT

    def wider(dtypes: int) -> int:
        return dtypes | half if dtypes & full else dtypes

    return joined(tuple((a, b, wider(c)) for a, b, c in kernel) for kernel in kernels)


def expanded(
    kernels: list[Kernel], others: list[Kernel], computed: int, schema: Any
) -> list[Kernel]:
    """Adds the dtypes in which the runtime expands an operator, as it has no kernel of them.

    It looks at the first input only, whose type decides.
    """
    if any(kernel == ANY for kernel in kernels + others) or not is_expanded(schema):
        return kernels
    kind = schema.inputs[0].typeStr
    places = [places_of(formals, kind) for formals in (schema.inputs, schema.outputs)]
    taken = 0
    for kernel in kernels + others:
        for inputs, _, dtypes in kernel:
            taken |= dtypes if inputs & 1 else 0
    left = computed & allowed(schema)[kind] & ~taken
    return joined([*kernels, ((places[0], places[1], left),)]) if left else kernels


def rows(kernels: Iterable[Any], others: list[Any]) -> list[Row]:
    """Returns the rows of a provider's table; operators without a row have no kernel.

    Args:
        kernels: The provider's kernels.
        others: Those of the CPU provider, which takes what another provider leaves. None for the
            table of the CPU provider itself.
    """
    by_operator: dict[tuple[str, str], list[Any]] = defaultdict(list)
    elsewhere: dict[tuple[str, str], list[Any]] = defaultdict(list)
    is_other = bool(others)
    for kernel in kernels:
        by_operator[kernel.domain, kernel.op_name].append(kernel)
    for kernel in others:
        elsewhere[kernel.domain, kernel.op_name].append(kernel)
    # The operators that the runtime expands become arithmetic.
    computed = 0
    for kernel in by_operator["", "Mul"]:
        computed |= mask(kernel.type_constraints["T"])
    result: list[Row] = []
    for key, versions in sorted(schemas().items()):
        since = [schema.since_version for schema in versions]
        last: list[Kernel] = []
        for schema, first, after in zip(versions, since, [*since[1:], OPEN], strict=True):
            if after <= OLDEST_OPSET:
                continue
            here, there = (
                joined(asked(kernel, schema) for kernel in each[key] if is_valid(kernel, first))
                for each in (by_operator, elsewhere)
            )
            found = expanded(here, there, computed, schema)
            found = found if is_other else in_float32(found)
            if found != last:
                result += [(*key, first, kernel) for kernel in found or [NONE]]
            last = found
    return result


def text_of(row: Row) -> str:
    domain, name, since, kernel = row
    places = ", ".join(f"{{{a:#x}, {b:#x}, {c:#x}}}" for a, b, c in kernel)
    return f'{{"{domain + "." if domain else ""}{name}", {since}, {{{places}}}}},'


def kernels_of(provider: str) -> list[Any]:
    return list(state.get_registered_ep_kernel_defs(provider))


def table(name: str, library: str | None = None) -> list[str]:
    """Returns the rows of the table as text."""
    provider = PROVIDERS[name]
    if library is not None:
        onnxruntime.register_execution_provider_library(name, library)
    others = [] if name == "cpu" else kernels_of(PROVIDERS["cpu"])
    return [text_of(row) for row in rows(kernels_of(provider), others)]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name", choices=PROVIDERS)
    parser.add_argument("--library", help="the provider's library, if it is not in the package")
    parser.add_argument("--source", help="what the library is of; else the installed ONNX Runtime")
    given = parser.parse_args()
    source = given.source or f"ONNX Runtime {onnxruntime.__version__}"
    lines = [f"// Generated by generate_provider_kernels.py: kernels of {source}."]
    lines += table(given.name, given.library)
    (FOLDER / f"providers_{given.name}.inc").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
