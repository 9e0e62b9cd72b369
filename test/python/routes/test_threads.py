"""Several threads export at once."""

import copy
import gc
import os
import queue
import signal
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import onnx_native
import pytest
import torch
from adversarial import assertions
from onnx_native import _context
from torch._decomp import register_decomposition

THREADS = 4


class Attention(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.heads = torch.nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x):
        return self.heads(x, x, x)[0]


class Branch(torch.nn.Module):
    """Decides by a size, reads a buffer, and computes a size."""

    def __init__(self):
        super().__init__()
        self.register_buffer("scale", torch.tensor(3.0))

    def forward(self, x):
        if x.shape[0] > 100:
            return x
        return x.repeat(2, 1, 1) * self.scale + x.shape[0]


class Recurrent(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = torch.nn.LSTM(8, 4, batch_first=True, bidirectional=True)

    def forward(self, x):
        return self.lstm(x)[0]


library = torch.library.Library("onnx_native_threads", "DEF")


def define(name, function):
    library.define(f"{name}(Tensor x) -> Tensor")
    library.impl(name, function, "CompositeExplicitAutograd")
    torch.library.register_fake(f"onnx_native_threads::{name}", function, lib=library)
    return getattr(torch.ops.onnx_native_threads, name).default


doubled = define("doubled", lambda x: x * 2)
halved = define("halved", lambda x: x / 2)


@register_decomposition([doubled])
def decomposed(x):
    return x * 2


class Calls(torch.nn.Module):
    """Calls an operator that PyTorch decomposes, and one with a lowering in Python."""

    def forward(self, x):
        return doubled(x + 1) * halved(x)


MODELS = {
    "linear": lambda: torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU()),
    "attention": Attention,
    "branch": Branch,
    "recurrent": Recurrent,
}


def check(name, capture, barrier=None):
    torch.manual_seed(0)
    model = MODELS[name]().eval()
    example = torch.randn(3, 5, 8)
    shapes = ({0: "batch", 1: "length"},)
    if barrier:
        barrier.wait()
    with onnx_native.options(capture=capture):
        program = torch.onnx.export(model, (example,), dynamo=True, dynamic_shapes=shapes)
    assert program.export_report["capture"]["by"] == capture
    for batch, length in ((3, 5), (4, 7)):
        x = torch.randn(batch, length, 8)
        np.testing.assert_allclose(program(x)[0], model(x).detach(), atol=1e-5, rtol=1e-5)
    return program


def in_threads(jobs):
    """Runs the jobs (name, capture), as many at once as there are threads."""
    barrier = threading.Barrier(THREADS)
    with ThreadPoolExecutor(THREADS) as pool:
        first = [pool.submit(check, *job, barrier) for job in jobs[:THREADS]]
        rest = [pool.submit(check, *job) for job in jobs[THREADS:]]
        return [future.result() for future in first + rest]


class Waits(torch.nn.Module):
    """Gives another thread time, in the middle of its own capture."""

    def __init__(self):
        super().__init__()
        self.is_running = threading.Event()
        self.others = threading.Event()

    def forward(self, x):
        self.is_running.set()
        self.others.wait(1)
        return x * 2 + x.shape[0]


def test_an_export_begins_while_another_thread_captures(monkeypatch):
    """PyTorch's modes before dispatch belong to the process, those of a capture included."""
    waits = Waits()
    monkeypatch.setitem(MODELS, "waits", lambda: waits)
    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(check, "waits", "torch.export")
        waits.is_running.wait()
        with _context.neutral():
            waits.others.set()
            other.result()
    check("linear", "torch.export")


@pytest.mark.parametrize("capture", ["native", "torch.export"])
def test_threads_export_at_once(capture):
    in_threads([(name, capture) for name in MODELS])


def test_both_captures_at_once():
    in_threads([(name, capture) for name in MODELS for capture in ("native", "torch.export")])


def test_conversions_that_call_python(monkeypatch):
    monkeypatch.setitem(MODELS, "calls", Calls)
    onnx_native.lowering("onnx_native_threads::halved")(lambda b, x: b.op("Mul", x, 0.5))
    try:
        with onnx_native.fallbacks(True):
            programs = in_threads([("calls", "torch.export")] * 6)
    finally:
        onnx_native.remove_lowering("onnx_native_threads::halved")
    for program in programs:
        assert program.export_report["fallbacks"] == {
            "onnx_native_threads::doubled": "decomposition"
        }


