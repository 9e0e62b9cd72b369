"""Runs tests natively, without fallbacks, verified after each pass, with one thread per worker."""

import os

os.environ["ONNX_NATIVE_FALLBACKS"] = "0"
os.environ["ONNX_NATIVE_VERIFY"] = "1"

import onnx_native
import pytest
import torch
from ops.row import Row

torch.set_num_threads(1)
torch.ops.load_library(onnx_native.library_path())


def pytest_itemcollected(item: pytest.Item) -> None:
    """Makes `-k aten::add.Tensor` select the tests of the row with this key."""
    call = getattr(item, "callspec", None)  # of a parametrized test
    row = call.params.get("row") if call else None
    if isinstance(row, Row):
        item.extra_keyword_matches.update(row.all_keys)
