"""Modules without elements: on the meta device or in fake mode, and weights from checkpoints."""

import os
import pathlib
from typing import Any

import numpy as np
import onnx
import onnx_native
import onnxruntime as ort
import pytest
import torch
from safetensors.torch import save_file
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

pytestmark = pytest.mark.captures("auto", "torch.export")


class Net(nn.Module):
    """Weights in each form: transposed, folded, tied, in parts, beside a buffer and a scalar."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(32, 16)
        self.attention = nn.MultiheadAttention(16, 4, batch_first=True)
        self.conv = nn.Conv1d(16, 16, 3, padding=1)
        self.bn = nn.BatchNorm1d(16)
        self.norm = nn.LayerNorm(16)
        self.head = nn.Linear(16, 32, bias=False)
        self.head.weight = self.embedding.weight
        self.power = nn.Parameter(torch.tensor(2.0))
        self.register_buffer("positions", torch.arange(64), persistent=False)
        self.register_buffer("scale", torch.ones(3))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.embedding(ids) + self.positions[: ids.shape[1], None] / 64
        x = x + self.attention(x, x, x, need_weights=False)[0]
        x = self.bn(self.conv(x.mT)).mT
        return self.head(self.norm(x).abs() ** self.power) * self.scale.sum()


def made(seed: int = 0) -> Net:
    torch.manual_seed(seed)
    net = Net().eval()
    with torch.no_grad():
        for tensor in (net.bn.running_mean, net.bn.running_var, net.bn.weight, net.scale):
            tensor.uniform_(0.5, 1.5)
    return net


def weights(net: nn.Module) -> dict[str, torch.Tensor]:
    return {**dict(net.named_parameters(remove_duplicate=False)), **dict(net.named_buffers())}


IDS = torch.arange(10).reshape(2, 5)
SHAPES = ({0: "batch", 1: "length"},)


def export(net: nn.Module, ids: torch.Tensor = IDS, **options: object) -> onnx_native.ONNXProgram:
    return torch.onnx.export(
        net, (ids,), dynamo=True, dynamic_shapes=SHAPES, verbose=False, **options
    )


def on_meta() -> tuple[Net, torch.Tensor]:
    with torch.device("meta"):
        return Net().eval(), IDS.to("meta")


def in_fake_mode() -> tuple[Net, torch.Tensor]:
    with FakeTensorMode():
        return Net().eval(), torch.zeros(2, 5, dtype=torch.int64)


WITHOUT_ELEMENTS = pytest.mark.parametrize("make", [on_meta, in_fake_mode])


def run(path: pathlib.Path, ids: torch.Tensor) -> torch.Tensor:
    session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
    return torch.from_numpy(session.run(None, {session.get_inputs()[0].name: ids.numpy()})[0])


@WITHOUT_ELEMENTS
def test_weights_are_given_later(make, tmp_path):
    net, ids = make()
    program = export(net, ids)
    path = tmp_path / "model.onnx"
    for seed in (0, 1):
        real = made(seed)
        program.apply_weights(weights(real))
        program.save(path)
        onnx.checker.check_model(path, full_check=True)
        for size in ((2, 5), (1, 1), (3, 9)):
            inputs = torch.randint(0, 32, size)
            torch.testing.assert_close(run(path, inputs), real(inputs), rtol=1e-4, atol=1e-4)


@WITHOUT_ELEMENTS
def test_graph_is_that_of_a_module_with_elements(make):
    net, ids = make()
    count = export(net, ids).export_report["onnx_nodes"]
    # Small arithmetic with weights alone is computed at the export if they have elements.
    assert 0 <= count - export(made()).export_report["onnx_nodes"] <= 2


@WITHOUT_ELEMENTS
def test_writing_without_elements_is_an_error(make, tmp_path):
    net, ids = make()
    program = export(net, ids)
    path = tmp_path / "model.onnx"
    for write in (lambda: program.save(path), lambda: program.model_proto, lambda: program(IDS)):
        with pytest.raises(onnx_native.ExportError, match=r"has no elements.*apply_weights"):
            write()
    assert not list(tmp_path.iterdir())


@WITHOUT_ELEMENTS
def test_saved_without_weights(make, tmp_path):
    net, ids = make()
    path = tmp_path / "model.onnx"
    export(net, ids, f=path, export_params=False)
    assert onnx.load(path).graph.node
    assert not [x for x in onnx.load(path).graph.initializer if "weight" in x.name]
    assert [file.name for file in tmp_path.iterdir()] == ["model.onnx"]


@WITHOUT_ELEMENTS
def test_module_is_as_before(make):
    net, ids = make()
    before = dict(weights(net))
    export(net, ids)
    assert all(tensor is before[name] for name, tensor in weights(net).items())


def test_under_the_fake_mode_itself():
    with FakeTensorMode():
        program = export(Net().eval(), torch.zeros(2, 5, dtype=torch.int64))
    real = made()
    program.apply_weights(weights(real))
    (result,) = program(IDS)
    torch.testing.assert_close(result, real(IDS), rtol=1e-4, atol=1e-4)


@WITHOUT_ELEMENTS
def test_unsuitable_weights_are_refused(make):
    net, ids = make()
    program = export(net, ids)
    with pytest.raises(onnx_native.ExportError, match=r"conv\.bias.*exported with"):
        program.apply_weights({"conv.bias": torch.zeros(3)})
    with pytest.raises(onnx_native.ExportError, match=r"conv\.bias has no elements"):
        program.apply_weights({"conv.bias": torch.zeros(16, device="meta")})


@pytest.mark.captures("auto")
def test_inputs_may_have_elements():
    with torch.device("meta"):
        net = nn.Linear(3, 4)
    program = torch.onnx.export(net, (torch.ones(2, 3),), dynamo=True, verbose=False)
    assert program.export_report["capture"]["by"] == "native"
    real = nn.Linear(3, 4)
    program.apply_weights(real.state_dict())
    torch.testing.assert_close(program(torch.ones(2, 3))[0], real(torch.ones(2, 3)))


class BranchOnAWeight(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.flag = nn.Parameter(torch.ones(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2 if self.flag else x


def test_branch_on_missing_elements_is_an_error() -> None:
    with torch.device("meta"):
        net = BranchOnAWeight()
    with (
        onnx_native.options(capture="torch.export"),
        pytest.raises(torch.onnx.OnnxExporterError),
    ):
        torch.onnx.export(net, (torch.ones(2, device="meta"),), dynamo=True, verbose=False)


@pytest.mark.captures("auto")
def test_branch_on_missing_elements_stays_in_the_model() -> None:
    with torch.device("meta"):
        net = BranchOnAWeight()
    program: Any = torch.onnx.export(
        net, (torch.ones(2, device="meta"),), dynamo=True, verbose=False
    )
    for flag in (1.0, 0.0):
        program.apply_weights({"flag": torch.tensor(flag)})
        torch.testing.assert_close(program(torch.ones(2))[0], torch.ones(2) * (1 + flag))


# Checkpoints.


def saved(net: Net, folder: pathlib.Path, parts: int = 1) -> list[pathlib.Path]:
    """Saves the weights, each tied one once, in several files."""
    folder.mkdir(exist_ok=True)
    tensors = {k: v.detach() for k, v in weights(net).items() if k != "head.weight"}
    files = [folder / f"part{i}.safetensors" for i in range(parts)]
    for i, file in enumerate(files):
        save_file(dict(list(tensors.items())[i::parts]), file)
    return files


def external(path: pathlib.Path) -> dict[str, str]:
    """The file in which each external weight of a model is."""
    model = onnx.load(path, load_external_data=False)
    return {
        tensor.name: entry.value
        for tensor in model.graph.initializer
        for entry in tensor.external_data
        if entry.key == "location"
    }


@WITHOUT_ELEMENTS
@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize("layout", ["module", "runtime"])
@pytest.mark.parametrize("place", ["here", "there"])
def test_model_points_into_a_checkpoint(make, parts, layout, place, tmp_path):
    real = made()
    files = saved(real, tmp_path / place, parts)
    folder = tmp_path / "here"
    folder.mkdir(exist_ok=True)
    net, ids = make()
    with onnx_native.options(weights=layout):
        program = export(net, ids)
    path = folder / "model.onnx"
    program.save(path, checkpoint=files if parts > 1 else files[0])
    if place == "here":  # onnx's checker takes hard links for an attack
        onnx.checker.check_model(path, full_check=True)
    torch.testing.assert_close(run(path, IDS), real(IDS), rtol=1e-4, atol=1e-4)
    places = external(path)
    assert places["attention.in_proj_bias"].startswith("part")
    if layout == "module":
        assert places.get("embedding.weight", places.get("head.weight")).startswith("part")
    for file in files:
        assert os.path.samefile(file, folder / file.name)


@pytest.mark.captures("auto")
def test_index_of_a_checkpoint(tmp_path):
    real = made()
    files = saved(real, tmp_path, 2)
    index = tmp_path / "model.safetensors.index.json"
    listed = ",".join(f'"{file.name}": "{file.name}"' for file in files)
    index.write_text(f'{{"weight_map": {{{listed}}}}}')
    program = export(made(1))
    program.save(tmp_path / "model.onnx", checkpoint=index)
    result = run(tmp_path / "model.onnx", IDS)
    torch.testing.assert_close(result, real(IDS), rtol=1e-4, atol=1e-4)


@pytest.mark.captures("auto")
def test_wrong_checkpoints(tmp_path):
    program = export(made())
    path = tmp_path / "model.onnx"
    with pytest.raises(FileNotFoundError, match=r"nothing\.safetensors"):
        program.save(path, checkpoint=tmp_path / "nothing.safetensors")
    bad = tmp_path / "bad.safetensors"
    bad.write_bytes(b"\1\0\0\0\0\0\0\0{")
    with pytest.raises(ValueError, match=r"bad\.safetensors is not a safetensors file"):
        program.save(path, checkpoint=bad)
    other = tmp_path / "other.safetensors"
    save_file({"other": torch.ones(2)}, other)
    with pytest.raises(ValueError, match=r"has no weight of the program.*'other'"):
        program.save(path, checkpoint=other)
    save_file({"conv.bias": torch.ones(2)}, other)
    with pytest.raises(onnx_native.ExportError, match=r"the new value of conv\.bias"):
        program.save(path, checkpoint=other)
    save_file({"conv.bias": torch.ones(16)}, other)
    with pytest.raises(ValueError, match=r"both have conv\.bias"):
        program.save(path, checkpoint=[other, other])
    assert not path.exists()
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / other.name).write_text("mine")
    with pytest.raises(FileExistsError, match="in the way"):
        program.save(folder / "model.onnx", checkpoint=other)
    assert (folder / other.name).read_text() == "mine"


@pytest.mark.captures("auto")
def test_weights_stream_from_torch_save(tmp_path):
    real = made()
    torch.save(weights(real), tmp_path / "weights.pt")
    net, ids = on_meta()
    program = export(net, ids)
    program.apply_weights(torch.load(tmp_path / "weights.pt", mmap=True))
    program.save(tmp_path / "model.onnx")
    result = run(tmp_path / "model.onnx", IDS)
    np.testing.assert_allclose(result, real(IDS).detach(), rtol=1e-4, atol=1e-4)
