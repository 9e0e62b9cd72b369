"""Exports models, and compares each in ONNX Runtime with PyTorch. Prints a line for each.

With `--pytorch`, PyTorch's own exporter exports each model too, within LIMIT seconds. ONNX Runtime
does not optimize: some of its fusions round activations.
"""

from __future__ import annotations

import contextlib
import functools
import io
import logging
import signal
import statistics
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import onnx_native
import onnxruntime as ort
import torch
from torch.utils import _pytree as pytree

Example = tuple[Any, ...]
# A function that makes the model, its examples, and dynamic_shapes. It is exported at the first
# example, and compared at all of them.
Case = tuple[Callable[[], Any], Sequence[Example], Any]

OPTIONS = ort.SessionOptions()
OPTIONS.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
# The seconds that PyTorch's exporter gets for a model.
LIMIT = 60


class Outcome(NamedTuple):
    state: str  # right, refused, WRONG
    seconds: float
    text: str = ""

    def __str__(self) -> str:
        return f"{self.state}, {self.seconds:.2f} s{self.text}"


def start() -> None:
    """Loads the exporter for both values of `dynamo`."""
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    torch.ops.load_library(onnx_native.library_path())
    onnx_native.enable(legacy=True)
    torch.manual_seed(0)
    torch.set_grad_enabled(False)
    for by_pytorch in _exporters():  # the one-time work
        with _exporter(by_pytorch):
            torch.onnx.export(torch.nn.Linear(2, 2), (torch.rand(2, 2),), verbose=False)


