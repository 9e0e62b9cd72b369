"""The devices of the tests: one of this repository, test/devices/device.cpp, and CUDA's if any."""

from __future__ import annotations

import functools
import types
from pathlib import Path
from typing import Any, NamedTuple

import onnx_native
import torch

TOY = "toy"
# Where there is no CUDA, the tests run on the repository's device alone.
DEVICES = [TOY, "cuda"] if torch.cuda.is_available() else [TOY]


class Copied(NamedTuple):
    """What the device copied to the host."""

    copies: int
    bytes: int
    largest: int


@functools.cache
def load() -> None:
    """Registers the repository's device, once per process."""
    library = Path(onnx_native.library_path()).parents[3] / "libonnx_native_test_device.so"
    torch.ops.load_library(library)
    torch.utils.rename_privateuse1_backend(TOY)
    module: Any = types.ModuleType(f"torch.{TOY}")
    module.is_available = module.is_initialized = lambda: True
    module.device_count = lambda: 2
    module.current_device = lambda: 0
    module._is_in_bad_fork = lambda: False
    generators = [torch.ops.test_device.default_generator(index) for index in range(2)]
    module.default_generators = generators
    module.manual_seed = lambda seed: generators[0].manual_seed(seed)
    module.manual_seed_all = lambda seed: [each.manual_seed(seed) for each in generators]
    module.get_rng_state = lambda index=0: generators[_index(index)].get_state()
    module.set_rng_state = lambda state, index=0: generators[_index(index)].set_state(state)
    module.get_amp_supported_dtype = lambda: [torch.float16, torch.bfloat16]
    torch._register_device_module(TOY, module)
    torch.utils.generate_methods_for_privateuse1_backend()


def _index(device: Any) -> int:
    return device if isinstance(device, int) else torch.device(device).index or 0


def reset() -> None:
    """Starts to count copies anew."""
    torch.ops.test_device.reset()


def copied() -> Copied:
    return Copied(*torch.ops.test_device.copied())
