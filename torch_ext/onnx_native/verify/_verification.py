"""Implements verify=True: compares the model's outputs with eager's, at several sizes."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from onnx_native.modules import _differences
from onnx_native.program import _calls, _contents
from onnx_native.request import _sizes
from onnx_native.verify import _comparison

if TYPE_CHECKING:
    from onnx_native.program._program import ONNXProgram

logger = logging.getLogger("onnx_native")

Steps = list[tuple[str, bool]]

# PyTorch's limits for outputs.
_ABSOLUTE = 5e-3
_RELATIVE = 1e-1
# What rounding may add up to in a whole model, as a multiple of what it does in one call.
_TOLERANCES = 30
# The same for a model whose precision was lowered. PyTorch's limits are those of float32.
_HALF_TOLERANCES = 5


class Verification:
    """The verification of a program.

    Attributes:
        steps: What was done, and whether it succeeded.
        outputs: For each output and size: its name, the sizes, its shape, and the differences.
    """

    def __init__(self, program: ONNXProgram, say: Callable[..., None]) -> None:
        self._program = program
        self._say = say
        # Eager has other weights then.
        self._is_quantized = bool(program.export_report["quantized_weights"])
        self.steps: Steps = []
        self.outputs: list[dict[str, Any]] = []

    def run(self) -> None:
        """Checks the model, runs it, and compares it with the captured program."""
        import onnx

        self._say("Check the ONNX model...")
        try:
            with _comparison.Runtime(self._program) as runtime:
                onnx.checker.check_model(str(runtime.path), full_check=True)
                self._step("Check the ONNX model", True)
                self._compare(runtime)
        except _InvalidRunError:
            pass
        except Exception as error:
            self._step("Check the ONNX model", False)
            logger.warning("The ONNX model fails the ONNX checker.", exc_info=error)

    def table(self) -> str:
        """Returns the outputs with their largest differences as text."""
        heads = ("output", "sizes", "shape", "absolute", "relative", "")
        return _differences.aligned(
            [
                heads,
                *(
                    (
                        row["output"],
                        row["sizes"],
                        str(row["shape"]),
                        f"{row['absolute']:.2e}",
                        f"{row['relative']:.2e}",
                        row["note"] or ("" if row["is_accurate"] else "differs"),
                    )
                    for row in self.outputs
                ),
            ]
        )

    def rows(self) -> list[dict[str, Any]]:
        """Returns the outputs to show, or all values if an output differs.

        The rows where a difference begins have a true ``is_bad``.
        """
        wrong = [row for row in self.outputs if not row["is_accurate"]]
        if wrong:
            try:
                compared = _comparison.compare(self._program, sizes=wrong[0]["arguments"] or None)
                return [_value(row) for row in compared]
            except Exception as error:  # the outputs are known nevertheless
                logger.warning("The intermediate values were not compared.", exc_info=error)
        columns = ("output", "sizes", "shape", "absolute", "relative", "note")
        return [
            {**{name: row[name] for name in columns}, "is_bad": not row["is_accurate"]}
            for row in self.outputs
        ]

    def _step(self, title: str, succeeded: bool) -> None:
        self._say(f"{title}... {'✅' if succeeded else '❌'}")
        self.steps.append((title, succeeded))

    def _compare(self, runtime: _comparison.Runtime) -> None:
        self._say("Execute the model with ONNX Runtime...")
        try:
            _comparison.needs_runtime("verify=True")
            for case in _cases(self._program, runtime):
                self.compare_outputs(runtime, *case)
        except Exception as error:
            self._step("Execute the model with ONNX Runtime", False)
            logger.warning("ONNX Runtime cannot run the model.", exc_info=error)
            raise _InvalidRunError from error
        self._step("Execute the model with ONNX Runtime", True)
        self._say("Verify output accuracy...")
        if self._is_quantized:
            logger.warning(
                "The weights of the model are quantized, and eager's are not: differences of the "
                "outputs are shown and not judged. Without quantize_weights= they are."
            )
        wrong = [row for row in self.outputs if not row["is_accurate"]]
        for row in wrong:
            _warn(row)
        if self.outputs:
            self._say(f"Largest differences from eager PyTorch:\n{self.table()}")
        if wrong:
            sizes = wrong[0]["arguments"]
            logger.warning(
                "onnx_native.compare(program%s) finds the node where the difference begins.",
                f", sizes={sizes}" if sizes else "",
            )
        self._step("Verify output accuracy", not wrong)

    def compare_outputs(
        self,
        runtime: _comparison.Runtime,
        sizes: dict[str, int],
        args: Any,
        kwargs: Any,
        is_example: bool,
        expected: list[Any],
    ) -> None:
        """Adds the differences of the outputs for these arguments to `outputs`."""
        actual = runtime.run(_calls.feeds_of_eager(self._program, args, kwargs), runtime.outputs)
        text = ", ".join(f"{name}={size}" for name, size in sizes.items())
        half = _contents.of(self._program).native.half_dtype
        for (name, value), wanted in zip(actual.items(), expected, strict=True):
            found = _differences.measure(wanted, value, half=half)
            is_accurate = (
                not found.note and math.isfinite(found.absolute)
                if self._is_quantized
                else found.absolute < _ABSOLUTE
                and found.relative < _RELATIVE
                and found.tolerances < _TOLERANCES
                if half is None
                else found.tolerances < _HALF_TOLERANCES
            )
            self.outputs.append(
                {
                    "output": name,
                    "sizes": text or "as in the example",
                    "shape": list(value.shape),
                    "absolute": found.absolute,
                    "relative": found.relative,
                    "note": found.note,
                    "is_accurate": is_accurate,
                    "arguments": {} if is_example else sizes,
                }
            )


def differs_for_example(program: ONNXProgram) -> bool:
    """Whether an output differs from eager's for the example by more than rounding."""
    verification = Verification(program, lambda *_: None)
    with _comparison.Runtime(program) as runtime:
        verification.compare_outputs(runtime, *next(_cases(program, runtime)))
    return not all(row["is_accurate"] for row in verification.outputs)


