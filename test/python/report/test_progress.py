"""What an export prints: on a terminal, on a pipe, on consoles without Unicode, and not at all."""

from __future__ import annotations

import os
import pathlib
import pty
import select
import subprocess
import sys
import termios
import textwrap

import pytest

REPOSITORY = pathlib.Path(__file__).parents[3]
CODE = textwrap.dedent(
    """
    import os, sys, warnings
    warnings.simplefilter("ignore")
    import torch, onnx_native
    torch.ops.load_library(onnx_native.library_path())
    from onnx_native.program import _progress
    _progress._WORTH_SHOWING = 1000
    _progress._PATIENCE = 0.0
    verbose = {"None": None, "False": False, "True": True}[sys.argv[1]]
    path = os.path.join(sys.argv[2], "model.onnx")
    with onnx_native.options(capture=sys.argv[3]):
        torch.onnx.export(torch.nn.Linear(2048, 2048).eval(), (torch.randn(2, 2048),), path,
                          verbose=verbose)
    """
)


def command(verbose: str, folder: pathlib.Path, capture: str) -> list[str]:
    return [sys.executable, "-c", CODE, verbose, str(folder), capture]


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(REPOSITORY / "build" / "python"), **more}


def run(
    folder: pathlib.Path, verbose: str = "None", capture: str = "auto", **more: str
) -> tuple[bytes, bytes]:
    done = subprocess.run(
        command(verbose, folder, capture), env=environment(**more), capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout, done.stderr


def on_terminal(folder: pathlib.Path, verbose: str, capture: str) -> str:
    """Runs with the standard error on a terminal; returns what it shows."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 80))
    process = subprocess.Popen(
        command(verbose, folder, capture),
        env=environment(),
        stdout=subprocess.DEVNULL,
        stderr=theirs,
    )
    shown = b""
    while True:
        is_running = process.poll() is None
        while select.select([ours], [], [], 0.1)[0]:
            shown += os.read(ours, 65536)
        if not is_running:
            break
    os.close(theirs)
    os.close(ours)
    assert process.wait() == 0, shown.decode()
    return shown.decode()


def test_a_bar_on_a_terminal(tmp_path: pathlib.Path) -> None:
    shown = on_terminal(tmp_path, "None", "torch.export")
    assert "Saving model.onnx" in shown
    assert "100%" in shown
    assert "Capturing the program" in shown


def test_no_bar_if_silent(tmp_path: pathlib.Path) -> None:
    shown = on_terminal(tmp_path, "False", "torch.export")
    assert "Saving" not in shown
    assert "Capturing" not in shown


@pytest.mark.parametrize("capture", ["auto", "torch.export"])
def test_nothing_but_messages_when_piped(capture: str, tmp_path: pathlib.Path) -> None:
    out, err = run(tmp_path, capture=capture, PYTHONIOENCODING="utf-8")
    assert "✅" in out.decode()
    assert "Saving" not in err.decode()
    assert "Capturing" not in err.decode()


@pytest.mark.parametrize("capture", ["auto", "torch.export"])
def test_silent(capture: str, tmp_path: pathlib.Path) -> None:
    out, _ = run(tmp_path, "False", capture)
    assert out == b""


@pytest.mark.parametrize(
    ("encoding", "capture"),
    [("ascii", "auto"), ("cp1252", "auto"), ("latin-1", "auto"), ("ascii", "torch.export")],
)
def test_consoles_without_unicode(encoding: str, capture: str, tmp_path: pathlib.Path) -> None:
    out, _ = run(tmp_path, capture=capture, PYTHONIOENCODING=encoding)
    text = out.decode(encoding)
    assert "[ok]" in text
    assert "✅" not in text
