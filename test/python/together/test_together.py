"""Several models share one file of weights."""

from __future__ import annotations

import pathlib
from typing import Any

import onnx
import onnx_native
import onnxruntime as ort
import pytest
import safetensors.torch
import torch
from onnx_native import Part
from torch.export import Dim

BATCH = Dim("batch")


class Translator(torch.nn.Module):
    """An encoder and a decoder, which share an embedding, a projection and a mixing matrix."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(64, 32)
        self.projection = torch.nn.Linear(32, 48, bias=False)
        self.mix = torch.nn.Linear(48, 48)
        self.head = torch.nn.Linear(32, 64, bias=False)
        self.head.weight = self.embedding.weight

    def encode(self, ids: torch.Tensor) -> torch.Tensor:
        return self.mix(self.projection(self.embedding(ids)))

    def decode(self, hidden: torch.Tensor, states: torch.Tensor) -> torch.Tensor:
        mixed = self.mix(states) + self.mix.weight.sum(0)  # not only a product
        return self.head(hidden) + (self.projection(hidden) * mixed).sum(-1, keepdim=True)


def bytes_of(module: torch.nn.Module) -> int:
    """The bytes of large parameters, each at a multiple of 4096."""
    sizes = [each.nbytes for each in module.parameters() if each.nbytes >= 1024]
    return sum((size + 4095) // 4096 * 4096 for size in sizes)


def parts(model: Translator) -> dict[str, Part]:
    ids = torch.randint(64, (2, 5))
    hidden, states = torch.randn(2, 5, 32), torch.randn(2, 5, 48)
    return {
        "encoder": Part(model.encode, (ids,), dynamic_shapes=({0: BATCH},), input_names=["ids"]),
        "decoder": Part(
            model.decode,
            (hidden,),
            kwargs={"states": states},
            dynamic_shapes={"hidden": {0: BATCH}, "states": {0: BATCH}},
            output_names=["logits"],
        ),
    }


def run(path: pathlib.Path, *inputs: torch.Tensor) -> torch.Tensor:
    onnx.checker.check_model(path, full_check=True)
    session = ort.InferenceSession(path)
    feeds = zip((each.name for each in session.get_inputs()), inputs, strict=True)
    [output] = session.run(None, {name: value.numpy() for name, value in feeds})
    return torch.from_numpy(output)


def assert_right(model: Translator, folder: pathlib.Path) -> None:
    ids, hidden, states = torch.randint(64, (3, 5)), torch.randn(3, 5, 32), torch.randn(3, 5, 48)
    with torch.no_grad():
        encoded, decoded = model.encode(ids), model.decode(hidden, states)
    torch.testing.assert_close(run(folder / "encoder.onnx", ids), encoded)
    torch.testing.assert_close(run(folder / "decoder.onnx", hidden, states), decoded)


def names(folder: pathlib.Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


FILES = ["decoder.onnx", "encoder+decoder.data", "encoder.onnx"]


@pytest.mark.parametrize("opset", [11, 18, 23])
def test_methods_of_a_module(tmp_path: pathlib.Path, opset: int) -> None:
    """Each weight is stored once, in one layout, whatever the models do with it."""
    model = Translator().eval()
    programs = onnx_native.export_many(parts(model), tmp_path, opset_version=opset)
    assert names(tmp_path) == FILES
    assert (tmp_path / "encoder+decoder.data").stat().st_size == bytes_of(model)
    assert_right(model, tmp_path)
    stored = {
        name: {each.name for each in program.model_proto.graph.initializer if len(each.dims) == 2}
        for name, program in programs.items()
    }
    assert stored["encoder"] == {"embedding.weight.T", "projection.weight.T", "mix.weight.T"}
    assert stored["decoder"] == stored["encoder"]
    assert programs["encoder"](torch.zeros(1, 5, dtype=torch.int64))[0].shape == (1, 5, 48)


@pytest.mark.parametrize("options", [{"functions": True}, {"metadata": "none"}])
def test_options(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, options: Any) -> None:
    """In the present folder, too."""
    monkeypatch.chdir(tmp_path)
    model = Translator().eval()
    with onnx_native.options(**options):
        onnx_native.export_many(parts(model), "", verify=True)
    assert names(tmp_path) == FILES
    assert (tmp_path / "encoder+decoder.data").stat().st_size == bytes_of(model)
    assert_right(model, tmp_path)


@pytest.mark.captures("torch.export")
def test_parts_that_torch_export_captures(tmp_path: pathlib.Path) -> None:
    model = Translator().eval()
    onnx_native.export_many(parts(model), tmp_path)
    assert (tmp_path / "encoder+decoder.data").stat().st_size == bytes_of(model)
    assert_right(model, tmp_path)


class Both(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.matrix = torch.nn.Parameter(torch.randn(32, 48))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ self.matrix

    def back(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.linear(x, self.matrix)


def test_a_matrix_and_its_transpose(tmp_path: pathlib.Path) -> None:
    model = Both().eval()
    x, y = torch.randn(2, 5, 32), torch.randn(2, 5, 48)
    programs = onnx_native.export_many(
        {"forth": Part(model, (x,)), "back.onnx": Part(model.back, (y,))}, tmp_path
    )
    assert list(programs) == ["forth", "back.onnx"]
    assert names(tmp_path) == ["back.onnx", "forth+back.data", "forth.onnx"]
    assert (tmp_path / "forth+back.data").stat().st_size == model.matrix.nbytes
    with torch.no_grad():
        torch.testing.assert_close(run(tmp_path / "forth.onnx", x), model(x))
        torch.testing.assert_close(run(tmp_path / "back.onnx", y), model.back(y))


def test_modules_that_share_a_tensor(tmp_path: pathlib.Path) -> None:
    """The names of a weight may differ, and a slice of it is another tensor."""
    first, second = torch.nn.Linear(64, 64, bias=False), torch.nn.Linear(64, 64, bias=False)
    part = torch.nn.Linear(64, 32, bias=False)
    second.weight = first.weight
    part.weight = torch.nn.Parameter(first.weight.detach()[32:])
    x = torch.randn(2, 3, 64)
    modules = {"first": first.eval(), "second": second.eval(), "part": part.eval()}
    onnx_native.export_many({name: Part(each, (x,)) for name, each in modules.items()}, tmp_path)
    assert (tmp_path / "first+second+part.data").stat().st_size == 4 * (64 * 64 + 32 * 64)
    for name, module in modules.items():
        with torch.no_grad():
            torch.testing.assert_close(run(tmp_path / f"{name}.onnx", x), module(x))


def test_saved_again(tmp_path: pathlib.Path) -> None:
    """Old data files go, those of single models too; single saves leave the shared file."""
    model = Translator().eval()
    programs = onnx_native.export_many(parts(model))
    for name, program in programs.items():
        program.save(tmp_path / f"{name}.onnx", external_data=True)
    onnx_native.save_many(programs, tmp_path)
    assert names(tmp_path) == FILES
    with torch.no_grad():
        model.mix.weight.neg_()
    onnx_native.save_many(programs, tmp_path)
    digested, *others = sorted(set(names(tmp_path)) - set(FILES))
    assert digested.startswith("encoder+decoder.")
    assert others == []
    assert not (tmp_path / "encoder+decoder.data").exists()
    assert_right(model, tmp_path)
    onnx_native.save_many(programs, tmp_path)  # the same weights
    assert digested in names(tmp_path)
    programs["encoder"].save(tmp_path / "encoder.onnx", external_data=False)
    assert names(tmp_path) == ["decoder.onnx", digested, "encoder.onnx"]
    assert_right(model, tmp_path)


@pytest.mark.parametrize("size", [10_000, "10kB", "9.8 KiB"])
def test_shards(tmp_path: pathlib.Path, size: Any) -> None:
    """A weight that is larger than a shard has a file of its own."""
    model = Translator().eval()
    programs = onnx_native.export_many(parts(model), tmp_path, max_shard_size=size)
    shards = [f"encoder+decoder-0000{i}-of-00003.data" for i in (1, 2, 3)]
    assert names(tmp_path) == ["decoder.onnx", *sorted(shards), "encoder.onnx"]
    assert sum((tmp_path / name).stat().st_size for name in shards) == sum(
        each.nbytes for each in model.parameters() if each.nbytes >= 1024
    )
    assert_right(model, tmp_path)
    with torch.no_grad():
        model.mix.weight.neg_()
    onnx_native.save_many(programs, tmp_path, max_shard_size=size)  # beside the old ones
    assert_right(model, tmp_path)
    assert len(names(tmp_path)) == 5
    assert len(set(names(tmp_path)) & set(shards)) == 2  # have the same contents
    onnx_native.save_many(programs, tmp_path)
    assert_right(model, tmp_path)
    assert len(names(tmp_path)) == 3


@pytest.mark.parametrize("size", [0, -1, True, "5", "many GB", "0GB", 2.5])
def test_wrong_sizes_of_shards(tmp_path: pathlib.Path, size: Any) -> None:
    with pytest.raises(ValueError, match="max_shard_size= takes a number of bytes or a text like"):
        onnx_native.export_many(parts(Translator()), tmp_path, max_shard_size=size)


def test_small_weights_need_no_data_file(tmp_path: pathlib.Path) -> None:
    x = torch.randn(3)
    both = {"exp": Part(torch.exp, (x,)), "tanh": Part(torch.nn.Tanh().eval(), (x,))}
    onnx_native.export_many(both, tmp_path)
    assert names(tmp_path) == ["exp.onnx", "tanh.onnx"]


@pytest.mark.parametrize("weights", ["runtime", "module"])
def test_a_checkpoint(tmp_path: pathlib.Path, weights: Any) -> None:
    """The models of a module without weights refer to the checkpoint."""
    model = Translator().eval()
    state = {name: each for name, each in model.state_dict().items() if name != "head.weight"}
    safetensors.torch.save_file(state, tmp_path / "model.safetensors")
    with torch.device("meta"):
        empty = Translator().eval()
    folder = tmp_path / "folder"
    with onnx_native.options(weights=weights):
        programs = onnx_native.export_many(parts_on_meta(empty))
    onnx_native.save_many(programs, folder, checkpoint=tmp_path / "model.safetensors")
    data = folder / "encoder+decoder.data"
    assert data.exists() == (weights == "runtime")
    if weights == "runtime":
        # All three matrices are also stored transposed, each once.
        assert data.stat().st_size == bytes_of(model)
    for name in ("encoder.onnx", "decoder.onnx"):
        proto = onnx.load(folder / name, load_external_data=False)
        used = {each.value for w in proto.graph.initializer for each in w.external_data}
        assert "model.safetensors" in used
    assert_runs(model, folder)


def parts_on_meta(model: Translator) -> dict[str, Part]:
    made = parts(model)
    for part in made.values():
        part.args = tuple(each.to("meta") for each in part.args)
        if "kwargs" in part.arguments:
            given = part.arguments["kwargs"]
            part.arguments["kwargs"] = {name: each.to("meta") for name, each in given.items()}
    return made


def assert_runs(model: Translator, folder: pathlib.Path) -> None:
    """onnx's checker takes a hard link for an attack."""
    ids = torch.randint(64, (3, 5))
    session = ort.InferenceSession(folder / "encoder.onnx")
    [found] = session.run(None, {"ids": ids.numpy()})
    with torch.no_grad():
        torch.testing.assert_close(torch.from_numpy(found), model.encode(ids))


