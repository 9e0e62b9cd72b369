"""Files that an export replaces keep what the user gave them."""

from __future__ import annotations

import os
import pathlib

import onnx
import pytest
import torch

MODEL = torch.nn.Linear(64, 64)
ARGS = (torch.randn(2, 64),)


def export(path: pathlib.Path, **options: object) -> object:
    return torch.onnx.export(MODEL, ARGS, path, dynamo=True, verbose=False, **options)


def test_mode_and_links(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "m.onnx"
    export(path, external_data=False)
    path.chmod(0o640)
    os.link(path, tmp_path / "hard")
    (tmp_path / "soft").symlink_to("m.onnx")
    before = path.stat()
    path.write_bytes(b"old")
    export(tmp_path / "soft", external_data=False)
    after = path.stat()
    assert (after.st_mode, after.st_ino, after.st_nlink) == (
        before.st_mode,
        before.st_ino,
        before.st_nlink,
    )
    assert (tmp_path / "soft").is_symlink()
    onnx.checker.check_model(onnx.load(tmp_path / "hard"), full_check=True)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["hard", "m.onnx", "soft"]


@pytest.mark.parametrize("edits", [False, True])
def test_a_link_to_another_folder(tmp_path: pathlib.Path, edits: bool) -> None:
    """The model behind the link keeps its data, and the new one has its own beside it."""
    (tmp_path / "real").mkdir()
    real, link = tmp_path / "real" / "m.onnx", tmp_path / "link.onnx"
    program = export(real, external_data=True)
    before = real.read_bytes()
    link.symlink_to(real)
    if edits:
        assert program.model.graph is not None
    program.save(link, external_data=True)
    assert real.read_bytes() == before
    for path in (real, link):
        onnx.checker.check_model(onnx.load(path), full_check=True)
    program.save(link, external_data=False)  # a file now
    assert real.read_bytes() == before


@pytest.mark.parametrize("edits", [False, True])
@pytest.mark.parametrize("name", ["..onnx", "a..b.onnx"])
def test_names_that_readers_refuse_for_data(tmp_path: pathlib.Path, name: str, edits: bool) -> None:
    program = export(tmp_path / name, external_data=True)
    if edits:
        assert program.model.graph is not None
    program.save(tmp_path / name, external_data=True)
    onnx.checker.check_model(onnx.load(tmp_path / name), full_check=True)
    assert len(list(tmp_path.iterdir())) == 2


def test_data_of_the_last_model_goes(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "m.onnx"
    data = tmp_path / "m.onnx.data"
    for edits in (False, True):
        for with_weights in (True, False):
            program = export(path, external_data=True)
            assert data.exists()
            if edits:
                assert program.model.graph is not None  # from here, onnx_ir saves
            program.save(path, external_data=False, include_initializers=with_weights)
            assert not data.exists()
            if with_weights:
                onnx.checker.check_model(onnx.load(path), full_check=True)


def test_data_of_others_stays(tmp_path: pathlib.Path) -> None:
    (tmp_path / "m.onnx.data").write_bytes(b"mine")
    program = export(tmp_path / "m.onnx", external_data=False)
    assert program.model.graph is not None
    program.save(tmp_path / "m.onnx")
    (tmp_path / "m.onnx").write_bytes(b"\xff not a model")
    program.save(tmp_path / "m.onnx")
    assert (tmp_path / "m.onnx.data").read_bytes() == b"mine"
