"""The installed CMake package: builds the examples in C++ and tests their models and errors."""

import pathlib
import re
import shutil
import subprocess

import numpy as np
import onnx
import onnx_native
import onnxruntime
import pytest
import torch

ROOT = pathlib.Path(__file__).parents[2]
BUILD = pathlib.Path(onnx_native.__file__).parents[2]
TORCH_ROOT = pathlib.Path(torch.__file__).parent


@torch.library.custom_op("cpp_app::scaled_gelu", mutates_args=())
def scaled_gelu(x: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
    return torch.nn.functional.gelu(x) * scale


@scaled_gelu.register_fake
def _(x, scale=1.0):
    return torch.empty_like(x)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 3)

    def forward(self, x):
        return scaled_gelu(self.linear(x), 0.5)


def run(*command, code=0):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    """Returns the package's folder, which was moved after the installation."""
    folder = tmp_path_factory.mktemp("package")
    run("cmake", "--install", BUILD, "--prefix", folder / "installed")
    (folder / "installed").rename(folder / "moved")
    return folder / "moved"


def built(prefix, name):
    build = prefix.parent / name
    configured = ["cmake", "-S", ROOT / "examples" / name, "-B", build, "-G", "Ninja"]
    run(*configured, f"-DCMAKE_PREFIX_PATH={prefix}", f"-DTORCH_ROOT={TORCH_ROOT}")
    run("cmake", "--build", build)
    return build / name


@pytest.fixture(scope="module")
def app(prefix):
    return built(prefix, "cpp_app")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Saves a scripted module and an archive; returns the modules too."""
    folder = tmp_path_factory.mktemp("files")
    scripted = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Sigmoid()).eval()
    torch.jit.script(scripted).save(folder / "scripted.pt")
    model = Model().eval()
    rows = torch.export.Dim("rows")
    program = torch.export.export(model, (torch.randn(2, 4),), dynamic_shapes=({0: rows},))
    torch.export.save(program, folder / "program.pt2")
    return folder, {"scripted.onnx": scripted, "program.onnx": model}


def test_application_exports_and_checks(app, files, tmp_path):
    folder, models = files
    shown = run(
        *(app, folder / "scripted.pt", tmp_path / "scripted.onnx"),
        *(folder / "program.pt2", tmp_path / "program.onnx"),
    )
    expected = r"input (x|input): f32\[\w+, 4\]\noutput \w+: f32\[\w+, 3\]\n"
    assert len(re.findall(expected, shown)) == 2, shown
    for name, model in models.items():
        onnx.checker.check_model(str(tmp_path / name), full_check=True)
        session = onnxruntime.InferenceSession(tmp_path / name)
        for rows in (1, 5):
            x = torch.randn(rows, 4)
            (got,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
            np.testing.assert_allclose(got, model(x).detach(), atol=1e-5, rtol=1e-5)


def test_modules_in_cpp_are_exported_as_they_run(prefix, tmp_path):
    run(built(prefix, "torch_nn_app"), tmp_path)
    for name, inputs in (("block", 1), ("tagger", 1), ("encoder", 2)):
        onnx.checker.check_model(str(tmp_path / f"{name}.onnx"), full_check=True)
        tensors = torch.load(tmp_path / f"{name}.pt")
        session = onnxruntime.InferenceSession(tmp_path / f"{name}.onnx")
        feeds = zip(session.get_inputs(), tensors[:inputs], strict=True)
        results = session.run(None, {put.name: tensor.numpy() for put, tensor in feeds})
        for got, expected in zip(results, tensors[inputs:], strict=True):
            np.testing.assert_allclose(got, expected, atol=1e-5, rtol=1e-5)
    weights = {weight.name for weight in onnx.load(tmp_path / "encoder.onnx").graph.initializer}
    assert {"layers.0.norm1.weight", "layers.1.linear2.weight.T"} <= weights


def test_application_says_what_is_wrong(app, files, tmp_path):
    folder, _ = files
    said = run(
        *(app, folder / "scripted.pt", tmp_path / "scripted.onnx"),
        *(folder / "missing.pt2", tmp_path / "m.onnx"),
        code=1,
    )
    assert "[io]: cannot open" in said
    assert not (tmp_path / "m.onnx").exists()


def test_no_python_in_the_process(prefix, app):
    needed = run("ldd", app)
    assert "libonnx_native_core.so" in needed
    assert "not found" not in needed
    for file in (app, prefix / "bin/onnx-native", *prefix.glob("lib*/**/*.so")):
        assert "NEEDED" in run("readelf", "-d", file)
        assert "python" not in run("readelf", "-d", file).replace(str(TORCH_ROOT), "")
    assert "libpython" not in needed
    assert "libtorch_python" not in needed


def test_installed_command(prefix, tmp_path):
    torch.export.save(torch.export.export(torch.nn.ReLU(), (torch.ones(2),)), tmp_path / "m.pt2")
    run(prefix / "bin/onnx-native", tmp_path / "m.pt2", "-o", tmp_path / "m.onnx", "--check")
    onnx.checker.check_model(str(tmp_path / "m.onnx"), full_check=True)


def test_refuses_another_pytorch(prefix, tmp_path):
    header = tmp_path / "torch/include/torch/headeronly/version.h"
    header.parent.mkdir(parents=True)
    shutil.copy(TORCH_ROOT / "include/torch/headeronly/version.h", header)
    changed = re.sub(r"(VERSION_MINOR) \d+", r"\1 99", header.read_text())
    header.write_text(changed)
    configured = ["cmake", "-S", ROOT / "examples/cpp_app", "-B", tmp_path / "build"]
    said = run(
        *configured, f"-DCMAKE_PREFIX_PATH={prefix}", f"-DTORCH_ROOT={header.parents[3]}", code=1
    )
    assert "was built for PyTorch" in said
    assert "is PyTorch 2.99" in " ".join(said.split())


def test_public_headers_need_only_the_package(prefix):
    """Each header compiles alone and, except for those for modules, without PyTorch's headers."""
    folder = prefix / "include/onnx_native"
    for header in sorted(set(folder.glob("*.h")) - {folder / "jit.h", folder / "callable.h"}):
        command = ["g++", "-std=c++20", "-fsyntax-only", "-x", "c++", f"-I{prefix}/include", header]
        run(*command)


def test_snippets_of_the_page_are_those_of_the_example():
    page = (ROOT / "docs/cpp.md").read_text()
    files = sorted((ROOT / "examples").glob("*_app/*"))
    example = " ".join("\n".join(file.read_text() for file in files).split())
    snippets = re.findall(r"```(?:cpp|cmake)\n(.*?)```", page, re.DOTALL)
    assert len(snippets) >= 4
    for snippet in snippets:
        assert " ".join(snippet.split()) in example, snippet
