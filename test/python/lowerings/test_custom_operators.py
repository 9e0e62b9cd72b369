"""Custom operators: registered from Python and C++, mutating ones, and ONNX operators."""

import pathlib
import subprocess
import sysconfig

import onnx
import onnx_native
import onnxruntime
import pytest
import torch
from models.calling import Calling
from torch.utils import cpp_extension

pytestmark = pytest.mark.captures("auto", "torch.export")


def export(function, *args, dynamic=True, **options):
    shapes = (tuple({0: torch.export.Dim("batch", min=2)} for _ in args),) if dynamic else None
    return torch.onnx.export(
        Calling(function), args, dynamo=True, dynamic_shapes=shapes, verbose=False, **options
    )


def check(program, function, *args):
    onnx.checker.check_model(program.model_proto, full_check=True)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(program.model_proto.SerializeToString(), options)
    names = [value.name for value in session.get_inputs()]
    results = session.run(None, dict(zip(names, [x.numpy() for x in args], strict=True)))
    expected = function(*(x.clone() for x in args))
    expected = expected if isinstance(expected, tuple) else (expected,)
    for result, wanted in zip(results, expected, strict=True):
        torch.testing.assert_close(torch.from_numpy(result), wanted, atol=1e-5, rtol=1e-4)


@pytest.fixture
def lowering():
    """Registers lowerings for one test."""
    registered = []

    def register(op):
        registered.append(op)
        return onnx_native.lowering(op)

    yield register
    for op in registered:
        onnx_native.remove_lowering(op)


@pytest.fixture
def keep():
    kept = []

    def register(op, **options):
        kept.append(op)
        onnx_native.keep(op, **options)

    yield register
    for op in kept:
        onnx_native.remove_lowering(op)


@torch.library.custom_op("onnx_native_custom::scale_", mutates_args=("x",))
def scale_(x: torch.Tensor, factor: float) -> None:
    x.mul_(factor)


@torch.library.custom_op("onnx_native_custom::pop", mutates_args=("x", "y"))
def pop(x: torch.Tensor, y: torch.Tensor, n: int = 1) -> torch.Tensor:
    taken = x * n
    x.sub_(taken)
    y.add_(n)
    return taken


@pop.register_fake
def _(x, y, n=1):
    return torch.empty_like(x)


library = torch.library.Library("onnx_native_custom", "FRAGMENT")
library.define(
    "blend(Tensor x, Tensor? y, Tensor[] more, *, float weight=0.5, str mode='a')"
    " -> (Tensor, Tensor)"
)
library.impl(
    "blend",
    lambda x, y, more, weight=0.5, mode="a": (x * weight, x + 1),
    "CompositeExplicitAutograd",
)
library.define("twice_(Tensor(a!) x) -> Tensor(a!)")
library.impl("twice_", lambda x: x.mul_(2), "CompositeExplicitAutograd")
blend = torch.ops.onnx_native_custom.blend


X = torch.randn(3, 4)


def in_slices(x):
    x = x.clone()
    scale_(x[:, 1:3], 3.0)
    scale_(x, 0.5)
    return x + 1, x


def with_results(x):
    x, y = x.clone(), torch.zeros_like(x)
    view = y[1:]
    taken = pop(x, y, 2)
    return taken, x, view


def returning_itself(x):
    y = x.clone()
    z = torch.ops.onnx_native_custom.twice_(y)
    return z + y


@pytest.mark.parametrize("function", [in_slices, with_results, returning_itself])
def test_operators_that_write(lowering, function):
    @lowering("onnx_native_custom::scale_")
    def _(b, x, factor):
        return b.op("Mul", x, factor)

    @lowering("onnx_native_custom::twice_")
    def _(b, x):
        return b.op("Add", x, x)

    @lowering("onnx_native_custom::pop")
    def _(b, x, y, n):
        taken = b.op("Mul", x, n)
        return taken, b.op("Sub", x, taken), b.op("Add", y, n)

    program = export(function, X)
    check(program, function, X)
    check(program, function, torch.randn(5, 4))


def test_an_operator_that_writes_and_has_no_lowering_is_an_error():
    with pytest.raises(
        torch.onnx.OnnxExporterError, match="onnx_native_custom::scale_ has no ONNX"
    ):
        export(in_slices, X)


def test_kept_as_a_node(keep):
    keep("onnx_native_custom::blend", domain="mine", version=4)

    def function(x):
        first, second = blend(x, None, [x, x], weight=0.25)
        return first + second

    program = export(function, X, optimize=False)
    node = next(node for node in program.model_proto.graph.node if node.domain == "mine")
    assert node.op_type == "blend"
    assert [bool(name) for name in node.input] == [True, False, True, True]
    assert len(node.output) == 2
    attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    assert attributes == {"weight": 0.25, "mode": b"a"}
    assert {o.domain: o.version for o in program.model_proto.opset_import}["mine"] == 4
    onnx.checker.check_model(program.model_proto, full_check=True)
    assert program.model.graph.outputs[0].shape == ("batch", 4)


def test_kept_with_its_own_names(keep):
    keep("onnx_native_custom::scale_")
    program = export(in_slices, X)
    domains = {
        (node.domain, node.op_type) for node in program.model_proto.graph.node if node.domain
    }
    assert domains == {("onnx_native_custom", "scale_")}


