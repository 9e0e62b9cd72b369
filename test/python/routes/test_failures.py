"""Errors and warnings of failed exports."""

import dataclasses
import io
import re

import onnx_native
import onnxruntime
import pytest
import torch
from torch.onnx import OnnxExporterError
from torch.onnx._internal.exporter import _errors

X = torch.ones(2, 3)

pytestmark = [
    pytest.mark.filterwarnings("ignore:Exporting a model while it is in training"),
    pytest.mark.captures("auto", "torch.export"),
]


def unknown_operator(name):
    """An operator without a lowering."""

    @torch.library.custom_op(f"failures::{name}", mutates_args=())
    def operator(x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    operator.register_fake(torch.empty_like)
    return operator


def test_all_missing_operators_in_one_error():
    first, second = unknown_operator("first"), unknown_operator("second")

    class Block(torch.nn.Module):
        def forward(self, x):
            return second(x)

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.block = Block()

        def forward(self, x):
            y = first(x @ x.T)
            return y, self.block(x)

    with pytest.raises(_errors.ConversionError) as caught:
        torch.onnx.export(Model(), (X,), verbose=False)
    message = str(caught.value)
    assert "ExportError [unsupported operator]" in message
    assert "failures::first" in message
    assert "failures::second" in message
    assert "test_failures.py:" in message
    assert "first(x @ x.T)" in message
    assert "in block (Block)" in message
    assert "hint" in message
    assert isinstance(caught.value, OnnxExporterError)
    error = caught.value.__cause__
    assert isinstance(error, onnx_native.ExportError)
    for carrier in (error, caught.value):
        assert carrier.kind == "unsupported operator"
        assert carrier.operator == "failures::first"
        assert carrier.operators == ("failures::first", "failures::second")
        assert carrier.cause == "failures::first has no ONNX lowering"
        assert carrier.node.startswith("%first: f32[2,2] = failures::first(%matmul: f32[2,2]")
        assert carrier.location.startswith("test_failures.py:")
        assert carrier.module_path == "(Model)"
        assert "docs/custom-ops.md" in carrier.hint


def test_fields_of_an_error_in_a_module():
    class Block(torch.nn.Module):
        def forward(self, x):
            return x.to(torch.float8_e8m0fnu).to(torch.float32)

    with pytest.raises(_errors.ConversionError) as caught:
        torch.onnx.export(torch.nn.Sequential(Block()), (X,), verbose=False)
    error = caught.value
    assert error.kind == "unsupported"
    assert error.module_path == "0 (Block)"
    assert error.location.startswith("test_failures.py:")
    assert error.operator is error.hint is None


def test_dtype_that_onnx_cannot_hold():
    class Model(torch.nn.Module):
        def forward(self, x):
            return x.to(torch.float8_e8m0fnu).to(torch.float32)

    with pytest.raises(_errors.ConversionError, match="ONNX has no element type for") as caught:
        torch.onnx.export(Model(), (X,), verbose=False)
    assert "test_failures.py:" in str(caught.value)


def test_sparse_tensors():
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("weight", torch.eye(3).to_sparse())

        def forward(self, x):
            return torch.sparse.mm(self.weight, x.T)

    with pytest.raises(OnnxExporterError):
        torch.onnx.export(Model(), (X,), verbose=False)


def test_training_mode_warns():
    with pytest.warns(UserWarning, match="Exporting a model while it is in training mode") as seen:
        torch.onnx.export(torch.nn.Linear(3, 2).train(), (X,), verbose=False)
    assert any(warning.filename == __file__ for warning in seen)


class DataDependent(torch.nn.Module):
    def forward(self, x, **_):  # TorchScript has no such arguments
        while x.sum() > 0:
            x = x - 1
        return x


def test_capture_failure_tells_the_first_error(capsys, request):
    with pytest.raises(_errors.TorchExportError) as caught:
        torch.onnx.export(DataDependent(), (X,))
    printed = capsys.readouterr().out
    non_strict = printed.index("`torch.export.export(..., strict=False)`... ❌")
    strict = printed.index("`torch.export.export(..., strict=True)`... ❌")
    assert non_strict < strict
    message = str(caught.value)
    assert message.startswith("Failed to export the model with torch.export.")
    assert "## Exception summary" in message
    with onnx_native.disabled(), pytest.raises(_errors.TorchExportError) as upstream:
        torch.onnx.export(DataDependent(), (X,), verbose=False)
    ours, _, aside = message.partition("\nThe native capture did not record the program either: ")
    assert ours == str(upstream.value)
    if "[auto]" in request.node.name:
        assert aside.startswith(
            "aten::is_nonzero: the program branches on the elements of a tensor"
        )
        assert "test_failures.py:" in aside
        assert "\nTorchScript cannot stand for the program: " in aside
    assert type(caught.value.__cause__) is type(upstream.value.__cause__)


def test_capture_failure_is_reported(tmp_path):
    with pytest.raises(_errors.TorchExportError, match="Error report has been saved to"):
        torch.onnx.export(DataDependent(), (X,), verbose=False, report=True, artifacts_dir=tmp_path)
    (report,) = tmp_path.glob("onnx_export_*_pt_export.md")
    assert "❌ Capture with TorchExportStrictStrategy" in report.read_text()


def test_target_folder_does_not_exist(tmp_path):
    path = tmp_path / "no" / "m.onnx"
    with pytest.raises(FileNotFoundError, match=r"no/m\.onnx"):
        torch.onnx.export(torch.nn.ReLU(), (X,), path, verbose=False)
    program = torch.onnx.export(torch.nn.ReLU(), (X,), verbose=False)
    with pytest.raises(FileNotFoundError, match=r"no/m\.onnx"):
        program.save(path)
    assert not list(tmp_path.iterdir())


def test_target_is_a_folder(tmp_path):
    (tmp_path / "m.onnx").mkdir()
    with pytest.raises(OSError, match=r"m\.onnx"):
        torch.onnx.export(torch.nn.ReLU(), (X,), tmp_path / "m.onnx", verbose=False)
    assert [path.name for path in tmp_path.iterdir()] == ["m.onnx"]


def test_destination_is_no_path():
    program = torch.onnx.export(torch.nn.ReLU(), (X,), verbose=False)
    with pytest.raises(TypeError, match="file path"):
        program.save(3, external_data=True)


@pytest.mark.parametrize("opset", [5, 8, 999])
def test_opset_out_of_reach(opset):
    with pytest.raises(_errors.ConversionError, match=f"opset {opset} is not supported"):
        torch.onnx.export(torch.nn.ReLU(), (X,), opset_version=opset, verbose=False)


def test_dropped_buffer_updates_warn_once():
    class Counter(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("calls", torch.zeros(()))
            self.register_buffer("total", torch.zeros(3))

        def forward(self, x):
            self.calls.add_(1)
            self.total.add_(x.sum(0))
            return x * self.calls

    with pytest.warns(torch.onnx.errors.OnnxExporterWarning) as seen:
        program = torch.onnx.export(Counter(), (X,), verbose=False)
    (warning,) = [w for w in seen if w.category is torch.onnx.errors.OnnxExporterWarning]
    assert "calls" in str(warning.message)
    assert "total" in str(warning.message)
    torch.testing.assert_close(program(X)[0], X)


@pytest.mark.captures("auto")  # a process registers the operator once
def test_error_in_a_python_lowering():
    library = torch.library.Library("onnx_native_broken", "DEF")
    library.define("op(Tensor x) -> Tensor")
    library.impl("op", lambda x: x.clone(), "CompositeExplicitAutograd")

    @onnx_native.lowering("onnx_native_broken::op")
    def broken(b, x):
        raise ZeroDivisionError("in my lowering")

    class Model(torch.nn.Module):
        def forward(self, x):
            return torch.ops.onnx_native_broken.op(x)

    with pytest.raises(_errors.ConversionError, match="in my lowering") as caught:
        torch.onnx.export(Model(), (X,), verbose=False)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_mapped_function_in_an_archive(tmp_path):
    """An archive records only that the function is mapped; the hint tells how to inline it."""

    class Model(torch.nn.Module):
        def forward(self, x):
            return torch.vmap(lambda row: row * row.sum())(x)

    shapes = ({0: torch.export.Dim.DYNAMIC},)
    program = torch.export.export(Model(), (X,), dynamic_shapes=shapes)
    path = tmp_path / "mapped.pt2"
    torch.export.save(program, path)
    with pytest.raises(onnx_native.ExportError) as caught:
        onnx_native._C.Program(str(path), opset=20)
    assert caught.value.kind == "unsupported operator"
    assert caught.value.cause == "the program maps a function with torch.vmap"
    assert "test_failures.py:" in str(caught.value)
    assert "_batch_dim has no" not in str(caught.value)
    assert caught.value.hint.startswith("inline the function with program.run_decompositions({})")

    torch.export.save(program.run_decompositions({}), path)
    content = onnx_native._C.Program(str(path), opset=20).serialize()
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    for rows in (1, 5):
        x = torch.randn(rows, 3)
        (result,) = session.run(None, {"x": x.numpy()})
        torch.testing.assert_close(torch.from_numpy(result), Model()(x))


class Adds(torch.nn.Module):
    def forward(self, x, y):
        return x + y


class Foreign:
    """No type of argument that an export accepts."""


class LacksAttribute(torch.nn.Module):
    def forward(self, x):
        return x + self.missing


class Branches(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(5, 2)

    def forward(self, x):
        return self.linear(x + 1 if x.sum() > 0 else x)


EAGER_FAILURES = {
    "shape": (torch.nn.Linear(5, 2), (X,), "mat1 and mat2 shapes cannot be multiplied"),
    "shape after a branch": (Branches(), (X,), "mat1 and mat2 shapes cannot be multiplied"),
    "missing": (Adds(), (X,), "missing 1 required positional argument: 'y'"),
    "extra": (torch.nn.Linear(3, 2), (X, X), "takes 2 positional arguments but 3 were given"),
    "indices": (torch.nn.Embedding(4, 2), (X,), "one of the following scalar types: Long, Int"),
    # torch.export captures this one.
    "dtype": (torch.nn.Linear(3, 2), (X.double(),), "must have the same dtype, but got Double"),
    "attribute": (LacksAttribute(), (X,), "has no attribute 'missing'"),
    "sizes": (Adds(), (torch.ones(3), torch.ones(4)), "The size of tensor a"),
    "type": (Adds(), (X, Foreign()), "unsupported operand"),
}


@pytest.mark.captures("auto", "torch.export")
@pytest.mark.parametrize("name", EAGER_FAILURES)
def test_the_error_of_eager_comes_first(name):
    module, args, message = EAGER_FAILURES[name]
    with pytest.raises(_errors.TorchExportError) as caught:
        torch.onnx.export(module.eval(), args, verbose=False)
    first, second = str(caught.value).splitlines()
    assert message in first
    assert second == "The module itself fails so for the example inputs."
    assert type(caught.value.__cause__).__name__ == first.partition(":")[0]


@pytest.mark.captures("auto")
@pytest.mark.parametrize("name", ["shape", "missing", "dtype", "attribute", "sizes"])
def test_torch_export_is_not_tried_on_a_module_that_fails(name, monkeypatch):
    tried = []
    monkeypatch.setattr(torch.export, "export", lambda *args, **kwargs: tried.append(args))
    module, args, message = EAGER_FAILURES[name]
    with pytest.raises(_errors.TorchExportError, match=message):
        torch.onnx.export(module.eval(), args, verbose=False)
    assert not tried


def of_mixed_dtypes():
    """A captured program that fails; torch.export asks meta kernels, which take it."""
    return torch.export.export(torch.nn.Linear(3, 2).eval(), (X.double(),))


@pytest.mark.captures("auto")
def test_a_captured_program_that_fails():
    with pytest.raises(_errors.TorchExportError) as caught:
        torch.onnx.export(of_mixed_dtypes(), (), verbose=False)
    first, second = str(caught.value).splitlines()
    assert first.startswith("RuntimeError: mat1 and mat2 must have the same dtype")
    assert second == "The program itself fails so for the example inputs."


@pytest.mark.captures("auto")
def test_an_archive_that_fails(tmp_path):
    torch.export.save(of_mixed_dtypes(), tmp_path / "mixed.pt2")
    with pytest.raises(
        onnx_native.ExportError, match="must have the same dtype, but got Double"
    ) as caught:
        onnx_native._C.Program(str(tmp_path / "mixed.pt2"), opset=20)
    assert caught.value.kind == "invalid program"


@pytest.mark.captures("auto")
@pytest.mark.filterwarnings("ignore:PyTorch's older exporter exports this model")
@pytest.mark.parametrize("name", [name for name in EAGER_FAILURES if name != "type"])
def test_callers_of_the_older_exporter_get_the_error_of_eager(name):
    module, args, message = EAGER_FAILURES[name]
    with (
        onnx_native.options(legacy=True),
        pytest.raises(Exception, match=re.escape(message)) as caught,
    ):
        torch.onnx.export(module.eval(), args, io.BytesIO(), dynamo=False)
    assert message in str(caught.value).splitlines()[0]


@pytest.mark.captures("torch.export")
def test_a_module_that_needs_gradients_does_not_fail_itself():
    class Unscalable(torch.nn.Module):
        def forward(self, x):
            y = torch.autograd.grad((x.requires_grad_() ** 2).sum(), x)[0]
            return y * 2 if y.sum() > 0 else y

    with pytest.raises(_errors.TorchExportError, match="Failed to export the model"):
        torch.onnx.export(Unscalable().eval(), (X,), verbose=False)


def test_an_unsupported_argument_of_a_script():
    script = torch.jit.script(torch.nn.Linear(3, 2).eval())
    with pytest.raises(OnnxExporterError, match="input has the unsupported type Foreign"):
        torch.onnx.export(script, (Foreign(),), verbose=False)


def test_programs_are_asserted_as_pytorch_does():
    import torch.onnx.testing

    program = torch.onnx.export(torch.nn.Linear(3, 2).eval(), (X,), verbose=False)
    torch.onnx.testing.assert_onnx_program(program)


@dataclasses.dataclass
class Linked:
    value: torch.Tensor
    next: object = None


def linked(value):
    result = Linked(value)
    result.next = result
    return result


def listed(value):
    result = [value]
    result.append(result)
    return result


class Returns(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x + 1)


@pytest.mark.parametrize("function", [linked, listed])
def test_a_result_that_contains_itself(function):
    with pytest.raises(OnnxExporterError, match=r"contains itself|Linked'> in output") as caught:
        torch.onnx.export(Returns(function), (X,), verbose=False)
    assert not isinstance(caught.value, RecursionError)
    assert "maximum recursion depth" not in str(caught.value)


def test_an_argument_that_contains_itself():
    with pytest.raises(OnnxExporterError, match="the example has a container that contains itself"):
        torch.onnx.export(torch.nn.Identity(), (listed(X),), verbose=False)


@pytest.mark.parametrize(
    "argument", [{1}, 1j, b"1", Linked(X), object()], ids=lambda x: type(x).__name__
)
def test_an_argument_of_another_type(argument):
    class TwoArguments(torch.nn.Module):
        def forward(self, x, other):
            return x + 1

    with pytest.raises(OnnxExporterError, match="Unsupported input type"):
        torch.onnx.export(TwoArguments(), (X, argument), verbose=False)
