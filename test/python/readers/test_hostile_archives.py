"""Archives that torch.export.save did not write: read correctly, or a clear error."""

from __future__ import annotations

import copy
import io
import json
import pathlib
import random
import struct
import zipfile
from collections.abc import Callable, Iterator
from typing import Any

import onnx_native
import onnxruntime
import pytest
import torch

from readers.archives import OPSET

C = onnx_native._C
MODEL = "models/model.json"
WEIGHTS = "data/weights/model_weights_config.json"


class Model(torch.nn.Module):
    """A weight, a branch, a computed size, and results in a list."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> Any:
        y = torch.cond(x.sum() > 0, lambda a: a.sin(), lambda a: a.cos(), (self.linear(x),))
        return y.reshape(x.shape[0] * 2, -1), torch.split(x, 2, dim=1)


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    path = tmp_path_factory.mktemp("pt2") / "model.pt2"
    program = torch.export.export(
        Model(), (torch.randn(3, 4),), dynamic_shapes=({0: torch.export.Dim("rows", min=2)},)
    )
    torch.export.save(program, path)
    return path


@pytest.fixture(scope="module")
def text(archive: pathlib.Path) -> str:
    return C.read_pt2(str(archive))


Content = dict[str, bytes]
Write = Callable[[zipfile.ZipFile, Content], None]


def records(archive: pathlib.Path) -> Content:
    """Returns every record by its name inside the archive's folder."""
    with zipfile.ZipFile(archive) as file:
        return {name.partition("/")[2]: file.read(name) for name in file.namelist()}


def write(content: Content, path: pathlib.Path, **options: Any) -> str:
    with zipfile.ZipFile(path, "w", **options) as file:
        for name, data in content.items():
            file.writestr(f"model/{name}", data)
    return str(path)


def model_of(archive: pathlib.Path) -> Any:
    return json.loads(records(archive)[MODEL])


def with_model(archive: pathlib.Path, model: Any, path: pathlib.Path) -> str:
    data = model if isinstance(model, bytes) else json.dumps(model).encode()
    return write({**records(archive), MODEL: data}, path)


def refused(path: str, match: str) -> None:
    """Asserts that the export fails with this message."""
    with pytest.raises(onnx_native.ExportError, match=match):
        C.Program(path, opset=OPSET)


class Unseekable(io.RawIOBase):
    """Makes zipfile write data descriptors."""

    def __init__(self, file: Any) -> None:
        self.file = file

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        return self.file.write(data)


def test_zip_files_of_other_writers(archive: pathlib.Path, text: str, tmp_path: pathlib.Path):
    """Unaligned records, data descriptors, 64-bit sizes, comments."""
    content = records(archive)
    path = tmp_path / "model.pt2"
    write(content, path)
    with zipfile.ZipFile(path, "a") as file:
        file.comment = b"PK\x05\x06 a comment" * 99
    assert C.read_pt2(str(path)) == text
    expected = C.Program(str(archive), opset=OPSET, metadata="none").serialize()
    assert C.Program(str(path), opset=OPSET, metadata="none").serialize() == expected
    with path.open("wb") as raw, zipfile.ZipFile(Unseekable(raw), "w") as file:
        for name, data in content.items():
            file.writestr(f"model/{name}", data)
    assert C.read_pt2(str(path)) == text
    with zipfile.ZipFile(path, "w") as file:
        for name, data in content.items():
            with file.open(f"model/{name}", "w", force_zip64=True) as record:
                record.write(data)
    assert C.read_pt2(str(path)) == text


def test_directory_of_64_bits(archive: pathlib.Path, text: str, tmp_path: pathlib.Path):
    path = tmp_path / "model.pt2"
    data = pathlib.Path(write(records(archive), path)).read_bytes()
    end = len(data) - 22
    _, _, _, _, entries, size, offset, _ = struct.unpack("<IHHHHIIH", data[end:])
    end64 = struct.pack("<IQHHIIQQQQ", 0x06064B50, 44, 45, 45, 0, 0, entries, entries, size, offset)
    locator = struct.pack("<IIQI", 0x07064B50, 0, end, 1)
    last = struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, *[0xFFFF] * 2, *[0xFFFFFFFF] * 2, 0)
    path.write_bytes(data[:end] + end64 + locator + last)
    assert C.read_pt2(str(path)) == text


