"""Models for OpenCV, MNN and tract: in the forms that they take, right in ONNX Runtime.

The tests run OpenCV and MNN too. benchmarks/tools.py runs tract.
"""

from __future__ import annotations

import pathlib
import sys
import warnings
from typing import Any

import onnx_native
import pytest
import torch
import torch.nn.functional as F
from models import routes
from models.loading import loaded
from torch import nn

IMPORTERS = pathlib.Path(__file__).resolve().parents[3] / "benchmarks" / "importers.py"


class Gated(nn.Module):
    """OpenCV takes its gate for HardSwish."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 3, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.conv(x)
        return y * F.hardsigmoid(y.mean((2, 3), keepdim=True))


class Normalized(nn.Module):
    """Sequences, an axis that is added twice, and norms along an axis."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.InstanceNorm1d(6, affine=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.normalize(self.norm(x.flatten(2)), dim=1)
        return y + y.logsumexp(1).unsqueeze(1) + F.mish(y) + y.abs().sum((0, 2))[None, :, None]


class Transformed(nn.Module):
    """OpenCV takes axis 1 for the transformed one."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.fft.fft(x).real + torch.fft.fft(x, dim=1).imag


class Integers(nn.Module):
    """OpenCV takes their signs and absolute values in other forms only."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n = (x * 5).to(torch.int64)
        return (n.abs() * 2 + n.sign()) * x


class Volumes(nn.Module):
    """OpenCV and MNN do not pool volumes as a whole."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.adaptive_avg_pool3d(x.relu(), 1)


class Pooled(nn.Module):
    """OpenCV reads what lies behind an image of one row."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(64, 32, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        pooled = self.conv(x.mean((2, 3), keepdim=True)).relu()
        row = self.conv(x.mean(2, keepdim=True)[..., :3])
        size = x.shape[2:]
        y = F.interpolate(pooled, size, mode="bilinear") + self.conv(x)
        return torch.cat([F.interpolate(row, size, mode="bilinear"), y], 1)


class GatedLinear(nn.Module):
    """OpenCV takes the factor after GELU for a constant of GELU."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 12)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate, y = self.linear(x).chunk(2, -1)
        return F.gelu(gate) * y


class Counted(nn.Module):
    """OpenCV scatters no more elements than there are."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.histc(x.argmax(-1).float(), bins=4, min=0, max=3) + x.sum((0, 1))


class Constant(nn.Module):
    """OpenCV fails in convolutions and pools of constants, such as the first flow of RAFT."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, 8, 3, padding=1)
        self.up = nn.ConvTranspose2d(8, 3, 2, stride=2)
        self.register_buffer("table", torch.randn(1, 3, 32, 32))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        flow = torch.ones(1, 2, 32, 32)
        y = self.up(F.max_pool2d(self.conv(flow).relu(), 2))
        return x + y + F.avg_pool2d(self.table, 3, 1, 1)


class Cubic(nn.Module):
    """MNN interpolates by cubics between the corners of pixels only."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.interpolate(x, (9, 5), mode="bicubic") * 2
        return F.interpolate(y, scale_factor=(2.0, 3.0), mode="bicubic")


