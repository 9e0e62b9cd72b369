"""Input sizes and data-dependent integers as integer arguments of operators.

torch.export makes these arguments constant; TorchScript does not.
"""

import torch
from models import routes


@torch.jit.script
def scripted(x: torch.Tensor) -> list[torch.Tensor]:
    n = x.size(0)
    return [
        torch.nn.functional.one_hot(torch.arange(n), n + 1),
        torch.tril_indices(n, n + 1, -1),
        torch.triu_indices(n, 3, n - 2, dtype=torch.int32),
        torch.fft.fftfreq(n, 0.5),
        torch.fft.rfftfreq(n, d=n * 0.5),
        torch.arange(12).unfold(0, n, n + 1),
        torch.vander(torch.arange(3.0), n),
        torch.group_norm(torch.arange(24.0).reshape(2, 12, 1) % (n + 3), min(n, 4)),
        torch.histc(x, n, 0.0, 2.0),
        torch.pixel_shuffle(torch.arange(2.0 * n * n).reshape(1, -1, 1, 1), n),
        torch.pixel_unshuffle(torch.arange(2.0 * n * n).reshape(1, 2, n, n), n),
    ]


def test_scripted() -> None:
    sets = [(torch.ones(n, 2),) for n in (4, 1, 7, 2)]
    routes.check(scripted, sets[0], "script", *sets[1:], dynamic=({0: "n"},))


@torch.jit.script
def of_data(x: torch.Tensor, k: torch.Tensor) -> list[torch.Tensor]:
    n = int(k)
    return [
        torch.nn.functional.one_hot(torch.arange(2), n + 1),
        torch.tril_indices(n, 4, 1),
        torch.fft.fftfreq(n),
        x.flatten().unfold(0, n, 1),
        torch.vander(x[0], n),
        torch.histc(x, n, 0.0, 1.0),
    ]


def test_integers_of_data() -> None:
    sets = [(torch.rand(3, 4), torch.tensor(k)) for k in (3, 1, 5, 2)]
    routes.check(of_data, sets[0], "script", *sets[1:])