def test_compressed_records(archive: pathlib.Path, tmp_path: pathlib.Path):
    path = write(records(archive), tmp_path / "m.pt2", compression=zipfile.ZIP_DEFLATED)
    refused(path, "compressed or encrypted; load the archive with torch.export.load")


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_two_records_of_one_name(archive: pathlib.Path, tmp_path: pathlib.Path):
    path = tmp_path / "m.pt2"
    write(records(archive), path)
    with zipfile.ZipFile(path, "a") as file:
        file.writestr(f"model/{MODEL}", b"{}")
    refused(str(path), f"two records model/{MODEL}")


def test_paths_that_climb(archive: pathlib.Path, tmp_path: pathlib.Path):
    content = records(archive)
    config = json.loads(content[WEIGHTS])
    for entry in config["config"].values():
        entry["path_name"] = "../../../../../../etc/passwd"
    path = write({**content, WEIGHTS: json.dumps(config).encode()}, tmp_path / "m.pt2")
    refused(path, "no record data/weights/../../")


def test_programs_of_other_names(archive: pathlib.Path, tmp_path: pathlib.Path):
    content = records(archive)
    content["models/encoder.json"] = content.pop(MODEL)
    refused(write(content, tmp_path / "m.pt2"), "no program models/model.json, but encoder")


