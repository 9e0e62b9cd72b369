"""Undoes what an export changes, wherever Ctrl-C comes.

A KeyboardInterrupt may come between any two statements. Ctrl-C waits while an undo runs. What is
not undone because an exception came before, or in the middle of the undo, is undone at the end of
the export. So an undo may run twice.
"""

from __future__ import annotations

import _signal  # signal has the same, ten times slower: it makes enums of handlers
import contextlib
import functools
import gc
import random
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any, TypeVar

import torch

Function = TypeVar("Function", bound=Callable[..., Any])


class _Open(threading.local):
    def __init__(self) -> None:
        self.undos: list[Undo] = []


_open = _Open()
_of_process: list[Undo] = []  # of all threads


class Undo:
    """An undo that is to run later. Those that an interrupt left out inside of it run before it."""

    def __init__(self, function: Callable[[], None], *, of_process: bool = False) -> None:
        self._function = function
        self.thread = threading.get_ident()
        _open.undos.append(self)
        if of_process:
            _of_process.append(self)

    def __call__(self) -> None:
        if self in _open.undos:
            _undo_to(_open.undos.index(self))

    def run(self) -> None:
        self._function()

    def forget(self) -> None:
        """Leaves everything as it is now."""
        for undos in (_open.undos, _of_process):
            if self in undos:
                undos.remove(self)


@contextmanager
def at_end(function: Callable[[], None], *, of_process: bool = False) -> Iterator[None]:
    """Runs an undo at the end of a block.

    Args:
        function: The undo.
        of_process: Whether it undoes what all threads see, and needs nothing of its own thread and
            no kernel of PyTorch: it then also runs in a child that another thread forks meanwhile.
    """
    undo = Undo(function, of_process=of_process)
    try:
        yield
    finally:
        undo()


def undo_of_lost_threads() -> None:
    """Undoes in a forked child what the threads had open that do not exist there."""
    for undo in reversed(_of_process.copy()):
        if undo.thread != threading.get_ident():
            with contextlib.suppress(Exception):  # the others still have to run
                undo.run()
            _of_process.remove(undo)


def _undo_to(count: int) -> None:
    """Runs the open undos from the last one back, until so many are left."""
    undos = _open.undos
    if len(undos) <= count and not _interrupts.are_held():
        return
    errors: list[Exception] = []
    try:
        _interrupts.hold()
        while len(undos) > count:
            last = undos[-1]
            try:
                last.run()
            except Exception as error:  # the others still have to run
                errors.append(error)
            last.forget()
    finally:
        _interrupts.release()
    if errors:
        raise errors[0]


class _Interrupts:
    """Makes Ctrl-C wait. Python handles it in the main thread alone."""

    def __init__(self) -> None:
        self._handler: Any = None
        self._waiting: list[tuple[Any, ...]] = []

    def _wait(self, *signal_: Any) -> None:
        self._waiting.append(signal_)

    def are_held(self) -> bool:
        return _is_main() and _signal.getsignal(signal.SIGINT) == self._wait

    def hold(self) -> None:
        if not _is_main():
            return
        handler = _signal.getsignal(signal.SIGINT)
        if callable(handler) and handler != self._wait:
            self._handler = handler
            _signal.signal(signal.SIGINT, self._wait)

    def release(self) -> None:
        if self.are_held():
            _signal.signal(signal.SIGINT, self._handler)
            if self._waiting:
                waiting, self._waiting = self._waiting, []
                self._handler(*waiting[0])


def _is_main() -> bool:
    return threading.current_thread() is threading.main_thread()


_interrupts = _Interrupts()


class _AfterInterrupt(Undo):
    """Functions to run at the end of an export that an interrupt ends."""

    def __init__(self) -> None:
        self.functions: list[Callable[[], None]] = []
        super().__init__(self._run_all)

    def _run_all(self) -> None:
        for function in reversed(self.functions):
            function()


def after_interrupt(function: Callable[[], None]) -> None:
    """Runs a function at the end of the export if an interrupt ends it."""
    for undo in reversed(_open.undos):
        if isinstance(undo, _AfterInterrupt):
            undo.functions.append(function)
            return


def all_at_end(function: Function, flags: Callable[[], Sequence[ModuleType]]) -> Function:
    """Makes an export undo at its end what an exception kept from being undone.

    Args:
        function: The export.
        flags: Returns the modules whose flags it sets for a while.
    """

    @functools.wraps(function)
    def undoing(*args: Any, **kwargs: Any) -> Any:
        count = len(_open.undos)
        try:
            restore = _AfterInterrupt()
            restore.functions.append(_state_of_process(flags()))
            try:
                result = function(*args, **kwargs)
            except Exception:
                restore.forget()
                raise
            _undo_to(count + 1)
            return (result, _open.undos.pop())[0]  # one line: no interrupt comes after pop()
        except BaseException:
            try:
                _undo_to(count)
            finally:
                _undo_to(count)
            raise

    return undoing  # type: ignore[return-value]


def _state_of_process(modules: Sequence[ModuleType]) -> Callable[[], None]:
    """Returns a function that restores what an interrupted `with` statement may leave."""
    flags = [
        (module, name, value)
        for module in modules
        for name, value in vars(module).items()
        if isinstance(value, bool)
    ]
    grad, collects, profile = torch.is_grad_enabled(), gc.isenabled(), sys.getprofile()
    autocast = torch.is_autocast_enabled("cpu")
    finders = list(sys.meta_path)
    numbers, own_numbers = torch.get_rng_state(), random.getstate()

    def restore() -> None:
        for module, name, value in flags:
            setattr(module, name, value)
        torch.set_grad_enabled(grad)
        torch.set_autocast_enabled("cpu", autocast)
        (gc.enable if collects else gc.disable)()
        sys.setprofile(profile)
        sys.meta_path[:] = finders
        torch.set_rng_state(numbers)
        random.setstate(own_numbers)

    return restore
