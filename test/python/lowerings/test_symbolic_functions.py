"""Symbolic functions of the TorchScript exporter, on both routes of capture."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from typing import Any

import onnx
import onnx_native
import pytest
import torch
from models.calling import Calling
from models.recording import EXAMPLES, X, assert_equal_to_eager, assert_native
from torch.onnx.symbolic_helper import _get_tensor_rank, parse_args

NAMESPACE = "onnx_native_symbolic"
library = torch.library.Library(NAMESPACE, "FRAGMENT")
ops: Any = torch.ops.onnx_native_symbolic
library.define("scaled(Tensor x, float scale=2.0, *, int[] dims=[1, 2], str mode='a') -> Tensor")
library.impl("scaled", lambda x, scale=2.0, dims=None, mode="a": x * scale, "CPU")
library.define("pair(Tensor x, Tensor? y, Tensor[] more) -> (Tensor, Tensor)")
library.impl("pair", lambda x, y, more: (x + 1, x * 2), "CPU")
torch.library.register_fake(
    f"{NAMESPACE}::scaled",
    lambda x, scale=2.0, dims=None, mode="a": torch.empty_like(x),
    lib=library,
)
torch.library.register_fake(
    f"{NAMESPACE}::pair", lambda x, y, more: (torch.empty_like(x), torch.empty_like(x)), lib=library
)


@parse_args("v", "f", "is", "s")
def scaled(g: Any, x: Any, scale: float, dims: list[int], mode: str) -> Any:
    return g.op("mine::Scaled", x, scale_f=scale, dims_i=dims, mode_s=mode).setType(x.type())


def scaled_as_nodes(g: Any, x: Any, scale: Any, dims: Any, mode: Any) -> Any:
    assert _get_tensor_rank(x) == 3
    return g.op("Mul", g.op("Cast", x, to_i=1), g.op("Cast", scale, to_i=1))


def pair(g: Any, x: Any, y: Any, more: Any) -> Any:
    one = g.op("Constant", value_t=torch.tensor(1.0))
    return g.op("Add", x, one), g.op("mine::Twice", y, x, weights_f=[1.0, 2.0], outputs=1)


Register = Callable[[str, Callable[..., Any]], None]


@pytest.fixture
def register() -> Iterator[Register]:
    names = []

    def add(name: str, function: Callable[..., Any]) -> None:
        torch.onnx.register_custom_op_symbolic(name, function, 9)
        names.append(name)

    yield add
    for name in names:
        torch.onnx.unregister_custom_op_symbolic(name, 9)


@pytest.fixture(params=["native", "torch.export"])
def capture(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def exported(
    function: Callable[..., Any], capture: str, dynamic: bool = True, **options: Any
) -> Any:
    shapes = ({0: "batch", 1: "n"},) if dynamic else None
    with onnx_native.options(capture=capture):
        program = torch.onnx.export(
            Calling(function),
            (X,),
            dynamo=True,
            dynamic_shapes=(shapes,) if dynamic else None,
            verbose=False,
            **options,
        )
    assert program is not None
    if capture == "native":
        assert_native(program)
    onnx.checker.check_model(program.model_proto, full_check=True)
    return program


def nodes_of(program: Any) -> list[tuple[str, str]]:
    return [(node.domain, node.op_type) for node in program.model_proto.graph.node]


def attributes_of(node: onnx.NodeProto) -> dict[str, Any]:
    return {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}


@pytest.mark.parametrize("dynamic", [True, False])
def test_a_node_of_the_users_domain(register: Register, capture: str, dynamic: bool) -> None:
    register(f"{NAMESPACE}::scaled", scaled)
    program = exported(lambda x: ops.scaled(x, 3.0).relu(), capture, dynamic)
    assert nodes_of(program) == [("mine", "Scaled"), ("", "Relu")]
    assert attributes_of(program.model_proto.graph.node[0]) == {
        "scale": 3.0,
        "dims": [1, 2],
        "mode": b"a",
    }
    assert {o.domain: o.version for o in program.model_proto.opset_import}["mine"] == 1
    expected = ("batch", "n", 4) if dynamic else (2, 5, 4)
    assert tuple(program.model.graph.outputs[0].shape) == expected


@pytest.mark.parametrize("opset", [18, 20, 23])
def test_nodes_of_onnx(register: Register, capture: str, opset: int) -> None:
    register(f"{NAMESPACE}::scaled", scaled_as_nodes)

    def function(x: torch.Tensor) -> Any:
        return ops.scaled(x), ops.scaled(x, 0.5, dims=[3]).sum()

    program = exported(function, capture, opset_version=opset)
    assert_equal_to_eager(program, Calling(function), *EXAMPLES)


def test_several_results_and_absent_tensors(register: Register, capture: str) -> None:
    register(f"{NAMESPACE}::pair", pair)
    program = exported(lambda x: ops.pair(x, None, [x, x + 1]), capture)
    node = next(node for node in program.model_proto.graph.node if node.domain)
    assert (node.op_type, attributes_of(node)) == ("Twice", {"weights": [1.0, 2.0]})
    assert list(node.input) == ["", program.model_proto.graph.input[0].name]


def test_an_operator_of_pytorch(register: Register, capture: str) -> None:
    # PyTorch has a function of its own for opset 20.
    importlib.import_module("torch.onnx._internal.torchscript_exporter.symbolic_opset20")
    register("aten::gelu", lambda g, x, approximate: g.op("mine::Gelu", x).setType(x.type()))
    program = exported(torch.nn.functional.gelu, capture)
    assert nodes_of(program) == [("mine", "Gelu")]


def test_the_entry_of_the_opset(capture: str) -> None:
    name = f"{NAMESPACE}::scaled"
    for version in (9, 19, 21):
        torch.onnx.register_custom_op_symbolic(
            name, lambda g, x, *_, v=version: g.op(f"mine::Scaled{v}", x), version
        )
    try:
        program = exported(ops.scaled, capture, opset_version=20)
    finally:
        for version in (9, 19, 21):
            torch.onnx.unregister_custom_op_symbolic(name, version)
    assert nodes_of(program) == [("mine", "Scaled19")]


def broken(g: Any, *_: Any) -> Any:
    raise AttributeError("no such thing")


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (broken, "AttributeError: no such thing"),
        (lambda g, *_: None, "returns"),
        (lambda g, x, *_: g.op("aten::ATen", x), "aten::ATen"),
        (lambda g, x, *_: (x, x), "results"),
    ],
    ids=["raises", "nothing", "aten", "number"],
)
def test_an_entry_that_cannot_be_used(
    register: Register, capture: str, function: Callable[..., Any], reason: str
) -> None:
    register(f"{NAMESPACE}::scaled", function)
    with pytest.raises(torch.onnx.OnnxExporterError, match=reason):
        exported(ops.scaled, capture)


# Autograd functions.


class Clamp(torch.autograd.Function):
    """A node of the user's domain."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, low: float, high: int, names: Any = None) -> Any:
        ctx.save_for_backward(x)
        ctx.low = low
        return x.clamp(low, high)

    @staticmethod
    def symbolic(g: Any, x: Any, low: float, high: int, names: Any = None) -> Any:
        return g.op("mine::Clamp", x, low_f=low, high_i=high, names_s=names)


