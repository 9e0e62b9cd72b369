"""Modules and compiled regions as local functions of the model."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import onnx
import onnx.inliner
import onnx.reference
import onnx_native
import onnxruntime
import pytest
import torch
from models.zoo import BERT_SMALL
from pages import snippets
from torch import nn
from torch.export import Dim

pytestmark = pytest.mark.captures("auto", "torch.export")

BATCH = Dim("batch")
OFF = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
ON = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL


def export(
    module: nn.Module, args: tuple[Any, ...], functions: Any = True, **options: Any
) -> torch.onnx.ONNXProgram:
    with onnx_native.options(functions=functions):
        program = torch.onnx.export(module.eval(), args, dynamo=True, verbose=False, **options)
    assert program is not None
    onnx.checker.check_model(program.model_proto, full_check=True)
    return program


def run(model: bytes | str, args: Sequence[torch.Tensor], level: Any) -> list[torch.Tensor]:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = level
    session = onnxruntime.InferenceSession(model, options, ["CPUExecutionProvider"])
    feeds = {i.name: a.numpy() for i, a in zip(session.get_inputs(), args, strict=True)}
    return [torch.from_numpy(result) for result in session.run(None, feeds)]


def check(program: torch.onnx.ONNXProgram, module: nn.Module, *samples: tuple[Any, ...]) -> None:
    """Compares ONNX Runtime (with and without optimizations) and onnx itself with eager."""
    model = program.model_proto
    data = model.SerializeToString()
    evaluator = onnx.reference.ReferenceEvaluator(model)
    for args in samples:
        with torch.no_grad():
            expected = torch.utils._pytree.tree_leaves(module(*args))
        for level in (OFF, ON):
            torch.testing.assert_close(run(data, args, level), expected)
        feeds = {i.name: a.numpy() for i, a in zip(model.graph.input, args, strict=True)}
        results = [torch.as_tensor(result) for result in evaluator.run(None, feeds)]
        torch.testing.assert_close(results, expected, rtol=1e-4, atol=1e-5)


def functions(program: torch.onnx.ONNXProgram) -> dict[str, int]:
    """Returns the number of calls of each function, by name."""
    report = program.export_report["functions"]
    return {name.rpartition(".")[2]: calls for name, calls in report.items()}


def ops(program: torch.onnx.ONNXProgram) -> list[str]:
    return [node.op_type for node in program.model_proto.graph.node]


def rows(n: int, columns: int = 8, seed: int = 0) -> torch.Tensor:
    return torch.randn(n, columns, generator=torch.Generator().manual_seed(seed))


class Block(nn.Module):
    def __init__(self, size: int = 8, scale: float = 1.0, act: nn.Module | None = None) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(size)
        self.up = nn.Linear(size, 2 * size)
        self.act = act or nn.Tanh()
        self.down = nn.Linear(2 * size, size)
        self.scale = scale

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        # Behind a product, the scale would be part of its weights.
        return x + self.down(self.scale * self.act(self.up(self.norm(x))))


class Stack(nn.Module):
    def __init__(self, *blocks: nn.Module) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(blocks)
        self.head = nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def test_one_body_serves_all_layers() -> None:
    module = Stack(*(Block() for _ in range(4)))
    program = export(module, (rows(2),), {Block}, dynamic_shapes=({0: BATCH},))
    assert functions(program) == {"Block": 4}
    assert ops(program) == ["Block"] * 4 + ["Gemm"]
    check(program, module, (rows(2),), (rows(5, seed=1),))
    (function,) = program.model_proto.functions
    assert function.domain == f"{__name__}"
    assert list(function.input) == [
        "input_0",
        "norm.weight",
        "norm.bias",
        "up.weight",
        "up.bias",
        "down.weight",
        "down.bias",
    ]
    call = program.model_proto.graph.node[1]
    assert call.name == "blocks.1"
    assert list(call.input)[1:] == [f"blocks.1.{name}" for name in function.input[1:]]
    names = {initializer.name for initializer in program.model_proto.graph.initializer}
    assert names == set(module.state_dict())


def test_all_modules_call_each_other() -> None:
    module = Stack(Block(), Block())
    program = export(module, (rows(2),), True, dynamic_shapes=({0: BATCH},))
    assert functions(program) == {"Block": 2, "Tanh": 1, "LayerNorm": 1, "Linear": 3}
    assert ops(program) == ["Block", "Block", "Linear"]
    check(program, module, (rows(2),), (rows(7),))


@pytest.mark.parametrize("named", ["Block", f"{__name__}.Block"])
def test_classes_by_name(named: str) -> None:
    program = export(Stack(Block()), (rows(2),), {named})
    assert functions(program) == {"Block": 1}


def test_other_configurations_have_bodies_of_their_own() -> None:
    module = Stack(Block(), Block(scale=0.5), Block(act=nn.ReLU()), Block(scale=0.5))
    program = export(module, (rows(2),), {Block})
    assert functions(program) == {"Block": 1, "Block_1": 2, "Block_2": 1}
    check(program, module, (rows(2),))


def test_other_sizes_share_a_body() -> None:
    class Sizes(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.small, self.large = Block(4), Block(8)

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
            return self.small(x), self.large(y)

    module = Sizes()
    args = rows(2, 4), rows(3)
    program = export(module, args, {Block})
    assert functions(program) == {"Block": 2}
    check(program, module, args)


def test_a_module_called_again() -> None:
    class Again(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.block = Block()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.block(self.block(x).relu())

    module = Again()
    program = export(module, (rows(2),), {Block})
    assert functions(program) == {"Block": 2}
    assert ops(program) == ["Block", "Relu", "Block"]
    check(program, module, (rows(2),))


def test_shared_weights() -> None:
    module = Stack(Block(), Block())
    module.blocks[1].up.weight = module.blocks[0].up.weight
    program = export(module, (rows(2),), {Block})
    assert functions(program) == {"Block": 2}
    up = [node.input[3] for node in program.model_proto.graph.node[:2]]
    assert up[0] == up[1]
    check(program, module, (rows(2),))


def test_sequential_is_a_function() -> None:
    module = nn.Sequential(nn.Sequential(nn.Linear(8, 8), nn.ReLU()), nn.Linear(8, 8))
    program = export(module, (rows(2),), True)
    assert functions(program) == {"Sequential": 1, "Linear": 2, "ReLU": 1}
    check(program, module, (rows(2),))


class Pair(nn.Module):
    """Takes a dict and returns several results, one of them its argument."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, given: dict[str, torch.Tensor]) -> tuple[torch.Tensor, Any]:
        y = self.linear(given["x"])
        return y.relu(), (given["x"], y.shape[0], {"sum": y.sum(0)})


