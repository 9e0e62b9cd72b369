"""What graphs.py measured, as a Markdown page and plots."""

import collections
import datetime
import pathlib
import statistics
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

Result = dict[str, Any]  # model, opset, graphs: exporter -> its figures and errors

# Measure -> its heading, and how its figure prints.
MEASURES: dict[str, tuple[str, str]] = {
    "nodes": ("nodes", "{:.0f}"),
    "bytes": ("file (MB)", "{:.2f}"),
    "default": ("ONNX Runtime, default (ms)", "{:.2f}"),
    "off": ("ONNX Runtime, optimizations off (ms)", "{:.2f}"),
    "openvino": ("OpenVINO (ms)", "{:.2f}"),
}
SCALES = {"bytes": 1e-6, "default": 1e3, "off": 1e3, "openvino": 1e3}
THEIRS = "theirs"
ERRORS = ("error", "default error", "off error", "openvino error")
FILE = "graphs.md"


def cell(figures: Result, measure: str) -> str:
    if measure not in figures:
        return "fails" if "error" in figures or f"{measure} error" in figures else ""
    shown = MEASURES[measure][1].format(figures[measure] * SCALES.get(measure, 1))
    return f"{shown} !" if "error" in figures or f"{measure} error" in figures else shown


def ratio(result: Result, who: str, measure: str) -> float | None:
    """An exporter's figure by PyTorch's; None if one has no figure, or this one has errors.

    PyTorch's graph counts with wrong numbers too: often those of rows that are fully masked.
    """
    own, theirs = (result["graphs"].get(each, {}) for each in (who, THEIRS))
    if any(key in own for key in ("error", f"{measure} error")):
        return None
    return own[measure] / theirs[measure] if own.get(measure) and theirs.get(measure) else None


def number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def exporters(results: Iterable[Result]) -> list[str]:
    """Every exporter but PyTorch's."""
    return list(dict.fromkeys(who for each in results for who in each["graphs"] if who != THEIRS))


def measures(results: Iterable[Result]) -> list[str]:
    found = {key for each in results for figures in each["graphs"].values() for key in figures}
    return [measure for measure in MEASURES if measure in found]


def line(result: Result) -> str:
    """One line of progress."""
    parts = [f"{result['model']} at opset {result['opset']}:"]
    for who, figures in result["graphs"].items():
        shown = [f"{m} {cell(figures, m)}" for m in MEASURES if m in figures]
        wrong = [f"{kind}: {figures[kind][:160]}" for kind in ERRORS if kind in figures]
        parts.append(f"\n    {who}: " + ", ".join(shown + wrong))
    return "".join(parts)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield "| " + " | ".join(head) + " |"
    yield "| --- |" + " --: |" * (len(head) - 1)
    for row in rows:
        yield "| " + " | ".join(row) + " |"
    yield ""


def figures_of_opset(results: list[Result]) -> Iterator[str]:
    ours = exporters(results)
    for measure in measures(results):
        head = ["model", "PyTorch's", *(column for who in ours for column in (who, "ratio"))]
        rows = []
        for result in results:
            graphs = result["graphs"]
            row = [result["model"], cell(graphs[THEIRS], measure)]
            for who in ours:
                row += [cell(graphs[who], measure), number(ratio(result, who, measure))]
            rows.append(row)
        yield f"### {MEASURES[measure][0]}"
        yield ""
        yield from table(head, rows)


def medians(results: list[Result]) -> Iterator[str]:
    rows = []
    for opset in opsets(results):
        chosen = [each for each in results if each["opset"] == opset]
        for who in exporters(chosen):
            for measure in measures(chosen):
                ratios = {
                    each["model"]: found
                    for each in chosen
                    if (found := ratio(each, who, measure)) is not None
                }
                if not ratios:
                    continue
                worst = max(ratios, key=ratios.__getitem__)
                median = number(statistics.median(ratios.values()))
                least = f"{number(ratios[worst])} ({worst})"
                heading = MEASURES[measure][0]
                rows.append([heading, str(opset), who, median, least, str(len(ratios))])
    yield from table(["measure", "opset", "exporter", "median ratio", "worst", "models"], rows)


