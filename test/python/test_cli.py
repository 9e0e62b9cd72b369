"""The command onnx-native: its files, output and errors."""

import os
import pathlib
import pty
import subprocess
import sys

import numpy as np
import onnx
import onnx_native
import onnxruntime
import pytest
import torch
from models.zoo import BERT_SMALL

COMMAND = pathlib.Path(onnx_native.__file__).parents[2] / "onnx-native"


def run(*arguments, code=0, command=(COMMAND,)):
    """Returns the command's standard output and standard error; asserts the exit code."""
    done = subprocess.run([*command, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    return done.stdout, done.stderr


@torch.library.custom_op("cli::scaled_gelu", mutates_args=())
def scaled_gelu(x: torch.Tensor, scale: float) -> torch.Tensor:
    return torch.nn.functional.gelu(x) * scale


@scaled_gelu.register_fake
def _(x, scale):
    return torch.empty_like(x)


class Counting(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 8)
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        self.calls += 1
        return torch.relu(self.linear(x))


class Branching(torch.nn.Module):
    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda a: scaled_gelu(a, 0.5), lambda a: a.sin(), (x,))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("cli")


@pytest.fixture(scope="module")
def program():
    rows = torch.export.Dim("rows")
    return torch.export.export(Counting().eval(), (torch.randn(3, 4),), dynamic_shapes=({0: rows},))


@pytest.fixture(scope="module")
def archive(folder, program):
    torch.export.save(program, folder / "counting.pt2")
    return folder / "counting.pt2"


def saved(model, folder):
    path = folder / f"{model.name}.pt2"
    program = model.capture()
    torch.export.save(program, path)
    return program, path


def test_model_runs(archive, program, tmp_path):
    _, errors = run(archive, "-o", tmp_path / "m.onnx", "--input-names", "in", "--output-names=out")
    assert "warning: the update of buffer calls" in errors
    onnx.checker.check_model(str(tmp_path / "m.onnx"), full_check=True)
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    for rows in (1, 5):
        x = torch.randn(rows, 4)
        (got,) = session.run(["out"], {"in": x.numpy()})
        np.testing.assert_allclose(got, program.module()(x).detach(), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("opset", [18, 20])
def test_bytes_are_those_of_the_python_route(folder, tmp_path, opset):
    captured, path = saved(BERT_SMALL, folder)
    run(path, "-o", tmp_path / "m.onnx", "--metadata", "none", "--opset", str(opset))
    ours = onnx_native._C.Program(captured, opset=opset, metadata="none")
    assert (tmp_path / "m.onnx").read_bytes() == ours.serialize()


def test_state_and_external_data(archive, tmp_path):
    _, errors = run(archive, "-o", tmp_path / "m.onnx", "--state", "calls", "--external-data")
    assert errors == ""
    model = onnx.load(tmp_path / "m.onnx", load_external_data=False)
    assert [value.name for value in model.graph.input] == ["x", "calls"]
    assert [value.name for value in model.graph.output][1:] == ["calls_out"]
    assert run(archive, "--dump", "onnx", "--state=all")[0].count("calls_out") >= 1


def test_half_precision(archive, program, tmp_path):
    x, path = torch.randn(5, 4), tmp_path / "m.onnx"
    for flags, dtype in (((), torch.float32), (("--no-keep-io-types",), torch.float16)):
        run(archive, "-o", path, "--precision", "float16", "--check", *flags)
        session = onnxruntime.InferenceSession(path)
        (got,) = session.run(None, {"x": x.to(dtype).numpy()})
        assert torch.from_numpy(got).dtype == dtype
        np.testing.assert_allclose(got, program.module()(x).detach(), atol=2e-3, rtol=2e-3)


def test_quantized_weights(archive, program, tmp_path):
    x, path = torch.randn(5, 4), tmp_path / "m.onnx"
    flags = ["--quantize-weights", "int8", "--block-size", "16", "--target", "onnxruntime-cpu"]
    (weight,) = [name for name in program.state_dict if name.endswith("weight")]
    for more in ([], ["--no-symmetric"]):
        run(archive, "-o", path, *flags, *more)
        model = onnx.load(path)
        (node,) = [node for node in model.graph.node if node.op_type == "MatMulNBits"]
        assert len(node.input) == 3 + len(more)
        (got,) = onnxruntime.InferenceSession(path).run(None, {"x": x.numpy()})
        np.testing.assert_allclose(got, program.module()(x).detach(), atol=2e-2, rtol=2e-2)
    run(archive, "-o", path, *flags, "--keep-weights", weight)
    assert "MatMulNBits" not in {node.op_type for node in onnx.load(path).graph.node}


def test_functions(archive):
    text, errors = run(archive, "--dump", "onnx", "--functions=Linear,Conv3d")
    assert "torch.nn.modules.linear.Linear (" in text
    assert "no node of the model comes from a module of class Conv3d" in errors
    assert "torch.nn.modules.linear.Linear (" in run(archive, "--dump=onnx", "--functions=all")[0]


def test_external_data_of_a_large_model(folder, tmp_path):
    _, path = saved(BERT_SMALL, folder)
    run(path, "-o", tmp_path / "m.onnx", "--external-data")
    assert (tmp_path / "m.onnx.data").stat().st_size > (tmp_path / "m.onnx").stat().st_size
    onnx.checker.check_model(str(tmp_path / "m.onnx"), full_check=True)


def test_check_looks_at_large_models_too(folder, tmp_path, archive):
    _, path = saved(BERT_SMALL, folder)
    assert run(path, "--check") == ("", "")
    run(archive, "-o", tmp_path / "m.onnx", "--check", "--no-optimize")
    onnx.checker.check_model(str(tmp_path / "m.onnx"), full_check=True)


def test_dumps(archive, program):
    text, _ = run(archive, "--dump", "aten")
    assert text == onnx_native._C.read_pt2(str(archive))
    text, _ = run(archive, "--dump", "onnx", "--opset=18", "--no-optimize")
    assert '<opset_import: ["" : 18]>' in text
    assert "Gemm" in text


def test_list_of_operators(folder):
    torch.export.save(torch.export.export(Branching(), (torch.randn(3),)), folder / "b.pt2")
    text, _ = run(folder / "b.pt2", "--list-ops")
    assert "     1  aten::sin\n" in text
    assert "     1  cli::scaled_gelu  (missing)\n" in text
    assert text.endswith("5 operators, 1 missing\n")
    _, errors = run(folder / "b.pt2", "-o", folder / "b.onnx", code=1)
    assert "ExportError [unsupported operator]: cli::scaled_gelu has no ONNX lowering" in errors
    assert not (folder / "b.onnx").exists()


class Looping(torch.nn.Module):
    """Two inputs, one of them a number; a loop over a size."""

    def forward(self, x: torch.Tensor, scale: float):
        for i in range(x.shape[1]):
            x[:, i] = x[:, i] * scale + i
        return x, x.sum(0)


def test_torchscript_file(tmp_path):
    model = Looping().eval()
    torch.jit.script(model).save(tmp_path / "m.renamed")  # its content determines its type
    run(
        *(tmp_path / "m.renamed", "-o", tmp_path / "m.onnx", "--check"),
        *("--input", "x:float32[batch,4]", "--input", "scale:float32[]"),
    )
    onnx.checker.check_model(str(tmp_path / "m.onnx"), full_check=True)
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    for batch in (1, 5):
        x = torch.randn(batch, 4)
        got = session.run(None, {"x": x.numpy(), "scale": np.array(0.5, np.float32)})
        for ours, eager in zip(got, model(x.clone(), 0.5), strict=True):
            np.testing.assert_allclose(ours, eager, atol=1e-5, rtol=1e-5)
    _, errors = run(tmp_path / "m.renamed", "-o", tmp_path / "n.onnx", code=2)
    assert "[invalid argument]: no value is given for the input x" in errors


class Nested(torch.nn.Module):
    def forward(self, parts: list[torch.Tensor], named: dict[str, torch.Tensor], mode: str):
        x = torch.cat(parts)
        return x + named["bias"] if mode == "add" else x


def test_torchscript_file_with_nested_inputs(tmp_path):
    torch.jit.script(Nested()).save(tmp_path / "m.pt")
    run(
        *(tmp_path / "m.pt", "-o", tmp_path / "m.onnx", "--check"),
        *("--input", "parts:[float32[n,2], float32[m,2]]"),
        *("--input", "named:{bias: float32[2]}", "--input", "mode:'add'"),
    )
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    assert [value.name for value in session.get_inputs()] == ["parts_0", "parts_1", "bias"]
    for n, m in ((1, 2), (3, 0)):
        parts, bias = [torch.randn(n, 2), torch.randn(m, 2)], torch.randn(2)
        feeds = {"parts_0": parts[0].numpy(), "parts_1": parts[1].numpy(), "bias": bias.numpy()}
        (got,) = session.run(None, feeds)
        np.testing.assert_array_equal(got, Nested()(parts, {"bias": bias}, "add"))


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "[io]: cannot open"), (b"", "is empty"), (b"text", "[invalid program]: ")],
)
def test_files_that_cannot_be_read(content, message, tmp_path):
    if content is not None:
        (tmp_path / "m.pt2").write_bytes(content)
    _, errors = run(tmp_path / "m.pt2", "-o", tmp_path / "m.onnx", code=1)
    assert message in errors
    assert not (tmp_path / "m.onnx").exists()


