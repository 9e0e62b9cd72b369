"""State that a program keeps outside of its module: in globals, classes, functions and objects."""

from __future__ import annotations

import array
import collections
import contextvars
import importlib
import itertools
import os
import pathlib
import random
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import onnx_native
import pytest
import torch
from onnx_native import _undo
from torch import nn

X = torch.ones(2, 3)


class Settings:
    calls = 0
    is_warm = False


class Statistics:
    def __init__(self) -> None:
        self.calls = 0


class ReadsElement(nn.Module):
    """Recorded twice: the second time with symbolic numbers."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * float(self.count()) + int(x.sum().item())


class Branches(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        count = self.count()
        if x.sum() > 0:
            x = x * 2
        return x * count


class Arrays(nn.Module):
    """torch.export has it."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.count() + float(torch.arange(3).numpy().sum())


COUNTS = {"calls": 0}
CALLS: list[int] = []
NESTED = {"of": [Statistics()]}
NAME: str | None = None
ARRAY = np.zeros(1)
STATISTICS = Statistics()
LOCAL = threading.local()
LOCAL.calls = 0
VARIABLE = contextvars.ContextVar("VARIABLE", default=0)


def of_class(self: Any) -> int:
    Settings.calls += 1
    return Settings.calls


def of_flag_of_class(self: Any) -> int:
    was_warm, Settings.is_warm = Settings.is_warm, True
    return 2 if was_warm else 1


def of_own_class(self: Any) -> int:
    first = getattr(type(self), "warm", None) is None
    type(self).warm = "yes"
    return 1 if first else 2


def of_list(self: Any) -> int:
    CALLS.append(1)
    return len(CALLS)


def of_dict(self: Any) -> int:
    COUNTS["calls"] += 1
    return COUNTS["calls"]


def of_nested(self: Any) -> int:
    NESTED["of"][0].calls += 1
    return NESTED["of"][0].calls


def of_text(self: Any) -> int:
    global NAME
    first, NAME = NAME is None, "warm"
    return 1 if first else 2


def of_array(self: Any) -> float:
    ARRAY[0] += 1
    return float(ARRAY[0])


def of_object(self: Any) -> int:
    STATISTICS.calls += 1
    return STATISTICS.calls


def of_thread(self: Any) -> int:
    LOCAL.calls += 1
    return LOCAL.calls


def of_variable(self: Any) -> int:
    VARIABLE.set(VARIABLE.get() + 1)
    return VARIABLE.get()


def with_default(_counts: list[int] = [0]) -> int:  # noqa: B006
    _counts[0] += 1
    return _counts[0]


def of_default(self: Any) -> int:
    return with_default()


def with_attribute() -> int:
    with_attribute.calls += 1  # type: ignore[attr-defined]
    return with_attribute.calls  # type: ignore[attr-defined]


with_attribute.calls = 0  # type: ignore[attr-defined]


def of_function(self: Any) -> int:
    return with_attribute()


ELSEWHERE = (
    *(of_class, of_flag_of_class, of_own_class, of_list, of_dict, of_nested, of_text, of_array),
    *(of_object, of_thread, of_variable, of_default, of_function),
)


def program_of(module: nn.Module) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.onnx.export(module, (X,), dynamo=True, verbose=False)


@pytest.mark.parametrize("program", [ReadsElement, Branches, Arrays])
@pytest.mark.parametrize("count", ELSEWHERE, ids=lambda f: f.__name__)
def test_an_export_is_no_call(count: Callable[[Any], float], program: type[nn.Module]) -> None:
    kind: Any = type(program.__name__, (program,), {"count": count})
    exported = program_of(kind().eval())
    expected = kind()(X)  # the first call: an export is none
    torch.testing.assert_close(exported(X)[0], expected)
    assert kind()(X).sum() != expected.sum()
    for each in (Settings, STATISTICS, NESTED["of"][0], LOCAL, with_attribute):
        each.calls = 0  # type: ignore[attr-defined]
    globals()["NAME"], Settings.is_warm, COUNTS["calls"], ARRAY[0] = None, False, 0, 0
    with_default.__defaults__[0][0] = 0  # type: ignore[index]
    CALLS.clear()
    VARIABLE.set(0)


class Holds(ReadsElement):
    def __init__(self, value: Any, read: Callable[[Any], float]) -> None:
        super().__init__()
        self.value = value
        self.read = read

    def count(self) -> float:
        return self.read(self.value)


def bumped(values: Any) -> int:
    values[0] += 1
    return int(values[0])


DRAWING: tuple[Callable[[], Any], ...] = (
    lambda: random.Random(0),
    lambda: np.random.default_rng(0),
    lambda: np.random.RandomState(0),
)


@pytest.mark.parametrize("make", DRAWING)
def test_generators_of_other_libraries(make: Callable[[], Any]) -> None:
    def read(generator: Any) -> float:
        return float(generator.uniform(0.5, 1.5))

    module = Holds(make(), read).eval()
    with pytest.warns(torch.onnx.errors.OnnxExporterWarning, match="of a Holds drew random num"):
        exported = torch.onnx.export(module, (X,), dynamo=True, verbose=False)
    torch.testing.assert_close(exported(X)[0], module(X))
    assert any("draw them with PyTorch" in each for each in exported.export_report["warnings"])


