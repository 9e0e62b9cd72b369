"""The page that tools.py writes: how many models a tool takes, and why it does not take others."""

from __future__ import annotations

import collections
import datetime
import re
from typing import Any

EXPORTERS = ("ours", "PyTorch's")
LENGTH = 90  # of a message

# What a message is about; the rest of it is paths, times and traces.
CAUSES = (
    re.compile(r"ExportError \[unsupported\]: (?P<cause>[^;]*)"),  # ours
    re.compile(r"Op Not Support: ?(?P<cause>.*?) Converted"),  # MNN
    re.compile(r"(?P<cause>Rebuild subgraph for \w+)"),  # MNN, before it crashes
    re.compile(r"Failed operations detailed log: -- (?P<cause>\S+)"),  # OpenVINO
    re.compile(r"OpenCV\([\d.]+\) (?P<cause>.*)"),
    re.compile(r"\w*Error: exit status \S+: (?P<cause>.*)"),
    re.compile(r"(?P<cause>.*)"),
)
# Parts that differ from model to model, or say nothing.
NOISE = (
    (re.compile(r"Stack backtrace.*"), ""),
    (re.compile(r"/[\w./+-]*/"), ""),
    (re.compile(r"\[\d\d:\d\d:\d\d\]"), ""),
    (re.compile(r"error: \(-\d+:[^)]*\)"), ""),
    (re.compile(r" in function .*"), ""),
    (re.compile(r"\x1b\[\d+m.*"), ""),  # a hint in color
    (re.compile(r"TractError: (?P<rest>.*)"), lambda found: innermost(found["rest"])),
)


def innermost(chain: str) -> str:
    """Returns the operator and the last cause of a chain of tract's errors, without its numbers."""
    head, _, causes = chain.partition(" Caused by: ")
    last = re.split(r"\b\d+: ", causes)[-1] if causes else ""
    last = re.sub(r"\[.*| in expression.*|#\d+.*", "", last)
    return f"{head.split()[-1]}: {re.sub(r'[0-9]+', 'N', last)}"


def shortened(message: str) -> str:
    """Returns what a message says about a cause, in a line."""
    for noise, text in NOISE:
        message = noise.sub(text, message)
    found = next(filter(None, (cause.search(message) for cause in CAUSES)))
    text = " ".join(found["cause"].split()).replace("|", "\\|").replace("`", "'")
    return text if len(text) <= LENGTH else text[: LENGTH - 3].rstrip() + "..."


def counts(
    rows: list[dict[str, Any]], tools: list[str], exporters: tuple[str, ...] = EXPORTERS
) -> list[str]:
    """Returns a row for each opset and sizes: how many models are right."""
    lines = []
    for opset, sizes in sorted(
        {(row["opset"], row["sizes"]) for row in rows}, key=lambda each: (-each[0], each[1])
    ):
        cells = []
        of = [row for row in rows if (row["opset"], row["sizes"]) == (opset, sizes)]
        for tool in tools:
            parts = []
            for exporter in exporters:
                states = [
                    row["tools"][tool][0]
                    for row in of
                    if row["exporter"] == exporter and tool in row["tools"]
                ]
                parts.append(f"{states.count('right')} of {len(states)}" if states else "-")
            cells.append(", ".join(parts))
        lines.append(f"| {opset} | {sizes} | " + " | ".join(cells) + " |")
    return lines


def named(found: list[dict[str, Any]], tried: list[dict[str, Any]]) -> str:
    """Names models, each with the opset and the sizes unless it is all that were tried."""
    names = []
    for model in dict.fromkeys(row["model"] for row in found):
        where = {(row["opset"], row["sizes"]) for row in found if row["model"] == model}
        everywhere = {(row["opset"], row["sizes"]) for row in tried if row["model"] == model}
        opsets = sorted({opset for opset, _ in where})
        sizes = sorted({size for _, size in where})
        if where == everywhere:
            names.append(model)
        elif where == {each for each in everywhere if each[1] in sizes}:
            names.append(f"{model} ({', '.join(sizes)})")
        else:
            names.append(f"{model} ({', '.join(map(str, opsets))} {', '.join(sizes)})")
    return ", ".join(names)


