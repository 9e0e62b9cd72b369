"""The routes from a program to a model, and the verdict on each."""

from __future__ import annotations

import copy
import dataclasses
import functools
import os
import re
import tempfile
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import onnx
import onnx_native
import torch
from onnx_native.program import _contents
from onnx_native.recording import _capture, _recorder
from torch.onnx._internal.exporter import _capture_strategies, _errors

from storm import compare, known
from storm.program import SETS, Program

ROUTES = ("fx", "native", "pt2", "decomposed", "strict", "traced", "scripted")
NATIVE = "pytorch"  # PyTorch's own exporter, for comparison

RIGHT = "right"
ROUNDED = "right but for rounding"
KNOWN = "known difference"
REFUSED = "refused"
CAPTURE = "capture refused"
ASIDE = "left to torch.export"
CAPTURED_WRONG = "wrong as captured"
WRONG = "wrong"
FAILS = "fails when run"
INVALID = "invalid file"
NO_KERNEL = "missing kernel, warned"
NO_LOAD = "does not load"
INTERNAL = "internal error"
CRASH = "crash"
TIMEOUT = "timeout"
VERDICTS = (
    *(RIGHT, ROUNDED, KNOWN, REFUSED, CAPTURE, ASIDE, CAPTURED_WRONG, NO_KERNEL),
    *(WRONG, FAILS, INVALID, NO_LOAD, INTERNAL, CRASH, TIMEOUT),
)
FAULTS = (WRONG, FAILS, INVALID, NO_LOAD, INTERNAL, CRASH, TIMEOUT)


@dataclasses.dataclass
class Outcome:
    """The outcome of a program by one route.

    Attributes:
        route: The route.
        verdict: One of VERDICTS.
        message: The reason in one line.
        cause: The message without parts that differ between programs.
        place: The index of the wrong result, if any.
    """

    route: str
    verdict: str
    message: str = ""
    cause: str = ""
    place: int = -1

    @property
    def is_fault(self) -> bool:
        return self.verdict in FAULTS


@dataclasses.dataclass
class Model:
    """An exported model: its bytes, and the inputs that it returns updated."""

    content: bytes
    state: Sequence[onnx_native._C.StateTensor]
    warnings: list[str]
    reference: Callable[..., Any] | None = None  # the captured program
    guards: list[dict[str, str]] = dataclasses.field(default_factory=list)

    def is_valid(self, program: Program, which: int) -> bool:
        """Returns whether the model says that it is valid for a set of inputs."""
        numbers = {f"{name}_value": value for name, value in program.values(which).items()}
        known = {"max": max, "min": min, **program.sizes[which], **numbers}
        try:
            return all(eval(guard["condition"], known) for guard in self.guards)
        except NameError:  # a condition on a number that the program computes from data
            return which == 0
        except ZeroDivisionError:  # the program divides by a size that is 0
            return False

    def keeps_dimensions(self) -> bool:
        """Returns whether the export warned of a squeeze that may remove a dimension in eager."""
        return any("where the size is 1 and eager removes it" in text for text in self.warnings)

    def inputs(self) -> list[str]:
        """Returns the names of its inputs, in order."""
        graph = onnx.ModelProto.FromString(self.content).graph
        return [each.name for each in graph.input]


class JudgedError(Exception):
    """Ends the examination of a route with a verdict."""

    def __init__(self, verdict: str, error: object = "", place: int = -1) -> None:
        super().__init__(verdict)
        self.verdict = verdict
        self.error = error
        self.place = place


class Capture:
    """torch.export's capture of a program, shared by the routes fx and pt2."""

    program: torch.export.ExportedProgram | None = None
    _first = _capture_strategies.CAPTURE_STRATEGIES[0]

    def __enter__(self) -> Capture:
        capture = self
        first: Any = self._first

        class Keeping(first):
            """The first capture strategy; keeps its result."""

            def _capture(self, *args: Any, **kwargs: Any) -> torch.export.ExportedProgram:
                if capture.program is None:
                    capture.program = super()._capture(*args, **kwargs)
                return capture.program

        self._before = _capture_strategies.CAPTURE_STRATEGIES
        _capture_strategies.CAPTURE_STRATEGIES = (Keeping,)  # type: ignore[assignment]
        return self

    def __exit__(self, *_: object) -> None:
        _capture_strategies.CAPTURE_STRATEGIES = self._before


def clone(value: Any) -> Any:
    return torch.utils._pytree.tree_map_only(torch.Tensor, torch.Tensor.clone, value)