def chosen(cases: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """The cases whose names have one of the words of the command line."""
    words = [word for word in sys.argv[1:] if not word.startswith("-")]
    for name, case in cases.items():
        if not words or any(word in name for word in words):
            yield name, case


def of_models(cases: dict[str, Case]) -> None:
    def both(case: Case) -> Iterator[tuple[bool, Outcome]]:
        make, examples, dynamic_shapes = case
        try:
            model = make()
        except Exception as error:
            yield False, Outcome("failed", 0, f": {_short(error)}")
            return
        for by_pytorch in _exporters():
            with _exporter(by_pytorch):
                outcome = _of_model(model, examples, dynamic_shapes)
            yield by_pytorch, outcome

    _of_all(cases, both)


def of_calls(cases: dict[str, Callable[[], object]], *, compares: bool = True) -> None:
    """Runs programs that call torch.onnx.export, and compares each file with its module.

    A program that compares by itself raises an error if the results differ.
    """

    def both(program: Callable[[], object]) -> Iterator[tuple[bool, Outcome]]:
        for by_pytorch in _exporters():
            outcomes: list[Outcome] = []
            begin = time.perf_counter()
            try:
                with _exporter(by_pytorch), _watched(outcomes, compares):
                    program()
            except (Exception, _TimeIsUpError) as error:
                seconds = time.perf_counter() - begin
                outcomes = [Outcome("failed", seconds, f": {_short(error)}")]
            for outcome in outcomes:
                yield by_pytorch, outcome

    _of_all(cases, both)


def _of_all(cases: dict[str, Any], both: Callable[[Any], Iterator[tuple[bool, Outcome]]]) -> None:
    """Prints a line for each export, and one for each exporter at the end."""
    found: dict[bool, list[Outcome]] = {False: [], True: []}
    ratios = []
    for name, case in chosen(cases):
        seconds: dict[bool, list[float]] = {False: [], True: []}
        for by_pytorch, outcome in both(case):
            found[by_pytorch].append(outcome)
            if outcome.state in ("right", "WRONG"):
                seconds[by_pytorch].append(outcome.seconds)
            print(f"{name} | {'PyTorch: ' if by_pytorch else ''}{outcome}", flush=True)
        if all(seconds.values()):
            ratios.append(sum(seconds[True]) / sum(seconds[False]))
    for by_pytorch, outcomes in found.items():
        if outcomes:
            states = [each.state for each in outcomes]
            counts = ", ".join(f"{states.count(each)} {each}" for each in dict.fromkeys(states))
            took = [each.seconds for each in outcomes if each.state == "right"] or [0]
            print(
                f"{'PyTorch' if by_pytorch else 'onnx_native'}: {len(outcomes)} exports, {counts}; "
                f"those that are right take {min(took):.2f} to {max(took):.2f} s, "
                f"median {statistics.median(took):.2f} s"
            )
    if ratios:
        print(
            f"onnx_native is {statistics.median(ratios):.0f} times faster (median of "
            f"{len(ratios)} that both export, {min(ratios):.1f} to {max(ratios):.0f})"
        )


class _TimeIsUpError(BaseException):
    """PyTorch's exporter catches an Exception, and goes on."""


def _exporters() -> tuple[bool, ...]:
    return (False, True) if "--pytorch" in sys.argv else (False,)


@contextmanager
def _exporter(by_pytorch: bool) -> Iterator[None]:
    """Runs the block with PyTorch's exporter and a limit of time, or ours. Prints nothing."""
    if not by_pytorch:
        with contextlib.redirect_stdout(io.StringIO()):
            yield
        return

    def stop(*_: object) -> None:
        raise _TimeIsUpError(f"more than {LIMIT} s")

    signal.signal(signal.SIGALRM, stop)
    signal.alarm(LIMIT)
    try:
        with onnx_native.disabled(), contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        signal.alarm(0)


def _of_model(model: Any, examples: Sequence[Example], dynamic_shapes: Any) -> Outcome:
    begin = time.perf_counter()
    try:
        program: Any = torch.onnx.export(
            model, examples[0], dynamo=True, dynamic_shapes=dynamic_shapes, verbose=False
        )
        seconds = time.perf_counter() - begin
        file = program.model_proto.SerializeToString()
    except (Exception, _TimeIsUpError) as error:
        return Outcome("refused", time.perf_counter() - begin, f": {_short(error)}")
    for number, inputs in enumerate(examples):
        difference = _difference(model, inputs, {}, file)
        if difference:
            return Outcome("WRONG", seconds, f" for example {number}: {difference}")
    report = getattr(program, "export_report", None)  # PyTorch's has none
    if report is None:
        return Outcome("right", seconds)
    lines = "".join(f"; {each}" for each in report["warnings"])
    return Outcome("right", seconds, f", {report['capture']['by']}{lines}")


@contextmanager
def _watched(outcomes: list[Outcome], compares: bool) -> Iterator[None]:
    export = torch.onnx.export

    @functools.wraps(export)  # timm reads the names of its arguments
    def watched(model: Any, args: Any = (), f: Any = None, *rest: Any, **kwargs: Any) -> Any:
        begin = time.perf_counter()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            result = export(model, args, f, *rest, **kwargs)
        seconds = time.perf_counter() - begin
        difference = _of_file(model, args, f, kwargs) if compares else ""
        lines = "".join(
            f"; {' '.join(str(each.message).split())[:300]}"
            for each in caught
            if issubclass(each.category, torch.onnx.errors.OnnxExporterWarning)
        )
        text = f", dynamo={kwargs.get('dynamo', True)}{lines}"
        state = ("WRONG", f": {difference}{text}") if difference else ("right", text)
        outcomes.append(Outcome(state[0], seconds, state[1]))
        return result

    torch.onnx.export = watched
    try:
        yield
    finally:
        torch.onnx.export = export


def _of_file(model: Any, args: Any, f: Any, options: dict[str, Any]) -> str:
    args = args if isinstance(args, tuple) else (args,)
    named = dict(options.get("kwargs") or {})
    if args and isinstance(args[-1], dict) and not named:
        args, named = args[:-1], args[-1]
    if isinstance(model, torch.nn.Module):
        model.eval()
    return _difference(model, args, named, f.getvalue() if isinstance(f, io.BytesIO) else f)


def assert_same(
    model: Any, inputs: Example, file: str | bytes, kwargs: dict[str, Any] | None = None
) -> None:
    """Compares the file with the module at other inputs than those of the export."""
    difference = _difference(model, inputs, kwargs or {}, file)
    assert not difference, difference


def _difference(model: Any, args: Any, kwargs: dict[str, Any], file: str | bytes) -> str:
    """Returns how the file's results differ from the module's; empty if they agree."""
    try:
        session = ort.InferenceSession(file, OPTIONS)
        leaves = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if leaf is not None]
        arrays = [torch.as_tensor(leaf).numpy(force=True) for leaf in leaves]
        names = [value.name for value in session.get_inputs()]
        found = session.run(None, dict(zip(names, arrays, strict=True)))
        results = model(*args, **kwargs)
        results = results.to_tuple() if hasattr(results, "to_tuple") else results
        torch.testing.assert_close(
            [torch.from_numpy(each) for each in found],
            [leaf for leaf in pytree.tree_leaves(results) if isinstance(leaf, torch.Tensor)],
            rtol=1e-3,
            atol=1e-4,
        )
    except Exception as error:
        return _short(error)
    return ""


def _short(error: BaseException) -> str:
    if "-v" in sys.argv:
        traceback.print_exception(error)
    return f"{type(error).__name__}: " + " ".join(str(error.__cause__ or error).split())[:300]
