"""What goes wrong from outside: threads, Ctrl-C, full disks, read-only targets, killed processes.

The result is right, or an error says what happened; no half file is left, no state of the process
changes, and modules are as they were.
"""

from __future__ import annotations

import math
import os
import pathlib
import signal
import subprocess
import sys
import textwrap
import threading
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import onnx
import onnx_native
import onnxruntime as ort
import pytest
import torch
from onnx_native import _undo
from torch import Tensor, nn

REPOSITORY = pathlib.Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def interrupts() -> Iterator[None]:
    """Handles SIGINT also where it is ignored, as in jobs that a shell runs in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


class Net(nn.Module):
    def __init__(self, size: int = 8) -> None:
        super().__init__()
        self.linear = nn.Linear(size, size)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.linear(x)) + self.calls


def state_of(module: nn.Module) -> dict[str, Any]:
    """What an export must leave as it was."""
    return {
        "attributes": sorted(vars(module)),
        "forward": vars(module).get("forward"),
        "training": module.training,
        "hooks": [len(m._forward_hooks) + len(m._forward_pre_hooks) for m in module.modules()],
        "weights": {
            name: (id(t), t.clone()) for name, t in module.state_dict(keep_vars=True).items()
        },
        "is_exporting": (torch.onnx.is_in_onnx_export(), torch.compiler.is_exporting()),
        "grad": torch.is_grad_enabled(),
        "isinstance": torch.jit.isinstance,
        "dispatch": torch.overrides._len_torch_function_stack(),
    }


def assert_same(before: dict[str, Any], after: dict[str, Any]) -> None:
    weights, now = before.pop("weights"), after.pop("weights")
    assert before == after
    assert {n: i for n, (i, _) in weights.items()} == {n: i for n, (i, _) in now.items()}
    for name, (_, tensor) in weights.items():
        assert torch.equal(tensor, now[name][1])


def check_exports(module: nn.Module, folder: pathlib.Path) -> None:
    """Checks that the process exports as before."""
    x = torch.randn(3, 8)
    program = torch.onnx.export(module, (x,), folder / "after.onnx", verbose=False)
    assert program is not None
    torch.testing.assert_close(program(x)[0], module(x).detach())


# Ctrl-C. The signal arrives at a place that the test chooses.


def interrupt() -> None:
    signal.raise_signal(signal.SIGINT)


class Interrupted(Net):
    """Ctrl-C while the module runs."""

    def forward(self, x: Tensor) -> Tensor:
        y = super().forward(x)
        interrupt()
        return y


@pytest.mark.parametrize("capture", ["auto", "torch.export"])
def test_interrupted_capture(capture: str, tmp_path: pathlib.Path) -> None:
    module = Interrupted().eval()
    before = state_of(module)
    path = tmp_path / "model.onnx"
    with onnx_native.options(capture=capture), pytest.raises(KeyboardInterrupt):
        torch.onnx.export(module, (torch.randn(2, 8),), path, verbose=False)
    assert_same(before, state_of(module))
    assert list(tmp_path.iterdir()) == []
    check_exports(Net().eval(), tmp_path)


library = torch.library.Library("onnx_native_interruptions", "DEF")
library.define("twice(Tensor x) -> Tensor")
library.impl("twice", lambda x: x * 2, "CompositeExplicitAutograd")
fake_kernels = types.SimpleNamespace(twice=lambda x: x * 2)
torch.library.register_fake(
    "onnx_native_interruptions::twice", lambda x: fake_kernels.twice(x), lib=library
)


class Twice(Net):
    def forward(self, x: Tensor) -> Tensor:
        return torch.ops.onnx_native_interruptions.twice(super().forward(x))


class Interruption(BaseException):
    """An exception that is no `Exception`, as of a test that runs out of time."""


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, SystemExit, Interruption])
def test_interrupted_fake_kernel(
    interruption: type[BaseException], monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    """An error of a fake kernel is a reason to leave the native capture; an interrupt is none."""

    def interrupted(x: Tensor) -> Tensor:
        raise interruption("while a fake kernel runs")

    name = "onnx_native_interruptions::twice"
    monkeypatch.setattr(fake_kernels, "twice", interrupted)
    module = Twice().eval()
    before = state_of(module)
    onnx_native.lowering(name)(lambda b, x: b.op("Mul", x, 2.0))
    try:
        with pytest.raises(interruption, match="while a fake kernel runs"):
            torch.onnx.export(module, (torch.randn(2, 8),), tmp_path / "m.onnx", verbose=False)
        assert_same(before, state_of(module))
        monkeypatch.undo()
        torch.onnx.export(module, (torch.randn(2, 8),), tmp_path / "m.onnx", verbose=False)
    finally:
        onnx_native.remove_lowering(name)


@pytest.mark.parametrize("capture", ["auto", "torch.export"])
def test_interrupted_lowering(capture: str, tmp_path: pathlib.Path) -> None:
    def twice(b: Any, x: Any) -> Any:
        interrupt()
        return b.op("Mul", x, 2.0)

    onnx_native.lowering("onnx_native_interruptions::twice")(twice)
    module = Twice().eval()
    before = state_of(module)
    try:
        with onnx_native.options(capture=capture), pytest.raises(KeyboardInterrupt):
            torch.onnx.export(module, (torch.randn(2, 8),), tmp_path / "m.onnx", verbose=False)
    finally:
        onnx_native.remove_lowering("onnx_native_interruptions::twice")
    assert_same(before, state_of(module))
    assert list(tmp_path.iterdir()) == []
    check_exports(Net().eval(), tmp_path)


@pytest.mark.parametrize("external", [True, False])
def test_interrupted_saving(external: bool, tmp_path: pathlib.Path) -> None:
    """The signal arrives while the file is written; the earlier files stay."""
    module = nn.Sequential(*(nn.Linear(1024, 1024) for _ in range(16))).eval()
    x = torch.randn(2, 1024)
    program = torch.onnx.export(module, (x,), verbose=False)
    assert program is not None
    path = tmp_path / "model.onnx"
    program.save(path, external_data=external)
    names = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    with torch.no_grad():
        module[0].weight.add_(1)
    watch = threading.Thread(target=interrupt_when_a_file_grows, args=(tmp_path, set(names)))
    watch.start()

    def save_until_interrupted() -> None:
        while watch.is_alive():
            program.save(path, external_data=external)
        watch.join()

    with pytest.raises(KeyboardInterrupt):
        save_until_interrupted()
    watch.join()
    files = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    assert files.keys() == names.keys()
    program.save(path, external_data=external)
    session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    (result,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    np.testing.assert_allclose(result, module(x).detach().numpy(), rtol=1e-3, atol=1e-3)


def interrupt_when_a_file_grows(folder: pathlib.Path, known: set[str]) -> None:
    """Sends SIGINT to this process when a file with a temporary name appears."""
    for _ in range(100_000):
        if any(name not in known for name in os.listdir(folder)):
            os.kill(os.getpid(), signal.SIGINT)
            return


# Targets that cannot be written. Run in a process with a limit on files, which stands for a full
# disk, or without the rights of the superuser.


def run(code: str, folder: pathlib.Path, *, before: Callable[[], None] | None = None) -> Any:
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join((str(REPOSITORY / "build" / "python"), str(REPOSITORY))),
        "FOLDER": str(folder),
    }
    return subprocess.run(
        [sys.executable, "-c", PRELUDE + textwrap.dedent(code)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=before,
    )


PRELUDE = textwrap.dedent(
    """
    import os, pathlib, sys, threading
    import torch, onnx_native
    torch.set_num_threads(1)
    torch.ops.load_library(onnx_native.library_path())
    folder = pathlib.Path(os.environ["FOLDER"])
    model, x = torch.nn.Linear(512, 512).eval(), torch.randn(2, 512)
    """
)


@pytest.mark.parametrize("external", [True, False])
@pytest.mark.parametrize("edited", [False, True])
def test_a_full_disk(external: bool, edited: bool, tmp_path: pathlib.Path) -> None:
    """A limit of 100 kB for a file; the error names the file, and nothing is left."""
    (tmp_path / "model.onnx").write_bytes(b"old")
    code = f"""
    import resource, signal
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
    try:
        if {edited}:
            program = torch.onnx.export(model, (x,), verbose=False)
            program.model
            program.save(folder / "model.onnx", external_data={external})
        else:
            path = folder / "model.onnx"
            torch.onnx.export(model, (x,), path, external_data={external}, verbose=False)
    except OSError as error:
        print("OSError:", error)
    """
    done = run(code, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "OSError" in done.stdout
    assert [file.name for file in tmp_path.iterdir()] == ["model.onnx"]
    assert (tmp_path / "model.onnx").read_bytes() == b"old"


def test_a_read_only_folder(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "closed"
    folder.mkdir()
    folder.chmod(0o555)
    tmp_path.chmod(0o755)
    code = """
    torch.onnx.export(model, (x,), verbose=False)  # imports what only the superuser can read
    if os.geteuid() == 0:
        os.setegid(65534)
        os.seteuid(65534)
    try:
        torch.onnx.export(model, (x,), folder / "model.onnx", verbose=False)
    except OSError as error:
        print("OSError:", error)
    """
    open_up(tmp_path)
    done = run(code, folder)
    assert done.returncode == 0, done.stderr
    assert "OSError" in done.stdout
    assert "model.onnx" in done.stdout
    assert list(folder.iterdir()) == []


def open_up(folder: pathlib.Path) -> None:
    """Lets other users reach a folder that pytest made for one user."""
    for parent in (folder, *folder.parents):
        if parent.owner() == folder.owner() and parent != pathlib.Path("/"):
            parent.chmod(parent.stat().st_mode | 0o111)


def test_a_device_that_is_full() -> None:
    program = torch.onnx.export(nn.Linear(512, 512), (torch.randn(2, 512),), verbose=False)
    assert program is not None
    with pytest.raises(OSError, match="/dev/full"):
        program.save("/dev/full", external_data=False)


def test_a_killed_process(tmp_path: pathlib.Path) -> None:
    """A process is killed while it saves: the old files are whole, and the next save works."""
    code = """
    model = torch.nn.Sequential(*(torch.nn.Linear(1024, 1024) for _ in range(16))).eval()
    x = torch.randn(2, 1024)
    program = torch.onnx.export(model, (x,), folder / "model.onnx", verbose=False)
    known = set(os.listdir(folder))
    def watch():
        while not set(os.listdir(folder)) - known:
            pass
        os.kill(os.getpid(), 9)
    threading.Thread(target=watch, daemon=True).start()
    while True:
        program.save(folder / "model.onnx", external_data=True)
    """
    done = run(code, tmp_path)
    assert done.returncode == -signal.SIGKILL, done.stderr
    path = tmp_path / "model.onnx"
    onnx.checker.check_model(str(path), full_check=True)
    session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    assert np.isfinite(session.run(None, {name: np.ones((2, 1024), np.float32)})[0]).all()
    visible = [file.name for file in tmp_path.iterdir() if not file.name.startswith(".")]
    assert {"model.onnx", "model.onnx.data"} <= set(visible)
    check_exports(Net().eval(), tmp_path)


# Threads.


@pytest.mark.parametrize("dynamo_first", [False, True])
def test_four_threads_in_a_fresh_process(dynamo_first: bool, tmp_path: pathlib.Path) -> None:
    """The first exports of a process run at once; some captures are by torch.export."""
    code = f"""
    if {dynamo_first}:
        import torch._dynamo
    barrier = threading.Barrier(4)
    errors = []
    def work(number):
        model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.LSTM(8, 4)).eval()
        x = torch.randn(3, 8)
        capture = "torch.export" if number % 2 else "auto"
        barrier.wait()
        try:
            with onnx_native.options(capture=capture):
                program = torch.onnx.export(
                    model, (x,), folder / f"{{number}}.onnx", verbose=False,
                    dynamic_shapes=({{0: "n"}},),
                )
            for size in (3, 5):
                y = torch.randn(size, 8)
                torch.testing.assert_close(program(y)[0], model(y)[0].detach())
        except BaseException as error:
            errors.append(error)
    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors
    """
    done = run(code, tmp_path)
    assert done.returncode == 0, done.stderr
    assert {f"{number}.onnx" for number in range(4)} <= {file.name for file in tmp_path.iterdir()}


def test_failures_leave_modules_as_they_were(tmp_path: pathlib.Path) -> None:
    class Failing(Net):
        def forward(self, x: Tensor) -> Tensor:
            super().forward(x)
            raise ValueError("a fault of the module")

    module = Failing().eval()
    before = state_of(module)
    with pytest.raises(torch.onnx.OnnxExporterError, match="a fault of the module"):
        torch.onnx.export(module, (torch.randn(2, 8),), tmp_path / "model.onnx", verbose=False)
    assert_same(before, state_of(module))
    assert list(tmp_path.iterdir()) == []
    check_exports(Net().eval(), tmp_path)


def test_an_interrupt_while_legacy_classes_are_replaced():
    """torch.FloatTensor and the like are there afterwards, wherever the interrupt comes."""
    names = {name for name in vars(torch) if name.endswith("Tensor")}
    lookup = vars(torch)["__getattr__"]

    def trace(frame: Any, event: str, _: Any) -> Any:
        if frame.f_code.co_name != "_known_classes":
            return None
        if event == "line" and "FloatTensor" not in vars(torch):
            raise KeyboardInterrupt
        return trace

    sys.settrace(trace)
    try:
        with pytest.raises(KeyboardInterrupt):
            torch.onnx.export(Net().eval(), (torch.randn(2, 8),), dynamo=True, verbose=False)
    finally:
        sys.settrace(None)
    assert {name for name in vars(torch) if name.endswith("Tensor")} == names
    assert vars(torch)["__getattr__"] is lookup


class Keeps(Net):
    """Changes its attributes in every call."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0
        self.kept: list[int] = []

    def forward(self, x: Tensor) -> Tensor:
        self.count += 1
        self.kept.append(self.count)
        return super().forward(x).type(torch.FloatTensor)


