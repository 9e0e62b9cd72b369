"""torch.onnx.export with the native exporter."""

import io
import os
import pathlib
import subprocess
import sys
import textwrap

import onnx
import onnx_native
import pytest
import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 2)

    def forward(self, x, bias=None):
        y = self.linear(x)
        return torch.relu(y if bias is None else y + bias)


X = torch.randn(4, 3)


@pytest.fixture(scope="module")
def net():
    return Net().eval()


def producer(program):
    return program.model_proto.producer_name


def test_module_and_exported_program_are_exported_natively(net):
    assert producer(torch.onnx.export(net, (X,), verbose=False)) == "onnx_native"
    captured = torch.export.export(net, (X,))
    assert producer(torch.onnx.export(captured, verbose=False)) == "onnx_native"


def test_switching_off_and_on(net):
    assert onnx_native.is_enabled()
    with onnx_native.disabled():
        assert not onnx_native.is_enabled()
        assert producer(torch.onnx.export(net, (X,), verbose=False)) == "pytorch"
    assert onnx_native.is_enabled()
    onnx_native.disable()
    onnx_native.disable()
    onnx_native.enable()
    onnx_native.enable()
    assert producer(torch.onnx.export(net, (X,), verbose=False)) == "onnx_native"


def test_upstream_module_stays_reachable():
    from torch.onnx._internal.exporter import _compat

    assert callable(_compat._get_torch_export_args)


def test_arguments_may_end_with_a_dict_of_keywords(net):
    program = torch.onnx.export(net, (X, {"bias": torch.ones(2)}), verbose=False)
    assert [value.name for value in program.model.graph.inputs] == ["x", "bias"]
    program = torch.onnx.export(net, (X,), kwargs={"bias": torch.ones(2)}, verbose=False)
    assert [value.name for value in program.model.graph.inputs] == ["x", "bias"]


def test_dynamic_axes_are_converted(net):
    with pytest.warns(UserWarning, match="'dynamic_axes' is not recommended"):
        program = torch.onnx.export(
            net,
            (X,),
            input_names=["input"],
            output_names=["output"],
            dynamic_axes={"input": {0: "batch"}, "output": {0: "batch"}},
            verbose=False,
        )
    assert program.model.graph.inputs[0].shape == ("batch", 3)
    assert program.model.graph.outputs[0].shape == ("batch", 2)


def test_dims_name_the_axes(net):
    batch = torch.export.Dim("batch")
    program = torch.onnx.export(net, (X,), dynamic_shapes={"x": {0: batch}}, verbose=False)
    assert program.model.graph.inputs[0].shape == ("batch", 3)


@pytest.mark.parametrize("opset", [None, 18, 20, 23])
def test_opset_is_the_requested_one(net, opset):
    program = torch.onnx.export(net, (X,), opset_version=opset, verbose=False)
    versions = {o.domain: o.version for o in program.model_proto.opset_import}
    assert versions[""] == (opset or 20)


@pytest.mark.parametrize("capture", ["native", "torch.export"])
def test_messages(net, capsys, capture):
    with onnx_native.options(capture=capture):
        torch.onnx.export(net, (X,))
    printed = capsys.readouterr().out
    if capture == "native":
        assert "[torch.onnx] Obtain model graph with the native capture... ✅" in printed
    else:
        assert (
            "[torch.onnx] Obtain model graph for `Net([...]` with `torch.export.export(" in printed
        )
    assert "[torch.onnx] Translate the graph into ONNX... ✅" in printed
    torch.onnx.export(net, (X,), verbose=False)
    assert capsys.readouterr().out == ""


def test_file_and_bytes(net, tmp_path):
    path = tmp_path / "m.onnx"
    torch.onnx.export(net, (X,), path, verbose=False)
    onnx.checker.check_model(str(path), full_check=True)
    buffer = io.BytesIO()
    with pytest.warns(DeprecationWarning, match="BytesIO"):
        torch.onnx.export(net, (X,), buffer, verbose=False)
    assert onnx.ModelProto.FromString(buffer.getvalue()).producer_name == "onnx_native"


def test_weights_can_be_left_out(net, tmp_path):
    path = tmp_path / "m.onnx"
    torch.onnx.export(
        net, (X,), path, export_params=False, keep_initializers_as_inputs=True, verbose=False
    )
    graph = onnx.load(path).graph
    assert not graph.initializer
    assert {"x", "linear.weight", "linear.bias"} <= {value.name for value in graph.input}


def test_report_and_captured_program_are_written(net, tmp_path, capsys):
    program = torch.onnx.export(
        net, (X,), report=True, dump_exported_program=True, verify=True, artifacts_dir=tmp_path
    )
    (report,) = tmp_path.glob("onnx_export_*_success.md")
    text = report.read_text()
    assert "| `aten::linear` | 1 |" in text
    assert "✅ Verify output accuracy" in text
    assert list(tmp_path.glob("*.pt2"))
    assert str(report) in capsys.readouterr().out
    assert "aten::linear" in program.export_report["operators"]
    assert {"capture", "read", "lower", "passes"} <= set(program.export_report["seconds"])