def test_a_model_is_exported_by_several_threads():
    model = MODELS["attention"]().eval()
    x = torch.randn(3, 5, 8)
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}

    def export(capture):
        with onnx_native.options(capture=capture, metadata=False):
            program = torch.onnx.export(model, (x,), dynamo=True, dynamic_shapes=({0: "batch"},))
        return program.model_proto.SerializeToString()

    with ThreadPoolExecutor(THREADS) as pool:
        models = list(pool.map(export, ["native"] * THREADS))
    assert len(set(models)) == 1
    for name, tensor in model.state_dict().items():
        torch.testing.assert_close(tensor, state[name], rtol=0, atol=0)


def test_other_threads_run_models_meanwhile():
    model = MODELS["linear"]().eval()
    x = torch.randn(3, 5, 8)
    expected = model(x).detach().numpy()
    stop = threading.Event()

    def run():
        count = 0
        while not stop.is_set():
            np.testing.assert_array_equal(model(x).detach().numpy(), expected)
            assert str(x.shape[0]) == "3"
            count += 1
        return count

    with ThreadPoolExecutor(1) as pool:
        runs = pool.submit(run)
        for name in MODELS:
            check(name, "native")
        stop.set()
        assert runs.result() > 0


def test_pytorch_is_as_before():
    methods = {name: getattr(torch.Tensor, name) for name in ("numpy", "tolist", "data_ptr")}
    in_threads([(name, "native") for name in MODELS])
    assert methods == {name: getattr(torch.Tensor, name) for name in methods}
    assert not torch.onnx.is_in_onnx_export()
    assert not torch.compiler.is_exporting()
    assert not torch.compiler.is_compiling()


def test_only_the_thread_that_exports_is_told():
    """Optimizers compute something else if PyTorch compiles or exports."""
    from torch.compiler import is_compiling, is_exporting
    from torch.onnx import is_in_onnx_export

    told_to_program = queue.SimpleQueue()  # the export restores attributes

    class Asks(Waits):
        def forward(self, x):
            told_to_program.put([is_compiling(), is_exporting(), is_in_onnx_export()])
            return super().forward(x)

    asks = Asks()
    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(torch.onnx.export, asks, (torch.ones(2),), dynamo=True, verbose=False)
        asks.is_running.wait()
        told = [is_compiling(), is_exporting(), is_in_onnx_export()]
        asks.others.set()
        other.result()
    assert told == [False] * 3
    assert told_to_program.get_nowait() == [True] * 3


def test_a_script_compiled_while_another_thread_exports():
    def unless_compiled(x):
        if torch.compiler.is_compiling():
            return x
        return x + 1

    waits = Waits()
    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(torch.onnx.export, waits, (torch.ones(2),), dynamo=True, verbose=False)
        waits.is_running.wait()
        script = torch.jit.script(unless_compiled)
        waits.others.set()
        other.result()
    assert torch.equal(script(torch.ones(2)), torch.full((2,), 2.0))


def test_attention_in_another_thread_stays_as_it_is():
    """The fused kernels of attention give other bits than the ones that an export records."""
    layer = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True).eval()
    x = torch.randn(2, 5, 16)
    waits = Waits().eval()
    with torch.no_grad(), ThreadPoolExecutor(1) as pool:
        expected = layer(x)
        other = pool.submit(torch.onnx.export, waits, (x,), dynamo=True, verbose=False)
        waits.is_running.wait()
        assert torch.backends.mha.get_fastpath_enabled()
        results = [layer(x) for _ in range(20)]
        waits.others.set()
        other.result()
    assert all(torch.equal(result, expected) for result in results)


def outlives(call):
    """Whether the frames of a call outlive it in a cycle, and so do those of its callers."""

    class Local:
        pass

    def caller():
        local = Local()
        call()
        return weakref.ref(local)

    return caller()() is not None