def test_cut_anywhere(archive: pathlib.Path, tmp_path: pathlib.Path):
    data = archive.read_bytes()
    path = tmp_path / "m.pt2"
    for size in range(0, len(data), max(1, len(data) // 60)):
        path.write_bytes(data[:size])
        refused(str(path), "invalid program")


@pytest.mark.parametrize(
    ("version", "match"),
    [
        ({"major": 9, "minor": 0}, "schema version 9; this build reads version 8"),
        ({"major": -1, "minor": 0}, "schema version -1"),
        ({"major": "8", "minor": 0}, "schema version is not a 64-bit integer"),
        ({"major": 1 << 63, "minor": 0}, "schema version is not a 64-bit integer"),
        ({}, "the field major is missing"),
        (None, "expected an object with the field major"),
    ],
)
def test_schema_versions(archive: pathlib.Path, tmp_path: pathlib.Path, version: Any, match: str):
    model = model_of(archive)
    model["schema_version"] = version
    refused(with_model(archive, model, tmp_path / "m.pt2"), match)


def test_a_newer_minor_version_is_read(archive: pathlib.Path, text: str, tmp_path: pathlib.Path):
    model = model_of(archive)
    model["schema_version"]["minor"] = 999
    model["graph_module"]["graph"]["something_new"] = {}
    assert C.read_pt2(with_model(archive, model, tmp_path / "m.pt2")) == text


def nested_graph(model: Any, depth: int) -> bytes:
    """Nests the branch inside itself `depth` times."""
    node = next(n for n in model["graph_module"]["graph"]["nodes"] if n["target"].endswith("cond"))
    branch = next(i for i in node["inputs"] if "as_graph" in i["arg"])
    inside = copy.deepcopy(node)
    mark = "the next one inside"
    inside["inputs"] = [{"name": "", "arg": mark, "kind": 1}]
    graph = branch["arg"]["as_graph"]["graph"]
    graph["nodes"] = [inside]
    level = json.dumps(branch["arg"])
    branch["arg"] = mark
    text = json.dumps(model)
    before, after = level.split(f'"{mark}"')
    leaf = '{"as_none": true}'
    return text.replace(f'"{mark}"', before * depth + leaf + after * depth).encode()


def nested_options(model: Any, depth: int) -> bytes:
    model["graph_module"]["graph"]["nodes"][0]["inputs"][0]["arg"] = "here"
    options = '{"as_string_to_argument": {"a": ' * depth + '{"as_none": true}' + "}}" * depth
    return json.dumps(model).replace('"here"', options).encode()


@pytest.mark.parametrize("nested", [nested_graph, nested_options])
@pytest.mark.parametrize("depth", [100, 5_000])
def test_deep_nesting(
    archive: pathlib.Path, tmp_path: pathlib.Path, nested: Callable[[Any, int], bytes], depth: int
):
    model = nested(model_of(archive), depth)
    refused(with_model(archive, model, tmp_path / "m.pt2"), "nested too deeply")


def test_values_used_before_they_are_made(archive: pathlib.Path, tmp_path: pathlib.Path):
    model = model_of(archive)
    model["graph_module"]["graph"]["nodes"].reverse()
    refused(with_model(archive, model, tmp_path / "m.pt2"), "is used but was never computed")


def test_values_made_of_themselves(archive: pathlib.Path, tmp_path: pathlib.Path):
    model = model_of(archive)
    nodes = model["graph_module"]["graph"]["nodes"]
    node = next(node for node in nodes if node["target"].endswith("linear.default"))
    node["inputs"][0]["arg"] = node["outputs"][0]
    refused(with_model(archive, model, tmp_path / "m.pt2"), "is used but was never computed")


def test_unknown_operators(archive: pathlib.Path, tmp_path: pathlib.Path):
    data = records(archive)[MODEL].replace(b"torch.ops.aten.linear", b"torch.ops.nobody.knows")
    refused(with_model(archive, data, tmp_path / "m.pt2"), "nobody::knows has no ONNX lowering")


def test_script_objects(archive: pathlib.Path, tmp_path: pathlib.Path):
    model = model_of(archive)
    node = model["graph_module"]["graph"]["nodes"][0]
    node["inputs"][0]["arg"] = {"as_custom_obj": {"name": "o", "class_fqn": "mine.Queue"}}
    refused(with_model(archive, model, tmp_path / "m.pt2"), "script objects, here a mine.Queue")


def serialized(value: Any) -> dict[str, Any]:
    """Serializes an argument like .pt2 archives; a string names a tensor of the program."""
    if value is None:
        return {"as_none": True}
    if isinstance(value, list):
        return {"as_ints": value}
    if isinstance(value, str):
        return {"as_tensor": {"name": value}}
    return {f"as_{type(value).__name__}": value}


BOUNDS = ("start", "end", "step")
STATISTICS = {"running_mean": None, "running_var": None, "use_input_stats": False}
NORM = {**STATISTICS, "momentum": 0.1, "eps": 1e-5, "cudnn_enabled": False}
AA = {"self": "x", "align_corners": False}


@pytest.mark.parametrize(
    ("target", "arguments", "match"),
    [
        ("as_strided", {"self": "x", "size": [2, 2], "stride": [1]}, "length of strides and shape"),
        ("_upsample_bilinear2d_aa", {**AA, "output_size": [2, 2, 2]}, "output_size equals to 2"),
        ("_upsample_bilinear2d_aa", {**AA, "output_size": [2, 2]}, "input_size equals to 4"),
        ("upsample_nearest2d", {"self": "x", "output_size": [2, 2]}, "input_size equals to 4"),
        ("range.step", dict(zip(BOUNDS, (0, 1 << 62, 1), strict=True)), "constant of .* elements"),
        (
            "range.step",
            dict(zip(BOUNDS, (3, 0, 1), strict=True)),
            "inconsistent with step sign",
        ),
        ("arange.start", {"start": 0.5, "end": 1e300}, "invalid size"),
        (
            "linspace",
            {"start": 0, "end": 1, "steps": 1 << 61},
            "Storage size calculation overflowed",
        ),
        ("linspace", {"start": 0, "end": 1, "steps": 1 << 30}, "constant of .* elements"),
        ("fft_fftfreq", {"n": (1 << 31) - 1}, "constant of .* elements"),
        ("instance_norm", {"input": "x", **NORM}, "running_var to be defined"),
        ("narrow", {"self": "x", "dim": 0, "start": "x", "length": 1}, "an integer"),
        (
            "max_pool1d",
            {"self": "x", "kernel_size": [2], "stride": [0]},
            "kernel_size, stride and dilation must be positive",
        ),
        ("adaptive_max_pool1d", {"self": "x", "output_size": [1 << 40]}, "2 outputs|results"),
        ("mvlgamma", {"self": "x", "p": 1 << 30}, "too large"),
        ("unsqueeze", {"self": "x", "dim": 1 << 40}, "Dimension out of range"),
    ],
)
def test_calls_that_pytorch_refuses(
    archive: pathlib.Path, tmp_path: pathlib.Path, target: str, arguments: Any, match: str
):
    model = model_of(archive)
    nodes = model["graph_module"]["graph"]["nodes"]
    node = next(node for node in nodes if node["target"].endswith("linear.default"))
    node["target"] = f"torch.ops.aten.{target}{'' if '.' in target else '.default'}"
    schema = getattr(torch.ops.aten, target.partition(".")[0])
    schema = getattr(schema, target.partition(".")[2] or "default")._schema
    for argument in schema.arguments:
        if argument.name not in arguments and not argument.has_default_value():
            arguments = {**arguments, argument.name: None}
    node["inputs"] = [
        {"name": name, "arg": serialized(value), "kind": 1} for name, value in arguments.items()
    ]
    refused(with_model(archive, model, tmp_path / "m.pt2"), match)


@pytest.mark.parametrize(
    ("view", "changes"),
    [
        (lambda x: x.transpose(0, 1), {"dim0": {"as_int": 9}}),
        (lambda x: x.permute(1, 0), {"dims": {"as_ints": [0, 0]}}),
        (lambda x: x.permute(1, 0), {"dims": {"as_ints": [7, 1]}}),
        (lambda x: x.movedim([0], [1]), {"source": {"as_ints": [0, 1]}}),
        (lambda x: x.movedim([0], [1]), {"destination": {"as_ints": [5]}}),
    ],
)
def test_writes_through_dimensions_that_are_not_there(
    tmp_path: pathlib.Path, view: Callable[[torch.Tensor], torch.Tensor], changes: Any
):
    class Writes(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = x.clone()
            view(y).add_(1)
            return y

    path = tmp_path / "m.pt2"
    torch.export.save(torch.export.export(Writes(), (torch.randn(2, 3),)), path)
    model = model_of(path)
    changed = 0
    for node in model["graph_module"]["graph"]["nodes"]:
        for item in node["inputs"]:
            if item["name"] in changes:
                item["arg"] = changes[item["name"]]
                changed += 1
    assert changed == 1
    refused(with_model(path, model, path), r"duplicate dims|same number of dims|out of range")


def sizes(*numbers: int) -> list[dict[str, int]]:
    return [{"as_int": number} for number in numbers]


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"sizes": sizes(1 << 62, 4)}, "larger than"),
        ({"sizes": sizes(1 << 62, 1 << 62)}, "larger than memory"),
        ({"sizes": sizes(2, 1), "strides": sizes((1 << 63) - 1, 1)}, "larger than memory"),
        ({"sizes": sizes(4, -4)}, "negative sizes"),
        ({"sizes": sizes(4)}, "must have one stride per size"),
        ({"sizes": [{"as_expr": {"expr_str": "s0"}}] * 2}, "dynamic sizes"),
        ({"strides": sizes(4, 1 << 62)}, "larger than"),
        ({"strides": sizes(-4, 1)}, "negative strides"),
        ({"sizes": sizes(1 << 20, 1 << 20), "strides": sizes(0, 0)}, "repeats the 16 elements"),
        ({"storage_offset": {"as_int": 1}}, "larger than its record"),
        ({"storage_offset": {"as_int": -1}}, "invalid storage_offset"),
        ({"storage_offset": {"as_int": (1 << 63) - 1}}, "larger than its record"),
        ({"dtype": 8}, "larger than its record"),
        ({"dtype": 99}, "element type 99"),
        ({"layout": 2}, "sparse"),
    ],
)
def test_weights(archive: pathlib.Path, tmp_path: pathlib.Path, changes: Any, match: str):
    content = records(archive)
    config = json.loads(content[WEIGHTS])
    config["config"]["linear.weight"]["tensor_meta"] |= changes
    refused(write({**content, WEIGHTS: json.dumps(config).encode()}, tmp_path / "m.pt2"), match)


