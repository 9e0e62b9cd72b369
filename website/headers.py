"""The public C++ headers as text: each declaration with the comment above it.

The headers are those that cmake/PublicHeaders.cmake installs. The reader knows only what they
contain: comments of `//`, and declarations that begin at the start of a line of their namespace.
"""

from __future__ import annotations

import dataclasses
import pathlib
import re
from collections.abc import Iterator

ROOT = pathlib.Path(__file__).resolve().parent.parent
PUBLIC = ROOT / "csrc/include/onnx_native"
LISTED = re.compile(r"list\(APPEND public_headers\n(.*?)\)", re.DOTALL)
# Installed because others include them.
INCLUDED_ONLY = (
    "base/checked_vector.h", "aten/", "onnx/graph.h", "onnx/infer.h", "onnx/number.h",
    "ops/engine/binder.h", "ops/engine/call.h",
)  # fmt: skip
NAMESPACE = re.compile(r"namespace ([\w:]+) \{")
NAME = re.compile(
    r"(?:\b(?:struct|class|enum class|using)\s+(?:\w+::)*(\w+))|(\w+|operator\S+)\s*(?:\(|\{|;|=)"
)


@dataclasses.dataclass
class Declaration:
    """One or more declarations without a blank line between them, and their comment."""

    comment: list[str]
    code: list[str]

    @property
    def name(self) -> str:
        text = re.sub(r"template <.*?>\n|\[\[\w+\]\] ", "", "\n".join(self.code))
        found = NAME.search(re.sub(r"//.*", "", text))
        return (found[1] or found[2]) if found else text.strip()

    @property
    def is_documented(self) -> bool:
        return bool(self.comment) or any("//" in line for line in self.code)

    def members(self) -> Iterator[Declaration]:
        """Yields the groups of public members of a class."""
        head = re.sub(r"\s+", " ", self.code[0])
        if not re.match(r"(template .*)?(struct|class|enum class) [^;]*\{$", head):
            return
        group = Declaration([], [])
        public = not head.startswith("class")
        for line in self.code[1:-1]:
            if re.match(r" *(public|private|protected):", line):
                public = "public" in line
            elif line.strip() and public:
                (group.comment if line.strip().startswith("//") else group.code).append(line)
                continue
            if group.code:
                yield group
            group = Declaration([], [])
        if group.code:
            yield group


def public_headers() -> list[str]:
    """Returns the paths of the headers under csrc that users read, the entry points first."""
    own = [str(path.relative_to(ROOT / "csrc")) for path in sorted(PUBLIC.glob("*.h"))]
    listed = LISTED.search((ROOT / "cmake/PublicHeaders.cmake").read_text(encoding="utf-8"))
    assert listed
    return own + [header for header in listed[1].split() if not header.startswith(INCLUDED_ONLY)]


def parts(header: str) -> tuple[list[str], list[Declaration]]:
    """Returns the comment that begins a header, and its declarations outside of `detail`."""
    lead: list[str] = []
    found: list[Declaration] = []
    inside: list[str] = []
    comment: list[str] = []
    code: list[str] = []
    depth = 0
    for line in (ROOT / "csrc" / header).read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            lead, comment = lead or comment, []
        elif not code and (namespace := NAMESPACE.fullmatch(line)):
            inside.append(namespace[1])
        elif inside and not code and line.startswith("}"):
            inside.pop()
        elif not code and line.startswith("//"):
            comment.append(line[2:])
        elif not code and not line:
            comment = []
        elif inside:
            code.append(re.sub(r" +// NOLINT.*", "", line))
            bare = re.sub(r"//.*|\"[^\"]*\"", "", line)
            depth += sum(map(bare.count, "{(")) - sum(map(bare.count, "})"))
            if depth == 0 and bare.rstrip().endswith((";", "}")):
                if "detail" not in inside and len(code) + len(comment) > 0:
                    found.append(Declaration(comment, code))
                comment, code = [], []
    return lead, joined(found, header)


def joined(declarations: list[Declaration], header: str) -> list[Declaration]:
    """Joins a declaration without a comment with the one directly above it."""
    text = (ROOT / "csrc" / header).read_text(encoding="utf-8")
    result: list[Declaration] = []
    for each in declarations:
        if each.code[0].startswith(("class ", "struct ")) and each.code[0].endswith(";"):
            continue  # declared only
        if result and not each.comment:
            both = "\n".join([*result[-1].code, *each.code])
            if both in text:
                result[-1].code += each.code
                continue
        result.append(each)
    return result


def undocumented() -> list[str]:
    """Returns the public names without a comment."""
    names = []
    for header in public_headers():
        lead, declarations = parts(header)
        if not lead:
            names.append(header)
        for each in declarations:
            if not each.is_documented:
                names.append(f"{header}: {each.name}")
            names += [
                f"{header}: {each.name}::{member.name}"
                for member in each.members()
                if not (member.is_documented or each.comment or "//" in each.code[0])
            ]
    return names


def prose(comment: list[str]) -> list[str]:
    """Returns a comment as Markdown: indented lines are code."""
    lines: list[str] = []
    is_code = False
    for line in comment:
        text = line[1:] if line.startswith(" ") else line
        if text.startswith("  ") != is_code and text:
            is_code = not is_code
            lines += ["", "```cpp"] if is_code else ["```", ""]
        lines.append(text[2:] if is_code else re.sub(r"<(?=\w)", "&lt;", text))
    return [*lines, "```"] if is_code else lines


def page() -> str:
    """Returns the reference of all headers."""
    lines = ["# C++ headers", "", "See [From C++](../cpp.md) for how they are used.", ""]
    for header in public_headers():
        lead, declarations = parts(header)
        shown = header.removeprefix("include/")
        shown = shown if shown.startswith("onnx_native/") else f"onnx_native/{shown}"
        lines += [f"## {shown}", "", *prose(lead), ""]
        for each in declarations:
            lines += [f"### {each.name}", "", *prose(each.comment), ""]
            lines += ["```cpp", *each.code, "```", ""]
    return "\n".join(lines)


if __name__ == "__main__":
    print("\n".join(undocumented()))
