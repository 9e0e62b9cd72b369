"""Random numbers that other threads draw while an export runs are theirs."""

import random
import threading
from typing import Any

import numpy as np
import pytest
import torch


@pytest.mark.parametrize("library", ["random", "numpy"])
@pytest.mark.parametrize("options", [{}, {"verify": True}])
def test_their_numbers_do_not_come_again(library: str, options: dict[str, Any]) -> None:
    draw = random.random if library == "random" else np.random.random
    drawn: list[float] = []
    ends = threading.Event()

    def work() -> None:
        while not ends.is_set():
            drawn.append(float(draw()))
            ends.wait(0.0002)

    thread = threading.Thread(target=work)
    thread.start()
    for _ in range(5):
        torch.onnx.export(
            torch.nn.Linear(3, 3).eval(), (torch.ones(2, 3),), dynamo=True, verbose=False, **options
        )
    ends.set()
    thread.join()
    assert len(set(drawn)) == len(drawn)
