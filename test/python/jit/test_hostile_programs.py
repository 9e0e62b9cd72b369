"""Scripted programs that never end, exhaust memory, or have side effects."""

import resource
import zipfile

import onnx_native
import pytest
import torch

C = onnx_native._C


class LongLoops(torch.nn.Module):
    def forward(self, x):
        total = 0
        for i in range(900000):
            for j in range(900000):
                total += i * j
        return x + total


class LongList(torch.nn.Module):
    def forward(self, x):
        sizes = [1] * (1 << 40)
        return x.reshape(sizes[:2])


class EmptyList(torch.nn.Module):
    def forward(self, x):
        sizes = [x.size(0)][1:] * (1 << 62)
        return x + len(sizes)


class DoubledList(torch.nn.Module):
    def forward(self, x):
        sizes = [1]
        for _ in range(60):
            sizes += sizes
        return x.reshape(sizes[:1])


class ListAddedToItself(torch.nn.Module):
    def forward(self, x):
        sizes = [1]
        for _ in range(60):
            sizes = sizes + sizes
        return x.reshape(sizes[:1])


class ManyLists(torch.nn.Module):
    def forward(self, x):
        lists = [[1]]
        for _ in range(10000):
            lists.append([1] * 100000)
        return x + len(lists)


class ManyTexts(torch.nn.Module):
    def forward(self, x):
        text = "ab"
        for _ in range(18):
            text = text + text
        texts = [text]
        for i in range(10000):
            texts.append(text + str(i))
        return x + len(texts)


class DoubledText(torch.nn.Module):
    def forward(self, x):
        text = "ab"
        for _ in range(60):
            text = text + text
        return x + len(text)


class PaddedText(torch.nn.Module):
    def forward(self, x):
        width = [1 << 40]  # torch's compiler evaluates constants, however long that takes
        return x + len("a".ljust(width[0]))


class Saves(torch.nn.Module):
    path: str

    def __init__(self, path):
        super().__init__()
        self.path = path

    def forward(self, x):
        torch.save([1, 2], self.path)
        return x


def read(module: torch.nn.Module) -> str:
    return C.read_script(
        C.ScriptSource(torch.jit.script(module), [C.ScriptInput.tensor("x", torch.float32, [1])])
    )


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (LongLoops(), "takes more than 1000000 steps to read"),
        (LongList(), "a list has more than 1000000 elements"),
        (DoubledList(), "a list has more than 1000000 elements"),
        (ListAddedToItself(), "a list has more than 1000000 elements"),
        (ManyLists(), "lists and strings of the program take more than 10000000 elements"),
        (ManyTexts(), "lists and strings of the program take more than 10000000 elements"),
        (DoubledText(), "a string of the program is longer than 1048576 characters"),
        (PaddedText(), "a string of the program is longer than 1048576 characters"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, torch.nn.Module) else "",
)
def test_limits(module, message):
    with pytest.raises(onnx_native.ExportError, match=message) as caught:
        read(module)
    assert "test_hostile_programs.py" in str(caught.value)


class Appends(torch.nn.Module):
    def forward(self, x):
        numbers = [x.size(0)]
        while len(numbers) < 10000:
            numbers.append(1)
        return x + len(numbers)


def test_a_list_is_not_copied_for_each_append():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert "10000" in read(Appends())
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500 << 10  # KiB


class NoPoints(torch.nn.Module):
    def forward(self, x):
        return torch.fft.irfft(x, 0)


class NoWindow(torch.nn.Module):
    def forward(self, x):
        return torch.stft(x, 0, return_complex=False)


class NoHop(torch.nn.Module):
    def forward(self, x):
        return torch.istft(torch.view_as_complex(x.reshape(1, 1, 1).expand(3, 1, 2)), 4, 0)


class TooFewDimensions(torch.nn.Module):
    def forward(self, x):
        return torch._C._nn.adaptive_max_pool2d(x, (2, 2))


class NoSizes(torch.nn.Module):
    def forward(self, x):
        return torch.affine_grid_generator(x, x.shape[1:], True)


class ManyPieces(torch.nn.Module):
    def forward(self, x):
        return torch.tensor_split(x, 1 << 20)


class ManyIndices(torch.nn.Module):
    def forward(self, x):
        return torch.tril_indices(2147483647, 2)


class UnknownMode(torch.nn.Module):
    def forward(self, x):
        return torch.grid_sampler(x.reshape(1, 1, 1, 1), x.expand(1, 1, 1, 2), 7, 0, True)


class PartOfNothing(torch.nn.Module):
    def forward(self, x):
        return torch.unflatten(x[0], 0, (1, 1))


class OtherSizes(torch.nn.Module):
    def forward(self, x):
        return x.view(x.dtype)  # to TorchScript a dtype is a number, here 6


class LongStride(torch.nn.Module):
    def forward(self, x):
        image = x.reshape(1, 1, 1, 1)
        return torch.conv_transpose2d(image, image, None, [1 << 62, 1], 0, 0, 1, 1)


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (NoWindow(), "expected 0 < n_fft"),
        (NoHop(), "expected 0 < hop_length"),
        (OtherSizes(), r"shape \'\[6\]\' is invalid for input of size 1"),
        (LongStride(), "stride should be greater than zero, but got stride_height: 0"),
        (NoPoints(), r"Invalid number of data points \(0\) specified"),
        (TooFewDimensions(), "Expected 3D or 4D tensor, but got"),
        (NoSizes(), r"needs 4d \(spatial\) or 5d"),
        (ManyPieces(), "the result has 1048576 pieces; the limit is 65536"),
        (ManyIndices(), "a constant of 4294967294 elements; the limit is 67108864"),
        (UnknownMode(), "interpolation_mode must be 0, 1 or 2, got 7"),
        (PartOfNothing(), "unflatten got an unexpected error"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, torch.nn.Module) else "",
)
def test_what_no_tensor_has(module, message):
    with pytest.raises(onnx_native.ExportError, match=message) as caught:
        read(module)
    assert "test_hostile_programs.py" in str(caught.value)


def test_no_elements_any_number_of_times():
    assert "aten::add.Scalar(%x, 0" in read(EmptyList())


def test_files_are_not_written(tmp_path):
    path = tmp_path / "saved"
    with pytest.raises(
        onnx_native.ExportError, match="aten::save has side effects, so it cannot be exported"
    ):
        read(Saves(str(path)))
    assert not path.exists()


def test_blocks_in_blocks(tmp_path):
    """More nested blocks than fit on the stack."""

    class Calls(torch.nn.Module):
        def forward(self, x):
            return x.sin()

    def nested(depth: int) -> str:
        path = tmp_path / "m.pt"
        torch.jit.script(Calls()).save(path)
        lines = [f"{'  ' * (i + 2)}if bool(torch.gt(torch.sum(x), {i})):" for i in range(depth)]
        body = [*lines, f"{'  ' * (depth + 2)}x = torch.sin(x)", "    return x", ""]
        with zipfile.ZipFile(path) as archive:
            records = {name: archive.read(name) for name in archive.namelist()}
        with zipfile.ZipFile(path, "w") as archive:
            for name, content in records.items():
                if name.endswith(".py"):
                    source = content.decode()
                    content = (source[: source.index("    return")] + "\n".join(body)).encode()
                if not name.endswith("debug_pkl"):
                    archive.writestr(name, content)
        return read(torch.jit.load(path))

    assert nested(3).count("higher_order::cond") == 3
    with pytest.raises(onnx_native.ExportError, match="nested too deeply"):
        nested(450)
