"""Implements verify=True, report=True and profile=True."""

import logging
import pathlib
import tempfile
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from onnx_native import _upstream

if TYPE_CHECKING:
    from onnx_native._program import ONNXProgram

logger = logging.getLogger(__name__)

Steps = list[tuple[str, bool]]


def start_profiler() -> Any:
    try:
        import pyinstrument
    except ImportError as error:
        raise ImportError(
            "profile=True needs the package pyinstrument; install it (pip install pyinstrument), "
            "or leave out profile. export_report['seconds'] has the seconds per stage"
        ) from error

    profiler = pyinstrument.Profiler(async_mode="disabled")
    profiler.start()
    return profiler


def stop_profiler(profiler: Any) -> str | None:
    if profiler is None or not profiler.is_running:
        return None
    profiler.stop()
    return profiler.output_text(unicode=True)


def verify(program: "ONNXProgram", say: Callable[..., None]) -> Steps:
    """Checks the model, runs it, and compares it with the captured program; returns the steps."""
    import onnx

    steps: Steps = []

    def step(title: str, succeeded: bool) -> bool:
        say(f"{title}... {'✅' if succeeded else '❌'}")
        steps.append((title, succeeded))
        return succeeded

    say("Check the ONNX model...")
    try:
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "model.onnx"
            program.save(path, external_data=True)
            onnx.checker.check_model(str(path), full_check=True)
    except Exception as error:
        step("Check the ONNX model", False)
        logger.warning("The ONNX model fails the ONNX checker.", exc_info=error)
        return steps
    step("Check the ONNX model", True)

    say("Execute the model with ONNX Runtime...")
    try:
        results = _upstream.verify_onnx_program(program)
    except Exception as error:
        step("Execute the model with ONNX Runtime", False)
        logger.warning("ONNX Runtime cannot run the model.", exc_info=error)
        return steps
    step("Execute the model with ONNX Runtime", True)

    say("Verify output accuracy...")
    accurate = True
    for result in results:
        for kind, difference, limit in (
            ("absolute", result.max_abs_diff, 5e-3),
            ("relative", result.max_rel_diff, 1e-1),
        ):
            if difference >= limit:
                logger.warning(
                    "Output '%s' has a large %s difference of %f.", result.name, kind, difference
                )
                accurate = False
    step("Verify output accuracy", accurate)
    return steps


class Report:
    """Collects the steps and errors of an export and writes them as Markdown."""

    def __init__(self, folder: pathlib.Path, timestamp: str) -> None:
        self._folder = folder
        self._timestamp = timestamp
        self._steps: Steps = []
        self.errors: list[str] = []

    def captured(self, result: Any) -> None:
        self._steps.append((f"Capture with {result.strategy}", result.exported_program is not None))
        if result.exception is not None:
            self.errors.append("".join(traceback.format_exception(result.exception)))

    def verified(self, steps: Steps) -> None:
        self._steps += steps

    def write(
        self,
        captured: torch.export.ExportedProgram | None,
        *,
        program: "ONNXProgram | None" = None,
        postfix: str | None = None,
        profile: str | None = None,
    ) -> pathlib.Path:
        """Writes the report and returns its path."""
        if captured is not None:
            self._steps.append(("Translate into ONNX", program is not None))
        if postfix is None:
            postfix = "success" if all(succeeded for _, succeeded in self._steps) else "strategies"
        sections = ["# PyTorch ONNX Conversion Report (onnx_native)\n"]
        sections.append("\n".join(f"- {'✅' if ok else '❌'} {title}" for title, ok in self._steps))
        sections.append("\n## Error messages\n")
        sections.append(_fenced("pytb", "\n\n".join(self.errors) or "No errors"))
        if program is not None:
            sections += _statistics(program.export_report)
        if captured is not None:
            sections += ["\n## Exported program\n", _fenced("python", str(captured))]
        if program is not None:
            sections += ["\n## ONNX model\n", _fenced("python", program.text())]
        if profile is not None:
            sections += ["\n## Profiling result\n", _fenced("", profile)]
        path = self._folder / f"onnx_export_{self._timestamp}_{postfix}.md"
        path.write_text("\n".join(sections) + "\n", encoding="utf-8")
        return path


def _statistics(report: dict[str, Any]) -> list[str]:
    lines = ["\n## Seconds\n", "| stage | seconds |", "| --- | ---: |"]
    lines += [f"| {stage} | {seconds:.4f} |" for stage, seconds in report["seconds"].items()]
    lines += [
        "\n## Operators\n",
        f"{report['aten_nodes']} ATen calls became {report['onnx_nodes']} ONNX nodes.\n",
        "| operator | calls |",
        "| --- | ---: |",
    ]
    lines += [f"| `{key}` | {count} |" for key, count in report["operators"].items()]
    if report["passes"]:
        lines += ["\n## Passes\n", "| pass | changes |", "| --- | ---: |"]
        lines += [f"| `{name}` | {count} |" for name, count in report["passes"].items()]
    if report["fallbacks"]:
        lines += ["\n## Without a native lowering\n", "| operator | exported by |", "| --- | --- |"]
        lines += [f"| `{key}` | PyTorch's {net} |" for key, net in report["fallbacks"].items()]
    if report["warnings"]:
        lines += ["\n## Warnings\n", *(f"- {message}" for message in report["warnings"])]
    if report["contradictions"]:
        lines += [
            "\n## Sizes that inference and the capture disagree on\n",
            *(f"- {message}" for message in report["contradictions"]),
        ]
    return lines


def _fenced(language: str, text: str) -> str:
    return f"```{language}\n{text}\n```"
