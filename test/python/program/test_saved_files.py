"""Saves from several processes, killed saves, unusual paths and full disks."""

from __future__ import annotations

import contextlib
import functools
import os
import pathlib
import resource
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import onnx
import pytest
import torch
from onnx import numpy_helper
from onnx_native.program import _saving

X = torch.randn(2, 512)


def exported(number: float = 1.0, *, edited: bool = False) -> Any:
    """A program whose weight goes to a data file and whose bias does not; both are `number`."""
    module = torch.nn.Linear(512, 64).eval()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.fill_(number)
    program = torch.onnx.export(module, (X,), dynamo=True, verbose=False)
    if edited:
        assert program.model.graph is not None
    return program


def numbers(path: pathlib.Path) -> set[float]:
    """The values of all weights of a model."""
    model = onnx.load(path)
    return {float(x) for w in model.graph.initializer for x in numpy_helper.to_array(w).ravel()}


def fork(work: Callable[[], object]) -> int:
    """Starts a process that does some work: it ends with 0, or with 1 after an exception."""
    process = os.fork()
    if process == 0:
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    return process


def signal_of(process: int) -> int:
    """The signal that ended a process; 0 if it ended well."""
    status = os.waitpid(process, 0)[1]
    assert status in (0, signal.SIGKILL)
    return status