def against_best_opset(results: list[Result]) -> Iterator[str]:
    """The least latency over the opsets, each exporter's own best."""
    best: dict[str, dict[str, float]] = collections.defaultdict(dict)
    for result in results:
        for who, figures in result["graphs"].items():
            if "default" in figures and (who == THEIRS or "error" not in figures):
                known = best[result["model"]]
                known[who] = min(known.get(who, float("inf")), figures["default"])
    rows = []
    for who in exporters(results):
        ratios = [each[who] / each[THEIRS] for each in best.values() if {who, THEIRS} <= set(each)]
        if ratios:
            median = number(statistics.median(ratios))
            rows.append([who, median, number(max(ratios)), str(len(ratios))])
    if rows:
        yield "Default latency at the best opset of each exporter:"
        yield ""
        yield from table(["exporter", "median ratio", "worst", "models"], rows)


def more_operators(result: Result, who: str) -> collections.Counter[str]:
    """By operator, the nodes that this exporter has more than PyTorch's."""
    counts = [
        collections.Counter(result["graphs"][each].get("operators", {})) for each in (who, THEIRS)
    ]
    return counts[0] - counts[1] if all(counts) else collections.Counter()


def surplus(results: list[Result]) -> Iterator[str]:
    for who in exporters(results):
        total: collections.Counter[str] = collections.Counter()
        where: dict[str, list[tuple[int, str]]] = collections.defaultdict(list)
        for result in results:
            more = more_operators(result, who)
            total += more
            for operator, count in more.items():
                where[operator].append((count, result["model"]))
        rows = []
        for operator, count in total.most_common():
            models = ", ".join(f"{name} {n}" for n, name in sorted(where[operator], reverse=True))
            rows.append([operator, str(count), models])
        yield f"Operators of which `{who}` has more nodes than PyTorch's exporter:"
        yield ""
        yield from table(["operator", "nodes", "models"], rows)


def errors(results: list[Result]) -> Iterator[str]:
    for result in results:
        for who, figures in result["graphs"].items():
            for kind in ERRORS:
                if kind in figures:
                    text = figures[kind].replace("|", "\\|").replace("`", "'")
                    where = f"{result['model']}, opset {result['opset']}, {who}"
                    yield f"- {where}: {kind}: `{text[:300]}`"


def opsets(results: Iterable[Result]) -> list[int]:
    return sorted({each["opset"] for each in results})


def page(results: list[Result], plots: list[str]) -> Iterator[str]:
    yield "# Exported graphs against those of PyTorch's exporter"
    yield ""
    today = datetime.date.today()
    yield f"Written by `python benchmarks/graphs.py` on {today}. Both exporters export the same"
    yield "captured program. A ratio below 1 means that ours is smaller or faster. `!`: see the"
    yield "errors at the end."
    if {"default", "off"} & set(measures(results)):
        yield "Latencies are the least of many runs of several sessions in one thread; the"
        yield "exporters take turns."
    yield ""
    for plot in plots:
        yield f"![{plot.removesuffix('.svg')}]({plot})"
        yield ""
    yield "## Medians"
    yield ""
    yield from medians(results)
    yield from against_best_opset(results)
    for opset in opsets(results):
        chosen = [each for each in results if each["opset"] == opset]
        yield f"## Opset {opset}"
        yield ""
        yield from figures_of_opset(chosen)
        yield from surplus(chosen)
    failed = list(errors(results))
    if failed:
        yield "## Errors"
        yield ""
        yield from failed
        yield ""


def plot(results: list[Result], measure: str, path: pathlib.Path) -> None:
    """Bars of ratios, a group per model."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "graphs"
    import matplotlib.pyplot as plt

    names = list(dict.fromkeys(each["model"] for each in results))
    series = {
        f"{who}, opset {opset}": {
            each["model"]: ratio(each, who, measure) for each in results if each["opset"] == opset
        }
        for opset in opsets(results)
        for who in exporters(results)
    }
    width = 0.8 / max(len(series), 1)
    figure, axes = plt.subplots(figsize=(11, 3.6))
    for i, (label, ratios) in enumerate(series.items()):
        places = [x + i * width for x in range(len(names))]
        axes.bar(places, [ratios.get(name) or 0 for name in names], width, label=label)
    axes.axhline(1, color="black", linewidth=1)
    axes.set_xticks(
        [x + 0.4 - width / 2 for x in range(len(names))], names, rotation=45, ha="right"
    )
    axes.set_ylabel("ratio to PyTorch's exporter")
    axes.set_title(MEASURES[measure][0])
    axes.legend(fontsize="small")
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def write(results: list[Result], folder: pathlib.Path) -> None:
    plots = []
    for measure in measures(results):
        if measure != "bytes":
            plots.append(f"{measure}.svg")
            plot(results, measure, folder / plots[-1])
    (folder / FILE).write_text("\n".join(page(results, plots)).rstrip("\n") + "\n")