class _InvalidRunError(Exception):
    """ONNX Runtime cannot run the model; the step says so."""


def _cases(
    program: ONNXProgram, runtime: _comparison.Runtime
) -> Iterator[tuple[dict[str, int], Any, Any, bool, list[Any]]]:
    """Yields sizes, arguments, whether they are the example's, and eager's outputs.

    Eager is the model itself where torch.export did not capture it. A program captured as
    TorchScript runs only at the example's sizes: which others it allows is not known.
    """
    sizes: _sizes.Sizes | None
    run: Callable[[Any, Any], list[Any]]
    eager = _contents.of(program).origin.eager
    if eager is not None:
        sizes, run = eager.sizes, eager.outputs
        args, kwargs = eager.example
    else:
        replay = _contents.replay(program)
        if replay.example is None:
            raise ValueError("the program has no example inputs")
        args, kwargs = replay.example
        sizes, run = replay.sizes(runtime.proto.graph.input), replay.outputs
    yield sizes.example if sizes else {}, args, kwargs, True, run(args, kwargs)
    if sizes is None:
        return
    for group in sizes.others():
        for chosen in group:
            args, kwargs = sizes.inputs(chosen)
            try:
                expected = run(args, kwargs)
            except Exception as error:  # a guard, or sizes that eager refuses
                logger.debug("The program refuses the sizes %s: %s", chosen, error)
                continue
            yield chosen, args, kwargs, False, expected
            break


def _warn(row: dict[str, Any]) -> None:
    at = f" at {row['sizes']}" if row["arguments"] else ""
    if row["note"]:
        logger.warning("Output '%s' %s%s, unlike eager's.", row["output"], row["note"], at)
        return
    if row["absolute"] < _ABSOLUTE and row["relative"] < _RELATIVE:
        logger.warning(
            "Output '%s' has a large difference of %g for elements of its size%s.",
            row["output"],
            row["absolute"],
            at,
        )
    for kind, limit in (("absolute", _ABSOLUTE), ("relative", _RELATIVE)):
        if row[kind] >= limit:
            logger.warning(
                "Output '%s' has a large %s difference of %f%s.", row["output"], kind, row[kind], at
            )


def _value(row: _differences.Row) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "value": row.name,
        "operator": row.operator,
        "source": row.source,
        "module": row.module,
        "status": row.status,
    }
    for kind, found in (("own", row.own), ("total", row.total)):
        shown[f"{kind} difference"] = "" if found is None else found.absolute
    return {**shown, "is_bad": row.status == "begins"}
