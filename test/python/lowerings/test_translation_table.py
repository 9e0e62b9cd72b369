"""torch.onnx.export(custom_translation_table=...) with the native exporter."""

import operator

import onnx
import onnx_native
import onnxruntime
import pytest
import torch
from models.calling import Calling
from onnxscript import FLOAT, script
from onnxscript import opset20 as op
from onnxscript.values import Op, Opset

aten = torch.ops.aten
BATCH = torch.export.Dim("batch", min=2)


def export(function, args, table, **options):
    program = torch.onnx.export(
        Calling(function),
        args,
        dynamo=True,
        dynamic_shapes=(tuple({0: BATCH} for _ in args),),
        custom_translation_table=table,
        opset_version=20,
        verbose=False,
        **options,
    )
    onnx.checker.check_model(program.model_proto, full_check=True)
    return program


def node_types(program):
    types = []

    def visit(graph):
        for node in graph.node:
            types.append(f"{node.domain}::{node.op_type}" if node.domain else node.op_type)
            for attribute in node.attribute:
                if attribute.HasField("g"):
                    visit(attribute.g)

    visit(program.model_proto.graph)
    return types


def run(program, *args):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(program.model_proto.SerializeToString(), options)
    names = [value.name for value in session.get_inputs()]
    inputs = {name: x.numpy() for name, x in zip(names, args, strict=True)}
    return [torch.from_numpy(result) for result in session.run(None, inputs)]


def check(program, function, *args):
    """Runs at the captured size and at another one."""
    assert program.model_proto.producer_name == "onnx_native"
    for size in (args[0].shape[0], 5):
        given = [torch.cat([x, x])[:size].clone() for x in args]
        expected = function(*given)
        torch.testing.assert_close(run(program, *given), [expected], atol=1e-5, rtol=1e-5)


def check_same_choice(function, args, table, chosen):
    """Calls the table's function if and only if PyTorch's exporter does."""
    called = []

    def counted(name, entry):
        def translation(*given, **keywords):
            called.append(name)
            return entry(*given, **keywords)

        return translation

    counting = {key: counted(str(key), entry) for key, entry in table.items()}
    with onnx_native.disabled():
        torch.onnx.export(
            Calling(function),
            args,
            dynamo=True,
            dynamic_shapes=(tuple({0: BATCH} for _ in args),),
            custom_translation_table=counting,
            opset_version=20,
            verbose=False,
        )
    theirs = list(called)
    called.clear()
    program = export(function, args, counting)
    assert sorted(called) == sorted(theirs)
    assert bool(called) == chosen
    check(program, function, *args)
    return program


def relu_by_max(x):
    return op.Max(x, op.CastLike(op.Constant(value_float=0.0), x))


@script()
def relu_by_branch(x: FLOAT) -> FLOAT:
    total = op.ReduceSum(op.Abs(x), keepdims=0)
    empty = total == 0.0
    if empty:  # noqa: SIM108
        result = x * 1.0
    else:
        result = op.Max(x, op.CastLike(0.0, x))
    return result


def mul_by_div(x, y):
    return op.Div(x, op.Reciprocal(y))


def add_by_sum(x, y, alpha=1):
    return op.Sum(x, y) if alpha == 1 else op.Sum(x, op.Mul(y, op.CastLike(alpha, y)))


X = torch.randn(3, 4)


def test_a_function_wins_over_the_native_lowering():
    program = check_same_choice(torch.relu, (X,), {aten.relu.default: relu_by_max}, True)
    assert "Max" in node_types(program)
    assert "Relu" not in node_types(program)


def test_the_native_lowering_is_back_afterward():
    export(torch.relu, (X,), {aten.relu.default: relu_by_max})
    assert node_types(export(torch.relu, (X,), None)) == ["Relu"]
    assert node_types(export(torch.relu, (X,), {})) == ["Relu"]


def test_onnxscript_function_with_a_branch():
    program = export(torch.relu, (X,), {aten.relu.default: relu_by_branch})
    assert "If" in node_types(program)
    check(program, torch.relu, X)


@pytest.mark.parametrize(
    ("function", "args"),
    [
        (lambda x: x * 2, (X,)),
        (lambda x, y: x * y, (X, X)),
        (lambda x, y: x * y, (X, torch.arange(1, 13).reshape(3, 4))),
        (lambda x, y: x * y, (X.half(), X.half())),
        (lambda x: x * x.shape[0], (X,)),
        (lambda x: x.mul_(2) + 1, (X,)),
        (lambda x: x.clone()[:, 1:].mul_(3), (X,)),
    ],
)
def test_types_are_promoted_before(function, args):
    program = export(
        lambda *a: function(*(x.clone() for x in a)), args, {aten.mul.Tensor: mul_by_div}
    )
    assert "Div" in node_types(program)
    assert "Mul" not in node_types(program)
    for x in (args, [torch.cat([x, x]) for x in args]):
        expected = function(*(t.clone() for t in x))
        torch.testing.assert_close(run(program, *x), [expected], atol=2e-3, rtol=2e-3)


