"""Implements report=True and profile=True."""

import logging
import pathlib
import re
import traceback
from typing import TYPE_CHECKING, Any

import torch

from onnx_native.program import _contents
from onnx_native.report import _page
from onnx_native.upstream import _upstream

if TYPE_CHECKING:
    from onnx_native.program._program import ONNXProgram
    from onnx_native.verify._verification import Steps, Verification

logger = logging.getLogger(__name__)


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
        self._recording = ""
        self.errors: list[str] = []
        self.faults: list[dict[str, Any]] = []  # of an ExportError
        self._comparison: list[dict[str, Any]] = []

    def captured(self, result: Any) -> None:
        self._steps.append((f"Capture with {result.strategy}", result.exported_program is not None))
        if result.exception is not None:
            self.errors.append("".join(traceback.format_exception(result.exception)))

    def recorded(self, text: str) -> None:
        """Notes the calls that the native capture recorded."""
        self._steps.append(("Native capture", True))
        self._recording = text

    def failed(self, error: Exception) -> None:
        """Notes the error of a conversion."""
        self.errors.append("".join(traceback.format_exception(error)))
        kind = getattr(error, "kind", None)
        self.faults += [{"kind": kind, **fault} for fault in getattr(error, "faults", [])]

    def verified(self, verification: "Verification") -> None:
        self._steps += verification.steps
        self._differences = verification.table() if verification.outputs else ""
        self._comparison = verification.rows()

    def write(
        self,
        captured: torch.export.ExportedProgram | None,
        *,
        program: "ONNXProgram | None" = None,
        postfix: str | None = None,
        profile: str | None = None,
    ) -> pathlib.Path:
        """Writes the report and returns its path."""
        if captured is not None or self._recording:
            self._steps.append(("Translate into ONNX", program is not None))
        if postfix is None:
            postfix = "success" if all(succeeded for _, succeeded in self._steps) else "strategies"
        sections = ["# PyTorch ONNX Conversion Report (onnx_native)\n"]
        sections.append("\n".join(f"- {'✅' if ok else '❌'} {title}" for title, ok in self._steps))
        sections += _faults(self.faults)
        sections.append("\n## Error messages\n")
        sections.append(_fenced("pytb", "\n\n".join(self.errors) or "No errors"))
        if self._differences:
            sections += ["\n## Differences from eager PyTorch\n", _fenced("", self._differences)]
        if program is not None:
            sections += _statistics(program.export_report)
        if captured is not None:
            sections += ["\n## Exported program\n", _fenced("python", str(captured))]
        if self._recording:
            sections += ["\n## Recorded program\n", _fenced("", self._recording)]
        if program is not None:
            sections += ["\n## ONNX model\n", _fenced("python", _contents.of(program).text())]
        if profile is not None:
            sections += ["\n## Profiling result\n", _fenced("", profile)]
        path = self._folder / f"onnx_export_{self._timestamp}_{postfix}.md"
        text = "\n".join(sections) + "\n"
        path.write_text(text, encoding="utf-8", errors="backslashreplace")
        self._write_page(path.with_suffix(".html"), program)
        return path

    def _write_page(self, path: pathlib.Path, program: "ONNXProgram | None") -> None:
        try:
            text = _page.page(self._page_data(path.stem, program))
        except Exception as error:  # the export itself does not fail by it
            logger.warning("The HTML page of the report was not written.", exc_info=error)
            return
        path.write_text(text, encoding="utf-8")

    def _page_data(self, title: str, program: "ONNXProgram | None") -> dict[str, Any]:
        problems = [
            {
                "kind": "error",
                "title": fault["operator"] or "Error",
                "text": _place(fault),
                "code": _stub(fault["operator"]) if _is_missing(fault) else "",
            }
            for fault in self.faults
        ]
        problems += [
            {"kind": "error", "title": "Error message", "text": text, "code": ""}
            for text in self.errors
        ]
        errors = len(problems)
        if program is None:
            return _page.report_data(title, problems=problems, errors=errors)
        report = program.export_report
        problems += [
            {"kind": "warning", "title": "Warning", "text": text, "code": ""}
            for text in report["warnings"]
        ]
        problems += [
            {"kind": "note", "title": f"{op} has no native lowering", "text": net, "code": ""}
            for op, net in report["fallbacks"].items()
        ]
        contents = _contents.of(program)
        model = contents.proto_without_weights()
        opset = next(each.version for each in model.opset_import if not each.domain)
        guards = report["capture"]["guards"]
        problems += [
            {"kind": "note", "title": f"Valid only where {each['condition']}",
             "text": str(each["source"]), "code": ""}
            for each in guards
        ]  # fmt: skip
        return _page.report_data(
            title,
            model=model,
            summary=[
                ("nodes", str(report["onnx_nodes"])),
                ("opset", str(opset)),
                ("of weights", _size(contents.native.weight_bytes)),
                ("capture", str(report["capture"]["by"])),
                ("export", f"{sum(report['seconds'].values()):.2f} s"),
            ],
            facts=[
                *_capture_facts(report),
                *((title, "✅" if ok else "❌") for title, ok in self._steps),
            ],
            seconds=report["seconds"],
            operators=report["operators"],
            passes=report["passes"],
            problems=problems,
            errors=errors,
            comparison=self._comparison,
        )