def judge(program: Program, route: str, capture: Capture) -> Outcome:
    """Exports a program, checks the model and runs it with every set of inputs."""
    try:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            model = _exported(program, route, capture)
            _check_file(model)
            rounded = _check_numbers(program, model)
            if route == "native":
                rounded |= _check_numbers(program, model, optimized=True)
    except JudgedError as verdict:
        text, cause = one_line(verdict.error), cause_of(verdict.error)
        return Outcome(route, verdict.verdict, text, cause, verdict.place)
    return Outcome(route, ROUNDED if rounded else RIGHT)


def _exported(program: Program, route: str, capture: Capture) -> Model:
    module = program.module()
    args = program.arguments(0)
    try:
        with (
            warnings.catch_warnings(record=True) as caught,
            onnx_native.options(state=program.state, functions=program.functions),
        ):
            warnings.simplefilter("always", torch.onnx.errors.OnnxExporterWarning)
            model = EXPORTS[route](program, module, args, capture)
    except JudgedError:
        raise
    except _errors.TorchExportError as error:
        raise JudgedError(CAPTURE, error.__cause__ or error) from None
    except _errors.ConversionError as error:
        raise JudgedError(_kind(error.__cause__ or error), error.__cause__ or error) from None
    except Exception as error:
        raise JudgedError(_kind(error), error) from None
    model.warnings += [str(each.message) for each in caught]
    return model


def _kind(error: BaseException) -> str:
    if _is_from_vmap(error):
        return REFUSED
    if not isinstance(error, onnx_native.ExportError) or error.kind == "internal":
        return INTERNAL
    return REFUSED


def _is_from_vmap(error: BaseException) -> bool:
    return isinstance(error, _errors.ConversionError) and "program with torch.vmap" in str(error)


def _by_fx(program: Program, module: Any, args: Any, capture: Capture) -> Model:
    with onnx_native.options(capture="torch.export"):
        return _of_program(_of_module(program, module))


def _of_module(program: Program, module: Any) -> Any:
    args, keywords = program.by_name(0)
    # torch.onnx.export takes a dict at the end of args for the keyword arguments.
    return torch.onnx.export(
        *(module, (*args, keywords)),
        dynamo=True,
        dynamic_shapes=program.dynamic_shapes(),
        opset_version=program.opset,
        verbose=False,
    )


def _by_recording(program: Program, module: Any, args: Any, capture: Capture) -> Model:
    """The native capture; torch.export is not asked."""
    reasons: list[str] = []

    class Strategy:
        """Ends the export where torch.export would start."""

        def __init__(self, **_: Any) -> None:
            raise JudgedError(ASIDE, reasons[0] if reasons else "the lowering fails")

    record = _capture.capture

    def recording(*arguments: Any, **options: Any) -> Any:
        try:
            return record(*arguments, **options)
        except _recorder.StepAsideError as error:
            reasons.append(str(error))
            raise

    before = _capture_strategies.CAPTURE_STRATEGIES
    _capture_strategies.CAPTURE_STRATEGIES = (Strategy,)  # type: ignore[assignment]
    _capture.capture = recording  # type: ignore[assignment]
    try:
        with onnx_native.options(capture="native"):
            exported = _of_module(program, module)
    finally:
        _capture_strategies.CAPTURE_STRATEGIES = before
        _capture.capture = record
    native = _contents.of(exported).native
    guards = exported.export_report["capture"]["guards"]
    return Model(native.serialize(), native.state(), [], guards=guards)


def _of_program(exported: Any) -> Model:
    native = _contents.of(exported).native
    reference = exported.exported_program.module(check_guards=False)
    return Model(native.serialize(), native.state(), [], reference)


def _by_decomposing(program: Program, module: Any, args: Any, capture: Capture) -> Model:
    """Captures and decomposes to core ATen operators."""
    if capture.program is None:
        raise JudgedError(CAPTURE, "nothing captured")
    try:
        captured = capture.program.run_decompositions()
    except Exception as error:
        raise JudgedError(CAPTURE, error) from None
    return _of_captured(program, captured)


def _by_strict(program: Program, module: Any, args: Any, capture: Capture) -> Model:
    """Captures with Dynamo."""
    shapes = torch.utils._pytree.tree_map_only(
        str, lambda _: torch.export.Dim.DYNAMIC, program.dynamic_shapes()
    )
    try:
        captured = torch.export.export(module, args, dynamic_shapes=shapes, strict=True)
    except Exception as error:
        raise JudgedError(CAPTURE, error) from None
    return _of_captured(program, captured)


def _of_captured(program: Program, captured: torch.export.ExportedProgram) -> Model:
    try:
        exported = torch.onnx.export(
            captured, dynamo=True, opset_version=program.opset, verbose=False
        )
    except Exception as error:
        # Decompositions may change what a program computes: run_decompositions drops the
        # broadcasting of copy_.
        reference = captured.module(check_guards=False)
        module = program.module(is_plain=True)
        wanted = [
            compare.real(torch.as_tensor(each))
            for each in compare.leaves(module(*program.arguments(0)))
        ]
        if _differs(reference, program, 0, wanted):
            raise JudgedError(CAPTURED_WRONG, error) from None
        raise
    return _of_program(exported)


