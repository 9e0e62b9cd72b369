"""A row of the operators' test table: keys of the op table and samples that reach them.

To add an operator's test, add a line to rows/<family>.py:

    Row("aten::cumsum", opinfo="cumsum"),
    Row("aten::add.Scalar", cases=(Case(lambda x: aten.add.Scalar(x, 2, 3), floats(3, 4)),)),

A row with `opinfo` runs three of its float32 samples (first, middle, last; `pick` chooses others)
and one sample each of int64, bool and float16 if the OpInfo supports them. `cases` are explicit
calls without an OpInfo. One sample runs again with a dynamic first dimension at a second size,
unless `static` gives a reason why this is not possible.
"""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import torch
from torch.utils import _pytree as pytree

Function = Callable[..., Any]

DTYPES = {
    "float32": torch.float32,
    "int64": torch.int64,
    "bool": torch.bool,
    "float16": torch.float16,
}
# The opset from which on all operators are expected to work, and an older one that most support.
OLDEST_OPSET = 18
OLDER_OPSET = 11
# Titles of the rows whose first sample opset 11 cannot express, one per line.
NOT_AT_OPSET_11 = frozenset(
    pathlib.Path(__file__).with_name("not_at_opset_11.txt").read_text().splitlines()
)
# The newest opset that ONNX Runtime runs.
NEWEST_OPSET = 26
# ONNX Runtime has no kernels for random numbers in later opsets.
NEWEST_RANDOM_OPSET = 21
# Relative and absolute tolerance; integers and bools are compared exactly.
TOLERANCES: Mapping[torch.dtype, tuple[float, float]] = {
    torch.float16: (5e-3, 5e-3),
    torch.bfloat16: (2e-2, 2e-2),
    torch.float32: (1e-5, 1e-5),
    torch.float64: (1e-7, 1e-7),
}


class Case:
    """A function of tensors and its inputs."""

    def __init__(self, function: Function, *inputs: torch.Tensor) -> None:
        self.function = function
        self.inputs = inputs

    def grown(self) -> tuple[list[bool], tuple[torch.Tensor, ...]]:
        """Returns which inputs share the first one's leading dimension, and larger inputs.

        The additional elements repeat the first ones, so that indices and domains stay valid.
        Raises ValueError if there is no such dimension or if the function rejects the new size.
        """
        first = self.inputs[0] if self.inputs else torch.tensor(0)
        if first.dim() == 0 or first.shape[0] < 2:
            raise ValueError("no leading dimension of at least 2")
        grows = [
            tensor.dim() == first.dim() and tensor.shape[0] == first.shape[0]
            for tensor in self.inputs
        ]
        inputs = tuple(
            torch.cat([tensor, tensor[:1]]) if grow else tensor
            for tensor, grow in zip(self.inputs, grows, strict=True)
        )
        try:
            self.function(*inputs)
        except Exception as error:
            raise ValueError(f"the operator does not take the new size: {error}") from error
        return grows, inputs