def _size(count: float) -> str:
    for unit in ("B", "KB", "MB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} GB"


def _is_missing(fault: dict[str, Any]) -> bool:
    return bool(fault["kind"] == "unsupported operator")


def _place(fault: dict[str, Any]) -> str:
    """Returns what a fault is and where, a line each."""
    code = f": {fault['code']}" if fault["code"] else ""
    lines = [
        fault["cause"],
        fault["node"],
        fault["location"] and f"at {fault['location']}{code}",
        fault["module_path"] and f"in {fault['module_path']}",
    ]
    return "\n".join(line for line in lines if line)


def _stub(operator: str) -> str:
    """Returns a lowering of an operator without its nodes."""
    name = operator.split("@")[0]
    return (
        f'@onnx_native.lowering("{name}")\n'
        f"def lower_{re.sub('[^0-9a-zA-Z]+', '_', name)}({', '.join(_parameters(name))}):\n"
        '    return b.op("...", ...)  # the ONNX nodes that compute the results\n'
    )


def _parameters(name: str) -> list[str]:
    """Returns the builder and the arguments of an operator's schema."""
    try:
        space, rest = name.split("::")
        packet, _, overload = rest.partition(".")
        function = getattr(getattr(getattr(torch.ops, space), packet), overload or "default")
        return ["b", *_upstream.argument_names(function)]
    except (AttributeError, RuntimeError, ValueError):
        return ["b", "*args"]


def _faults(faults: list[dict[str, Any]]) -> list[str]:
    missing = {fault["operator"]: fault for fault in faults if _is_missing(fault)}
    if not missing:
        return []
    lines = [
        "\n## Operators without a lowering\n",
        "Fill in a lowering for each (docs/custom-ops.md):",
    ]
    for operator, first in missing.items():
        calls = [fault for fault in faults if fault["operator"] == operator]
        places = [fault["location"] for fault in calls if fault["location"]]
        lines += [f"\n### `{operator}` ({len(calls)} call{'s' * (len(calls) != 1)})\n"]
        lines += [_fenced("", _place(first))]
        if len(places) > 1:
            lines += [f"\nAlso at {', '.join(dict.fromkeys(places[1:]))}."]
        lines += ["", _fenced("python", _stub(operator).rstrip())]
    return lines


def _capture_facts(report: dict[str, Any]) -> list[tuple[str, str]]:
    capture = report["capture"]
    facts = [("Captured by", str(capture["by"]))]
    if capture["reason"]:
        facts.append(("The native capture did not record it", str(capture["reason"])))
    facts += [(f"Size {name}", str(place)) for name, place in capture["dimensions"].items()]
    facts += [
        (f"A loop of {loop['steps']} steps is a Scan", ", ".join(loop["source"]))
        for loop in capture["rolled"]
    ]
    return facts


def _table(names: str, numbers: str, rows: dict[str, Any]) -> list[str]:
    """The lines of a table of numbers."""
    head = [f"| {names} | {numbers} |", "| --- | ---: |"]
    return head + [f"| {name} | {number} |" for name, number in rows.items()]


def _as_code(rows: dict[str, Any]) -> dict[str, Any]:
    return {f"`{name}`": number for name, number in rows.items()}


def _statistics(report: dict[str, Any]) -> list[str]:
    lines = ["\n## Capture\n", *(f"- {name}: {text}" for name, text in _capture_facts(report))]
    guards = report["capture"]["guards"]
    if guards:
        lines += ["\nThe model is valid only where\n"]
        lines += [f"- `{guard['condition']}` ({guard['source']})" for guard in guards]
    seconds = {stage: f"{seconds:.4f}" for stage, seconds in report["seconds"].items()}
    lines += ["\n## Seconds\n", *_table("stage", "seconds", seconds)]
    lines += [
        "\n## Operators\n",
        f"{report['aten_nodes']} ATen calls became {report['onnx_nodes']} ONNX nodes.\n",
        *_table("operator", "calls", _as_code(report["operators"])),
    ]
    if report["passes"]:
        lines += ["\n## Passes\n", *_table("pass", "changes", _as_code(report["passes"]))]
    if report["half_nodes"]:
        lines += [
            "\n## Half precision\n",
            f"{report['half_nodes']} nodes compute in half precision, and these in float32:\n",
            *_table("operator", "nodes", _as_code(report["float32_nodes"])),
        ]
    if report["quantized_weights"]:
        lines += ["\n## Quantized weights\n", "| weight | operator |", "| --- | --- |"]
        lines += [f"| `{name}` | {op} |" for name, op in report["quantized_weights"].items()]
    if report["unquantized_weights"]:
        lines += ["\n## Weights that were not quantized\n", "| weight | reason |", "| --- | --- |"]
        lines += [f"| `{name}` | {why} |" for name, why in report["unquantized_weights"].items()]
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
    """Returns a block of code whose fence is not in the text."""
    longest = max(map(len, re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"