def failures(rows: list[dict[str, Any]], exporter: str, tools: list[str]) -> list[str]:
    """Returns a row for each tool, outcome and cause, with its models."""
    mine = [row for row in rows if row["exporter"] == exporter]
    found: dict[tuple[str, str, str], list[dict[str, Any]]] = collections.defaultdict(list)
    for row in mine:
        for tool, (state, message) in row["tools"].items():
            if state == "right" or tool not in tools:
                continue
            text = "" if state.startswith("wrong") else shortened(message)
            where = "all" if state == "is not exported" else tool
            if row not in found[where, state, text]:
                found[where, state, text].append(row)
    lines = ["| tool | outcome | models |", "| --- | --- | --- |"]
    for (tool, state, text), which in sorted(found.items()):
        outcome = f"{state}: {text}" if text else state
        lines.append(f"| {tool} | {outcome} | {named(which, mine)} |")
    return lines


# Why tools do not take some of ours, where it is known: part of the outcome, and the cause.
REASONS = (
    ("tract", "Undetermined symbol", "tract needs the numbers of `Slice` and `Resize` at loading"),
    (
        "tract",
        "Reshape volume mismatch",
        "tract does not compare quotients of sums, such as (32 * height + 3) / 4",
    ),
    ("tract", "Need splits", "experts get as many tokens as the router says"),
    (
        "openvino",
        "DFT-20",
        "sizes that are no powers of two are transformed in float64, to be exact in ONNX Runtime; "
        "OpenVINO takes float32 only, and transforms axis 1 at opset 20, whatever the axis is",
    ),
    (
        "openvino",
        "wrong",
        "OpenVINO's first run of a model that has an `If` with dynamic sizes overwrites other "
        'values; later runs are right, and `branches="example"` leaves the `If` out',
    ),
    (
        "opencv",
        "einsum_layer",
        "OpenCV's `Einsum` takes no other sizes than those of the first run",
    ),
    (
        "mnn",
        "IsNaN",
        'MNN has none; `nan="ignore"` leaves it out, but then MNN gives wrong numbers for mixtral',
    ),
    ("mnn", "DFT", "MNN has none"),
    (
        "mnn",
        "Rebuild subgraph",
        "MNN's converter crashes on a large `If`; "
        '`branches="example"` leaves it out, with a guard',
    ),
)


def reasons() -> list[str]:
    lines = ["## Why", "", "| tool | outcome | because |", "| --- | --- | --- |"]
    return lines + [f"| {tool} | {outcome} | {cause} |" for tool, outcome, cause in REASONS]


def page(rows: list[dict[str, Any]], versions: dict[str, str], seconds: int) -> str:
    tools = list(versions)
    shared = {(row["model"], row["opset"]) for row in rows if row["exporter"] == "PyTorch's"}
    both = [row for row in rows if (row["model"], row["opset"]) in shared]
    head = f"""# Exported models in other tools

`python benchmarks/tools.py --opsets 13,17,20` writes this page; here on {datetime.date.today()}.
It exports models of `test/python/models` (real architectures, small, random weights), and counts
those with which a tool gives eager's results.
Models with dynamic sizes must give them at other sizes than those of the example too. Ours are
written for OpenCV, MNN and tract by `onnx_native.options(target=...)`: see
[targets.md](targets.md).
"""
    columns = [f"{tool} {version}" for tool, version in versions.items()]
    table = ["| opset | sizes | " + " | ".join(columns) + " |"]
    table.append("| --- | --- |" + " --- |" * len(tools))
    compared = f"""
PyTorch's exporter takes long, and has {len({model for model, _ in shared})} of them; one that takes
over {seconds} seconds is not exported. Of these, ours, then PyTorch's:
"""
    lines = [head, *table, *counts(rows, tools, EXPORTERS[:1])]
    lines += [compared, *table, *counts(both, tools)]
    for exporter in EXPORTERS:
        lines += ["", f"## Not right: {exporter}", "", *failures(rows, exporter, tools)]
        if exporter == "ours":
            lines += ["", *reasons()]
    return "\n".join(lines) + "\n"
