"""A hook of mkdocs: bars drawn from tables of the documentation.

A page says which table, with a comment that GitHub does not show:

    <!-- plot: decoders.md#one-token-after-1024; labels=model; series=exporter; value=ms -->

`labels` are the columns that name a group of bars. The bars of a group are either the columns
`values`, or the rows that have the same labels: their names are in the column `series`, and their
numbers in the column `value`. `scale=log` is for numbers of different magnitude, and `rows=WORD`
keeps only rows with that word.
"""

from __future__ import annotations

import html
import math
import pathlib
import posixpath
import re
from typing import Any

DOCS = pathlib.Path(__file__).resolve().parent.parent / "docs"
PLOT = re.compile(r"^<!-- plot: (\S+)#([\w-]+); (.*?) -->$", re.MULTILINE)
COLORS = ("#9e9e9e", "#3f51b5", "#26a69a", "#ef6c00", "#8e24aa")
WIDTH, LEFT, BAR, GAP = 760, 210, 11, 8
# Groups of bars: a label, and the number of each series that the group has.
Groups = dict[str, dict[str, float]]


def slug(heading: str) -> str:
    return re.sub(r"[^\w]+", "-", heading.lower()).strip("-")


def table(path: str, anchor: str) -> list[dict[str, str]]:
    """Returns the rows of the first table below a heading of a page."""
    lines = (DOCS / path).read_text(encoding="utf-8").splitlines()
    start = next(
        number
        for number, line in enumerate(lines)
        if line.startswith("#") and slug(line.lstrip("# ")) == anchor
    )
    rows: list[list[str]] = []
    for line in lines[start:]:
        if line.startswith("|"):
            rows.append([cell.strip() for cell in line.strip().strip("|").split("|")])
        elif rows:
            break
    names, _, *cells = rows
    return [dict(zip(names, each, strict=True)) for each in cells]


def number(cell: str) -> float | None:
    found = re.match(r"[\d.]+", cell)
    return float(found[0]) if found else None


def groups(rows: list[dict[str, str]], options: dict[str, str]) -> Groups:
    found: Groups = {}
    for row in rows:
        label = " ".join(row[name] for name in options["labels"].split(", "))
        if options.get("rows", "") not in label:
            continue
        names = options.get("values", "").split(" | ") if "values" in options else []
        cells = {name: row[name] for name in names} or {
            row[options["series"]]: row[options["value"]]
        }
        for name, cell in cells.items():
            value = number(cell)
            if value is not None:
                found.setdefault(label, {})[name] = value
    return found


def drawn(bars: Groups, is_log: bool, title: str) -> str:
    """Returns an SVG of horizontal bars with their numbers."""
    series = list(dict.fromkeys(name for group in bars.values() for name in group))
    values = [value for group in bars.values() for value in group.values()]
    lowest = 10 ** math.floor(math.log10(min(values))) if is_log else 0.0

    def length(value: float) -> float:
        room = WIDTH - LEFT - 60
        if is_log:
            return room * math.log(value / lowest) / math.log(max(values) / lowest)
        return room * value / max(values)

    parts, y = [], 8
    for place, name in enumerate(series):
        parts.append(f'<rect x="{LEFT}" y="{y}" width="11" height="11" fill="{COLORS[place]}"/>')
        parts.append(f'<text x="{LEFT + 17}" y="{y + 10}">{html.escape(name)}</text>')
        y += 17
    y += GAP
    for label, group in bars.items():
        middle = y + len(group) * BAR / 2 + 4
        parts.append(
            f'<text x="{LEFT - 8}" y="{middle:g}" class="label">{html.escape(label)}</text>'
        )
        for name, value in group.items():
            size = f'width="{length(value):.1f}" height="{BAR - 1}"'
            color = COLORS[series.index(name)]
            parts.append(f'<rect x="{LEFT}" y="{y}" {size} fill="{color}"/>')
            end = LEFT + length(value) + 4
            parts.append(f'<text x="{end:.1f}" y="{y + 9}" class="number">{value:g}</text>')
            y += BAR
        y += GAP
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="plot" viewBox="0 0 {WIDTH} {y}" '
        f'role="img" aria-label="{html.escape(title)}">{"".join(parts)}</svg>'
    )


def plot(match: re.Match[str], page: str) -> str:
    path = posixpath.normpath(posixpath.join(posixpath.dirname(page), match[1]))
    options = dict(part.split("=", 1) for part in match[3].split("; "))
    bars = groups(table(path, match[2]), options)
    svg = drawn(bars, options.get("scale") == "log", match[2])
    return f'<div class="plot">\n{svg}\n</div>'


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    return PLOT.sub(lambda match: plot(match, page.file.src_uri), markdown)
