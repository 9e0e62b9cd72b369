"""A hook of mkdocs: what a page links to outside of docs becomes a page of the site.

Pages of docs link to files of the repository, as GitHub shows them: `../csrc/README.md`,
`../examples/demo.py`. A Markdown file becomes a page, another file a page with its text, and a
folder without a README a page that lists its files. All are under `source/`.
"""

from __future__ import annotations

import functools
import pathlib
import posixpath
import re
from collections.abc import Callable, Iterator
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = pathlib.Path(__file__).resolve().parent.parent
ASSETS = pathlib.Path(__file__).with_name("assets")
LINK = re.compile(r"(?<=\]\()([^)\s#]+)(?=[)#])")
SVG = re.compile(r"^!\[[^\]]*\]\(([^)\s]+\.svg)\)$")
# A link whose text is the name of its file.
NAMED = re.compile(r"\[([\w./-]+\.md)\]\(([^)\s#]+)")
HREF = re.compile(r'href="([^"]+)"')
FENCE = re.compile(r"^ *(```+|~~~+)")
LANGUAGES = {".h": "cpp", ".cpp": "cpp", ".py": "python", ".txt": "cmake", "": "text"}
# The page of the site for each path of the repository that has one.
pages: dict[str, str] = {}


def prose(markdown: str, change: Callable[[str], str]) -> str:
    """Returns the text with its lines outside of code blocks changed."""
    lines, fence = [], ""
    for line in markdown.splitlines():
        mark = FENCE.match(line)
        if mark and (not fence or mark[1].startswith(fence)):
            fence = "" if fence else mark[1]
        elif not fence:
            line = change(line)
        lines.append(line)
    return "\n".join(lines) + "\n"


def links(markdown: str) -> Iterator[str]:
    """Yields the targets of links, without their anchors."""
    found: list[str] = []

    def collect(line: str) -> str:
        found.extend(LINK.findall(line))
        return line

    prose(markdown, collect)
    yield from found


def target_of(path: str, link: str) -> str | None:
    """Returns the path in the repository that a link of the file `path` names; None for others."""
    if ":" in link:
        return None
    target = posixpath.normpath(posixpath.join(posixpath.dirname(path), link))
    if (ROOT / target).is_dir() and (ROOT / target / "README.md").exists():
        target += "/README.md"
    return target if (ROOT / target).exists() else None


def text_of(path: str) -> str:
    """Returns the page of a file or a folder of the repository."""
    file = ROOT / path
    if file.suffix == ".md":
        return file.read_text(encoding="utf-8")
    if file.is_dir():
        shown = sorted(each for each in file.iterdir() if each.is_file())
        items = "".join(f"- [{each.name}]({file.name}/{each.name})\n" for each in shown)
        return f"# {path}\n\n{items}"
    language = LANGUAGES.get(file.suffix, "text")
    hidden = "---\nsearch:\n  exclude: true\n---\n"
    return f"{hidden}# {path}\n\n````{language}\n{file.read_text(encoding='utf-8')}````\n"


def add(config: Any, files: Files, path: str) -> None:
    """Adds the page of a path of the repository, and those that it links to."""
    if path in pages:
        return
    # mkdocs leaves out files whose names start with a dot.
    uri = "source/" + path.lstrip(".").removesuffix(".md") + ".md"
    pages[path] = uri
    text = text_of(path)
    files.append(File.generated(config, uri, content=text))
    add_linked(config, files, path, text)


def add_linked(config: Any, files: Files, path: str, text: str) -> None:
    for link in links(text):
        target = target_of(path, link)
        if target is not None and not target.startswith("docs/"):
            add(config, files, target)


def on_files(files: Files, config: Any) -> Files:
    pages.clear()
    for file in list(files):
        pages[f"docs/{file.src_uri}"] = file.src_uri
    for file in files.documentation_pages():
        add_linked(config, files, f"docs/{file.src_uri}", file.content_string)
    for asset in sorted(ASSETS.iterdir()):
        files.append(File.generated(config, f"assets/{asset.name}", abs_src_path=str(asset)))
    return files


@functools.cache
def title(path: str) -> str:
    """Returns the title of a page, which takes the place of its file name as the text of a link."""
    first = (ROOT / path).read_text(encoding="utf-8").partition("\n")[0]
    return first.removeprefix("# ")


def drawing(path: str, uri: str) -> str:
    """Returns an SVG with its links, which a page that shows it as an image would not have."""
    svg = (ROOT / path).read_text(encoding="utf-8")

    def rewritten(match: re.Match[str]) -> str:
        page = pages[target_of(path, match[1]) or ""].removesuffix(".md") + ".html"
        page = page.replace("README.html", "index.html")
        return f'href="{posixpath.relpath(page, posixpath.dirname(uri) or ".")}"'

    return "<div>\n" + HREF.sub(rewritten, svg) + "</div>"


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    uri = page.file.src_uri
    path = next((path for path, each in pages.items() if each == uri), f"docs/{uri}")

    def rewritten(match: re.Match[str]) -> str:
        target = target_of(path, match[1])
        if target is None or target not in pages:
            return match[1]
        return posixpath.relpath(pages[target], posixpath.dirname(uri) or ".")

    def inlined(match: re.Match[str]) -> str:
        target = target_of(path, match[1])
        text = (ROOT / target).read_text(encoding="utf-8") if target else ""
        return drawing(target or "", uri) if "<a href" in text else match[0]

    def titled(match: re.Match[str]) -> str:
        target = target_of(path, match[2])
        is_named = target in pages and target.endswith(match[1].removeprefix("../"))
        return f"[{title(target)}]({match[2]}" if target and is_named else match[0]

    markdown = prose(markdown, functools.partial(SVG.sub, inlined))
    markdown = prose(markdown, functools.partial(NAMED.sub, titled))
    return prose(markdown, functools.partial(LINK.sub, rewritten))
