"""Checks the rules of the house that no other tool knows; prints every breach, exits 1 if any."""

import ast
import functools
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
# Algorithms that return a range, and views: clang 14, which builds the fuzz targets, rejects them.
RETURNS_RANGE = re.compile(
    r"std::(views|ranges::(views|subrange|unique|remove|remove_if|partition|stable_partition"
    r"|rotate|search|equal_range))\b"
)
SKIP = re.compile(r"\bpytest\.(mark\.)?skip|\bunittest\.skip|\bGTEST_SKIP|\bimportorskip")
# The Python package; PyTorch's private names are used in one room of it.
PACKAGE = pathlib.Path("torch_ext/onnx_native")
MAX_IMPORTS = 13
ROOM_ROW = re.compile(r"^\| `(\w+)` \| [^|]+ \| ([^|]+) \|$", re.MULTILINE)
PRIVATE_TORCH = re.compile(r"torch(?!\.ops\.)(\.\w+)*\.(_[a-zA-Z]|fx\.experimental)\w*(\.\w+)*")
# Names of other libraries are data of a module and a room of the package.
LIBRARIES = ("transformers", "diffusers", "torchvision", "torchaudio", "timm", "onnxscript", "peft")
LIBRARY_NAME = re.compile(rf"({'|'.join(LIBRARIES)})(\.\w+)*\.?")
KNOWS_LIBRARIES = ("_libraries.py", "decoders")
SYM_NODE_FIELDS = {"expr", "hint", "shape_env"}
# What a line of C++ at a namespace's level declares: a type, or else a function or a variable.
DECLARED = re.compile(
    r"^(?:(?:struct|class|enum class|enum) (\w+)(?! \w)"
    r"|(?!using|namespace|return|typedef|#|//|TEST)\w[^(=;{]*?[\s&*>](\w+)(?: =|[({;\[]))"
)
LOCAL = re.compile(r"^namespace \{\n(.*?)^\}  // namespace$", re.MULTILINE | re.DOTALL)
NAMESPACE = re.compile(r"^namespace ([\w:]+) \{$", re.MULTILINE)
OWN_INCLUDE = re.compile(r'^#include "([^"]+\.h)"$', re.MULTILINE)
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


def dotted(node: ast.expr) -> str:
    """The text of a chain of names, `a.b.c`; empty for other expressions."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (base := dotted(node.value)):
        return f"{base}.{node.attr}"
    return ""


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__")


def names_used(node: ast.AST) -> Iterator[str]:
    """Names of PyTorch in an import, an attribute or a string."""
    if isinstance(node, ast.ImportFrom):
        yield from (f"{node.module}.{alias.name}" for alias in node.names)
    elif isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.Attribute):
        yield dotted(node)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value


def private_uses(text: str) -> Iterator[tuple[int, str]]:
    """Yields (line number, private name) of what only the room `upstream` may use."""
    for node in ast.walk(ast.parse(text)):
        for name in names_used(node):
            if PRIVATE_TORCH.fullmatch(name):
                yield node.lineno, name  # type: ignore[attr-defined]
        if not isinstance(node, ast.Attribute):
            continue
        base = dotted(node.value)
        allowed = base in ("self", "cls", "sys") or base.startswith("torch.ops.")
        of_size = isinstance(node.value, ast.Attribute) and node.value.attr == "node"
        if (is_private(node.attr) and not allowed) or (of_size and node.attr in SYM_NODE_FIELDS):
            yield node.lineno, f".{node.attr}"


@functools.cache
def rooms_of_package() -> dict[str, set[str]]:
    """The rooms of the Python package with those that each may import from: its README's table."""
    rows = ROOM_ROW.findall((ROOT / PACKAGE / "README.md").read_text())
    return {room: {room, *re.findall(r"`(\w+)`", others)} for room, others in rows}


def package_imports(text: str) -> Iterator[tuple[int, str, str]]:
    """Yields (line number, room, module) of the package's modules that a module imports."""
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.ImportFrom) or node.module is None:
            continue
        top, *rest = node.module.split(".")
        if top != "onnx_native":
            continue
        for alias in node.names:
            room, module, *_ = [*rest, alias.name, ""]
            yield node.lineno, *((room, module) if module else ("", room))


def library_names(text: str) -> Iterator[tuple[int, str]]:
    """Yields (line number, text) of the strings that name a module of another library."""
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
            continue
        if LIBRARY_NAME.fullmatch(node.value):
            yield node.lineno, node.value