class Halves(torch.autograd.Function):
    """Several results, with a separate context."""

    @staticmethod
    def forward(x: torch.Tensor, y: torch.Tensor) -> Any:
        return x[..., :2] * y[..., :2], (x[..., 2:] > 0).any(-1)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def symbolic(g: Any, x: Any, y: Any) -> Any:
        return g.op("mine::Halves", x, y, outputs=2)


class Softplus(torch.autograd.Function):
    """Nodes of ONNX."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return torch.log(1 + torch.exp(x))

    @staticmethod
    def symbolic(g: Any, x: Any) -> Any:
        one = g.op("Constant", value_t=torch.tensor(1.0))
        return g.op("Log", g.op("Add", g.op("Exp", x), one))


class Columns(torch.autograd.Function):
    """Nodes of ONNX, for a result with the columns one after the other in memory."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return (x * 2).mT.contiguous().mT

    @staticmethod
    def symbolic(g: Any, x: Any) -> Any:
        return g.op("Add", x, x)


class AsksForLayout(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        plain, columns = Softplus.apply(x), Columns.apply(x)
        return plain * plain.is_contiguous() + columns * (1 + columns.stride(0))


def test_results_have_the_layout_of_the_forward() -> None:
    module, x = AsksForLayout().eval(), torch.randn(3, 4)
    with onnx_native.options(capture="native"):
        program = torch.onnx.export(module, (x,), dynamo=True, verbose=False)
    assert program is not None
    assert program.export_report["capture"]["by"] == "native"  # type: ignore[attr-defined]
    torch.testing.assert_close(program(x)[0], module(x))


class Select(torch.autograd.Function):
    """Its forward makes up a number of results, which depends on the data."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return torch.zeros((x.dim(), 7), dtype=torch.int64)

    @staticmethod
    def symbolic(g: Any, x: Any) -> Any:
        return g.op("NonZero", x)


clamp = Clamp.apply  # bound before the export


class Fails(Softplus):
    @staticmethod
    def symbolic(g: Any, x: Any) -> Any:
        raise AttributeError("no such thing")


class Writes(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def symbolic(g: Any, x: Any) -> Any:
        return g.op("mine::Twice", x)


@pytest.mark.parametrize("dynamic", [True, False])
def test_an_autograd_function(capture: str, dynamic: bool) -> None:
    def function(x: torch.Tensor) -> Any:
        one, two = Halves.apply(x, clamp(x * 2, -0.5, 2, ["a", "b"]))
        return one.sum(-1), two, one.shape[1]

    program = exported(function, capture, dynamic)
    assert [node for node in nodes_of(program) if node[0]] == [
        ("mine", "Clamp"),
        ("mine", "Halves"),
    ]
    node = next(node for node in program.model_proto.graph.node if node.op_type == "Clamp")
    attributes = attributes_of(node)
    assert attributes.pop("low") == -0.5
    assert attributes == {"high": 2, "names": [b"a", b"b"]}
    first, second = program.model.graph.outputs[:2]
    expected = ("batch", "n") if dynamic else (2, 5)
    assert (tuple(first.shape), tuple(second.shape)) == (expected, expected)
    assert str(second.dtype) == "BOOL"


def test_an_autograd_function_of_nodes_of_onnx() -> None:
    def function(x: torch.Tensor) -> Any:
        return Softplus.apply(x).sum(1)

    program = exported(function, "native")
    assert [op for _, op in nodes_of(program)][:3] == ["Exp", "Add", "Log"]
    assert_equal_to_eager(program, Calling(function), *EXAMPLES)


def test_sizes_of_onnx_that_depend_on_data() -> None:
    def function(x: torch.Tensor) -> Any:
        found = Select.apply(x.relu())
        return found.T, found.shape[1] + 1

    def eager(x: torch.Tensor) -> Any:
        found = x.relu().nonzero()
        return found, found.shape[0] + 1

    program = exported(function, "native")
    assert_equal_to_eager(program, Calling(eager), *EXAMPLES)


class Mapped(torch.autograd.Function):
    """Has a rule for torch.vmap."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: torch.Tensor, by: float) -> torch.Tensor:
        return x * by + x.sum()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        return grad, None

    @staticmethod
    def symbolic(g: Any, x: Any, by: float) -> Any:
        return g.op("mine::Mapped", x)


def in_autocast(x: torch.Tensor) -> Any:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return clamp(x, 0.0, 1) + 1


NOT_USED: list[tuple[Callable[..., Any], str, str]] = [
    (lambda x: Softplus.apply(x), "torch.export", "does not know the sizes"),
    (lambda x: Fails.apply(x), "native", "no such thing"),
    (lambda x: Fails.apply(x), "torch.export", "no such thing"),
    (lambda x: torch.vmap(lambda row: Mapped.apply(row, 2.0))(x), "native", "torch.vmap maps"),
    (lambda x: clamp(x, 0.0, x.shape[1]), "native", "a dynamic number"),
    (in_autocast, "native", "torch.autocast"),
    (in_autocast, "torch.export", "torch.autocast"),
]


@pytest.mark.parametrize(("function", "capture", "reason"), NOT_USED)
def test_a_symbolic_function_that_is_not_used(
    function: Callable[..., Any], capture: str, reason: str
) -> None:
    with pytest.warns(torch.onnx.errors.OnnxExporterWarning, match=reason):
        program = exported(function, capture)
    assert_equal_to_eager(program, Calling(function), *EXAMPLES)


def test_an_autograd_function_that_writes() -> None:
    with pytest.raises(torch.onnx.OnnxExporterError, match="writes to its argument"):
        exported(lambda x: Writes.apply(x.clone()), "torch.export")


def test_an_autograd_function_after_an_export(capture: str) -> None:
    exported(lambda x: clamp(x, 0.0, 1), capture)
    x = X.clone().requires_grad_()
    assert torch.equal(clamp(x, 0.0, 1), X.clamp(0, 1))
    assert "apply" not in vars(torch.autograd.function._SingleLevelFunction)
