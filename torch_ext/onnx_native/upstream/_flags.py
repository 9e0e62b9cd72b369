"""Whether PyTorch exports: what it answers the thread that exports, and only that one.

PyTorch keeps the answers in globals. Optimizers and models in other threads ask for them, too, and
would compute something else. Other modules import the functions that answer by name. So an export
gives them other code for a while.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType, FunctionType

import torch

from onnx_native import _undo


class _Functions:
    """The functions that answer; they are looked up at the first export.

    torch.onnx takes longer to import than this whole package, which loads without it.
    """

    def __init__(self) -> None:
        self.public = {
            "is_compiling": torch.compiler.is_compiling,
            "is_exporting": torch.compiler.is_exporting,
            "is_in_onnx_export": torch.onnx.is_in_onnx_export,
        }
        self.of_pytorch = {
            name: FunctionType(function.__code__, function.__globals__)
            for name, function in self.public.items()
        }
        self.own_code = {name: _answering(name) for name in self.public}

    def update_code(self) -> None:
        for name, function in self.public.items():
            function.__code__ = self.own_code[name] if _open else self.of_pytorch[name].__code__


class _Answers(threading.local):
    def __init__(self) -> None:
        self.given: dict[str, bool] = {}


_answers = _Answers()
_open: set[object] = set()  # the blocks that now give answers, in any thread
_lock = threading.RLock()


def _renew_lock() -> None:
    global _lock
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_renew_lock)


def answer(question: str) -> bool:
    """Returns what a function says in this thread."""
    given = _answers.given.get(question)
    return _functions().of_pytorch[question]() if given is None else given


def _answering(question: str) -> CodeType:
    def is_so() -> bool:
        if torch.jit.is_scripting():  # TorchScript skips what it cannot compile
            return False
        return __import__("onnx_native.upstream._flags", fromlist="_").answer("question")  # type: ignore[no-any-return]

    constants = tuple(question if each == "question" else each for each in is_so.__code__.co_consts)
    return is_so.__code__.replace(co_consts=constants, co_name=question)


_functions = functools.cache(_Functions)


@contextmanager
def answers(**given: bool) -> Iterator[None]:
    """Makes functions give other answers in this thread, within a block.

    Args:
        given: By the name of the function in torch.compiler or torch.onnx.
    """
    block, before = object(), _answers.given

    def forget() -> None:
        _answers.given = before

    def close() -> None:
        with _lock:
            _open.discard(block)
            _functions().update_code()
        while _lock._is_owned():  # type: ignore[attr-defined]  # an interrupt kept it
            _lock.release()

    with _undo.at_end(forget), _undo.at_end(close, of_process=True):
        with _lock:
            _open.add(block)
            _functions().update_code()
        _answers.given = before | given
        yield