def names_of_process() -> list[dict[str, int]]:
    """What an export replaces for a while."""
    owners = (torch, torch.Tensor, torch.SymInt, nn.Module, nn.functional, math, Keeps)
    return [{k: id(v) for k, v in vars(o).items()} for o in (*owners, sys.modules[__name__])]


def test_interrupts_at_lines_of_the_package() -> None:
    """Everything is as before, wherever an interrupt comes; while changes are undone, too."""
    module, x = Keeps().eval(), torch.randn(2, 8)
    folder = os.path.dirname(onnx_native.__file__)
    lines: dict[tuple[str, int], int] = {}
    undoing = set()
    interrupted: list[tuple[str, int]] = []

    def export(at: tuple[str, int] | None, count: int) -> None:
        def line(frame: Any, event: str, _: Any) -> Any:
            nonlocal count
            place = frame.f_code.co_filename, frame.f_lineno
            if event == "line" and at is None:
                lines[place] = lines.get(place, 0) + 1
                if place[0].endswith("_undo.py") or frame.f_code.co_name == "put_back":
                    undoing.add(place)
            elif event == "line" and place == at:
                count -= 1
                if count == 0:
                    sys.settrace(None)
                    interrupted.append(place)
                    raise KeyboardInterrupt
            return line

        def call(frame: Any, event: str, _: Any) -> Any:
            return line if frame.f_code.co_filename.startswith(folder) else None

        sys.settrace(call)
        try:
            torch.onnx.export(module, (x,), dynamo=True, verbose=False)
        finally:
            sys.settrace(None)

    export(None, 0)
    lines.clear()
    export(None, 0)
    module.count, module.kept = 0, []
    numbers = torch.get_rng_state()
    # Any exception in a fake kernel is a reason to leave the program to torch.export.
    elsewhere = [place for place in lines if not place[0].endswith("_fake_kernels.py")]
    others = [place for place in elsewhere if place not in undoing]
    for i, place in enumerate([*sorted(undoing), *others[::11]]):
        before, names = state_of(module), names_of_process()
        interrupted.clear()
        try:
            export(place, (1, (lines[place] + 1) // 2, lines[place])[i % 3])
        except KeyboardInterrupt:
            assert interrupted
        else:  # the line ran less often: PyTorch keeps what it computed in earlier exports
            assert not interrupted, place
            assert (module.count, module.kept) == (1, [1]), place  # as after any call
            module.count, module.kept = 0, []
        assert_same(before, state_of(module))
        assert (module.count, module.kept) == (0, []), place
        assert names_of_process() == names, place
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler, place
        assert torch.equal(torch.get_rng_state(), numbers), place
    assert len(undoing) > 50


def test_an_interrupt_waits_for_undos() -> None:
    steps: list[str] = []

    def undo() -> None:
        interrupt()
        steps.append("undone")

    def block() -> None:
        with _undo.at_end(lambda: steps.append("outer")), _undo.at_end(undo):
            interrupt()

    with pytest.raises(KeyboardInterrupt):
        block()
    assert steps == ["undone", "outer"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