def test_file_of_tensors(tmp_path):
    torch.save({"x": torch.ones(2)}, tmp_path / "m.pt")
    _, errors = run(tmp_path / "m.pt", "-o", tmp_path / "m.onnx", code=1)
    assert "holds tensors or a pickled module (torch.save)" in errors


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "one of -o, --check, --dump and --list-ops is required"),
        (["-o", "m.onnx", "--bogus"], "--bogus"),
        (["-o", "m.onnx", "--opset", "99"], "opset 99 is not supported"),
        (["-o", "m.onnx", "--opset", "new"], "--opset"),
        (["-o", "m.onnx", "--target", "tpu"], "there is no target 'tpu': choose one of 'onnx'"),
        (["-o", "m.onnx", "--precision", "half"], "there is no precision 'half': choose one of"),
        (["-o", "m.onnx", "--quantize-weights", "int5"], "weights cannot be quantized to 'int5'"),
        (["-o", "m.onnx", "--quantize-weights", "int4"], "choose opset 21 or newer"),
        (["-o", "m.onnx", "--weights", "flat"], "there is no layout of weights 'flat'"),
        (["--dump", "mlir"], "--dump"),
        (["-o", "m.onnx", "--input", "x:float33[2]"], "there is no dtype 'float33'"),
        (
            ["-o", "m.onnx", "--input", "other:float32[2]"],
            "has no tensor input other; its inputs are",
        ),
        (["-o", "m.onnx", "--state", "nobody"], "does not update nobody"),
    ],
)
def test_wrong_usage(archive, arguments, message, tmp_path):
    output, errors = run(archive, *arguments, code=2)
    assert message in errors
    assert output == ""


