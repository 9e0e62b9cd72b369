"""A small model of a real architecture: constructor, inputs and dynamic sizes.

Inputs are declared once, as shapes whose dynamic axes are names ("batch") or expressions
("32*height", "past + sequence"). Values at any size and torch.export's Dims follow from them.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import torch

from models.torchvision_kernels import load_torchvision_kernels

Sizes = Mapping[str, int]
Axis = int | str

# Name -> size at capture, second size.
SIZES = {
    "batch": (2, 3),
    "sequence": (12, 19),
    "decoder_sequence": (7, 5),
    "past": (6, 9),
    "length": (32, 128),
    "decoder_length": (24, 64),
    "history": (64, 1024),
    "height": (2, 3),
    "width": (3, 2),
    "samples": (4000, 5600),
}
# Name -> smallest and largest size; 2 to 64 by default. None: torch.export infers the range.
RANGES: dict[str, tuple[int, int] | None] = {
    "batch": (1, 63),
    "bags": (3, 64),
    "samples": (2000, 1 << 16),
    "length": (2, 512),
    "decoder_length": (2, 512),
    "history": None,
}


@dataclasses.dataclass(frozen=True)
class Input:
    make: Callable[[tuple[int, ...]], torch.Tensor]
    shape: tuple[Axis, ...]

    def value(self, sizes: Sizes) -> torch.Tensor:
        return self.make(tuple(eval(str(axis), {}, dict(sizes)) for axis in self.shape))


def floats(*shape: Axis) -> Input:
    return Input(torch.randn, shape)


def tokens(*shape: Axis, below: int = 99) -> Input:
    return Input(lambda shape: torch.randint(3, below, shape), shape)


def mask(*shape: Axis) -> Input:
    """A mask of ones, except for the first quarter of the last sentence."""

    def make(shape: tuple[int, ...]) -> torch.Tensor:
        ones = torch.ones(shape, dtype=torch.int64)
        ones[-1, : shape[-1] // 4] = 0
        return ones

    return Input(make, shape)


def right_mask(*shape: Axis) -> Input:
    """A mask of ones, except for the last quarter of the last sentence."""
    return Input(lambda shape: mask().make(shape).flip(-1), shape)


@dataclasses.dataclass(frozen=True)
class Architecture:
    name: str
    build: Callable[[], torch.nn.Module]
    inputs: dict[str, Input]
    sizes: Mapping[str, tuple[int, int]] = dataclasses.field(default_factory=dict)

    def module(self) -> torch.nn.Module:
        load_torchvision_kernels()
        torch.manual_seed(0)
        return self.build().eval()

    def example(self, which: int = 0) -> dict[str, torch.Tensor]:
        """Returns inputs at the sizes of the capture (0) or at other sizes (1)."""
        torch.manual_seed(1)
        sizes = {name: both[which] for name, both in {**SIZES, **self.sizes}.items()}
        return {name: one.value(sizes) for name, one in self.inputs.items()}

    def dynamic_shapes(self) -> dict[str, dict[int, Any]]:
        dims: dict[str, Any] = {}

        def dim(name: str) -> Any:
            factor, star, symbol = name.partition("*")
            if star:
                return int(factor) * dim(symbol)
            span = RANGES.get(name, (2, 64))
            if not name.isidentifier() or span is None:
                return torch.export.Dim.AUTO  # torch.export does not support sums of two Dims
            return dims.setdefault(name, torch.export.Dim(name, min=span[0], max=span[1]))

        return {
            name: {i: dim(axis) for i, axis in enumerate(one.shape) if isinstance(axis, str)}
            for name, one in self.inputs.items()
        }

    def capture(self, module: torch.nn.Module | None = None) -> torch.export.ExportedProgram:
        return torch.export.export(
            module if module is not None else self.module(),
            (),
            self.example(),
            dynamic_shapes=self.dynamic_shapes(),
        )

    def export(self, module: torch.nn.Module, **options: Any) -> torch.onnx.ONNXProgram:
        """Exports the module itself; `options` are arguments of torch.onnx.export."""
        program = torch.onnx.export(
            module,
            kwargs=self.example(),
            dynamo=True,
            dynamic_shapes=self.dynamic_shapes(),
            verbose=False,
            **options,
        )
        assert program is not None
        return program
