"""The FX reader: captured programs as aten::Graph text."""

import onnx_native
import pytest
import torch
from models.calling import Calling
from torch.export import Dim

C = onnx_native._C


def read(function, args, dynamic_shapes=None, **names):
    module = function if isinstance(function, torch.nn.Module) else Calling(function)
    if dynamic_shapes is not None and module is not function:
        dynamic_shapes = (dynamic_shapes,)
    program = torch.export.export(module, args, dynamic_shapes=dynamic_shapes)
    return C.read(program, names)


def test_arguments_come_in_schema_order_with_defaults():
    text = read(lambda x: torch.sum(x, dtype=torch.float64, dim=1), (torch.ones(2, 3),))
    assert "aten::sum.dim_IntList(" in text
    assert "[1], False, dtype=f64)" in text


def test_one_number_stands_for_a_list():
    text = read(lambda x: torch.nn.functional.max_pool2d(x, 2), (torch.ones(1, 1, 4, 4),))
    assert "[2, 2], [], [0, 0], [1, 1], False)" in text


def test_several_results_are_named_by_their_readers():
    text = read(lambda x: torch.split(x, 2)[1] * 2, (torch.ones(4),))
    assert "getitem_1: f32[2] = aten::split.Tensor(" in text
    assert "python::getitem" not in text


def test_sizes_are_symbolic_expressions_with_the_users_names():
    def function(x):
        return x.reshape(x.shape[0] * 2 + 0, -1), torch.cat([x, x])

    shapes = ({0: Dim("rows", min=2)},)
    program = torch.export.export(Calling(function), (torch.ones(5, 4),), dynamic_shapes=(shapes,))
    symbol = str(_input_value(program).shape[0])
    text = C.read(program, {symbol: "rows"})
    assert "f32[rows,4]" in text
    assert symbol not in text
    assert "2*rows" in text


def _input_value(program):
    return next(n for n in program.graph.nodes if n.name.startswith("args")).meta["val"]


def test_symbols_with_one_name_become_one():
    program = torch.export.export(
        Calling(lambda x, y: (x + 1, y + 1)),
        (torch.ones(5, 2), torch.ones(6, 2)),
        dynamic_shapes=(({0: Dim.DYNAMIC}, {0: Dim.DYNAMIC}),),
    )
    symbols = {
        str(node.meta["val"].shape[0]) for node in program.graph.nodes if node.op == "placeholder"
    }
    assert len(symbols) == 2
    text = C.read(program, dict.fromkeys(symbols, "n"))
    assert not any(symbol in text for symbol in symbols)


class Weights(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 2)
        self.register_buffer("steps", torch.zeros(2))
        self.register_buffer("scale", torch.ones(2), persistent=False)
        self.register_buffer("unused", torch.ones(2))
        self.constant = torch.full((2,), 3.0)

    def forward(self, x):
        self.steps.add_(1)
        return self.linear(x) * self.scale + self.constant + torch.tensor([1.0, 2.0])


def test_weights_are_named_as_in_state_dict():
    text = read(Weights(), (torch.ones(4, 3),))
    for name in ("linear.weight", "linear.bias", "steps", "scale", "constant", "lifted_tensor_0"):
        assert name in text
    assert "unused" not in text


def test_buffer_mutations_come_out_of_functionalization():
    program = torch.export.export(Weights(), (torch.ones(4, 3),))
    text = C.functionalized(program)
    assert "aten::add_" not in text
    assert 'mutate "steps" = ' in text


def test_mutations_of_a_decomposed_program_are_read_from_its_signature():
    program = torch.export.export(Weights(), (torch.ones(4, 3),)).run_decompositions({})
    assert 'mutate "steps" = ' in C.functionalized(program)


def test_literal_inputs_are_no_inputs():
    class Model(torch.nn.Module):
        def forward(self, x, flag, nothing=None):
            return x * flag

    program = torch.export.export(Model(), (torch.ones(2), 3), {"nothing": None})
    header = C.read(program).splitlines()[0]
    assert "flag" not in header
    assert "nothing" not in header


def test_gradient_scopes_are_inlined():
    def function(x):
        with torch.no_grad():
            y = x + 1
        return y * 2

    text = read(function, (torch.ones(2),))
    assert "wrap_with_set_grad_enabled" not in text
    assert "aten::add.Tensor" in text


def test_autocast_regions_say_their_casts():
    def function(x, y):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return torch.mm(x, y)

    text = read(function, (torch.ones(2, 3), torch.ones(3, 2)))
    assert "wrap_with_autocast" not in text
    assert text.count("aten::to.dtype(") == 2
    assert "bf16[2,2] = aten::mm(" in text


def test_assertions_are_dropped():
    def function(x):
        n = x.sum().item()
        torch._check(n >= 2)
        return torch.zeros(n)

    text = read(function, (torch.ones(3, dtype=torch.int64),))
    assert "_assert" not in text
    assert "sym_constrain" not in text


def test_control_flow_has_sub_graphs():
    def function(x):
        return torch.cond(x.sum() > 0, lambda u: u.sin(), lambda u: u.cos(), (x,))

    text = read(function, (torch.ones(2),))
    assert "higher_order::cond(" in text
    assert "aten::sin(" in text
    assert "aten::cos(" in text


def test_arithmetic_on_sizes_is_read():
    def function(x):
        return x[: x.shape[0] // 2]

    text = read(function, (torch.ones(6),), ({0: Dim.DYNAMIC},))
    assert "python::floordiv(" in text
    assert "aten::sym_size.int(" in text


def test_conjugated_and_strided_weights():
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.arange(6.0).reshape(2, 3).T)

        def forward(self, x):
            return x @ self.weight

    model = Model()
    x = torch.ones(4, 3)
    program = torch.onnx.export(model, (x,), verbose=False)
    weight = program.model.graph.initializers["weight"].const_value.numpy()
    assert (weight == model.weight.detach().numpy()).all()


@pytest.mark.parametrize("strict", [False, True])
def test_both_capture_modes_read_the_same_operators(strict):
    program = torch.export.export(torch.nn.Linear(3, 2), (torch.ones(1, 3),), strict=strict)
    assert "aten::linear(" in C.read(program)