def places(at: Any) -> Iterator[tuple[Any, Any]]:
    """Yields every container of a tree with each of its keys or indices."""
    for key in at if isinstance(at, dict) else range(len(at)) if isinstance(at, list) else ():
        yield at, key
        yield from places(at[key])


@pytest.mark.parametrize("record", [MODEL, WEIGHTS])
def test_wrong_types_anywhere(archive: pathlib.Path, tmp_path: pathlib.Path, record: str):
    """After replacing any value, the program exports or the export reports an error."""
    content = records(archive)
    tree = json.loads(content[record])
    path = tmp_path / "m.pt2"
    generator = random.Random(0)
    wrong = [None, True, -1, 1 << 62, 1e300, "", "x", [], {}, [[]], {"as_int": 3}]
    outcomes = set()
    for container, key in generator.sample(list(places(tree)), min(250, len(list(places(tree))))):
        right = container[key]
        container[key] = generator.choice(wrong)
        write({**content, record: json.dumps(tree).encode()}, path)
        container[key] = right
        try:
            C.Program(str(path), opset=OPSET, verify=True)
            outcomes.add("exported")
        except onnx_native.ExportError:
            outcomes.add("refused")
    assert outcomes == {"exported", "refused"}


def test_types_that_contradict_the_calls(archive: pathlib.Path, tmp_path: pathlib.Path):
    """Whatever dtype and sizes are recorded, no error is one of the exporter."""
    model = model_of(archive)
    path = tmp_path / "m.pt2"
    kinds = set()
    for meta in model["graph_module"]["graph"]["tensor_values"].values():
        for field, wrong in (("dtype", 4), ("sizes", sizes(3, 7)), ("sizes", sizes())):
            right, meta[field] = meta[field], wrong
            try:
                C.Program(with_model(archive, model, path), opset=OPSET, verify=True)
            except onnx_native.ExportError as error:
                kinds.add(error.kind)
                if f"{MODEL} contradicts itself" in str(error):
                    kinds.add("contradiction")
            meta[field] = right
    assert "internal" not in kinds
    assert {"invalid program", "contradiction"} <= kinds