@pytest.mark.captures("auto")  # a process loads the library once
def test_a_library_in_cpp(lowering, tmp_path):
    source = tmp_path / "library.cpp"
    source.write_text("""
        #include <ATen/core/Tensor.h>
        #include <torch/library.h>
        at::Tensor shifted(const at::Tensor& x, int64_t n) { return x.add(n); }
        TORCH_LIBRARY(onnx_native_cpp, library) {
          library.def("shifted(Tensor x, int n) -> Tensor");
        }
        TORCH_LIBRARY_IMPL(onnx_native_cpp, CompositeExplicitAutograd, library) {
          library.impl("shifted", shifted);
        }
    """)
    shared = tmp_path / "library.so"
    folders = [f"-I{folder}" for folder in cpp_extension.include_paths()]
    folders.append(f"-I{sysconfig.get_paths()['include']}")
    options = ["-std=c++20", "-O0", "-shared", "-fPIC", "-w", *folders]
    folder = cpp_extension.library_paths()[0]
    links = [f"-L{folder}", f"-Wl,-rpath,{folder}", "-lc10", "-ltorch_cpu"]
    subprocess.run(["c++", *options, str(source), *links, "-o", str(shared)], check=True)
    torch.ops.load_library(pathlib.Path(shared))

    @lowering("onnx_native_cpp::shifted")
    def _(b, x, n):
        return b.op("Add", x, n)

    def function(x):
        return torch.ops.onnx_native_cpp.shifted(x * 2, 3)

    program = export(function, X)
    check(program, function, X)
    check(program, function, torch.randn(6, 4))


def test_symbolic():
    def function(x):
        attributes = {"a": 1, "b": 2.5, "c": "s", "d": [1, 2], "e": [1.0, 2.0], "f": ["x", "y"]}
        return torch.onnx.ops.symbolic(
            "mine::Foo",
            (x, None, x),
            attributes,
            dtype=x.dtype,
            shape=(x.shape[0], 5),
            version=3,
            metadata_props={"key": "value", "other": ""},
        )

    program = export(function, X)
    (node,) = program.model_proto.graph.node
    assert (node.domain, node.op_type, len(node.input), node.input[1]) == ("mine", "Foo", 3, "")
    assert {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute} == {
        "a": 1,
        "b": 2.5,
        "c": b"s",
        "d": [1, 2],
        "e": [1.0, 2.0],
        "f": [b"x", b"y"],
    }
    assert {o.domain: o.version for o in program.model_proto.opset_import}["mine"] == 3
    metadata = {entry.key: entry.value for entry in node.metadata_props}
    assert (metadata["key"], metadata["other"]) == ("value", "")
    assert program.model.graph.outputs[0].shape == ("batch", 5)


@pytest.mark.parametrize("place", [[0, 99], [-1, 1], [1, 0], [0]])
def test_symbolic_with_attributes_from_nowhere(place):
    def function(x):
        return torch.ops.onnx_symbolic._symbolic(
            *([x], "Foo", 1),
            shape=[5, 4],
            attr_keys=["a"],
            attr_types=["is"],
            attr_pos=[place],
            attr_ints=[1, 2],
            attr_floats=[],
            attr_strs=[],
            metadata_props_keys=[],
            metadata_props_values=[],
            domain="mine",
            version=1,
        )

    with pytest.raises(torch.onnx.OnnxExporterError, match=r"an ONNX node|inconsistent arguments"):
        export(function, X)


def test_symbolic_of_operators_that_onnx_has():
    def function(x):
        values, indices = torch.onnx.ops.symbolic_multi_out(
            "TopK",
            (x, torch.tensor([2])),
            {"axis": 1},
            dtypes=(x.dtype, torch.int64),
            shapes=((x.shape[0], 2), (x.shape[0], 2)),
            version=11,
        )
        return values, torch.onnx.ops.symbolic(
            "Neg", (indices,), dtype=torch.int64, shape=indices.shape
        )

    def eager(x):
        values, indices = torch.topk(x, 2)
        return values, -indices

    check(export(function, X), eager, torch.randn(5, 4))


def test_symbolic_of_an_operator_that_onnx_lacks():
    def function(x):
        return torch.onnx.ops.symbolic_multi_out(
            "Foo",
            (x,),
            dtypes=(torch.float32, torch.int64),
            shapes=((x.shape[0], 5), (3,)),
            version=3,
        )

    program = export(function, X)
    (node,) = program.model_proto.graph.node
    assert (node.domain, node.op_type, len(node.output)) == ("", "Foo", 2)
    assert program.model.graph.outputs[0].shape == ("batch", 5)


def attention(q, mask):
    return torch.onnx.ops.attention(q, q, q, mask, scale=0.5)[0]


def rotary(q, cache, positions):
    return torch.onnx.ops.rotary_embedding(q, cache, cache + 1, positions)


Q = torch.randn(2, 4, 5, 8)
OPERATORS = [
    (attention, (Q, torch.randn(2, 4, 5, 5)), "Attention"),
    (rotary, (Q, torch.randn(50, 4), torch.arange(5).repeat(2, 1)), "RotaryEmbedding"),
]


@pytest.mark.parametrize(("function", "args", "op_type"), OPERATORS)
def test_operators_of_onnx(function, args, op_type):
    program = export(function, *args, dynamic=False, opset_version=23)
    assert op_type in [node.op_type for node in program.model_proto.graph.node]
    check(program, function, *args)


@pytest.mark.parametrize(("function", "args", "op_type"), OPERATORS)
def test_operators_of_onnx_that_are_newer_than_the_model(function, args, op_type):
    with onnx_native.fallbacks(True):
        program = export(function, *args, dynamic=False, opset_version=20)
    assert op_type not in [node.op_type for node in program.model_proto.graph.node]
    check(program, function, *args)
    with (
        onnx_native.fallbacks(False),
        pytest.raises(torch.onnx.OnnxExporterError, match=f"{op_type} requires opset 23"),
    ):
        export(function, *args, dynamic=False, opset_version=20)