def test_nothing_is_written_if_a_part_fails(tmp_path: pathlib.Path) -> None:
    def wrong(x: torch.Tensor) -> torch.Tensor:
        raise RuntimeError("this part fails")

    x = torch.randn(64, 64)
    both = {"good": Part(torch.nn.Linear(64, 64).eval(), (x,)), "bad": Part(wrong, (x,))}
    with pytest.raises(torch.onnx.OnnxExporterError) as caught:
        onnx_native.export_many(both, tmp_path / "folder")
    assert not (tmp_path / "folder").exists()
    if hasattr(caught.value, "__notes__"):
        assert "while export_many exported 'bad'" in caught.value.__notes__


def test_nothing_is_replaced_if_a_file_cannot_be(tmp_path: pathlib.Path) -> None:
    model = Translator().eval()
    programs = onnx_native.export_many(parts(model), tmp_path)
    (tmp_path / "decoder.onnx").unlink()
    (tmp_path / "decoder.onnx").mkdir()
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    with torch.no_grad():
        model.mix.weight.neg_()
    with pytest.raises(OSError, match=r"decoder\.onnx: it is a folder"):
        onnx_native.save_many(programs, tmp_path)
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir() if p.is_file()} == before


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({}, ValueError, "there are no models to save together"),
        ({"": Part(torch.exp)}, ValueError, "'' cannot be the name of a model in the folder"),
        ({"a/b": Part(torch.exp)}, ValueError, "'a/b' cannot be the name of a model"),
        (
            {"a": Part(torch.exp), "a.onnx": Part(torch.exp)},
            ValueError,
            r"two models have the file a\.onnx",
        ),
        ({"a": torch.exp}, TypeError, "is a builtin_function_or_method, not an onnx_native.Part"),
    ],
)
def test_wrong_parts(
    tmp_path: pathlib.Path, given: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        onnx_native.export_many(given, tmp_path)
    assert names(tmp_path) == []


def test_wrong_arguments() -> None:
    with pytest.raises(TypeError, match=r"f= is about the files of one model; save_many writes"):
        Part(torch.exp, (torch.zeros(2),), f="model.onnx")
    with pytest.raises(TypeError, match=r"torch\.onnx\.export has no argument 'opset'"):
        onnx_native.export_many({"a": Part(torch.exp, (torch.zeros(2),))}, opset=20)
    with pytest.raises(ValueError, match="a checkpoint is for the files of the models"):
        onnx_native.export_many({"a": Part(torch.exp, (torch.zeros(2),))}, checkpoint="x")


def test_an_edited_program(tmp_path: pathlib.Path) -> None:
    programs = onnx_native.export_many({"a": Part(torch.exp, (torch.zeros(2),))})
    assert programs["a"].model is not None
    with pytest.raises(ValueError, match="'a' may have been edited"):
        onnx_native.save_many(programs, tmp_path)


class Folded(torch.nn.Module):
    """A convolution whose normalization becomes part of its weights, in both methods."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = torch.nn.Conv2d(16, 32, 3)
        self.norm = torch.nn.BatchNorm2d(32)
        torch.nn.init.uniform_(self.norm.running_var, 0.5, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.norm(self.convolution(x)))

    def mean(self, x: torch.Tensor) -> torch.Tensor:
        return self(x).mean((2, 3))


def test_computed_weights(tmp_path: pathlib.Path) -> None:
    """Equal constants that are computed from the same weights are stored once, also later."""
    model = Folded().eval()
    x = torch.randn(2, 16, 9, 9)
    both = {"map": Part(model, (x,)), "mean": Part(model.mean, (x,))}
    programs = onnx_native.export_many(both, tmp_path)
    assert (tmp_path / "map+mean.data").stat().st_size == model.convolution.weight.nbytes
    with torch.no_grad():
        model.norm.weight.uniform_(1, 2)
    onnx_native.save_many(programs, tmp_path)
    [data] = tmp_path.glob("*.data")
    assert data.stat().st_size == model.convolution.weight.nbytes
    with torch.no_grad():
        torch.testing.assert_close(run(tmp_path / "map.onnx", x), model(x))
        torch.testing.assert_close(run(tmp_path / "mean.onnx", x), model.mean(x))
    # From other values, each has its own.
    other = {name: each + 1 for name, each in model.state_dict().items() if "norm.w" in name}
    programs["mean"].apply_weights(other)
    onnx_native.save_many(programs, tmp_path)
    [data] = tmp_path.glob("*.data")
    assert data.stat().st_size == 20480 + model.convolution.weight.nbytes
    with torch.no_grad():
        torch.testing.assert_close(run(tmp_path / "map.onnx", x), model(x))
        model.load_state_dict(other, strict=False)
        torch.testing.assert_close(run(tmp_path / "mean.onnx", x), model.mean(x))
