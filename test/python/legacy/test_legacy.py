"""torch.onnx.export(..., dynamo=False) beside PyTorch's older exporter: names, sizes and values."""

import io
import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import onnx
import onnx_native
import onnxruntime as ort
import pytest
import torch
from torch.onnx import OperatorExportTypes, TrainingMode

X = torch.linspace(-2, 2, 6).reshape(2, 3)


class Scaled(torch.nn.Module):
    def forward(self, x, scale):
        return x * scale


class Flagged(torch.nn.Module):
    def forward(self, x, n=3, flag=True, y=None):
        x = x * n if flag else x - 1
        return x if y is None else x + y


class Parts(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.unused = torch.nn.Linear(2, 2)
        self.linear = torch.nn.Linear(3, 3)
        self.norm = torch.nn.BatchNorm1d(3)

    def forward(self, x):
        return self.norm(self.linear(x))


class Nested(torch.nn.Module):
    def forward(self, x, pair, **more):
        return {"sum": x + pair[0], "rest": [pair[1] - more["z"], None]}


class Reshaped(torch.nn.Module):
    def forward(self, x, n):
        return torch.stack([x * i for i in range(n)])


class Ignoring(torch.nn.Module):
    def forward(self, x, unused, n):
        return x + 1


class Tokens(torch.nn.Module):
    def forward(self, input_ids, attention_mask=None, token_type_ids=None):
        return input_ids * 2 + attention_mask * 3 + token_type_ids * 5


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def exported(model: Any, args: Any, *, legacy: bool, **options: Any) -> bytes:
    file = io.BytesIO()
    with onnx_native.options(legacy=legacy):
        result = torch.onnx.export(model, args, file, dynamo=False, **options)
    assert result is None
    return file.getvalue()


def is_native(content: bytes) -> bool:
    return onnx.load_from_string(content).producer_name != "pytorch"


def signature(content: bytes) -> list[tuple[str, str]]:
    session = ort.InferenceSession(content)
    return [(value.name, value.type) for value in session.get_inputs()]


def run(content: bytes, values: list[torch.Tensor]) -> list[Any]:
    session = ort.InferenceSession(content)
    names = [value.name for value in onnx.load_from_string(content).graph.input]
    return session.run(None, {n: v.numpy() for n, v in zip(names, values, strict=True)})


Y = X.flip(0)
N, F, B = torch.tensor(3), torch.tensor(2.5, dtype=torch.float64), torch.tensor(True)
PARTS = Parts().eval()
# The call, and the values of the inputs of the older exporter's model.
CALLS: dict[str, tuple[Any, Any, dict[str, Any], list[torch.Tensor]]] = {
    "an int": (Scaled(), (X, 3), {"input_names": ["a", "b"]}, [X, N]),
    "a float": (Scaled(), (X, 2.5), {"input_names": ["a", "b"]}, [X, F]),
    "a bool": (Scaled(), (X, True), {"input_names": ["a", "b"]}, [X, B]),
    "a tensor alone": (torch.nn.ReLU(), X, {"input_names": ["x"]}, [X]),
    "a flag": (Flagged(), (X, 3, False), {"input_names": ["x", "n", "flag"]}, [X]),
    "None": (Flagged(), (X, 3, True, Y), {"input_names": ["x", "n", "flag", "y"]}, [X, N, Y]),
    "loop": (Reshaped(), (X, 3), {"input_names": ["x", "n"]}, [X]),
    "inputs that nothing reads": (Ignoring(), (X, Y, 3), {"input_names": ["x", "y", "n"]}, [X]),
    "keywords in another order": (
        Tokens(),
        ({"token_type_ids": X, "attention_mask": Y, "input_ids": X * 2},),
        {"input_names": ["input_ids", "attention_mask", "token_type_ids"]},
        [X * 2, Y, X],
    ),
    "a dict at the end": (
        Tokens(),
        (X, {"token_type_ids": Y, "attention_mask": X}),
        {"input_names": ["a", "b", "c"]},
        [X, X, Y],
    ),
    "kwargs": (
        Tokens(),
        (X,),
        {
            "kwargs": {"token_type_ids": Y, "attention_mask": X},
            "input_names": ["a", "b", "c"],
        },
        [X, X, Y],
    ),
    "names of parameters": (
        PARTS,
        (X,),
        {"input_names": ["x", "a", "b", "c", "d"], "training": TrainingMode.EVAL},
        [X],
    ),
    "a script": (torch.jit.script(PARTS), (X,), {"input_names": ["x"]}, [X]),
    "a traced function": (torch.jit.trace(torch.sin, (X,)), (X,), {"input_names": ["x"]}, [X]),
    "training": (
        torch.nn.BatchNorm1d(3).eval(),
        (X,),
        {"training": TrainingMode.TRAINING, "input_names": ["x"]},
        [X],
    ),
    "opset 13": (PARTS, (X,), {"opset_version": 13, "input_names": ["x"]}, [X]),
    "nothing folded": (PARTS, (X,), {"do_constant_folding": False, "input_names": ["x"]}, [X]),
}


@pytest.mark.parametrize("call", CALLS)
def test_models_have_the_inputs_and_results_of_the_older_exporter(call: str) -> None:
    model, args, options, values = CALLS[call]
    older = exported(model, args, legacy=False, **options)
    newer = exported(model, args, legacy=True, **options)
    assert is_native(newer)
    assert not is_native(older)
    assert signature(newer) == signature(older)
    for new, old in zip(run(newer, values), run(older, values), strict=True):
        assert new.dtype == old.dtype
        torch.testing.assert_close(torch.from_numpy(new), torch.from_numpy(old))


def test_names_after_those_of_inputs_are_for_parameters() -> None:
    content = exported(PARTS, (X,), legacy=True, input_names=["x", "a", "b", "weight", "bias"])
    stored = {value.name for value in onnx.load_from_string(content).graph.initializer}
    assert stored >= {"weight", "bias"}


@pytest.mark.parametrize("export_params", [True, False])
def test_parameters_can_be_inputs(export_params: bool) -> None:
    options = {"keep_initializers_as_inputs": True, "export_params": export_params}
    content = exported(PARTS, (X,), legacy=True, input_names=["x"], **options)
    graph = onnx.load_from_string(content).graph
    state = PARTS.state_dict()
    names = [name for name in state if "unused" not in name and "num_batches" not in name]
    assert [value.name for value in graph.input] == ["x", *names]
    assert (len(graph.initializer) > 0) == export_params
    values = [X, *(state[name] * 2 for name in names)]
    other = Parts().eval()
    other.load_state_dict({name: state[name] * 2 for name in state})
    with torch.no_grad():
        torch.testing.assert_close(torch.from_numpy(run(content, values)[0]), other(X))


class Sized(torch.nn.Module):
    """Takes no elements of its second argument, or the elements too."""

    def __init__(self, body: Callable[[torch.Tensor, torch.Tensor], Any]) -> None:
        super().__init__()
        self.body = body

    def forward(self, x, y):
        return self.body(x, y)


SIZED: dict[str, Callable[[torch.Tensor, torch.Tensor], Any]] = {
    "a size": lambda x, y: x.reshape(y.shape[0], -1),
    "a number": lambda x, y: x + y.size(0),
    "a float": lambda x, y: x / y.shape[0] ** 0.5,
    "a count": lambda x, y: x + y.numel(),
    "a rank": lambda x, y: x + y.dim(),
    "a result": lambda x, y: (x, y.shape[0]),
    "a bound": lambda x, y: x[: y.shape[0]],
    "a range": lambda x, y: x + torch.arange(y.shape[0])[:, None],
    "a size of a result": lambda x, y: x.reshape(y.flatten().shape[0] // 3, -1),
    "a shape": lambda x, y: x.view_as(y),
    "a larger shape": lambda x, y: x.expand_as(y),
    "zeros": lambda x, y: x + torch.zeros_like(y),
    "zeros of a size": lambda x, y: x + y.new_zeros(x.shape),
    "zeros of the other size": lambda x, y: x.new_zeros(y.shape),
    "a size as an element": lambda x, y: x + torch.full((3,), y.shape[0]),
    "replaced elements": lambda x, y: x + y.clone().fill_(3),
    "elements of another input": lambda x, y: y.clone().fill_(x.sum()),
    "elements and their replacement": lambda x, y: x + y[0].sum() + y.clone().zero_(),
    "no elements": lambda x, y: x + y[:0].sum(),
    "a dtype": lambda x, y: x.type_as(y),
    "a check": lambda x, y: x * 2 if y.shape[0] == x.shape[0] else x,
    "nothing": lambda x, y: x * 2,
    "a dropped value": lambda x, y: (y + y.shape[0], x * 2)[1],
}


@pytest.mark.parametrize("axes", [None, {"x": {0: "n"}, "y": {0: "n"}}], ids=["static", "dynamic"])
@pytest.mark.parametrize("name", SIZED)
def test_inputs_are_those_of_the_older_exporter(name: str, axes: dict[str, Any] | None) -> None:
    options = {"input_names": ["x", "y"], "dynamic_axes": axes}
    args = (X, X * 2 + 1)
    ours, theirs = (
        exported(Sized(SIZED[name]), args, legacy=legacy, **options) for legacy in (True, False)
    )
    assert is_native(ours)
    names, wanted = (
        [value.name for value in onnx.load_from_string(content).graph.input]
        for content in (ours, theirs)
    )
    assert names == wanted
    feeds = dict(zip(["x", "y"], [torch.cat([x, x]) for x in args] if axes else args, strict=True))
    results = run(ours, [feeds[name] for name in names])
    expected = SIZED[name](*feeds.values())
    expected = expected if isinstance(expected, tuple) else (expected,)
    for result, value in zip(results, expected, strict=True):
        torch.testing.assert_close(torch.from_numpy(result), torch.as_tensor(value))


class Filled(torch.nn.Module):
    def forward(self, x):
        return x.fill_(3), x


class Constant(torch.nn.Module):
    def forward(self, x):
        return torch.full_like(x, 1.5)


@pytest.mark.parametrize(
    ("module", "x", "axes"),
    [
        (Filled(), X, None),
        (Filled(), X, {"x": [0, 1]}),
        (Constant(), X[0, 0], None),
        (Constant(), X, None),
    ],
)
def test_tensors_of_one_number(module: torch.nn.Module, x: torch.Tensor, axes: Any) -> None:
    """The older exporter reads the shape of a tensor if it is dynamic or has no sizes."""
    ours, theirs = (
        exported(module, (x.clone(),), legacy=legacy, input_names=["x"], dynamic_axes=axes)
        for legacy in (True, False)
    )
    assert is_native(ours)
    names, wanted = (
        [value.name for value in onnx.load_from_string(content).graph.input]
        for content in (ours, theirs)
    )
    assert names == wanted
    for result, value in zip(run(ours, [x] * len(names)), [module(x.clone())], strict=False):
        expected = value[0] if isinstance(value, tuple) else value
        torch.testing.assert_close(torch.from_numpy(result), expected)


def sizes(content: bytes) -> dict[str, list[Any]]:
    graph = onnx.load_from_string(content).graph
    return {
        value.name: [dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim]
        for value in (*graph.input, *graph.output)
    }


def test_dynamic_axes_name_sizes_of_inputs_and_outputs() -> None:
    content = exported(
        Scaled(),
        (X, Y),
        legacy=True,
        input_names=["x", "y"],
        output_names=["z"],
        dynamic_axes={"x": {0: "batch"}, "y": {0: "other"}, "z": {0: "rows"}},
    )
    assert sizes(content) == {"x": ["batch", 3], "y": ["other", 3], "z": ["rows", 3]}


def test_a_list_of_axes_gets_names() -> None:
    content = exported(
        PARTS, (X,), legacy=True, input_names=["x"], output_names=["y"], dynamic_axes={"x": [0]}
    )
    assert sizes(content) == {"x": ["x_dynamic_axes_1", 3], "y": ["x_dynamic_axes_1", 3]}


def test_an_axis_that_the_program_fixes_is_static_with_a_warning() -> None:
    class Checked(torch.nn.Module):
        def forward(self, x):
            if x.shape[1] != 3:
                raise ValueError("three channels, please")
            return x * 2

    with pytest.warns(torch.onnx.errors.OnnxExporterWarning, match="channels == 3"):
        content = exported(
            Checked(), (X,), legacy=True, input_names=["x"], dynamic_axes={"x": {1: "channels"}}
        )
    assert is_native(content)
    assert sizes(content)["x"] == [2, 3]


def test_names_of_sums_are_names() -> None:
    class Masked(torch.nn.Module):
        def forward(self, x, past, mask):
            return torch.cat([past, x], 1) * mask

    axes = {
        "x": {1: "sequence"},
        "past": {1: "past length"},
        "mask": {1: "past length + sequence"},
        "y": {1: "past length + sequence"},
    }
    content = exported(
        Masked(),
        (X, X, torch.ones(2, 6)),
        legacy=True,
        input_names=["x", "past", "mask"],
        output_names=["y"],
        dynamic_axes=axes,
    )
    assert is_native(content)
    assert sizes(content)["past"] == [2, "past length"]
    values = [torch.ones(2, 1), torch.ones(2, 4), torch.arange(10.0).reshape(2, 5)]
    assert run(content, values)[0].tolist() == values[2].tolist()


def test_a_number_that_the_program_decides_by_is_a_constant_with_a_warning() -> None:
    with pytest.warns(torch.onnx.errors.OnnxExporterWarning, match="constants .*: n = 3"):
        exported(Reshaped(), (X, 3), legacy=True, input_names=["x", "n"])


def test_what_has_no_native_way_goes_to_the_older_exporter() -> None:
    with pytest.warns(torch.onnx.errors.OnnxExporterWarning, match="older exporter .*: opset 8"):
        content = exported(PARTS, (X,), legacy=True, opset_version=8)
    assert not is_native(content)


def test_the_older_exporter_reports_what_nobody_can_export() -> None:
    with pytest.raises(RuntimeError, match="number of input names provided"):
        exported(torch.nn.ReLU(), (X,), legacy=True, input_names=["a", "b"])


def test_unknown_operators_become_nodes() -> None:
    with torch.library._scoped_library("legacy_test", "FRAGMENT") as library:
        library.define("twice(Tensor x, int n) -> Tensor")
        library.impl("twice", lambda x, n: x * n, "CompositeExplicitAutograd")
        library.impl("twice", lambda x, n: torch.empty_like(x), "Meta")

        class Twice(torch.nn.Module):
            def forward(self, x):
                return torch.ops.legacy_test.twice(x, 2)

        content = exported(
            Twice(),
            (X,),
            legacy=True,
            operator_export_type=OperatorExportTypes.ONNX_FALLTHROUGH,
            custom_opsets={"legacy_test": 4},
        )
    model = onnx.load_from_string(content)
    assert [(node.domain, node.op_type) for node in model.graph.node] == [("legacy_test", "twice")]
    assert {entry.domain: entry.version for entry in model.opset_import}["legacy_test"] == 4


def test_modules_become_functions() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU())
    content = exported(model, (X,), legacy=True, export_modules_as_functions={torch.nn.ReLU})
    assert [function.name for function in onnx.load_from_string(content).functions] == ["ReLU"]


@pytest.mark.parametrize("mode", list(TrainingMode.__members__.values()))
def test_every_part_has_its_mode_afterwards(mode: TrainingMode) -> None:
    model = torch.nn.Sequential(torch.nn.Dropout(), torch.nn.Sequential(torch.nn.ReLU())).train()
    model[1].eval()
    exported(model, (X,), legacy=True, training=mode)
    assert [part.training for part in model.modules()] == [True, True, False, False]


def test_more_arguments_may_be_positional() -> None:
    file = io.BytesIO()
    with onnx_native.options(legacy=True):
        torch.onnx.export(PARTS, X, file, True, False, TrainingMode.EVAL, ["a"], ["b"])
    assert list(sizes(file.getvalue())) == ["a", "b"]
    with onnx_native.options(legacy=False), pytest.raises(TypeError, match="positional"):
        torch.onnx.export(PARTS, X, file, True)


def test_files_are_whole(tmp_path: Any) -> None:
    with onnx_native.options(legacy=True):
        torch.onnx.export(PARTS, X, tmp_path / "model.onnx", dynamo=False)
    assert [path.name for path in tmp_path.iterdir()] == ["model.onnx"]
    onnx.checker.check_model(tmp_path / "model.onnx", full_check=True)


def test_enable_sets_it_for_all_threads() -> None:
    onnx_native.enable(legacy=True)
    try:
        file = io.BytesIO()
        torch.onnx.export(PARTS, X, file, dynamo=False)
        assert is_native(file.getvalue())
    finally:
        onnx_native.enable(legacy=False)
    file = io.BytesIO()
    torch.onnx.export(PARTS, X, file, dynamo=False)
    assert not is_native(file.getvalue())


SCRIPT = """
import sys, torch
x = torch.ones(2)
torch.onnx.export(torch.nn.ReLU(), (x,), sys.argv[1] + "/a.onnx", dynamo=False)
torch.onnx.export(torch.nn.ReLU(), (x,), sys.argv[1] + "/b.onnx", verbose=False)
torch.onnx.export(torch.nn.ReLU(), (x,), sys.argv[1] + "/c.onnx", dynamo=False, opset_version=8)
sys.exit(int(sys.argv[2]))
"""


def command(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "ignore", *words],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_run_says_who_exported_what(tmp_path: Any) -> None:
    (tmp_path / "program.py").write_text(SCRIPT)
    words = ("-m", "onnx_native", "run", str(tmp_path / "program.py"), str(tmp_path))
    result = command(*words, "0")
    assert result.returncode == 0, result.stderr
    assert "3 models were exported" in result.stderr
    lines = [line.split() for line in result.stderr.splitlines() if ".onnx " in line]
    assert [line[1] for line in lines] == ["native", "native", "PyTorch's"]
    assert "opset 8 is not supported" in result.stderr
    assert command(*words, "3").returncode == 3
    missing = command("-m", "onnx_native", "run", "no_such_program")
    assert missing.returncode == 2
    assert "there is no program 'no_such_program'" in missing.stderr


def test_the_environment_asks_for_it(tmp_path: Any) -> None:
    program = (
        "import onnx_native, torch; torch.ops.load_library(onnx_native.library_path());"
        f"torch.onnx.export(torch.nn.ReLU(), torch.ones(2), '{tmp_path}/a.onnx', dynamo=False)"
    )
    for wanted in ("0", "1"):
        result = command("-c", program, ONNX_NATIVE_LEGACY=wanted)
        assert result.returncode == 0, result.stderr
        content = (tmp_path / "a.onnx").read_bytes()
        assert is_native(content) == (wanted == "1")