def test_duplicate_names_are_refused(net):
    with pytest.raises(ValueError, match="Input names cannot be duplicated"):
        torch.onnx.export(net, (X,), input_names=["a", "a"], verbose=False)


def test_lowering_written_in_python():
    library = torch.library.Library("onnx_native_test", "DEF")
    library.define("scaled(Tensor x, float scale, *, int times=1) -> Tensor")
    library.impl("scaled", lambda x, scale, times=1: x * scale * times, "CompositeExplicitAutograd")
    library.impl("scaled", lambda x, scale, times=1: torch.empty_like(x), "Meta")

    @onnx_native.lowering("onnx_native_test::scaled")
    def scaled(b, x, scale, *, times):
        assert x.dtype == torch.float32
        assert x.rank == 2
        return b.op("Mul", x, scale * times)

    class Model(torch.nn.Module):
        def forward(self, x):
            return torch.ops.onnx_native_test.scaled(x, 0.5, times=3) + 1

    x = torch.ones(2, 2)
    program = torch.onnx.export(Model(), (x,), verbose=False)
    torch.testing.assert_close(program(x)[0], x * 1.5 + 1)


def test_operator_of_another_domain():
    library = torch.library.Library("onnx_native_domain", "DEF")
    library.define("fast(Tensor x) -> Tensor")
    library.impl("fast", lambda x: x.clone(), "CompositeExplicitAutograd")

    @onnx_native.lowering("onnx_native_domain::fast")
    def fast(b, x):
        return b.op("Fast", x, domain="my.domain", level=3, mode="exact")

    class Model(torch.nn.Module):
        def forward(self, x):
            return torch.ops.onnx_native_domain.fast(x)

    program = torch.onnx.export(Model(), (torch.ones(2),), verbose=False)
    (node,) = program.model_proto.graph.node
    assert (node.domain, node.op_type) == ("my.domain", "Fast")
    assert {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute} == {
        "level": 3,
        "mode": b"exact",
    }
    assert "my.domain" in [o.domain for o in program.model_proto.opset_import]


def run(code):
    """Runs code as users do: without the checks of tests, which call PyTorch's meta kernels."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("ONNX_NATIVE_")}
    package = pathlib.Path(onnx_native.library_path()).parents[2]
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env=environment | {"PYTHONPATH": str(package)},
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_loading_the_library_is_enough_and_imports_little(tmp_path):
    result = run(f"""
        import sys, torch, onnx_native
        torch.ops.load_library(onnx_native.library_path())
        torch.ops.load_library(onnx_native.library_path())
        path = {str(tmp_path / "m.onnx")!r}
        torch.onnx.export(
            torch.nn.Linear(3, 2), (torch.ones(1, 3),), path, dynamic_shapes=({{0: "n"}},)
        )
        for name in ("onnxscript", "onnx", "onnx_ir", "sympy", "torch._dynamo"):
            assert name not in sys.modules, name
    """)
    assert result.returncode == 0, result.stderr
    assert onnx.load(tmp_path / "m.onnx").producer_name == "onnx_native"


PROGRAMS_WITH_A_COMPILER = {
    "cond": "torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,))",
    "import": "importlib.import_module('torch._dynamo.utils') and x.sin()",
    "suppressed_import": "x.sin() if has_compiler() else x.cos()",
    "compiled": "torch.compile(torch.sin)(x)",
}


@pytest.mark.parametrize("name", PROGRAMS_WITH_A_COMPILER)
def test_programs_that_import_the_compiler(name):
    result = run(f"""
        import importlib, torch, onnx_native
        torch.ops.load_library(onnx_native.library_path())
        def has_compiler():
            try:
                import torch._dynamo
            except ImportError:
                return False
            return True
        class Model(torch.nn.Module):
            def forward(self, x):
                return {PROGRAMS_WITH_A_COMPILER[name]}
        program = torch.onnx.export(Model(), (torch.ones(3),), verbose=False)
        assert program.export_report["capture"]["by"] == "native", program.export_report
        assert "Sin" in str(program.model_proto.graph)
    """)
    assert result.returncode == 0, result.stderr


def test_library_finds_its_package_by_itself(tmp_path):
    result = run(f"""
        import sys
        path = {onnx_native.library_path()!r}
        folder = path.rsplit("/", 2)[0]
        sys.path = [entry for entry in sys.path if entry != folder]
        import torch
        torch.ops.load_library(path)
        program = torch.onnx.export(torch.nn.ReLU(), (torch.ones(3),), verbose=False)
        assert program.model_proto.producer_name == "onnx_native"
    """)
    assert result.returncode == 0, result.stderr