@pytest.mark.parametrize("make", [lambda: bytearray(1), lambda: array.array("i", [0])])
def test_arrays_of_python(make: Callable[[], Any]) -> None:
    module = Holds(make(), bumped).eval()
    torch.testing.assert_close(program_of(module)(X)[0], module(X))


ARRAYS: tuple[Callable[[], Any], ...] = (
    lambda: np.zeros(1),
    lambda: np.ma.array([0], mask=[False]),
)


@pytest.mark.parametrize("make", ARRAYS)
def test_arrays_of_numpy(make: Callable[[], Any]) -> None:
    module = Holds(make(), bumped).eval()
    torch.testing.assert_close(program_of(module)(X)[0], module(X))


def test_the_masked_constant_of_numpy() -> None:
    """It refuses to be read as other arrays are."""
    module = Holds([np.ma.masked, 2.0], lambda values: values[1]).eval()
    torch.testing.assert_close(program_of(module)(X)[0], module(X))


REGISTERED: dict[str, Any] = {}


class Imports(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        importlib.import_module("registers_a_class")
        return x * REGISTERED["kind"].scale


def test_what_an_imported_file_registers_stays(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not imported again."""
    text = "import sys\nclass Kind:\n    scale = 3\n"
    text += f"sys.modules[{__name__!r}].REGISTERED['kind'] = Kind\n"
    (tmp_path / "registers_a_class.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    torch.testing.assert_close(program_of(Imports().eval())(X)[0], X * 3)
    torch.testing.assert_close(Imports()(X), X * 3)


def counting() -> Iterator[int]:
    number = 1
    while True:
        yield number
        number += 1


@pytest.mark.parametrize("make", [lambda: itertools.count(1), counting, lambda: iter([1, 2, 3, 4])])
def test_iterators_cannot_go_back(make: Callable[[], Any]) -> None:
    module = Holds(make(), next).eval()
    with pytest.warns(torch.onnx.errors.OnnxExporterWarning, match="which cannot move it back"):
        torch.onnx.export(module, (X,), dynamo=True, verbose=False)


class Hooked(ReadsElement):
    def count(self) -> int:
        return 1


def adds(module: nn.Module, inputs: Any, result: torch.Tensor) -> torch.Tensor:
    HOOKED.append(1)
    return result + len(HOOKED)


HOOKED: list[int] = []
TENSOR = torch.zeros(2)
ORDER = dict.fromkeys("abc", 1)


def test_state_of_a_hook() -> None:
    module = Hooked().eval()
    module.register_forward_hook(adds)
    exported = program_of(module)
    assert not HOOKED
    torch.testing.assert_close(exported(X)[0], module(X))


def of_any_kind(self: Any) -> float:
    global LISTED, TENSOR
    LISTED = [*LISTED, 1]
    TENSOR = TENSOR + 1
    ORDER["a"] = ORDER.pop("a")
    return len(LISTED) + float(list(ORDER) == list("bca"))


LISTED: list[int] = []


@pytest.mark.parametrize("program", [ReadsElement, Branches, Arrays])
def test_globals_of_any_kind(program: type[nn.Module]) -> None:
    module: Any = type(program.__name__, (program,), {"count": of_any_kind})().eval()
    before = LISTED, TENSOR, list(ORDER)
    exported = program_of(module)
    assert LISTED is before[0]
    assert TENSOR is before[1]
    assert list(ORDER) == before[2]
    torch.testing.assert_close(exported(X)[0], module(X))
    globals().update(LISTED=[], TENSOR=torch.zeros(2))
    ORDER.clear()
    ORDER.update(dict.fromkeys("abc", 1))


class OfEnvironment(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        calls = int(os.environ.get("ONNX_NATIVE_TEST_CALLS", "0")) + 1
        os.environ["ONNX_NATIVE_TEST_CALLS"] = str(calls)
        return x * calls + int(x.sum().item())


def test_state_that_cannot_be_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONNX_NATIVE_TEST_CALLS", "0")
    with pytest.warns(torch.onnx.errors.OnnxExporterWarning, match="recorded more than once"):
        torch.onnx.export(OfEnvironment().eval(), (X,), dynamo=True, verbose=False)


class MakesValues(collections.OrderedDict):  # type: ignore[type-arg]
    """As transformers' table of activations does."""

    def __getitem__(self, key: str) -> Any:
        return super().__getitem__(key)()


FUNCTIONS = MakesValues(relu=nn.ReLU, tanh=nn.Tanh)


class TakesFromTable(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return FUNCTIONS["relu"](x) + int(x.sum().item())


def test_a_table_that_makes_its_values() -> None:
    module = TakesFromTable().eval()
    torch.testing.assert_close(program_of(module)(X)[0], module(X))
    assert dict.__getitem__(FUNCTIONS, "relu") is nn.ReLU


class Exports(nn.Module):
    """Names functions that reach the whole exporter, and with it what an export has replaced."""

    saves = False

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.saves:
            with onnx_native.options(), _undo.at_end(lambda: None):
                onnx_native.export_decoder(self)
        return x + 1


def test_an_export_is_no_part_of_a_program_that_names_it() -> None:
    seed = torch.initial_seed
    torch.testing.assert_close(program_of(Exports().eval())(X)[0], X + 1)
    assert torch.initial_seed is seed