class Scaled(nn.Module):
    """OpenCV takes the ratio of the sizes for the scale."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.interpolate(x, scale_factor=(1.7, 0.6), mode="bilinear")
        return F.interpolate(y, scale_factor=1.3, mode="bicubic")


class Causal(nn.Module):
    """tract gives a causal mask of a dynamic size wrong sizes."""

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        at = torch.arange(x.shape[1])
        near = (at[None] <= at[:, None]) & (at[None] > at[:, None] - 3)
        scores = (x @ x.mT).masked_fill(~(near[None] & mask[:, None].bool()), -1e4)
        return scores.softmax(-1) @ x


PROGRAMS: dict[str, tuple[type[nn.Module], tuple[int, ...]]] = {
    "cubic": (Cubic, (2, 3, 6, 8)),
    "gated": (Gated, (1, 3, 8, 8)),
    "gated linear": (GatedLinear, (2, 3, 8)),
    "integers": (Integers, (1, 3, 4, 5)),
    "normalized": (Normalized, (1, 6, 4, 5)),
    "volumes": (Volumes, (2, 8, 3, 4, 5)),
}
OF_OPENCV: dict[str, tuple[type[nn.Module], tuple[int, ...]]] = {
    "constant": (Constant, (2, 3, 32, 32)),
    "counted": (Counted, (3, 5, 4)),
    "scaled": (Scaled, (2, 3, 6, 8)),
    "pooled": (Pooled, (2, 64, 4, 6)),
    "transformed": (Transformed, (2, 4, 8)),
}


def exported(program: str, target: str, opset: int) -> tuple[Any, nn.Module, torch.Tensor]:
    make, shape = (PROGRAMS | OF_OPENCV)[program]
    torch.manual_seed(0)
    module, x = make().eval(), torch.randn(shape)
    with warnings.catch_warnings(), onnx_native.options(target=target):
        warnings.simplefilter("error", UserWarning)
        model = torch.onnx.export(module, (x,), dynamo=True, verbose=False, opset_version=opset)
    assert model is not None
    return model.model_proto, module, x


@pytest.mark.parametrize("opset", [13, 18, 20])
@pytest.mark.parametrize("target", ["opencv", "mnn"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_right(program: str, target: str, opset: int, tmp_path: pathlib.Path) -> None:
    assert_right(program, target, opset, tmp_path)


@pytest.mark.parametrize("opset", [17, 20])
@pytest.mark.parametrize("program", OF_OPENCV)
def test_right_in_opencv(program: str, opset: int, tmp_path: pathlib.Path) -> None:
    assert_right(program, "opencv", opset, tmp_path)


def assert_right(program: str, target: str, opset: int, tmp_path: pathlib.Path) -> None:
    model, module, x = exported(program, target, opset)
    with torch.no_grad():
        wanted = module(x)
    (result,) = routes.run(routes.session(model), (x,))
    routes.assert_same(result, wanted)
    importers = loaded(IMPORTERS)
    importers.write(tmp_path, model, {model.graph.input[0].name: x}, [wanted])
    server = importers.Server(sys.executable, target)
    try:
        assert server.ask(tmp_path) == ("right", "")
    finally:
        server.close()


@pytest.mark.parametrize("opset", [11, 13, 20])
def test_a_causal_mask_for_tract(opset: int) -> None:
    def arguments(batch: int, length: int) -> tuple[torch.Tensor, torch.Tensor]:
        mask = torch.ones(batch, length, dtype=torch.int64)
        mask[0, length // 2 :] = 0
        return torch.randn(batch, length, 8), mask

    sizes = {0: "batch", 1: "length"}
    with onnx_native.options(target="tract"):
        program = torch.onnx.export(
            Causal(),
            arguments(2, 5),
            dynamo=True,
            verbose=False,
            opset_version=opset,
            dynamic_shapes=(sizes, sizes),
        )
    assert program is not None
    operators = {node.op_type for node in program.model_proto.graph.node}
    assert not operators & {"Less", "LessOrEqual", "Greater", "GreaterOrEqual"} or opset < 12
    for args in (arguments(2, 5), arguments(3, 9)):
        (result,) = routes.run(routes.session(program.model_proto), args)
        routes.assert_same(result, Causal()(*args))


@pytest.mark.parametrize(("target", "make"), [("mnn", Cubic), ("opencv", Scaled)])
def test_interpolations_of_dynamic_sizes_are_a_warning(target: str, make: type[nn.Module]) -> None:
    sizes = ({2: "height", 3: "width"},)
    with (
        onnx_native.options(target=target),
        pytest.warns(UserWarning, match=r"does not take Resize\s+at test_importers.py"),
    ):
        torch.onnx.export(
            make(), (torch.rand(1, 3, 6, 8),), dynamo=True, verbose=False, dynamic_shapes=sizes
        )


class Padded(nn.Module):
    """tract loads no If that decides by sizes."""

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        missing = x.shape[1] - mask.shape[1]
        if missing > 0:
            mask = F.pad(mask, (0, missing))
        return x * mask[:, : x.shape[1]]


@pytest.mark.parametrize("target", ["onnx", "tract"])
def test_a_branch_on_sizes(target: str) -> None:
    args = torch.rand(2, 5), torch.rand(2, 5)
    with warnings.catch_warnings(), onnx_native.options(target=target):
        warnings.simplefilter("ignore")
        program = torch.onnx.export(
            Padded(), args, dynamo=True, verbose=False, dynamic_shapes=({1: "n"}, {1: "m"})
        )
    assert program is not None
    report: Any = program
    operators = {node.op_type for node in program.model_proto.graph.node}
    guards = [each["condition"] for each in report.export_report["capture"]["guards"]]
    assert ("If" in operators, bool(guards)) == (target == "onnx", target == "tract")


@pytest.mark.parametrize(
    ("target", "operator"),
    [("opencv", "Compress"), ("mnn", "IsNaN"), ("tract", "Compress"), ("onnx", "")],
)
def test_operators_that_an_importer_does_not_take(target: str, operator: str) -> None:
    class Program(nn.Module):
        def forward(self, x: torch.Tensor, n: torch.Tensor) -> Any:
            packed = nn.utils.rnn.pack_padded_sequence(x, n, enforce_sorted=False)
            return self.lstm(packed)[1][0], x.isnan()

        def __init__(self) -> None:
            super().__init__()
            self.lstm = nn.LSTM(3, 4, bidirectional=True)

    args = (torch.randn(5, 2, 3), torch.tensor([5, 3]))
    with warnings.catch_warnings(record=True) as caught, onnx_native.options(target=target):
        warnings.simplefilter("always")
        torch.onnx.export(Program().eval(), args, dynamo=True, verbose=False)
    found = [str(each.message) for each in caught if " does not take " in str(each.message)]
    assert bool(found) == bool(operator), found
    assert not operator or any(f"does not take {operator}\n" in each for each in found), found