def test_tuples_and_sizes_between_modules() -> None:
    class Uses(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = Pair(), Pair()

        def forward(self, x: torch.Tensor) -> Any:
            y, (same, size, more) = self.a({"x": x})
            z, (_, again, least) = self.b({"x": y + same})
            return z.reshape(size * 2, 4), more["sum"] + least["sum"] * again

    module = Uses()
    program = export(module, (rows(2),), {Pair}, dynamic_shapes=({0: BATCH},))
    assert functions(program) == {"Pair": 2}
    check(program, module, (rows(2),), (rows(6),))


def test_no_tensor_inputs() -> None:
    class Table(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(rows(8))

        def forward(self) -> torch.Tensor:
            return self.weight.sort(0).values[-1]  # not part of the stored weights

    class Positions(nn.Module):
        def forward(self, n: int) -> torch.Tensor:
            return torch.arange(n).float() * 0.5

    class Uses(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.positions = Table(), Positions()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + self.table() + self.positions(x.shape[0])[:, None]

    module = Uses()
    program = export(module, (rows(2),), {Table, Positions}, dynamic_shapes=({0: BATCH},))
    assert functions(program) == {"Table": 1, "Positions": 1}
    check(program, module, (rows(2),), (rows(4),))


def test_no_inputs_at_all() -> None:
    class Noise(nn.Module):
        def forward(self) -> torch.Tensor:
            return torch.rand(2, 8)

    class Uses(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.noise = Noise()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + self.noise()

    program = export(Uses(), (rows(2),), {Noise})
    assert functions(program) == {"Noise": 1}
    assert list(program.model_proto.functions[0].input) == []
    (result,) = run(program.model_proto.SerializeToString(), (rows(2),), OFF)
    noise = result - rows(2)
    assert noise.min() >= 0
    assert noise.max() < 1
    assert len(noise.unique()) > 8


class Interleaved(nn.Module):
    """A module whose nodes a call of another module splits into two parts."""

    def forward(self, x: torch.Tensor, other: Any) -> torch.Tensor:
        y = x.exp()
        return other(y) + y


def test_calls_in_calls() -> None:
    class Uses(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.block = Interleaved(), Block()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.a(x, self.block) * self.a(x.sin(), torch.neg)

    module = Uses()
    for chosen in ({Interleaved}, {Block}, {Interleaved, Block}):
        program = export(module, (rows(2),), chosen)
        assert set(functions(program)) >= {each.__name__ for each in chosen}
        check(program, module, (rows(2),))


def test_work_that_modules_share() -> None:
    """Equal nodes of several modules are computed once, outside of them."""

    class Masked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(8, 8)

        def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            bias = (~mask)[:, None] * -100.0
            return (self.linear(x) + bias).softmax(0).reshape(x.shape[0] * 2, -1).reshape(-1, 8)

    class Layers(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(Masked() for _ in range(3))

        def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            for layer in self.layers:
                x = layer(x, mask)
            return x

    module = Layers()
    args = rows(3), torch.tensor([True, False, True])
    program = export(module, args, {Masked}, dynamic_shapes=({0: BATCH}, {0: BATCH}))
    assert functions(program) == {"Masked": 3}
    check(program, module, args, (rows(5), torch.tensor([True] * 4 + [False])))


class Branching(nn.Module):
    """Branches and loops that use outer values."""

    def __init__(self) -> None:
        super().__init__()
        self.block = Block()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x.cos()
        z = torch.cond(
            y.sum() > 0, lambda a, b: self.block(a) + b, lambda a, b: a - b.exp(), (x, y)
        )

        def body(i: torch.Tensor, t: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return i + 1, t * 0.5 + y

        _, t = torch._higher_order_ops.while_loop(lambda i, t: i < 3, body, (torch.tensor(0), z))
        return t


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("chosen", [("Branching",), ("Branching", "Block"), True], ids=str)
def test_control_flow(chosen: Any, strict: bool) -> None:
    class Uses(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = Branching(), Branching()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.b(self.a(x) - 1)

    module = Uses().eval()
    captured = capture(module, strict)
    # A non-strict capture does not record the modules of nodes in branches.
    with onnx_native.options(functions=chosen if strict or chosen is True else chosen[:1]):
        program = torch.onnx.export(captured, dynamo=True, verbose=False)
    assert program is not None
    onnx.checker.check_model(program.model_proto, full_check=True)
    expected = {"Branching": 2}
    if strict and chosen != ("Branching",):
        expected |= {"Block": 1}
    if strict and chosen is True:
        expected |= {"LayerNorm": 1, "Linear": 2, "Tanh": 1}
    assert functions(program) == expected
    check(program, module, (rows(2),), (-rows(4).abs() * 2,), (rows(3) + 4,))


class Steps(nn.Module):
    """A cell over the steps of a sequence, which has no name in the program."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(3, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(9):
            x = nn.functional.avg_pool1d(x, 2, 1)
        state = torch.zeros(x.size(1), 2)
        for step in range(x.size(0)):
            state = self.cell(x[step], state)
        return state


def test_loops_in_functions() -> None:
    """ONNX Runtime takes the types of a function's loop for those of the graph's values."""
    torch.manual_seed(0)
    module = Steps().eval()
    script = torch.jit.script(module)
    program = export(script, (torch.randn(3, 2, 12),), dynamic_shapes=({0: "n", 1: "m"},))
    assert "GRUCell" in functions(program)
    check(program, module, (torch.randn(3, 2, 12),), (torch.randn(1, 4, 12),))
    for function in program.model_proto.functions:
        for node in function.node:
            assert not any(attribute.g.value_info for attribute in node.attribute)


@pytest.mark.parametrize("opset", range(11, 27))
def test_opsets(opset: int) -> None:
    module = Stack(Block(), Block())
    program = export(module, (rows(2),), opset_version=opset)
    assert functions(program)["Block"] == 2
    for function in program.model_proto.functions:
        assert {i.domain: i.version for i in function.opset_import}[""] == opset
        assert bool(function.value_info) <= (program.model_proto.ir_version >= 10)
    if opset <= 24:
        check(program, module, (rows(2),))


def test_no_optimization() -> None:
    module = Stack(Block(), Block())
    program = export(module, (rows(2),), optimize=False, dynamic_shapes=({0: BATCH},))
    assert functions(program)["Block"] == 2
    check(program, module, (rows(2),), (rows(3),))


def test_external_data(tmp_path: pathlib.Path) -> None:
    module = Stack(Block(64), Block(64))
    module.head = nn.Linear(64, 3)
    path = tmp_path / "model.onnx"
    export(module, (rows(2, 64),)).save(str(path), external_data=True)
    assert (tmp_path / "model.onnx.data").exists()
    onnx.checker.check_model(str(path), full_check=True)
    args = (rows(2, 64),)
    torch.testing.assert_close(run(str(path), args, OFF), [module(*args)])


def test_inlining_gives_the_model_without_functions() -> None:
    module = Stack(Block(), Block())
    inlined = onnx.inliner.inline_local_functions(export(module, (rows(2),)).model_proto)
    assert not inlined.functions
    plain = export(module, (rows(2),), False)
    assert [node.op_type for node in inlined.graph.node if node.op_type != "Constant"] == ops(plain)


def test_the_same_bytes_twice() -> None:
    module = Stack(Block(), Block(scale=2.0))
    once, again = (export(module, (rows(2),)).model_proto for _ in range(2))
    assert once.SerializeToString(deterministic=True) == again.SerializeToString(deterministic=True)


def test_captured_program_and_strict_mode() -> None:
    module = Stack(Block(), Block()).eval()
    for strict in (False, True):
        captured = torch.export.export(module, (rows(2),), strict=strict)
        with onnx_native.options(functions={Block}):
            program = torch.onnx.export(captured, dynamo=True, verbose=False)
        assert program is not None
        assert functions(program) == {"Block": 2}
        check(program, module, (rows(2),))


def test_bert() -> None:
    module = BERT_SMALL.module()
    program = export(
        module,
        (),
        {"BertLayer"},
        kwargs=BERT_SMALL.example(),
        dynamic_shapes=BERT_SMALL.dynamic_shapes(),
    )
    assert functions(program) == {"BertLayer": 4}
    data = program.model_proto.SerializeToString()
    for sizes in BERT_SMALL.others:
        inputs = BERT_SMALL.example(sizes)
        with torch.no_grad():
            expected = list(module(**inputs).values())
        torch.testing.assert_close(run(data, tuple(inputs.values()), OFF), expected)


@torch.compiler.nested_compile_region
def region(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return (x @ weight).relu() * 2


class Regions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weights = nn.ParameterList(rows(8, 8, seed=i) / 8 for i in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for weight in self.weights:
            x = region(x, weight) + 1
        return x


@pytest.mark.parametrize("chosen", [False, True])
@pytest.mark.parametrize("optimize", [False, True])
def test_compiled_regions(chosen: bool, optimize: bool) -> None:
    module = Regions().eval()
    captured = capture(module, True)
    with onnx_native.options(functions=chosen):
        program = torch.onnx.export(captured, dynamo=True, verbose=False, optimize=optimize)
    assert program is not None
    onnx.checker.check_model(program.model_proto, full_check=True)
    # torch.export itself inlines the first call, whose constraints differ from the others.
    assert program.export_report["functions"] == {"pkg.torch.__subgraph__.repeated_subgraph0": 3}
    check(program, module, (rows(2),), (rows(5),))


def capture(module: nn.Module, strict: bool) -> torch.export.ExportedProgram:
    return torch.export.export(
        module.eval(), (rows(2),), dynamic_shapes=({0: Dim("rows")},), strict=strict
    )


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("build", [lambda: Stack(Block(), Block()), Regions, Branching])
def test_archives_give_the_same(
    build: Callable[[], nn.Module], strict: bool, tmp_path: pathlib.Path
) -> None:
    captured = capture(build(), strict)
    path = str(tmp_path / "program.pt2")
    torch.export.save(captured, path)
    program, read = (
        onnx_native._C.Program(source, opset=20, functions=True, metadata="none")
        for source in (captured, path)
    )
    assert program.report()["functions"] == read.report()["functions"]
    assert program.text() == read.text()


def test_unknown_class() -> None:
    with pytest.warns(
        torch.onnx.errors.OnnxExporterWarning, match="of class Blok, so the model has no"
    ):
        program = export(Stack(Block()), (rows(2),), {"Blok"})
    assert functions(program) == {}


def test_not_a_class() -> None:
    with pytest.raises(TypeError, match="module classes or their names, got 3"):
        export(Stack(Block()), (rows(2),), {3})


def test_snippets_of_the_page() -> None:
    (names,) = snippets.steps("docs/functions.md")
    assert names["calls"] == {"__main__.Block": 12}
    assert names["operators"] == ["Block"] * 12
