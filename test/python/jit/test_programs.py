"""Scripted programs with branches, loops, writes and lists, each against eager PyTorch."""

import onnx_native
import pytest
import torch

from .programs import PROGRAMS
from .running import check

C = onnx_native._C


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name):
    torch.manual_seed(0)
    module, inputs, dynamic_shapes = PROGRAMS[name]
    check(torch.jit.script(module.eval()), inputs, dynamic_shapes)


def test_article_at_older_opsets():
    module, inputs, dynamic_shapes = PROGRAMS["article"]
    check(torch.jit.script(module), inputs, dynamic_shapes, opsets=(12, 18))


def test_dynamic_axes():
    module, inputs, _ = PROGRAMS["article"]
    axes = {"x": {0: "batch"}, "y": {0: "batch"}}
    names = {"input_names": ["x"], "output_names": ["y"], "dynamic_axes": axes}
    program = check(torch.jit.script(module), inputs, opsets=(20,), **names)
    assert [value.name for value in program.model_proto.graph.output] == ["y"]
    (size, _) = program.model_proto.graph.input[0].type.tensor_type.shape.dim
    assert size.dim_param == "batch"


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)

    def forward(self, x):
        return x + self.linear(x).relu()


@pytest.mark.parametrize("functions", [{Block}, True], ids=["class", "all"])
@pytest.mark.parametrize("way", ["scripted", "traced"])
def test_modules_as_functions(way, functions):
    model = torch.nn.Sequential(Block(), Block(), Block()).eval()
    inputs = [(torch.randn(2, 3),), (torch.randn(5, 3),)]
    module = torch.jit.script(model) if way == "scripted" else torch.jit.trace(model, inputs[0])
    with onnx_native.options(functions=functions):
        program = check(module, inputs, [{0: "batch"}])
    assert [node.op_type for node in program.model_proto.graph.node] == ["Block"] * 3


def test_module_is_not_changed():
    module = torch.jit.script(PROGRAMS["state"][0])
    before = str(module.inlined_graph), module.count, module.last.clone()
    check_once = C.ScriptInput.tensor("x", torch.float32, ["batch", 3])
    C.read_script(C.ScriptSource(module, [check_once]))
    assert before[:2] == (str(module.inlined_graph), module.count)
    assert torch.equal(before[2], module.last)


def test_other_method():
    class Two(torch.nn.Module):
        def forward(self, x):
            return x

        @torch.jit.export
        def double(self, x):
            return x * 2

    text = C.read_script(
        C.ScriptSource(
            torch.jit.script(Two()), [C.ScriptInput.tensor("x", torch.float32, ["n"])], "double"
        )
    )
    assert "= aten::mul.Scalar(%x, 2)" in text


class Autocast(torch.nn.Module):
    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = x @ x.t()
        return y.relu()


class AutocastOff(torch.nn.Module):
    def forward(self, x):
        with torch.autocast("cpu", enabled=False):
            y = x @ x.t()
        return y.relu()


def test_autocast_that_is_off():
    inputs = [(torch.randn(n, 3),) for n in (2, 4)]
    check(torch.jit.script(AutocastOff()), inputs, [{0: "n"}])


class ReturnsTwelve(torch.nn.Module):
    def forward(self, x):
        parts: list[torch.Tensor] = []
        for i in range(12):
            x = (x.sin() + i).cos() * x.tanh() - x.exp().neg().relu()
            parts.append(x)
        return parts


def test_returned_list_of_a_loop():
    inputs = [(torch.randn(n, 3),) for n in (2, 4)]
    program = check(torch.jit.script(ReturnsTwelve()), inputs, [{0: "n"}])
    assert len(program.model_proto.graph.output) == 12


class OtherRanks(torch.nn.Module):
    def forward(self, x):
        parts = [x[0]]
        for _ in range(x.size(0)):
            parts.append(x)
        return parts[-1]


class ReturnsList(torch.nn.Module):
    def forward(self, x):
        parts: list[torch.Tensor] = []
        for i in range(x.size(0)):
            parts.append(x[i])
        return parts


class Raises(torch.nn.Module):
    def forward(self, x):
        raise ValueError("never")
        return x


class ReturnsNone(torch.nn.Module):
    def forward(self, x) -> torch.Tensor | None:
        if x.sum() > 0:
            return x
        return None


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (
            ReturnsNone(),
            "cannot return a data-dependent choice of None or a tensor; return a tensor in",
        ),
        (Autocast(), "cannot export an autocast region of a scripted program; trace"),
        (ReturnsList(), "cannot return a list of unknown length; return torch.stack"),
    ],
)
def test_what_no_model_has(module, message):
    script = torch.jit.script(module)
    with pytest.raises(torch.onnx.errors.OnnxExporterError, match=message):
        torch.onnx.export(
            script, (torch.ones(2, 3),), dynamo=True, verbose=False, dynamic_shapes=[{0: "n"}]
        )


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (OtherRanks(), "the tensors in a list of unknown length have different or unknown ranks"),
        (Raises(), "for these inputs the program raises an exception"),
    ],
)
def test_errors_name_the_line(module, message):
    script = torch.jit.script(module)
    with pytest.raises(torch.onnx.errors.OnnxExporterError, match=message) as caught:
        torch.onnx.export(
            script, (torch.ones(2, 3),), dynamo=True, verbose=False, dynamic_shapes=[{0: "n"}]
        )
    assert "test_programs.py" in str(caught.value)