def test_the_output_is_not_the_program(archive, tmp_path):
    path = tmp_path / "model.pt2"
    path.write_bytes(archive.read_bytes())
    link = tmp_path / "link.onnx"
    link.symlink_to(path)
    for output in (path, link):
        _, errors = run(path, "-o", output, code=2)
        assert "is the program itself" in errors
    assert path.read_bytes() == archive.read_bytes()


def test_help_and_version():
    assert "--external-data" in run("--help")[0]
    torch_version = ".".join(torch.__version__.split(".")[:2])
    expected = f"onnx-native {onnx_native.__version__} (PyTorch {torch_version})\n"
    assert run("--version")[0] == expected


def test_in_the_python_process(archive, tmp_path):
    command = (sys.executable, "-m", "onnx_native")
    run(archive, "-o", tmp_path / "python.onnx", command=command)
    run(archive, "-o", tmp_path / "cpp.onnx")
    assert (tmp_path / "python.onnx").read_bytes() == (tmp_path / "cpp.onnx").read_bytes()
    run(command=command, code=2)


def test_progress_of_big_weights_on_a_terminal(tmp_path):
    model = torch.nn.Linear(4096, 6000)
    torch.export.save(torch.export.export(model, (torch.randn(1, 4096),)), tmp_path / "m.pt2")
    arguments = [COMMAND, tmp_path / "m.pt2", "-o", tmp_path / "m.onnx"]
    terminal, other_end = pty.openpty()
    subprocess.run(arguments, check=True, stderr=other_end)
    os.close(other_end)
    shown = os.read(terminal, 1 << 16).decode()
    os.close(terminal)
    assert "m.onnx: 100 % of 93 MiB" in shown
    assert run(*arguments[1:]) == ("", "")  # no terminal, no progress


