"""Random numbers that a program seeds are constants of the model, or refused, on every route."""

import re

import onnx_native
import pytest
import torch
from torch import nn

X = torch.linspace(-1, 1, 12).reshape(2, 6)
OF_FILE = torch.Generator().manual_seed(5)
STATE = torch.Generator().manual_seed(11).get_state()


class Program(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function
        self.g = torch.Generator().manual_seed(3)

    def forward(self, x):
        return self.function(self, x)


def layer(_, x):
    torch.manual_seed(1)
    return nn.Linear(6, 2)(x)


def weight(_, x):
    torch.random.manual_seed(1)
    return x @ nn.Parameter(torch.randn(6, 2))


def explicit(_, x):
    return x + torch.randn(6, generator=torch.Generator().manual_seed(0))


def never_seeded(_, x):
    return x + torch.randn(6, generator=torch.Generator())


def filled(_, x):
    g = torch.Generator()
    g.manual_seed(3)
    return x + torch.empty(6).normal_(generator=g)


def filled_copy(_, x):
    torch.manual_seed(0)
    y = x.clone()
    y[:, :3].uniform_(-1, 1)
    return y + x


def permutation(_, x):
    return x[:, torch.randperm(6, generator=torch.Generator().manual_seed(3))]


def of_module(self, x):
    self.g.manual_seed(7)
    return x * torch.rand(6, generator=self.g)


def of_file(_, x):
    OF_FILE.manual_seed(1)
    return x + torch.rand(6, generator=OF_FILE)


def forked(_, x):
    with torch.random.fork_rng():
        torch.manual_seed(3)
        noise = torch.randn(6)
    return x + noise


def default_generator(_, x):
    torch.default_generator.manual_seed(2)
    return x + torch.randint(0, 10, (6,)) + torch.randn(6, generator=torch.default_generator)


def own_state(_, x):
    g = torch.Generator()
    g.set_state(STATE)
    return x + torch.randn(6, generator=g)


def process_state(_, x):
    torch.random.set_rng_state(STATE)
    return x + torch.randn(2, 3).reshape(6)


def initialized(_, x):
    torch.manual_seed(0)
    w = torch.empty(6, 6)
    nn.init.orthogonal_(w)
    return x @ w


def several(_, x):
    torch.manual_seed(0)
    a, b = torch.rand_like(x), torch.bernoulli(torch.full((6,), 0.5))
    c, d = torch.zeros(6).exponential_(), torch.normal(0.0, 1.0, (6,))
    return x * a + b + c - d + torch.multinomial(torch.ones(6), 6)


def decides(_, x):
    torch.manual_seed(0)
    if torch.rand(1).item() > 0.3:
        return x * 2
    return x


SEEDED = [
    *(layer, weight, explicit, never_seeded, filled, filled_copy, permutation, of_module, of_file),
    *(forked, default_generator, own_state, process_state, initialized, several, decides),
]


def exported(model, capture="auto", **options):
    with onnx_native.options(capture=capture):
        return torch.onnx.export(model.eval(), (X,), dynamo=True, verbose=False, **options)


def states(model):
    return [g.get_state() for g in (torch.default_generator, model.g, OF_FILE)]


def assert_same_states(before, model):
    assert all(map(torch.equal, before, states(model)))
    seed = torch.default_generator.get_state()[:8].view(torch.int64).item()
    assert torch.initial_seed() == seed % 2**64


@pytest.mark.parametrize("function", SEEDED)
def test_seeded_numbers_are_constants(function):
    model = Program(function)
    torch.manual_seed(0)  # as the program may: the numbers are there for the taking
    before = states(model)
    program = exported(model)
    assert_same_states(before, model)
    assert program.export_report["capture"]["by"] == "native"
    assert not [text for text in program.export_report["warnings"] if "random" in text]
    with torch.random.fork_rng():
        torch.testing.assert_close(program(X)[0], model(X).detach())


@pytest.mark.parametrize("function", [layer, explicit, filled, of_module, forked, process_state])
def test_torch_export_is_refused(function):
    model = Program(function)
    before = states(model)
    with pytest.raises(torch.onnx.OnnxExporterError, match="generator that it seeds") as error:
        exported(model, "torch.export")
    assert re.search(r"at test_seeded_numbers.py:\d+", str(error.value))
    assert_same_states(before, model)


@pytest.mark.parametrize("function", [layer, filled_copy])
def test_dynamic_sizes(function):
    """The sizes of constants are static."""
    model = Program(function)
    if function is layer:  # whose numbers have a static size
        program = exported(model, dynamic_shapes=({0: "n"},))
        with torch.random.fork_rng():
            torch.testing.assert_close(program(X[:1])[0], model(X[:1]).detach())
        return
    with pytest.raises(torch.onnx.OnnxExporterError, match=r"dynamic size.*seeded_numbers.py:\d+"):
        exported(model, dynamic_shapes=({0: "n"},))


def dropout(_, x):
    torch.manual_seed(0)
    return nn.functional.dropout(x, training=True)


def of_data(_, x):
    torch.manual_seed(0)
    return torch.bernoulli(x.sigmoid())


@pytest.mark.parametrize("function", [dropout, of_data])
def test_numbers_that_depend_on_data(function):
    with pytest.raises(torch.onnx.OnnxExporterError, match="generator that it seeds"):
        exported(Program(function))


def generator_of_module(self, x):
    return x + torch.rand(6, generator=self.g)


def after_fork(_, x):
    with torch.random.fork_rng():
        torch.manual_seed(3)
        torch.rand(6)
    return x + torch.rand(6)


def restored(_, x):
    state = torch.get_rng_state()
    torch.manual_seed(0)
    noise = torch.rand(6)
    torch.set_rng_state(state)
    return x + noise + torch.rand(6)


def unlike_seeds(_, x):
    torch.seed()
    return x + torch.rand(6)


in_closure = (lambda g: lambda _, x: x + torch.rand(6, generator=g))(torch.Generator())


@pytest.mark.parametrize(
    "function", [generator_of_module, after_fork, restored, unlike_seeds, in_closure]
)
def test_other_numbers_are_new_in_every_run(function):
    model = Program(function)
    before = states(model)
    with pytest.warns(UserWarning, match="new random numbers in every run"):
        program = exported(model)
    assert_same_states(before, model)
    assert program.export_report["capture"]["by"] == "native"
    assert not torch.equal(program(X)[0], program(X)[0])


class SeedsInScript(nn.Module):
    def forward(self, x):
        torch.manual_seed(0)
        return x + torch.rand(6)


class SeedsBeforeLoop(nn.Module):
    def forward(self, x):
        torch.manual_seed(0)
        x = x + torch.rand_like(x)
        while bool(x.sum() > 0):
            x = x - 1
        return x


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
def test_torchscript_is_refused():
    traced = torch.jit.trace(Program(explicit), (X,), check_trace=False)
    with pytest.raises(torch.onnx.OnnxExporterError, match="not keep the seed"):
        exported(traced)
    for model in (torch.jit.script(SeedsInScript()), SeedsBeforeLoop()):
        with pytest.raises(torch.onnx.OnnxExporterError, match="manual_seed has side effects"):
            exported(model)


def test_programs_of_torch_export_with_a_generator():
    captured = torch.export.export(Program(explicit), (X,))
    with pytest.raises(torch.onnx.OnnxExporterError, match="generator that it seeds, or makes"):
        torch.onnx.export(captured, dynamo=True, verbose=False)
