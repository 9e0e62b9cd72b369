"""The package: versions, the library, access to the op table."""

import os
import pathlib
import subprocess
import sys
import textwrap

import onnx_native
import pytest
import torch
from onnx_native import _build_info, _builds


def test_version():
    assert onnx_native.__version__ == _build_info.VERSION
    assert ".".join(torch.__version__.split(".")[:2]) in _builds.versions()


def test_public_names_exist():
    assert {name for name in onnx_native.__all__ if not hasattr(onnx_native, name)} == set()
    assert issubclass(onnx_native.ExportError, Exception)


def test_library_path_is_the_loaded_library():
    assert onnx_native.library_path() in torch.ops.loaded_libraries
    assert onnx_native._C is onnx_native._C


def test_other_torch_version_is_refused_before_loading(monkeypatch):
    monkeypatch.setattr(torch, "__version__", "2.99.1")
    with pytest.raises(ImportError, match=r"for PyTorch 2\.\d+.* but PyTorch 2\.99\.1 is inst"):
        onnx_native.library_path()


def test_libraries_are_those_of_the_running_version(monkeypatch, tmp_path):
    monkeypatch.setattr(_builds, "PACKAGE", tmp_path)
    for version in ("2.9", "2.15", "2.13"):
        (tmp_path / f"torch-{version}").mkdir()
    assert _builds.versions() == ["2.9", "2.13", "2.15"]
    assert _builds.folder("2.15.0+cu132") == tmp_path / "torch-2.15"
    with pytest.raises(ImportError, match=r"2\.9 and 2\.13 and 2\.15, but PyTorch 2\.1\.0 is"):
        _builds.folder("2.1.0")


def test_command_names_what_is_missing():
    script = pathlib.Path(__file__).parents[2] / "torch_ext" / "onnx-native"
    environment = {**os.environ, "PYTHONPATH": str(pathlib.Path(onnx_native.__file__).parents[1])}
    command = [sys.executable, "-S", script, "--help"]  # -S: without the installed packages
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("onnx-native: PyTorch (pip install torch) is not installed in ")


def test_cmake_prefix_path_needs_an_installed_package():
    with pytest.raises(FileNotFoundError, match="cmake --install"):
        onnx_native.cmake_prefix_path()


def test_other_torch_version_is_refused_by_the_library():
    problem = onnx_native._C.torch_version_problem
    major, minor = map(int, torch.__version__.split(".")[:2])
    assert problem(major << 56 | minor << 48 | 5 << 40) == ""
    assert f"but PyTorch {major}.{minor + 1} is running" in problem(major << 56 | (minor + 1) << 48)


def run_python(code: str) -> str:
    """Runs code in a process of its own with the package on the path; returns what it prints."""
    package = pathlib.Path(onnx_native.__file__).parents[1]
    environment = {**os.environ, "PYTHONPATH": str(package)}
    command = [sys.executable, "-c", textwrap.dedent(code)]
    done = subprocess.run(command, env=environment, check=True, timeout=300, stdout=subprocess.PIPE)
    return done.stdout.decode()


def test_loading_imports_nothing_that_an_export_may_not_need():
    imported = run_python("""
        import sys, torch
        before = set(sys.modules)
        import onnx_native
        assert not onnx_native.is_enabled()
        assert 'onnx_native._C' not in sys.modules
        torch.ops.load_library(onnx_native.library_path())
        assert onnx_native.is_enabled()
        print(*sorted(set(sys.modules) - before))
    """).split()
    base = ["_build_info", "_builds", "_context", "_library", "_options", "_undo"]
    rooms = {
        "legacy": ["_hook"],
        "lowerings": ["_fallbacks", "_keep", "_lowerings"],
        "routes": ["_hook"],
        "upstream": ["_flags", "_names", "_older_exporter", "_upstream"],
    }
    names = base + [f"{room}.{name}" for room, files in rooms.items() for name in files]
    assert imported == sorted(
        ["onnx_native", *(f"onnx_native.{name}" for name in [*rooms, *names])]
    )


def test_the_hook_waits_for_pytorchs_exporter():
    made = run_python("""
        import sys, onnx_native, torch
        torch.ops.load_library(onnx_native.library_path())
        onnx_native.disable()
        onnx_native.enable()
        assert 'torch.onnx' not in sys.modules
        import torch.onnx._internal.exporter._compat  # PyTorch's own is reached by this path too
        assert 'onnxscript' not in sys.modules
        torch.onnx._internal.exporter._compat.export_compat
        def export():
            program = torch.onnx.export(torch.nn.ReLU(), (torch.ones(2),), verbose=False)
            print(program.model_proto.producer_name)
        export()
        with onnx_native.disabled():
            export()
    """)
    assert made.split() == ["onnx_native", "pytorch"]


def test_unknown_attribute():
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = onnx_native.no_such_name


def test_operator_names_are_checked():
    with pytest.raises(ValueError, match="namespace::name"):
        onnx_native.lowering("relu")


def test_table():
    keys = onnx_native._C.table_keys()
    assert ("aten::add.Tensor", "dense") in keys
    assert len(set(keys)) == len(keys)
    assert onnx_native._C.table_parameters("aten::add.Tensor") == ["Value", "Value", "Number"]
    with pytest.raises(KeyError):
        onnx_native._C.table_parameters("aten::no_such_operator")