class Views(torch.nn.Module):
    """Views of views, and a reshape whose aliasing depends on the strides of its argument."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x.clone()
        y.transpose(0, 1).reshape(4, -1).mul_(2)
        y[0].expand(2, 3, 4).diagonal(0, 1, 2).sum()
        y.select(1, 0).unsqueeze(0).add_(1)
        y.split(1)[1].flatten().neg_()
        return y.permute(2, 0, 1).reshape(-1)


def test_recorded_ranks_are_not_trusted(tmp_path: pathlib.Path):
    """With another recorded rank, the export is refused or gives eager's numbers."""
    path, changed = tmp_path / "m.pt2", tmp_path / "changed.pt2"
    x = torch.randn(2, 3, 4)
    torch.export.save(torch.export.export(Views(), (x,)), path)
    expected = Views()(x)
    model = model_of(path)
    outcomes = set()
    for meta in model["graph_module"]["graph"]["tensor_values"].values():
        recorded = meta["sizes"]
        for rank in set(range(6)) - {len(recorded)}:
            meta["sizes"] = (recorded + sizes(1, 2, 3, 4, 5))[:rank]
            try:
                program = C.Program(with_model(path, model, changed), opset=OPSET)
            except onnx_native.ExportError:
                outcomes.add("refused")
                continue
            session = onnxruntime.InferenceSession(program.serialize())
            (result,) = session.run(None, {"x": x.numpy()})
            assert torch.equal(torch.from_numpy(result), expected)
            outcomes.add("exported")
        meta["sizes"] = recorded
    assert outcomes == {"exported", "refused"}
