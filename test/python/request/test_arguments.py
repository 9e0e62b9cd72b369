"""Every argument of torch.onnx.export: docs/arguments.md has a row, this file a test for each."""

from __future__ import annotations

import inspect
import io
import pathlib
import re
import sys
import warnings
from typing import Any

import onnx
import onnx_native
import pytest
import torch
from calls.call import Given, check
from calls.modules import Mlp, Pair
from torch import Tensor, nn

PAGE = pathlib.Path(__file__).parents[3] / "docs" / "arguments.md"
X = torch.randn(2, 4)


@pytest.fixture
def model() -> Mlp:
    torch.manual_seed(0)
    return Mlp().eval()


def export(model: Any, args: Any = (X,), f: Any = None, **options: Any) -> Any:
    return torch.onnx.export(model, args, f, verbose=False, **options)


def says(match: str, model: Any, **options: Any) -> None:
    with pytest.warns(torch.onnx.errors.OnnxExporterWarning, match=match):
        program = export(model, **options)
    check(Given(program, model, [(X,)]))


def is_quiet(model: Any, **options: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", torch.onnx.errors.OnnxExporterWarning)
        check(Given(export(model, **options), model, [(X,)]))


def test_model(model: Mlp) -> None:
    exported = torch.export.export(model, (X,))
    for each in (model, exported, torch.jit.script(model), nn.DataParallel(model), model.forward):
        check(Given(export(each), model, [(X,)]))


def test_args(model: Mlp) -> None:
    for args in (X, (X,), [X], {"x": X}, ({"x": X},)):
        check(Given(export(model, args), model, [(X,)]))


def test_f(model: Mlp, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "model.onnx"
    for f in (str(path), path):
        export(model, f=f)
        check(Given(path, model, [(X,)]))
    stream = io.BytesIO()
    export(model, f=stream)
    check(Given(stream.getvalue(), model, [(X,)]))
    with open(path, "wb") as file:
        export(model, f=file)
    check(Given(path, model, [(X,)]))
    with pytest.raises(TypeError, match="path of the file"):
        export(model, f=1)


def test_kwargs() -> None:
    kwargs = {"y": torch.randn(2, 3), "x": torch.randn(2, 3)}
    check(Given(export(Pair(), (), kwargs=kwargs), Pair(), [(kwargs,)]))


def test_verbose(model: Mlp, capsys: Any) -> None:
    torch.onnx.export(model, (X,), verbose=False)
    assert capsys.readouterr().out == ""
    for verbose in (None, True):
        torch.onnx.export(model, (X,), verbose=verbose)
        assert "[torch.onnx] Translate the graph into ONNX... ✅" in capsys.readouterr().out


def test_input_names(model: Mlp) -> None:
    for names in (["i"], ("i",), "i", ["i", "surplus"]):
        assert [value.name for value in export(model, input_names=names).model.graph.inputs] == [
            "i"
        ]
    with pytest.raises(ValueError, match=re.escape("Input names cannot be duplicated: ['i']")):
        export(model, input_names=["i", "i"])
    with pytest.raises(ValueError, match="input name is empty"):
        export(model, input_names=[""])


def test_output_names(model: Mlp) -> None:
    for names in (["o"], ("o",), "o", ["o", "surplus"]):
        outputs = export(model, output_names=names).model.graph.outputs
        assert [value.name for value in outputs] == ["o"]
    with pytest.raises(ValueError, match=re.escape("Output names cannot be duplicated: ['o']")):
        export(model, output_names=["o", "o"])
    with pytest.raises(ValueError, match="output name is empty"):
        export(model, output_names=[""])


@pytest.mark.parametrize("opset", [None, 9, 10, 12, 17, 18, 20, 23])
def test_opset_version(model: Mlp, opset: int | None) -> None:
    check(Given(export(model, opset_version=opset), model, [(X,)], opset=opset or 20))


@pytest.mark.parametrize("opset", [1, 8, 1000, -1])
def test_opset_version_out_of_reach(opset: int) -> None:
    class Uncalled(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            raise AssertionError("the capture runs the module")

    with pytest.raises(torch.onnx.OnnxExporterError, match=f"opset {opset} is not supported"):
        export(Uncalled(), opset_version=opset)


def test_dynamo(model: Mlp, tmp_path: pathlib.Path) -> None:
    torch.onnx.export(model, (X,), tmp_path / "older.onnx", dynamo=False)
    assert onnx.load(tmp_path / "older.onnx").producer_name == "pytorch"


@pytest.mark.parametrize("external", [True, False])
def test_external_data(external: bool, tmp_path: pathlib.Path) -> None:
    model, x = nn.Linear(64, 64).eval(), torch.randn(2, 64)
    export(model, (x,), tmp_path / "model.onnx", external_data=external)
    assert (tmp_path / "model.onnx.data").exists() == external
    check(Given(tmp_path / "model.onnx", model, [(x,)]))


def test_dynamic_shapes(model: Mlp) -> None:
    batch = torch.export.Dim("batch", min=1, max=64)
    collection = torch.export.ShapesCollection()
    collection[X] = {0: "batch"}
    more = torch.export.AdditionalInputs()
    more.add((torch.randn(5, 4),))
    dynamic = torch.export.Dim.DYNAMIC
    forms: list[Any] = [{0: "batch"}, {0: batch}, {0: dynamic}, {-2: "batch"}, ("batch", None)]
    for shapes in (*[(form,) for form in forms], {"x": {0: "batch"}}, collection, more):
        check(Given(export(model, dynamic_shapes=shapes), model, [(X,), (torch.randn(7, 4),)]))
    program = export(model, dynamic_shapes={"image": {0: "batch"}}, input_names=["image"])
    check(Given(program, model, [(X,), (torch.randn(7, 4),)]))


def test_custom_translation_table() -> None:
    from onnxscript import opset18

    def relu(x: Any) -> Any:
        return opset18.Neg(x)

    program = export(nn.ReLU(), custom_translation_table={torch.ops.aten.relu.default: relu})
    assert torch.equal(program(X)[0], -X)


def test_report(model: Mlp, tmp_path: pathlib.Path) -> None:
    export(model, report=True, artifacts_dir=tmp_path)
    (report,) = tmp_path.glob("onnx_export_*_success.md")
    assert "# PyTorch ONNX Conversion Report" in report.read_text()


def test_optimize() -> None:
    def nodes(optimize: bool) -> int:
        program = export(lambda x: (x + 0) * 1 + 2, optimize=optimize)
        check(Given(program, lambda x: (x + 0) * 1 + 2, [(X,)]))
        return len(list(program.model.graph))

    assert nodes(True) < nodes(False)


def test_verify(model: Mlp, capsys: Any) -> None:
    torch.onnx.export(model, (X,), verify=True)
    assert "Verify output accuracy... ✅" in capsys.readouterr().out


def test_profile(model: Mlp, monkeypatch: Any) -> None:
    monkeypatch.setitem(sys.modules, "pyinstrument", None)
    with pytest.raises(ImportError, match="pip install pyinstrument"):
        export(model, profile=True)


def test_dump_exported_program(model: Mlp, tmp_path: pathlib.Path) -> None:
    export(model, dump_exported_program=True, artifacts_dir=tmp_path)
    (dump,) = tmp_path.glob("onnx_export_*.pt2")
    assert torch.equal(torch.export.load(dump).module()(X), model(X))


def test_artifacts_dir(model: Mlp, tmp_path: pathlib.Path) -> None:
    export(model, report=True, artifacts_dir=str(tmp_path / "new" / "folder"))
    assert list((tmp_path / "new" / "folder").iterdir())
    export(model, artifacts_dir=tmp_path / "unused")
    assert not (tmp_path / "unused").exists()


def test_export_params(model: Mlp, tmp_path: pathlib.Path) -> None:
    export(model, f=tmp_path / "model.onnx", export_params=False)
    assert not onnx.load(tmp_path / "model.onnx").graph.initializer


def test_keep_initializers_as_inputs(model: Mlp, tmp_path: pathlib.Path) -> None:
    export(model, f=tmp_path / "model.onnx", keep_initializers_as_inputs=True)
    graph = onnx.load(tmp_path / "model.onnx").graph
    assert len(graph.input) == 1 + len(graph.initializer) == 5


def test_dynamic_axes(model: Mlp) -> None:
    for axes in ({"x": {0: "n"}}, {"x": [0]}, {"x": (-2,)}, {"x": {0: "n"}, "o": {0: "n"}}):
        program = export(model, dynamic_axes=axes, output_names=["o"])
        check(Given(program, model, [(X,), (torch.randn(7, 4),)]))
    with pytest.raises(RuntimeError, match="'absent'"):
        export(model, dynamic_axes={"absent": {0: "n"}}, output_names=["o"])
    with pytest.raises(RuntimeError, match=re.escape("dynamic_axes['x'] has an entry for axis 5")):
        export(model, dynamic_axes={"x": {5: "n"}})


def test_training(model: Mlp) -> None:
    modes = torch.onnx.TrainingMode
    says("TRAINING has no effect", model, training=modes.TRAINING)
    for mode in (modes.EVAL, modes.PRESERVE):
        is_quiet(model, training=mode)


def test_operator_export_type(model: Mlp) -> None:
    types = torch.onnx.OperatorExportTypes
    says("operator_export_type", model, operator_export_type=types.ONNX_FALLTHROUGH)
    is_quiet(model, operator_export_type=types.ONNX)


def test_do_constant_folding(model: Mlp) -> None:
    says("do_constant_folding=False", model, do_constant_folding=False)
    is_quiet(model, do_constant_folding=True)


def test_custom_opsets(model: Mlp) -> None:
    says("custom_opsets", model, custom_opsets={"my.domain": 3})
    is_quiet(model, custom_opsets=None)


def test_export_modules_as_functions(model: Mlp) -> None:
    says("onnx_native.options", model, export_modules_as_functions=True)
    is_quiet(model, export_modules_as_functions=False)


def test_autograd_inlining(model: Mlp) -> None:
    says("autograd_inlining=False", model, autograd_inlining=False)
    is_quiet(model, autograd_inlining=True)


def test_all_at_once(tmp_path: pathlib.Path) -> None:
    """Combinations: everything that changes the file, in one call."""
    path, (x, y) = tmp_path / "model.onnx", (torch.randn(2, 3), torch.randn(2, 3))
    program = torch.onnx.export(
        Pair(),
        (x,),
        path,
        kwargs={"y": y},
        verbose=False,
        input_names=["left", "right"],
        output_names=["sum", "product"],
        opset_version=13,
        dynamic_shapes={"left": {0: "batch"}, "right": {0: "batch"}},
        external_data=False,
        report=True,
        optimize=False,
        verify=True,
        dump_exported_program=True,
        artifacts_dir=tmp_path / "artifacts",
        keep_initializers_as_inputs=True,
    )
    assert program is not None
    names = (["left", "right"], ["sum", "product"])
    examples = [(x, y), (torch.randn(5, 3), torch.randn(5, 3))]
    check(Given(path, Pair(), examples, names, opset=13))
    assert len(list((tmp_path / "artifacts").iterdir())) == 3  # the program, the report, its page


@pytest.mark.parametrize(
    ("registered", "opset", "reason"),
    [
        ("absent::operator", 20, "PyTorch has no operator of this name"),
        ("aten::relu", 13, "the function is for opsets newer than 13"),
    ],
    ids=["absent", "newer opset"],
)
def test_symbolic_functions_without_effect(
    registered: str, opset: int, reason: str, model: Mlp
) -> None:
    """Not an argument, but ignored silently by PyTorch's exporter too."""
    newest = 20

    def symbolic(g: Any, x: Any) -> Any:
        return g.op("Neg", x)

    torch.onnx.register_custom_op_symbolic(registered, symbolic, newest)
    try:
        says(f"no effect for {registered}: {reason}", model, opset_version=opset)
    finally:
        torch.onnx.unregister_custom_op_symbolic(registered, newest)


def rows() -> list[str]:
    return re.findall(r"^\| `(\w+)` \|", PAGE.read_text(), re.MULTILINE)


def test_the_table_has_every_argument() -> None:
    assert sorted(rows()) == sorted(inspect.signature(torch.onnx.export).parameters)


@pytest.mark.parametrize("argument", rows())
def test_every_row_has_a_test(argument: str) -> None:
    assert callable(globals()[f"test_{argument}"])


def test_natively() -> None:
    assert onnx_native.is_enabled()