@pytest.mark.parametrize("alpha", [1, 2.5])
def test_arguments_that_are_defaults_are_not_given(alpha):
    def function(x):
        return torch.add(x, x, alpha=alpha)

    check_same_choice(function, (X,), {aten.add.Tensor: add_by_sum}, True)


@pytest.mark.parametrize(
    ("function", "table", "chosen"),
    [
        # PyTorch's library has functions for these operators.
        (torch.nn.Linear(4, 2), {aten.addmm.default: None}, False),
        (torch.nn.functional.silu, {aten.sigmoid.default: op.Sigmoid}, False),
        # It has none for these; their decompositions are looked up.
        (torch.nn.functional.softsign, {aten.abs.default: op.Abs}, True),
        (
            lambda x: torch.square(x),
            {aten.pow.Tensor_Scalar: lambda x, n: op.Pow(x, op.CastLike(n, x))},
            True,
        ),
        (lambda x: x.reshape(-1, 2), {aten.view.default: lambda x, s: op.Reshape(x, s)}, True),
        (lambda x: torch.special.expit(x), {aten.sigmoid.default: op.Sigmoid}, True),
        (torch.relu, {aten.exp.default: op.Exp}, False),
    ],
)
def test_decompositions_are_those_of_pytorch(function, table, chosen):
    check_same_choice(function, (X,), table, chosen)


def test_arithmetic_of_sizes():
    def floordiv(x, y):
        return op.Div(op.Identity(x), y)

    def function(x):
        return x.reshape(-1)[: x.shape[0] * 4 // 3]

    program = check_same_choice(function, (X,), {operator.floordiv: floordiv}, True)
    assert "Div" in node_types(program)


def test_complex_calls_keep_their_lowering():
    def function(x):
        return torch.view_as_real(torch.view_as_complex(x.reshape(-1, 2)) * 2j).sum() * x

    program = export(function, (X,), {aten.mul.Tensor: mul_by_div})
    assert "Div" in node_types(program)
    check(program, function, X)


def test_operators_of_another_domain():
    schema = onnx.defs.OpSchema(
        "Fast",
        "mine",
        3,
        inputs=[onnx.defs.OpSchema.FormalParameter("x", "T")],
        outputs=[onnx.defs.OpSchema.FormalParameter("y", "T")],
        type_constraints=[("T", ["tensor(float)"], "")],
        attributes=[onnx.defs.OpSchema.Attribute("level", onnx.defs.OpSchema.AttrType.INT)],
    )
    mine = Op(Opset("mine", 3), "Fast", schema)

    def fast(x):
        return op.Neg(mine(x, level=2))

    program = torch.onnx.export(
        Calling(torch.relu),
        (X,),
        dynamo=True,
        custom_translation_table={aten.relu.default: fast},
        verbose=False,
    )
    assert "mine::Fast" in node_types(program)
    assert {o.domain: o.version for o in program.model_proto.opset_import}["mine"] == 3


def test_several_results():
    def topk(x, k, dim=-1, largest=True, sorted=True):
        values, indices = op.TopK(
            op.Neg(op.Neg(x)), op.Constant(value_ints=[k]), axis=dim, largest=largest, sorted=sorted
        )
        return values, indices

    def function(x):
        values, indices = torch.topk(x, 2)
        return values + indices

    program = export(function, (X,), {aten.topk.default: topk})
    assert "Neg" in node_types(export(function, (X,), {aten.topk.default: topk}, optimize=False))
    check(program, function, X)


def test_inside_of_branches():
    def function(x):
        return torch.cond(x.sum() > 0, lambda y: torch.relu(y), lambda y: y - 1, (x,))

    program = export(function, (X,), {aten.relu.default: relu_by_max})
    assert "Max" in node_types(program)
    check(program, function, X)
    check(program, function, X - 5)


def test_an_exported_program_and_a_file(tmp_path):
    captured = torch.export.export(Calling(torch.relu), (X,))
    path = tmp_path / "m.onnx"
    table = {aten.relu.default: relu_by_max}
    torch.onnx.export(captured, (), path, custom_translation_table=table, verbose=False)
    assert "Max" in [node.op_type for node in onnx.load(path).graph.node]


@pytest.mark.parametrize(
    ("table", "error"),
    [
        ({aten.relu.default: [relu_by_max]}, "should be a single callable, not a sequence"),
        ({aten.relu: relu_by_max}, "should be provided as an OpOverload"),
    ],
)
def test_what_pytorch_refuses(table, error):
    with pytest.raises(TypeError, match=error):
        export(torch.relu, (X,), table)


def test_a_function_that_fails():
    def broken(x):
        raise ValueError("no relu today")

    with pytest.raises(torch.onnx.OnnxExporterError, match="no relu today") as caught:
        export(torch.relu, (X,), {aten.relu.default: broken})
    assert "aten::relu" in str(caught.value)
