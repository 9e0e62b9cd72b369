"""Checks the rules of the house that no other tool knows; prints every breach, exits 1 if any."""

import pathlib
import re
import subprocess
import sys
from collections.abc import Iterator

ROOT = pathlib.Path(__file__).resolve().parent.parent
MAX_LINES = 600
FORBIDDEN_NAMES = {"utils", "util", "misc", "common", "helpers", "helper"}
NO_TORCH_ROOMS = ("base", "onnx", "ops", "passes", "writer")
TORCH_INCLUDE = re.compile(r'#include [<"](torch|ATen|c10|caffe2|pybind11)/')
PROTOBUF_INCLUDE = re.compile(r'#include [<"](.*\.pb\.h|google/protobuf/.*)[>"]')
PYTHON_INCLUDE = re.compile(
    r'#include [<"](Python\.h|pybind11/|torch/csrc/(utils/pybind|Exceptions))'
)
UPWARD_INCLUDE = re.compile(r'#include "\.\.')
SKIP = re.compile(r"\bpytest\.(mark\.)?skip|\bunittest\.skip|\bGTEST_SKIP|\bimportorskip")
LOOSE_XFAIL = re.compile(r"\bxfail\((?![^\0]{0,300}?strict=True)")


def tracked_files() -> list[pathlib.Path]:
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    return [pathlib.Path(name) for name in listing.stdout.split("\0") if name]


def breaches(path: pathlib.Path, text: str) -> Iterator[tuple[int, str]]:
    """Yields (line number, what is wrong); line 0 stands for the file as a whole."""
    top = path.parts[0]
    words = {word for part in path.parts for word in re.split(r"[._-]", part)}
    if words & FORBIDDEN_NAMES:
        yield 0, "a name that says nothing (utils, misc, common, helpers)"
    if top not in ("csrc", "torch_ext", "test", "examples", "benchmarks"):
        return
    lines = text.splitlines()
    if top in ("csrc", "torch_ext") and len(lines) > MAX_LINES and path.suffix != ".md":
        yield 0, f"{len(lines)} lines; the limit is {MAX_LINES}"
    if path.suffix == ".h" and "#pragma once" not in text:
        yield 0, "a header without #pragma once"
    room = path.parts[1] if top == "csrc" and len(path.parts) > 2 else ""
    for number, line in enumerate(lines, 1):
        if room in NO_TORCH_ROOMS and TORCH_INCLUDE.search(line):
            yield number, f"a torch header in csrc/{room}"
        if PROTOBUF_INCLUDE.search(line) and room != "writer" and top != "test":
            yield number, "a protobuf header outside csrc/writer"
        if top == "csrc" and PYTHON_INCLUDE.search(line):
            yield number, "Python in csrc"
        if path.suffix in (".cpp", ".h") and UPWARD_INCLUDE.search(line):
            yield number, "an include that climbs out of its room"
        if top == "test" and SKIP.search(line):
            yield number, "a skipped test; a known failure is xfail(strict=True) with a reason"
    if top == "test" and path.suffix == ".py":
        for match in LOOSE_XFAIL.finditer(text):
            yield text.count("\n", 0, match.start()) + 1, "xfail without strict=True"


def main() -> int:
    found = 0
    for path in tracked_files():
        if path.suffix not in (".cpp", ".h", ".py", ".md", ".pyi"):
            continue
        full = ROOT / path
        if not full.exists():
            continue
        for line, message in breaches(path, full.read_text()):
            found += 1
            print(f"{path}:{line}: {message}" if line else f"{path}: {message}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