def _by_archive(program: Program, module: Any, args: Any, capture: Capture) -> Model:
    if capture.program is None:
        raise JudgedError(CAPTURE, "nothing captured")
    with tempfile.TemporaryDirectory(dir=_memory()) as folder:
        path = os.path.join(folder, "program.pt2")
        try:
            torch.export.save(capture.program, path)
        except Exception as error:
            raise JudgedError(CAPTURE, error) from None
        native = onnx_native._C.Program(
            path, opset=program.opset, state=program.state, functions=program.functions
        )
        reference = capture.program.module(check_guards=False)
        return Model(
            native.serialize(), native.state(), list(native.report()["warnings"]), reference
        )


def _memory() -> str | None:
    return "/dev/shm" if os.path.isdir("/dev/shm") else None


def _by_trace(program: Program, module: Any, args: Any, capture: Capture) -> Model:
    before = {name: value.clone() for name, value in module.state_dict(keep_vars=True).items()}
    try:
        script = torch.jit.trace(module, args, check_trace=False, strict=False)
        for name, value in module.state_dict(keep_vars=True).items():
            value.copy_(before[name])  # tracing runs the module, which may write to buffers
    except Exception as error:
        raise JudgedError(CAPTURE, error) from None
    return _of_script(program, script)


def _by_script(program: Program, module: Any, args: Any, capture: Capture) -> Model:
    try:
        script = torch.jit.script(module)
    except Exception as error:
        raise JudgedError(CAPTURE, error) from None
    return _of_script(program, script)


def _of_script(program: Program, script: Any) -> Model:
    try:
        copy.deepcopy(script)(*program.arguments(0))
    except Exception as error:
        raise JudgedError(CAPTURE, f"TorchScript cannot run it: {error}") from None
    args, keywords = program.by_name(0)
    if not _takes_names(script, keywords):
        args, keywords = program.arguments(0), {}
    exported: Any = torch.onnx.export(
        *(script, args),
        kwargs=keywords,
        dynamo=True,
        dynamic_shapes=program.dynamic_shapes(),
        opset_version=program.opset,
        verbose=False,
    )
    native = _contents.of(exported).native
    return Model(native.serialize(), native.state(), [], script)


def _takes_names(script: Any, names: Iterable[str]) -> bool:
    """Returns whether these are names of its arguments; those of a traced module may differ."""
    taken = [argument.name for argument in script.forward.schema.arguments]
    return all(name in taken for name in names)


def _by_pytorch(program: Program, module: Any, args: Any, capture: Capture) -> Model:
    """PyTorch's own exporter, which has no state and starts at opset 18."""
    with onnx_native.disabled():
        exported: Any = torch.onnx.export(
            *(module, args),
            dynamo=True,
            dynamic_shapes=program.dynamic_shapes(),
            opset_version=max(program.opset, 18),
            verbose=False,
        )
    reference = exported.exported_program.module(check_guards=False)
    return Model(exported.model_proto.SerializeToString(), [], [], reference)


EXPORTS: dict[str, Callable[[Program, Any, Any, Capture], Model]] = {
    "fx": _by_fx,
    "native": _by_recording,
    "pt2": _by_archive,
    "decomposed": _by_decomposing,
    "strict": _by_strict,
    "traced": _by_trace,
    "scripted": _by_script,
    NATIVE: _by_pytorch,
}


def _check_file(model: Model) -> None:
    try:
        onnx.checker.check_model(onnx.ModelProto.FromString(model.content), full_check=True)
    except Exception as error:
        raise JudgedError(INVALID, error) from None


