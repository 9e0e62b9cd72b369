"""Archives of torch.export.save: valid ones give the captured program, others an error."""

import contextlib
import json
import random
import zipfile

import onnx_native
import pytest
import torch
from models.calling import Calling
from models.zoo import BERT_SMALL, ZOO
from torch._higher_order_ops import while_loop
from torch.export import Dim

C = onnx_native._C


class Weights(torch.nn.Module):
    """Parameters, buffers, constants; shared, transposed and offset memory."""

    def __init__(self):
        super().__init__()
        memory = torch.randn(40)
        self.linear = torch.nn.Linear(4, 3)
        self.tied = self.linear.weight
        self.register_buffer("part", memory[3:15].view(3, 4))
        self.register_buffer("turned", memory[:12].view(4, 3).t())
        self.register_buffer("unused", torch.ones(2))
        self.register_buffer("narrow", torch.randn(4).bfloat16(), persistent=False)
        self.constant = torch.tensor([1.0, 2, 3, 4])

    def forward(self, x):
        y = self.linear(x) + torch.nn.functional.linear(x, self.tied)
        z = x @ (self.part + self.turned).t() + self.constant[:3]
        return y * z, x * self.narrow.float()


def control_flow(x, y):
    z = torch.cond(
        x.sum() > 0,
        lambda a: a.sin(),
        lambda a: torch.cond(a.sum() > -9, lambda b: b + 1, lambda b: b.clone(), (a,)),
        (x,),
    )
    n, total = while_loop(lambda i, t: i < 3, lambda i, t: (i + 1, t + y), (torch.tensor(0), y))
    return z, n, total


def mutating(x):
    y = x.clone()
    y[:, 0] = 1
    y[1:].add_(x[:-1])
    return y, y.transpose(0, 1).relu_()


def sizes(x):
    found = torch.nonzero(x > 0)
    parts = torch.split(x, 2, dim=1)
    return found, parts[0] * x.shape[0], x.reshape(x.shape[0] * 2, -1), x.sum().item() + 1


def arguments(x):
    return (
        torch.clamp(x, min=float("-inf"), max=2),
        torch.full((2, 2), float("inf"), dtype=torch.float16),
        x.to(torch.float64, memory_format=torch.contiguous_format),
        torch.nn.functional.max_pool1d(x[None], 2, ceil_mode=True),
        torch.zeros(3, dtype=torch.bool, device="cpu"),
        torch.nn.functional.gelu(x, approximate="tanh"),
        x[None, ..., torch.tensor([0, 1])],
        torch.view_as_complex(x.reshape(-1, 2, 2)) * (1 + 2j),
    )


PROGRAMS = {
    "weights": (Weights(), 1),
    "control_flow": (Calling(control_flow), 2),
    "mutating": (Calling(mutating), 1),
    "sizes": (Calling(sizes), 1),
    "arguments": (Calling(arguments), 1),
    "bound beyond 64 bits": (Calling(lambda x: x[x[:, 0] > 0].nonzero()), 1),
    "no_grad": (Calling(torch.no_grad()(lambda x: x.exp())), 1),
}


def captured(name):
    module, count = PROGRAMS[name]
    rows = Dim("rows", min=3)
    shapes = {0: rows}
    inputs = tuple(torch.randn(4, 4) for _ in range(count))
    by_argument = (shapes,) if name == "weights" else ((shapes,) * count,)
    return torch.export.export(module, inputs, dynamic_shapes=by_argument)


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    path = tmp_path_factory.mktemp("pt2") / "weights.pt2"
    torch.export.save(captured("weights"), path)
    return path


@pytest.mark.parametrize("name", PROGRAMS)
def test_program_is_that_of_the_fx_reader(name, tmp_path):
    program = captured(name)
    torch.export.save(program, tmp_path / "program.pt2")
    assert C.read_pt2(str(tmp_path / "program.pt2")) == C.read(program)


@pytest.mark.parametrize("model", [BERT_SMALL, ZOO["resnet18"]], ids=lambda model: model.name)
def test_model_is_that_of_the_fx_reader(model, tmp_path):
    program = model.capture()
    torch.export.save(program, tmp_path / "model.pt2")
    assert C.read_pt2(str(tmp_path / "model.pt2")) == C.read(program)


def rewritten(archive, path, change):
    """Returns a copy of the archive with `change` applied to model.json."""
    with zipfile.ZipFile(archive) as source, zipfile.ZipFile(path, "w") as copy:
        for item in source.infolist():
            content = source.read(item)
            if item.filename.endswith("models/model.json"):
                content = change(content)
            copy.writestr(item, content)
    return str(path)


def test_missing_file(tmp_path):
    with pytest.raises(onnx_native.ExportError, match=r"\[io\]: cannot open .*nowhere\.pt2"):
        C.read_pt2(str(tmp_path / "nowhere.pt2"))


@pytest.mark.parametrize("content", [b"", b"PK", b"not an archive" * 99])
def test_no_archive(content, tmp_path):
    path = tmp_path / "file.pt2"
    path.write_bytes(content)
    with pytest.raises(onnx_native.ExportError, match="invalid program"):
        C.read_pt2(str(path))


def test_other_schema_version(archive, tmp_path):
    def change(content):
        model = json.loads(content)
        model["schema_version"]["major"] = 7
        return json.dumps(model)

    running = ".".join(torch.__version__.split(".")[:2])
    ours = f"schema version 7; this build reads .* PyTorch {running}$"
    with pytest.raises(onnx_native.ExportError, match=ours):
        C.read_pt2(rewritten(archive, tmp_path / "old.pt2", change))


@pytest.mark.parametrize(
    "change",
    [
        lambda content: b"{",
        lambda content: b"[" * 100_000,
        lambda content: content.replace(b'"name": "linear"', b'"name": "nobody"', 1),
        lambda content: content.replace(
            b'"parameter_name": "linear.bias"', b'"parameter_name": "b"'
        ),
        lambda content: content.replace(b"torch.ops.aten.linear.default", b"torch.ops.aten"),
        lambda content: content.replace(b'"nodes"', b'"knots"'),
    ],
)
def test_damaged_model(archive, tmp_path, change):
    with pytest.raises(onnx_native.ExportError, match="archive"):
        C.read_pt2(rewritten(archive, tmp_path / "damaged.pt2", change))


def test_weight_larger_than_its_record(archive, tmp_path):
    path = tmp_path / "large.pt2"
    with zipfile.ZipFile(archive) as source, zipfile.ZipFile(path, "w") as copy:
        for item in source.infolist():
            content = source.read(item)
            if item.filename.endswith("model_weights_config.json"):
                content = content.replace(b'"as_int": 4}', b'"as_int": 4611686018427387904}')
            copy.writestr(item, content)
    with pytest.raises(onnx_native.ExportError, match="larger than"):
        C.read_pt2(str(path))


def test_truncated_and_flipped_archives(archive, tmp_path):
    """Damaged archives are read, or fail like every invalid program."""
    content = archive.read_bytes()
    path = tmp_path / "bad.pt2"
    generator = random.Random(0)
    for _ in range(150):
        bad = bytearray(content)
        if generator.random() < 0.3:
            del bad[generator.randrange(len(bad)) :]
        for _ in range(generator.randrange(1, 9)):
            if bad:
                bad[generator.randrange(len(bad))] = generator.randrange(256)
        path.write_bytes(bad)
        with contextlib.suppress(onnx_native.ExportError):
            C.read_pt2(str(path))