def names(folder: pathlib.Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


@contextmanager
def saving(path: pathlib.Path, programs: list[Any]) -> Iterator[list[int]]:
    """Processes that save programs to one path until they are killed, at the latest at the end."""

    def save_forever(program: Any) -> None:
        while True:
            program.save(path, external_data=True)

    processes: list[int] = []
    try:
        for program in programs:
            processes.append(fork(functools.partial(save_forever, program)))
        yield processes
    finally:
        for process in processes:
            with contextlib.suppress(ChildProcessError):  # it has been waited for
                if os.waitpid(process, os.WNOHANG) == (0, 0):
                    os.kill(process, signal.SIGKILL)
                    os.waitpid(process, 0)


def test_readers_never_see_mixed_models(tmp_path: pathlib.Path) -> None:
    """Four processes save to one path until they are killed, two of them edited models."""
    path = tmp_path / "m.onnx"
    programs = [exported(number, edited=number % 2 == 1) for number in (1, 2, 3, 4)]
    whole: list[float] = []
    with saving(path, programs) as processes:
        for turn in range(600):
            if turn % 150 == 149:
                os.kill(processes[turn // 150], signal.SIGKILL)
            try:
                found = numbers(path)
            except (FileNotFoundError, onnx.checker.ValidationError):  # replaced meanwhile
                continue
            except RuntimeError as error:  # replaced between two checks of onnx's reader
                if "No such file or directory" not in str(error):
                    raise
                continue
            assert len(found) == 1
            whole.append(*found)
        for process in processes:
            assert signal_of(process) == signal.SIGKILL
    assert len(whole) > 100
    assert len(set(whole)) > 1
    assert len(numbers(path)) == 1
    exported(5).save(path, external_data=True)
    assert numbers(path) == {5}
    assert len(names(tmp_path)) == 2  # what the killed saves left is gone


@pytest.mark.parametrize("edited", [False, True])
def test_other_data_gets_a_name_of_its_own(edited: bool, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "m.onnx"
    exported(1, edited=edited).save(path, external_data=True)
    assert names(tmp_path) == ["m.onnx", "m.onnx.data"]
    bytes_before = path.read_bytes()
    exported(1, edited=edited).save(path, external_data=True)
    assert path.read_bytes() == bytes_before
    for number in (2, 3):
        exported(number, edited=edited).save(path, external_data=True)
        model, data = names(tmp_path)
        assert model == "m.onnx"
        assert data.startswith("m.onnx.")
        assert data != "m.onnx.data"
        assert numbers(path) == {number}
        onnx.checker.check_model(str(path), full_check=True)


def test_an_edited_save_that_fails_keeps_the_old_model(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "m.onnx"
    exported(1).save(path, external_data=True)

    def fail(*_: object) -> None:
        raise OSError("no space")

    monkeypatch.setattr(_saving, "_rename_data", fail)  # when the data file is written
    with pytest.raises(OSError, match="no space"):
        exported(2, edited=True).save(path, external_data=True)
    assert numbers(path) == {1}
    assert names(tmp_path) == ["m.onnx", "m.onnx.data"]


def test_a_second_link_of_a_killed_save_goes(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "m.onnx"
    exported(1).save(path, external_data=True)
    ended = subprocess.Popen(["true"])
    ended.wait()
    (tmp_path / f".m.onnx.data.{ended.pid}-4.old").hardlink_to(tmp_path / "m.onnx.data")
    with pytest.raises(onnx.checker.ValidationError):
        numbers(path)
    exported(1).save(path, external_data=True)
    assert numbers(path) == {1}
    assert names(tmp_path) == ["m.onnx", "m.onnx.data"]


def test_a_killed_edited_save_leaves_nothing_for_long(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "m.onnx"
    program = exported(1, edited=True)

    def save_and_die() -> None:
        _saving._rename_data = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
        program.save(path, external_data=True)

    assert signal_of(fork(save_and_die)) == signal.SIGKILL
    assert any(name.startswith(".m.onnx.") for name in names(tmp_path))
    exported(2).save(path, external_data=True)
    assert numbers(path) == {2}
    assert names(tmp_path) == ["m.onnx", "m.onnx.data"]


@pytest.mark.parametrize("edited", [False, True])
@pytest.mark.parametrize(
    "name", ["x" * 240, "x" * 250 + ".onnx", "é" * 124 + ".onnx", os.fsdecode(b"\xff.onnx")]
)
def test_any_file_name(name: str, edited: bool, tmp_path: pathlib.Path) -> None:
    for number, external in ((1, True), (2, True), (3, False)):
        exported(number, edited=edited).save(tmp_path / name, external_data=external)
        assert numbers(tmp_path / name) == {number}
        assert len(names(tmp_path)) == 1 + external


@pytest.mark.parametrize("edited", [False, True])
def test_pipes_and_devices(edited: bool) -> None:
    program = exported(1, edited=edited)
    before = os.listdir("/dev")
    program.save("/dev/null", external_data=True)
    assert os.listdir("/dev") == before
    end, start = os.pipe()
    received: list[bytes] = []

    def receive() -> None:
        with open(end, "rb") as stream:
            received.append(stream.read())

    reader = threading.Thread(target=receive)
    reader.start()
    program.save(f"/dev/fd/{start}", external_data=True)
    os.close(start)
    reader.join()
    onnx.checker.check_model(onnx.load_from_string(received[0]), full_check=True)
    with tempfile.TemporaryFile() as file:  # has no name
        file.write(bytes(1 << 20))
        file.flush()
        program.save(f"/proc/self/fd/{file.fileno()}")
        file.seek(0)
        assert file.read() == received[0]
    with pytest.raises(OSError, match="cannot write /dev/full: No space left on device"):
        program.save("/dev/full", external_data=True)


def test_a_dump_that_does_not_fit(tmp_path: pathlib.Path) -> None:
    """PyTorch's writer of archives would end the process."""
    program = torch.export.export(torch.nn.Linear(512, 64), (X,))

    def save() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (64 << 10, 64 << 10))
        with pytest.raises(OSError, match="File too large"):
            _saving.save_program(program, tmp_path / "p.pt2")

    assert signal_of(fork(save)) == 0
    assert names(tmp_path) == []


def test_a_dump_loads(tmp_path: pathlib.Path) -> None:
    program = torch.export.export(torch.nn.Linear(3, 3), (torch.randn(2, 3),))
    _saving.save_program(program, tmp_path / "p.pt2")
    loaded = torch.export.load(tmp_path / "p.pt2")
    assert set(loaded.state_dict) == {"weight", "bias"}