def package_breaches(path: pathlib.Path, text: str) -> Iterator[tuple[int, str]]:
    """Yields (line number, what is wrong) in a module of the Python package."""
    room = path.parts[0] if len(path.parts) > 1 else ""
    if room != "upstream":
        for number, name in private_uses(text):
            yield number, f"the private name {name}; the room upstream is the place for it"
    for number, line in enumerate(text.splitlines(), 1):
        if "inspect.currentframe(" in line:
            yield number, "a frame that holds itself outlives its call; sys._getframe(1) does not"
    if path.parts[0] not in KNOWS_LIBRARIES:
        for number, name in library_names(text):
            yield number, f"the name {name!r} of another library; _libraries is the place for it"
    if not room:
        return
    rooms = rooms_of_package()
    if room not in rooms:
        yield 0, f"the room {room} is not in the table of {PACKAGE}/README.md"
        return
    imports = list(package_imports(text))
    for number, other, _ in imports:
        if other and not other.startswith("_") and other not in rooms[room]:
            yield number, f"the room {room} may not import from {other}"
    if len({each[1:] for each in imports if not each[1].startswith("_") and each[1]}) > MAX_IMPORTS:
        yield 0, f"more than {MAX_IMPORTS} imports from the package"


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
        if top in ("csrc", "torch_ext") and RETURNS_RANGE.search(line):
            yield number, "a range of <ranges>, which clang 14 rejects; the algorithm of iterators"
        if top == "csrc" and PYTHON_INCLUDE.search(line):
            yield number, "Python in csrc"
        if path.suffix in (".cpp", ".h") and UPWARD_INCLUDE.search(line):
            yield number, "an include that climbs out of its room"
        if room == "ops" and path.parts[2] != "engine" and '"onnx/typing.h"' in line:
            yield number, "a lowering that writes types; Builder::refine states sizes"
        if top == "test" and SKIP.search(line):
            yield number, "a skipped test; a known failure is xfail(strict=True) with a reason"
    if path.is_relative_to(PACKAGE) and path.suffix == ".py":
        yield from package_breaches(path.relative_to(PACKAGE), text)
    if top == "test" and path.suffix == ".py":
        for match in LOOSE_XFAIL.finditer(text):
            yield text.count("\n", 0, match.start()) + 1, "xfail without strict=True"


def same_names(paths: list[pathlib.Path]) -> Iterator[tuple[str, list[pathlib.Path]]]:
    """Yields the names of public classes that several modules of the package have."""
    places: dict[str, list[pathlib.Path]] = {}
    for path in paths:
        if path.is_relative_to(PACKAGE) and path.suffix == ".py" and (ROOT / path).exists():
            for node in ast.parse((ROOT / path).read_text()).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    places.setdefault(node.name, []).append(path)
    yield from ((name, modules) for name, modules in places.items() if len(modules) > 1)


def declared(text: str) -> set[str]:
    """The names that C++ declares at the start of a line."""
    matches = (DECLARED.match(line) for line in text.splitlines())
    return {match[1] or match[2] for match in matches if match}


def encloses(header: str, source: str) -> bool:
    """Returns true if a namespace of the header is one of the source, or is around it."""
    outer = tuple(f"{each}::" for each in NAMESPACE.findall(header))
    return any(f"{each}::".startswith(outer) for each in NAMESPACE.findall(source))


def shared_local_names(
    paths: list[pathlib.Path],
) -> Iterator[tuple[pathlib.Path, str, pathlib.Path]]:
    """Yields (source, name, other file) of the names in anonymous namespaces that another source
    of the folder has in its own, or that hide what a header declares."""
    folders: dict[pathlib.Path, dict[pathlib.Path, str]] = {}
    for path in paths:
        full = ROOT / path
        if path.suffix == ".cpp" and path.parts[0] in ("csrc", "torch_ext") and full.exists():
            folders.setdefault(path.parent, {})[path] = full.read_text()
    for sources in folders.values():
        headers = {name for text in sources.values() for name in OWN_INCLUDE.findall(text)}
        files = [pathlib.Path(top, name) for top in ("csrc", "torch_ext") for name in headers]
        texts = {each: (ROOT / each).read_text() for each in files if (ROOT / each).exists()}
        places: dict[str, pathlib.Path] = {}
        for source, text in sources.items():
            names = declared("".join(LOCAL.findall(text)))
            yield from ((source, name, places[name]) for name in sorted(names & places.keys()))
            places.update(dict.fromkeys(names, source))
            for header, declarations in texts.items():
                if encloses(declarations, text):
                    hidden = sorted(names & declared(declarations))
                    yield from ((source, name, header) for name in hidden)


def main() -> int:
    found = 0
    for path, name, other in shared_local_names(tracked_files()):
        found += 1
        print(f"{path}: the local name {name} is also in {other}; they compile together")
    for name, modules in same_names(tracked_files()):
        found += 1
        print(f"{modules[0]}: the class {name} has the name of another one, in {modules[1]}")
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
