"""Implements report=True and profile=True."""

import pathlib
import traceback
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from onnx_native._program import ONNXProgram
    from onnx_native._verification import Steps, Verification


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


class Report:
    """Collects the steps and errors of an export and writes them as Markdown."""

    def __init__(self, folder: pathlib.Path, timestamp: str) -> None:
        self._folder = folder
        self._timestamp = timestamp
        self._steps: Steps = []
        self._differences = ""
        self.errors: list[str] = []

    def captured(self, result: Any) -> None:
        self._steps.append((f"Capture with {result.strategy}", result.exported_program is not None))
        if result.exception is not None:
            self.errors.append("".join(traceback.format_exception(result.exception)))

    def verified(self, verification: "Verification") -> None:
        self._steps += verification.steps
        self._differences = verification.table() if verification.outputs else ""

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
        if self._differences:
            sections += ["\n## Differences from eager PyTorch\n", _fenced("", self._differences)]
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
