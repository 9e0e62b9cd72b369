"""Work that a program gives to a pool of threads is recorded in order, or refused."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any

import pytest
import torch
from models.recording import DYNAMIC, EXAMPLES, X, assert_recorded, reason_of
from torch import nn


class Branches(nn.Module):
    def __init__(self, run: Callable[..., Any]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))
        self.run = run

    def forward(self, x: torch.Tensor) -> Any:
        return self.run(self.layers, x)


def mapped(layers: Any, x: torch.Tensor) -> Any:
    with ThreadPoolExecutor(2) as pool:
        return torch.stack(list(pool.map(lambda layer: layer(x) * x.shape[1], layers)))


def submitted(layers: Any, x: torch.Tensor) -> Any:
    pool = ThreadPoolExecutor()
    futures = [pool.submit(layer, x) for layer in layers]
    done = [future.result() for future in reversed(futures)]
    pool.shutdown()
    assert set(as_completed(futures)) == set(futures)
    return torch.cat(done, -1)


def written(layers: Any, x: torch.Tensor) -> Any:
    y = x * 1

    def write(i: int) -> None:
        y[:, 0] += i * layers[i](x)[:, 0]

    with ThreadPoolExecutor(1) as pool:
        list(pool.map(write, range(3)))
    return y


def caught(layers: Any, x: torch.Tensor) -> Any:
    def fail() -> None:
        raise ValueError("not today")

    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(fail)
        assert isinstance(future.exception(), ValueError)
        return pool.submit(layers[0], x).result()


@pytest.mark.parametrize("run", [mapped, submitted, written, caught])
def test_pools_are_recorded_in_order(run: Callable[..., Any]) -> None:
    assert_recorded(Branches(run).eval(), DYNAMIC, *EXAMPLES)


def with_autocast(layers: Any, x: torch.Tensor) -> Any:
    """Threads of a pool do not inherit it."""
    with torch.autocast("cpu", torch.bfloat16), ThreadPoolExecutor(1) as pool:
        return pool.submit(layers[0], x).result()


def with_an_initializer(layers: Any, x: torch.Tensor) -> Any:
    with ThreadPoolExecutor(1, initializer=lambda: None) as pool:
        return pool.submit(layers[0], x).result()


def joined(layers: Any, x: torch.Tensor) -> Any:
    y = x * 1

    def write() -> None:
        with contextlib.suppress(RuntimeError):
            y.add_(layers[0](x))

    thread = threading.Thread(target=write)
    thread.start()
    thread.join()
    return y * 2


@pytest.mark.parametrize("run", [with_autocast, with_an_initializer, joined])
def test_other_threads_are_refused(run: Callable[..., Any]) -> None:
    assert "thread" in reason_of(Branches(run).eval(), (X,), DYNAMIC)
