"""The built site: its links lead somewhere, and a browser without a network shows it."""

from __future__ import annotations

import functools
import html.parser
import http.server
import pathlib
import re
import threading
import urllib.parse
from collections.abc import Iterator

import browser
import pytest

SITE = pathlib.Path(__file__).parents[2] / "build" / "site"
# A server shows 404.html in any folder, so its links are absolute.
PAGES = sorted(set(SITE.rglob("*.html")) - {SITE / "404.html"})


class Page(html.parser.HTMLParser):
    """What a page links to, loads, and can be linked to by."""

    def __init__(self, path: pathlib.Path) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.anchors |= {value for name in ("id", "name") if (value := given.get(name))}
        if tag == "a" and (link := given.get("href")):
            self.links.append(link)
        elif tag in ("link", "script", "img", "iframe", "object", "source"):
            self.loads += [value for name in ("href", "src", "data") if (value := given.get(name))]


read = functools.cache(Page)


def test_there_are_pages() -> None:
    assert len(PAGES) > 40, "run `make site` first"


def test_the_navigation_has_every_page_of_docs() -> None:
    docs = SITE.parents[1] / "docs"
    listed = (SITE.parents[1] / "website" / "mkdocs.yml").read_text(encoding="utf-8")
    pages = [str(page.relative_to(docs)) for page in docs.rglob("*.md")]
    assert [page for page in pages if f": {page}\n" not in listed] == []


def broken(path: pathlib.Path, link: str) -> bool:
    """Returns whether a link of a page leads nowhere within the site."""
    parts = urllib.parse.urlsplit(link)
    if parts.scheme:
        return parts.scheme not in ("http", "https", "mailto")
    target = (path.parent / urllib.parse.unquote(parts.path)).resolve() if parts.path else path
    if not target.is_relative_to(SITE) or not target.is_file():
        return True
    anchor = urllib.parse.unquote(parts.fragment)
    return bool(anchor) and target.suffix == ".html" and anchor not in read(target).anchors


def test_links_and_anchors() -> None:
    links = [(page, link) for page in PAGES for link in read(page).links]
    print(f"{len(PAGES)} pages, {len(links)} links")
    assert [f"{page}: {link}" for page, link in links if broken(page, link)] == []


def test_pages_load_files_of_the_site_only() -> None:
    loads = [(page, each) for page in PAGES for each in read(page).loads]
    assert loads
    assert [f"{page}: {each}" for page, each in loads if ":" in each or broken(page, each)] == []


def test_each_benchmark_has_a_plot_a_command_and_a_date() -> None:
    text = (SITE / "benchmarks" / "index.html").read_text(encoding="utf-8")
    *sections, more = text.split("<h2 ")[1:]
    assert "More" in more
    assert len(sections) >= 6
    for section in sections:
        assert re.search(r"<code>python benchmarks/\w+\.py", section)
        (date,) = re.findall(r"20\d\d-\d\d-\d\d", section)
        table = re.search(r'<a href="([^"#]+)', section)
        assert table
        page = SITE / "benchmarks" / table[1]
        assert date in page.read_text(encoding="utf-8"), f"{page} has another date than {date}"
        assert section.count('class="plot"') >= 1
        assert section.count("<rect") > 10


def test_the_picture_of_an_export_links_into_the_rooms() -> None:
    text = (SITE / "how-it-works.html").read_text(encoding="utf-8")
    picture = text.partition('class="drawing"')[2].partition("</svg>")[0]
    links = set(re.findall(r'<a href="([^"]+)"', picture))
    assert {"source/csrc/index.html", "source/csrc/capture/index.html"} <= links
    assert not [link for link in links if broken(SITE / "how-it-works.html", link)]


@pytest.fixture(scope="module")
def chromium() -> Iterator[browser.Browser]:
    with browser.started() as started:
        yield started


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(params=["file", "http"])
def address(request: pytest.FixtureRequest) -> Iterator[str]:
    """The site's address: in a folder, and on a server."""
    if request.param == "file":
        yield SITE.as_uri()
        return
    serve = functools.partial(Quiet, directory=SITE)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), serve) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def check(chromium: browser.Browser, address: str) -> None:
    """Checks that no page had an error or asked another place for anything."""
    assert chromium.errors == []
    assert chromium.requests
    places = (address, "data:", "blob:", "about:")
    assert [each for each in chromium.requests if not each.startswith(places)] == []


@pytest.fixture(autouse=True)
def _forget(request: pytest.FixtureRequest) -> None:
    if "chromium" in request.fixturenames:
        page: browser.Browser = request.getfixturevalue("chromium")
        page.requests.clear()
        page.errors.clear()


def test_every_page_opens(chromium: browser.Browser) -> None:
    shown = [page for page in PAGES if "source" not in page.relative_to(SITE).parts]
    for page in shown:
        chromium.open(page.as_uri())
        assert chromium.value("document.querySelectorAll('h1').length") >= 1, page
    check(chromium, SITE.as_uri())


TYPE = """(() => {
  const field = document.querySelector(%r);
  field.focus();
  field.value = %r;
  field.dispatchEvent(new Event("input", {bubbles: true}));
  field.dispatchEvent(new KeyboardEvent("keyup", {bubbles: true}));
})()"""


def test_the_search_finds_pages(chromium: browser.Browser, address: str) -> None:
    chromium.open(f"{address}/index.html")
    chromium.value(TYPE % ("[data-md-component=search-query]", "GroupQueryAttention"))
    found = "[...document.querySelectorAll('.md-search-result__link')].map(each => each.href)"
    links = chromium.wait(f"({found}).length && {found}")
    assert any("/decoders.html" in link for link in links), links
    check(chromium, address)


SHOWN = """[...document.querySelectorAll("article table:not([hidden]) tbody tr:not([hidden])")]
  .map(row => [...row.cells].map(cell => cell.textContent)).filter(row => row.length == 4)"""
COUNT = "document.querySelector('form.operators output').value"


def test_the_table_of_operators_is_filtered(chromium: browser.Browser, address: str) -> None:
    chromium.open(f"{address}/operators.html")
    rows = chromium.value(SHOWN)
    everything = len(rows)
    assert everything > 1000
    assert chromium.value(COUNT) == f"{everything} of {everything}"

    chromium.value(TYPE % ("form.operators [name=find]", "aten::cumsum"))
    found = sorted(row[0] for row in chromium.value(SHOWN))
    assert found == ["aten::cumsum", "aten::cumsum@complex"]
    assert chromium.value("location.hash") == "#find=aten%3A%3Acumsum"

    chromium.value("location.hash = '#dtype=f16'")
    halves = chromium.wait(f"({SHOWN}).length > 2 && {SHOWN}")
    assert halves == [row for row in rows if "f16" in row[1].split()]

    oldest = chromium.value("document.querySelector('[name=opset] option:nth-child(2)').value")
    chromium.open("about:blank")
    chromium.open(f"{address}/operators.html#opset={oldest}")
    assert chromium.value(SHOWN) == [row for row in rows if not row[2]]
    check(chromium, address)