def _check_numbers(program: Program, model: Model, *, optimized: bool = False) -> bool:
    """Compares the model's results with eager's; returns True if some differ by rounding."""
    optimizations = "with optimizations, " if optimized else ""
    try:
        running = compare.session(model.content, optimized=optimized)
    except Exception as error:
        if "NOT_IMPLEMENTED" in str(error) or "Could not find an implementation" in str(error):
            warned = any("ONNX Runtime" in text for text in model.warnings)
            raise JudgedError(NO_KERNEL if warned else NO_LOAD, error) from None
        raise JudgedError(NO_LOAD, f"{optimizations}{error}") from None
    rounded = False
    for which in range(SETS):
        if not model.is_valid(program, which):
            continue
        try:
            wanted = Results(program, model, which)
        except Exception:
            if which:  # the program fails for these sizes
                continue
            raise
        try:
            got = compare.run(running, wanted.feeds())
        except Exception as error:
            if which and _captured_otherwise(program, model, which, wanted.results):
                raise JudgedError(CAPTURED_WRONG, error) from None
            if compare.may_fail(functools.partial(wanted.rounded, 0)):
                rounded = True
                continue
            verdict = KNOWN if model.keeps_dimensions() else FAILS
            raise JudgedError(verdict, f"{optimizations}set {which}: {error}") from None
        if len(got) != len(wanted.results):
            message = f"{len(got)} results instead of {len(wanted.results)}"
            raise JudgedError(WRONG, message)
        for place, (mine, theirs) in enumerate(zip(got, wanted.results, strict=True)):
            differs = compare.difference(mine, theirs)
            if not differs:
                continue
            again = functools.partial(wanted.rounded, place)
            if compare.is_rounding(mine, theirs, again):
                rounded = True
                continue
            if _captured_otherwise(program, model, which, wanted.results):
                raise JudgedError(CAPTURED_WRONG, differs, place)
            verdict = KNOWN if model.keeps_dimensions() else WRONG
            text = f"{optimizations}set {which}, result {place}: {differs}"
            raise JudgedError(verdict, text, place)
    return rounded


class Results:
    """Returns eager's results for a set of inputs, then the values that it wrote to."""

    def __init__(self, program: Program, model: Model, which: int) -> None:
        self._program = program
        self._model = model
        self._which = which
        self.results = self._run(program.module(is_plain=True), program.values(which))

    def _run(self, module: Any, values: dict[str, Any]) -> list[Any]:
        results = compare.leaves(module(*self._program.packed(values)))
        results = [each.clone() if isinstance(each, torch.Tensor) else each for each in results]
        return results + self._written(module, values)

    def _written(self, module: Any, values: dict[str, Any]) -> list[Any]:
        by_input = dict(zip(self._model.inputs(), values.values(), strict=False))
        by_input = {**values, **by_input}
        return [
            _attribute(module, each.target)
            if each.initial is not None
            else by_input[each.input if each.input in by_input else each.target]
            for each in self._model.state
        ]

    def feeds(self) -> list[Any]:
        """Returns the model's inputs: the arguments, then the state."""
        values = list(self._program.values(self._which).values())
        state = [each.initial for each in self._model.state if each.initial is not None]
        return [*values, *state]

    def rounded(self, place: int, seed: int) -> Any:
        """Returns one of the results with different rounding in each operator."""
        module = self._program.module(is_plain=True)
        values = self._program.values(self._which)
        with compare.Rounding(seed):
            return self._run(module, values)[place]


def _attribute(module: Any, target: str) -> Any:
    for name in target.split("."):
        module = getattr(module, name)
    return module


def _captured_otherwise(program: Program, model: Model, which: int, wanted: list[Any]) -> bool:
    """Returns whether the captured program itself differs from eager or fails."""
    return model.reference is not None and _differs(model.reference, program, which, wanted)


def _differs(captured: Any, program: Program, which: int, wanted: list[Any]) -> bool:
    values = program.values(which)
    plain = program.values(which)
    try:
        reference = copy.deepcopy(captured)
        results = compare.leaves(reference(*program.packed(values)))
        program.module(is_plain=True)(*program.packed(plain))
    except Exception:
        return True
    if any(
        compare.difference(compare.real(torch.as_tensor(mine)), torch.as_tensor(theirs))
        for mine, theirs in zip(values.values(), plain.values(), strict=True)
    ):
        return True  # it writes to its inputs otherwise
    return any(
        compare.difference(compare.real(torch.as_tensor(mine)), theirs)
        for mine, theirs in zip(results, wanted, strict=False)
    )


def one_line(error: object) -> str:
    """Returns the error's text, shortened."""
    text = " ".join(str(error).split())
    if isinstance(error, BaseException) and not isinstance(error, onnx_native.ExportError):
        text = f"{type(error).__name__}: {text}"
    return text[:600]


_FROM_SOURCE = re.compile(r" (%\S+(, %\S+)* = | at <|at /|hint:).*")
_NAMES = re.compile(r"'[^']*'|\"[^\"]*\"|%[\w.]+|\b[ustv]\d+\b|\b\w*_\d+\b")
_NUMBERS = re.compile(r"-?\d+(\.\d+)?(e[+-]?\d+)?")


def cause_of(error: object) -> str:
    """Returns the message without names and numbers, so that equal causes have equal texts."""
    if isinstance(error, onnx_native.ExportError):
        error = str(error).strip().splitlines()[0]
    text = _FROM_SOURCE.sub("", one_line(error))
    text = _NAMES.sub("_", text)
    return _NUMBERS.sub("#", text)[:160]


def is_known(program: Program, outcome: Outcome) -> str:
    """Returns the reason if a reduced program's difference is known, else an empty string."""
    return known.reason(program, outcome.verdict, outcome.message)