def test_frames_end_with_their_calls():
    """Frames of PyTorch hold guards of dispatch keys: no other thread may collect and end them."""
    layer = torch.nn.TransformerEncoderLayer(4, 2, 8, batch_first=True).eval()
    x = torch.randn(2, 5, 4)

    of_program = queue.SimpleQueue()  # the export restores attributes

    class Asks(Waits):
        def forward(self, x):
            n = x.shape[0]
            outlive = {
                "text": outlives(lambda: torch._assert(x.dim() == 3, f"{x} {n}")),
                "copy": outlives(lambda: copy.copy(x)),
                "assert": outlives(lambda: assertions.all_are_finite(x)),
                "attention": outlives(lambda: layer(x)),
            }
            of_program.put(outlive)
            return super().forward(x)

    asks = Asks().eval()
    with torch.no_grad(), ThreadPoolExecutor(1) as pool:
        layer(x)  # imports
        other = pool.submit(
            torch.onnx.export, asks, (x,), dynamo=True, verbose=False, dynamic_shapes=({0: "n"},)
        )
        asks.is_running.wait()
        gc.disable()
        try:
            outlive = {
                "repr": outlives(lambda: repr(x)),
                "format": outlives(lambda: f"{x} {x[0, 0, 0]}"),
                "copy": outlives(lambda: copy.copy(x)),
                "bool": outlives(lambda: bool(x.sum() < 1e9)),
                "attention": outlives(lambda: layer(x)),
                "class": outlives(lambda: isinstance(x, torch.FloatTensor)),
            }
        finally:
            gc.enable()
            asks.others.set()
        program = other.result()
    assert program.export_report["capture"]["by"] == "native"
    assert not any(outlive.values()), outlive
    outlive = of_program.get_nowait()
    assert not any(outlive.values()), outlive


def in_a_child(run):
    """Runs a function in a forked process; returns whether it is true there within a minute."""
    child = os.fork()
    if child == 0:
        signal.alarm(60)  # ends a child that waits for ever
        is_true = False
        try:
            is_true = run()
        finally:
            os._exit(0 if is_true else 1)
    return os.waitpid(child, 0)[1] == 0


def replaced():
    """What an export replaces for a while."""
    return (
        [vars(torch.Tensor).get(name) for name in ("__repr__", "item", "numpy", "__getitem__")],
        vars(torch)["FloatTensor"],
        [torch.compiler.is_compiling.__code__, torch.onnx.is_in_onnx_export.__code__],
        gc.isenabled(),
    )


def test_a_process_forked_during_an_export_exports():
    """Another thread holds the lock of exports, and does not exist in the child.

    Nor does it undo what it replaced.
    """
    x = torch.randn(2, 3)
    waits = Waits().eval()
    before = replaced()

    def export():
        is_as_before = replaced() == before
        relu = torch.nn.ReLU().eval()
        program = torch.onnx.export(relu, (x,), dynamo=True, verbose=False)
        return is_as_before and program.export_report["capture"]["by"] == "native"

    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(torch.onnx.export, waits, (x,), dynamo=True, verbose=False)
        waits.is_running.wait()
        is_right = in_a_child(export)
        waits.others.set()
        assert other.result().export_report["capture"]["by"] == "native"
    assert is_right
    assert replaced() == before


class Signs(torch.nn.Module):
    """Decides by elements, so that TorchScript keeps both ways."""

    def forward(self, x):
        if x.sum() > 0:
            return x * 2
        return x * 3


def test_a_process_forked_while_another_thread_seeds_exports():
    """torch.manual_seed takes a lock of torch.cuda, which stays locked in the child."""

    def export():
        x = torch.randn(2, 3)
        program = torch.onnx.export(Signs().eval(), (x,), dynamo=True, verbose=False)
        return program.export_report["capture"]["by"] == "TorchScript"

    is_locked, ends = threading.Event(), threading.Event()

    def hold():
        with torch.cuda._initialization_lock:
            is_locked.set()
            ends.wait()

    with ThreadPoolExecutor(1) as pool:
        pool.submit(hold)
        is_locked.wait()
        is_right = in_a_child(export)
        ends.set()
    assert is_right


@pytest.mark.parametrize("capture", ["native", "torch.export"])
def test_an_export_does_not_seed_accelerators(capture, monkeypatch):
    seeds = []
    monkeypatch.setattr(torch.cuda, "manual_seed_all", seeds.append)
    model = Signs().eval() if capture == "native" else MODELS["linear"]().eval()
    x = torch.randn(3, 5, 8)
    state = torch.get_rng_state()
    with onnx_native.options(capture=capture):
        torch.onnx.export(model, (x,), dynamo=True, verbose=False)
    assert seeds == []
    assert torch.equal(torch.get_rng_state(), state)