@dataclass(frozen=True)
class Row:
    """Keys are "aten::name.overload", with "@complex" or "@quantized" for other dispatch keys."""

    keys: str | tuple[str, ...]
    opinfo: str = ""
    variant: str = ""
    cases: tuple[Case, ...] = ()
    # Selects float32 samples; other dtypes use the first one that it returns.
    pick: Callable[[list[Any]], list[Any]] | None = None
    dtypes: tuple[str, ...] = tuple(DTYPES)
    # The reason why the first dimension cannot be dynamic.
    static: str = ""
    # The reason why torch.export cannot capture the samples, which the native capture does.
    native_only: str = ""
    # The values are random: only dtype and shape are compared.
    random: bool = False
    tolerance: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    # float16 is compared with eager in float64: on some CPUs, eager rounds every addition.
    wide: bool = False
    # Test ("float32", "int64", "cases", "dynamic" ...) -> why it fails. Strict.
    xfails: Mapping[str, str] = field(default_factory=dict)
    # The lowest opset that can express the first sample, and the newest at which ONNX Runtime
    # runs it.
    opset: int = OLDEST_OPSET
    newest: int = NEWEST_OPSET
    name: str = ""

    @property
    def all_keys(self) -> tuple[str, ...]:
        return (self.keys,) if isinstance(self.keys, str) else self.keys

    @property
    def title(self) -> str:
        """Returns the row's name in test ids."""
        return self.name or self.all_keys[0].removeprefix("aten::")

    @property
    def lowest_opset(self) -> int:
        """Returns the lowest opset at which tests run the first sample."""
        return self.opset if self.title in NOT_AT_OPSET_11 else OLDER_OPSET

    def tests(self) -> list[str]:
        """Returns the names of this row's tests."""
        names = ["cases"] if self.cases else []
        if self.opinfo:
            supported = opinfo(self.opinfo, self.variant).dtypes
            names += [name for name in self.dtypes if name in DTYPES and DTYPES[name] in supported]
        return names if self.static else [*names, "dynamic"]

    def samples(self, test: str) -> list[Case]:
        """Returns the calls of one test; for "dynamic", the candidates."""
        if test == "cases":
            return list(self.cases)
        if test == "dynamic":
            return list(self.cases) or self._of_opinfo(self.tests()[0])
        chosen = self._of_opinfo(test)
        return chosen if test == "float32" else chosen[:1]

    def _of_opinfo(self, dtype: str) -> list[Case]:
        info = opinfo(self.opinfo, self.variant)
        # torch searches the stack for its own test case at each list of samples, and formats the
        # stack at each seed, once per accelerator. This takes longer than creating the samples.
        with (
            mock.patch("traceback.format_stack", return_value=[]),
            mock.patch("torch.testing._internal.common_utils.extract_test_fn", return_value=None),
            mock.patch("torch.testing._internal.opinfo.core.extract_test_fn", return_value=None),
        ):
            torch.manual_seed(0)
            found = list(info.sample_inputs("cpu", DTYPES[dtype], requires_grad=False))
        chosen = self.pick(found) if self.pick else first_middle_last(found)
        return [case_of(info.op, sample) for sample in chosen]


def first_middle_last(samples: Sequence[Any]) -> list[Any]:
    """Returns the first, middle and last sample, without duplicates."""
    return [samples[i] for i in sorted({0, len(samples) // 2, len(samples) - 1})]


def at(*indices: int) -> Callable[[list[Any]], list[Any]]:
    """Returns a function that selects samples by number."""
    return lambda samples: [samples[i] for i in indices]


def case_of(op: Function, sample: Any) -> Case:
    """Returns the sample as a function of its tensors, with all other arguments bound."""
    leaves, spec = pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
    places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]

    def function(*tensors: torch.Tensor) -> Any:
        arguments = list(leaves)
        for place, tensor in zip(places, tensors, strict=True):
            arguments[place] = tensor
        input_, args, kwargs = pytree.tree_unflatten(arguments, spec)
        # The sign of eigenvectors is arbitrary; such samples compute results independent of it.
        return sample.output_process_fn_grad(op(input_, *args, **kwargs))

    return Case(function, *(leaves[i].detach().clone() for i in places))


@functools.cache
def opinfo(name: str, variant: str = "") -> Any:
    """Returns PyTorch's OpInfo of this name."""
    found = _opinfos().get((name, variant))
    if found is None:
        raise LookupError(f"no OpInfo {name!r} with variant {variant!r}")
    return found


@functools.cache
def _opinfos() -> dict[tuple[str, str], Any]:
    from torch.testing._internal import common_methods_invocations  # seconds

    return {(info.name, info.variant_test_name): info for info in common_methods_invocations.op_db}


def floats(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Returns normally distributed numbers, the same at each call."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def integers(
    *shape: int, low: int = -9, high: int = 10, seed: int = 0, dtype: torch.dtype = torch.int64
) -> torch.Tensor:
    """Returns integers from low to high - 1, the same at each call."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(low, high, shape, generator=generator).to(dtype)


def bools(*shape: int, seed: int = 0) -> torch.Tensor:
    """Returns random bools, the same at each call."""
    return integers(*shape, low=0, high=2, seed=seed) != 0
