"""What report=True writes: Markdown, and a page that headless Chromium opens."""

import json
import pathlib
import re
import shutil
import subprocess
import time
from typing import Any

import onnx
import onnx_native
import pytest
import torch
from onnx import TensorProto, helper
from onnx_native.report import _page
from torch import nn

CHROMIUM = shutil.which("chromium-headless-shell") or shutil.which("chromium")


def opened(page: pathlib.Path, fragment: str = "") -> str:
    """Returns the document after headless Chromium ran the page."""
    assert CHROMIUM, "install chromium-headless-shell (.ci/setup does)"
    command = [CHROMIUM, "--no-sandbox", "--disable-gpu", "--headless", "--dump-dom"]
    url = page.as_uri() + fragment
    done = subprocess.run([*command, url], check=True, capture_output=True, text=True, timeout=120)
    return done.stdout


def seconds(document: str) -> float:
    found = re.search(r'data-seconds="([\d.]+)"', document)
    assert found, "the page's script failed"
    return float(found[1])


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(8)
        self.fc = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.relu(self.fc(self.norm(x)))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.Sequential(*(Block() for _ in range(12)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(self.blocks(x), -1)


@pytest.fixture(scope="module")
def reports(tmp_path_factory: Any) -> tuple[str, pathlib.Path]:
    """The Markdown text and the page of an export."""
    folder = tmp_path_factory.mktemp("reports")
    torch.onnx.export(
        Net().eval(), (torch.randn(2, 8),), dynamo=True, verbose=False, report=True,
        artifacts_dir=folder, dynamic_shapes=({0: "batch"},),
    )  # fmt: skip
    (markdown,) = folder.glob("*.md")
    return markdown.read_text(encoding="utf-8"), markdown.with_suffix(".html")


def test_markdown_has_the_numbers_of_the_export(reports: tuple[str, pathlib.Path]) -> None:
    text, _ = reports
    for title in ("## Capture", "## Seconds", "## Operators", "## ONNX model"):
        assert title in text
    assert "| `aten::layer_norm` | 12 |" in text
    assert "Captured by" in text


def test_a_report_does_not_change_the_capture(tmp_path: pathlib.Path) -> None:
    """The native capture is reported too; what it leaves is reported as torch.export has it."""

    class Leaves(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.calls = torch.zeros(1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls = self.calls + 1
            return x * 2

    for module, by, title in (
        (Net(), "native", "## Recorded program"),
        (Leaves(), "torch.export", "## Exported program"),
    ):
        folder = tmp_path / by
        with onnx_native.options(capture="auto"):
            program = torch.onnx.export(
                module.eval(), (torch.randn(2, 8),), dynamo=True, verbose=False, report=True,
                artifacts_dir=folder, dynamic_shapes=({0: torch.export.Dim.AUTO},),
            )  # fmt: skip
        assert program.export_report["capture"]["by"] == by
        (markdown,) = folder.glob("*_success.md")
        text = markdown.read_text(encoding="utf-8")
        assert f"- Captured by: {by}" in text
        assert title in text
        assert "- ✅ Translate into ONNX" in text
    assert text.count("## Exported program") == 1
    assert "The native capture did not record it" in text


def test_the_page_shows_the_graph_folded_by_module(reports: tuple[str, pathlib.Path]) -> None:
    document = opened(reports[1])
    assert seconds(document) > 0
    assert "blocks.0" in document
    assert "Block · " in document
    assert "f32[batch,8]" in document
    assert 'class="leaf"' in document


def test_the_page_is_one_file(reports: tuple[str, pathlib.Path]) -> None:
    text = reports[1].read_text(encoding="utf-8")
    assert not re.search(r"<(script|link|img)[^>]*\b(src|href)=", text)
    assert "fetch(" not in (pathlib.Path(_page.__file__).parent / "page/view.js").read_text()


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ("Softmax", 1),
        ("LayerNormalization", 12),
        ("blocks.7.", 2),
        ("nn.modules.linear.Linear", 12),
    ],
)
def test_search_by_operator_module_and_class(
    reports: tuple[str, pathlib.Path], query: str, count: int
) -> None:
    document = opened(reports[1], "#find=" + query.replace(" ", "+"))
    assert f">{count} node{'' if count == 1 else 's'}<" in document


def test_search_by_source_line(reports: tuple[str, pathlib.Path]) -> None:
    document = opened(reports[1], "#find=test_report.py+softmax(self.blocks")
    assert ">1 node<" in document
    assert "return torch.softmax(self.blocks(x), -1)" in document.split('id="detail"')[1]


def test_a_node_deep_in_the_graph_is_shown(reports: tuple[str, pathlib.Path]) -> None:
    document = opened(reports[1], "#node=node_relu_9")
    assert 'class="leaf chosen"' in document


@torch.library.custom_op("report_test::first", mutates_args=())
def first(x: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
    return x * scale


@torch.library.custom_op("report_test::second", mutates_args=())
def second(x: torch.Tensor) -> torch.Tensor:
    return x + 1


@first.register_fake
def _(x: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
    return torch.empty_like(x)


@second.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


class Missing(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return second(first(x, 2.0)) + first(x)


def test_a_failure_names_all_missing_operators_with_stubs(tmp_path: pathlib.Path) -> None:
    with pytest.raises(torch.onnx.errors.OnnxExporterError):
        torch.onnx.export(
            Missing(), (torch.randn(2),), dynamo=True, verbose=False, report=True,
            artifacts_dir=tmp_path,
        )  # fmt: skip
    (markdown,) = tmp_path.glob("*.md")
    text = markdown.read_text(encoding="utf-8")
    assert '@onnx_native.lowering("report_test::first")' in text
    assert "def lower_report_test_first(b, x, scale):" in text
    assert "def lower_report_test_second(b, x):" in text
    assert "return second(first(x, 2.0)) + first(x)" in text
    document = opened(markdown.with_suffix(".html"))
    assert 'class="problem error"' in document
    assert "def lower_report_test_second(b, x):" in document


def test_a_comparison_is_a_table(tmp_path: pathlib.Path) -> None:
    table = [
        {"value": "a", "largest difference": 1e-7, "is_bad": False},
        {"value": "b", "largest difference": float("inf"), "is_bad": True},
    ]
    page = tmp_path / "page.html"
    page.write_text(_page.page(_page.report_data("Compared", comparison=table)), encoding="utf-8")
    document = opened(page, "#tab=comparison")
    assert '<tr class="bad"><td>b</td>' in document


class Rectified(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x + 1).sin()


@pytest.mark.parametrize("is_wrong", [True, False])
def test_a_verified_export_shows_its_comparison(tmp_path: pathlib.Path, is_wrong: bool) -> None:
    """Values where a difference begins are named; the outputs if there is none."""
    if is_wrong:
        onnx_native.lowering("aten::relu")(lambda b, x: b.op("Abs", x))
    try:
        torch.onnx.export(
            Rectified().eval(),
            (torch.randn(2, 3) - 2,),
            dynamo=True,
            verbose=False,
            report=True,
            verify=True,
            artifacts_dir=tmp_path,
        )
    finally:
        if is_wrong:
            onnx_native.remove_lowering("aten::relu")
    (page,) = tmp_path.glob("*.html")
    document = opened(page, "#tab=comparison")
    assert ('<tr class="bad"><td>relu</td>' in document) == is_wrong
    assert ("<td>as in the example</td>" in document) != is_wrong


def made(count: int, modules: bool) -> onnx.ModelProto:
    """A chain of nodes with branches, in nested modules or without modules."""
    nodes = []
    for i in range(count):
        inputs = [f"v{i}", f"v{i - i % 7}"] if i % 3 == 0 else [f"v{i}"]
        node = helper.make_node("Add" if len(inputs) == 2 else "Relu", inputs, [f"v{i + 1}"])
        node.name = f"node_v{i + 1}"
        if modules:
            layer, part = i // 90, i // 15 % 6
            names = ["", f"layers.{layer}", f"layers.{layer}.part{part}", f"v{i + 1}"]
            classes = ["Net", "models.Layer", "models.Part", "aten.relu.default"]
            for key, value in (("name_scopes", names), ("class_hierarchy", classes)):
                entry = node.metadata_props.add()
                entry.key, entry.value = f"pkg.torch.onnx.{key}", repr(value)
        nodes.append(node)
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n"])
        for name in ("v0", f"v{count}")
    ]
    return helper.make_model(helper.make_graph(nodes, "made", ends[:1], ends[1:]))


@pytest.mark.parametrize("modules", [True, False])
@pytest.mark.parametrize(("count", "limit"), [(300, 2), (3000, 2), (30000, 10)])
def test_large_graphs_open(tmp_path: pathlib.Path, count: int, limit: float, modules: bool) -> None:
    page = tmp_path / "page.html"
    data = _page.report_data("Large", model=made(count, modules))
    page.write_text(_page.page(data), encoding="utf-8")
    start = time.perf_counter()
    document = opened(page)
    whole = time.perf_counter() - start
    print(f"{count} nodes: {seconds(document)} s in the page, {whole:.2f} s with the browser")
    assert seconds(document) < limit
    assert f">{count} nodes<" in document


def test_the_libraries_are_those_of_the_licenses() -> None:
    folder = pathlib.Path(_page.__file__).parent / "page"
    licenses = (folder / "LICENSES.txt").read_text(encoding="utf-8")
    assert "d3 7.9.2" in licenses
    assert "https://d3js.org v7.9.2" in (folder / "d3.min.js").read_text(encoding="utf-8")
    assert "dagre 3.1.3" in licenses
    assert onnx_native.library_path()


HOSTILE = [
    "<!-- x",
    "</script><script>",
    "<script",
    "]]>",
    "--!>",
    "\u2028",
    "\udcff",
    "{{data}}",
    "```",
]


def test_any_text_of_a_program(tmp_path: pathlib.Path) -> None:
    """Neither a name nor a message ends the page's data or the block of code that holds it."""
    data = _page.report_data(
        HOSTILE[0],
        model=helper.make_model(
            helper.make_graph(
                [helper.make_node("Relu", [HOSTILE[0]], ["y"], name="".join(HOSTILE[:5]))],
                "graph",
                [helper.make_tensor_value_info(HOSTILE[0], TensorProto.FLOAT, ["<!--"])],
                [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n"])],
            )
        ),
        summary=[(text, text) for text in HOSTILE],
        problems=[{"kind": "error", "title": t, "text": t, "code": t} for t in HOSTILE],
    )
    text = _page.page(data)
    begin, end = '<script id="data" type="application/json">', "</script>"
    held = text.split(begin)[1].split(end)[0]
    assert json.loads(held) == json.loads(json.dumps(data).replace("\\udcff", "\\\\udcff"))
    assert "<" not in held
    path = tmp_path / "page.html"
    path.write_text(text, encoding="utf-8")
    assert seconds(opened(path, "#tab=problems")) >= 0


def test_a_report_with_any_text(tmp_path: pathlib.Path) -> None:
    torch.onnx.export(
        nn.Linear(3, 3).eval(), (torch.randn(2, 3),), dynamo=True, verbose=False, report=True,
        artifacts_dir=tmp_path, input_names=["<!-- x ``` "],
    )  # fmt: skip
    (page,) = tmp_path.glob("*.html")
    assert seconds(opened(page)) >= 0
    (markdown,) = tmp_path.glob("*.md")
    text = markdown.read_text(encoding="utf-8")
    assert text.count("````python\n") == text.count("\n````\n") > 0