class TestNamesOfSizes:
    """`--input` names the dynamic sizes of a `.pt2` file."""

    @pytest.fixture
    def file(self, tmp_path):
        class Net(torch.nn.Module):
            def forward(self, x, y):
                return (x @ y).relu()

        dynamic = torch.export.Dim.DYNAMIC
        program = torch.export.export(
            Net(),
            (torch.randn(3, 10), torch.randn(10, 5)),
            dynamic_shapes=({0: dynamic}, {1: dynamic}),
        )
        torch.export.save(program, tmp_path / "m.pt2")
        return tmp_path / "m.pt2"

    def shapes(self, file, *inputs):
        arguments = [part for text in inputs for part in ("--input", text)]
        run(file, "-o", file.with_suffix(".onnx"), "--check", *arguments)
        graph = onnx.load(file.with_suffix(".onnx")).graph
        return [
            [dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim]
            for value in [*graph.input, *graph.output]
        ]

    def test_names(self, file):
        assert self.shapes(file, "x:float32[batch,10]", "y:float32[10,n]") == [
            ["batch", 10],
            [10, "n"],
            ["batch", "n"],
        ]
        one = self.shapes(file, "y:float32[10,classes]")
        assert one[0][1:] == [10]
        assert one[1:] == [[10, "classes"], [one[0][0], "classes"]]

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("x:float32[batch,11]", "has the fixed size 10 in dimension 1, not 11"),
            ("x:float32[batch,m]", "has the fixed size 10 in dimension 1, not m"),
            ("x:float32[4,10]", "in dimension 0, not 4"),
            ("x:float32[batch]", "has 2 dimensions, not 1"),
            ("x:int64[batch,10]", "has the dtype f32, not i64"),
            ("x:3", "has a tensor, not a constant"),
            ("z:float32[batch,10]", "has no tensor input z; its inputs are x, y"),
        ],
    )
    def test_contradictions(self, file, text, message):
        _, errors = run(file, "-o", file.with_suffix(".onnx"), "--input", text, code=2)
        assert message in errors
        assert not file.with_suffix(".onnx").exists()

    def test_one_name_for_two_sizes(self, file):
        inputs = ["--input", "x:float32[n,10]", "--input", "y:float32[10,n]"]
        _, errors = run(file, "-o", file.with_suffix(".onnx"), *inputs, code=2)
        assert "has another size in dimension 1 than the first n" in errors


def test_output_to_a_pipe_or_an_open_file(archive, tmp_path):
    run(archive, "-o", tmp_path / "m.onnx", "--no-external-data")
    expected = (tmp_path / "m.onnx").read_bytes()
    commands = [
        '"$0" "$1" -o /dev/stdout | cat > "$2"',
        '"$0" "$1" -o >(cat > "$2"); while ! test -s "$2"; do sleep 0.01; done; wait',
        '"$0" "$1" -o /dev/fd/3 3> "$2"',
        'mkfifo "$2.pipe"; cat "$2.pipe" > "$2" & "$0" "$1" -o "$2.pipe" --external-data; wait',
    ]
    for number, command in enumerate(commands):
        path = tmp_path / f"{number}.onnx"
        run("-c", command, COMMAND, archive, path, command=("bash",))
        assert path.read_bytes() == expected, command


def test_standard_output_is_full(archive):
    command = '"$0" "$1" --dump onnx > /dev/full'
    _, errors = run("-c", command, COMMAND, archive, command=("bash",), code=1)
    assert errors.endswith("onnx-native: cannot write to standard output\n")


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["--input-names", ""], "an input name is empty"),
        (["--output-names", ""], "an output name is empty"),
        (["--output-names", "a,a"], "two outputs cannot have the same name a"),
        (["--input-names", os.fsdecode(b"\xff\xfe")], "an input name is not UTF-8"),
    ],
    ids=str,
)
def test_names_that_onnx_does_not_allow(tmp_path, names, message):
    path = tmp_path / "m.pt"
    torch.jit.script(torch.nn.Linear(4, 2)).save(path)
    _, err = run(path, "-o", tmp_path / "m.onnx", "--input", "input:float32[n,4]", *names, code=2)
    assert f"[invalid argument]: {message}" in err
    assert list(tmp_path.iterdir()) == [path]
