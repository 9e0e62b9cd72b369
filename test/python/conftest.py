"""Runs tests natively, without fallbacks, verified after each pass, with one thread per worker."""

import gc
import os
import threading
from collections.abc import Iterator

os.environ["ONNX_NATIVE_FALLBACKS"] = "0"
os.environ["ONNX_NATIVE_VERIFY"] = "1"

import onnx_native
import pytest
import torch
import torch._dynamo  # by PyTorch's own meta kernels, beside which the recorder's run
from ops.row import Row

INITIAL_SEED = torch.initial_seed
torch.set_num_threads(1)
torch.ops.load_library(onnx_native.library_path())


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Runs a test with each capture of its mark: `pytest.mark.captures("auto", "torch.export")`.

    Without the mark, a test has the default capture.
    """
    mark = metafunc.definition.get_closest_marker("captures")
    if mark is not None:
        metafunc.parametrize("_capture", mark.args, indirect=True)


@pytest.fixture(autouse=True)
def _capture(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if hasattr(request, "param"):
        monkeypatch.setenv("ONNX_NATIVE_CAPTURE", request.param)


@pytest.fixture(autouse=True)
def _own_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hides threads of earlier tests: torch.export's route warns of other threads."""
    count, others = threading.active_count, threading.active_count() - 1
    monkeypatch.setattr(threading, "active_count", lambda: count() - others)


@pytest.fixture(autouse=True)
def _nothing_stays_replaced() -> Iterator[None]:
    """Fails a test after which functions are still replaced that an export replaces for a while."""
    yield
    assert torch.initial_seed is torch.random.initial_seed is INITIAL_SEED
    assert "apply" not in vars(torch.autograd.function._SingleLevelFunction)


@pytest.fixture
def compiles_anew() -> None:
    """What earlier tests compiled does not count against TorchDynamo's limit of recompilations."""
    torch._dynamo.reset()


@pytest.fixture(autouse=True)
def _kernels_that_agree() -> Iterator[None]:
    """Fails a test in which a meta kernel in C++ gives another type than PyTorch's own."""
    before = len(onnx_native._C.meta_contradictions())
    yield
    found = onnx_native._C.meta_contradictions()[before:]
    assert not found, found


def pytest_itemcollected(item: pytest.Item) -> None:
    """Makes `-k aten::add.Tensor` select the tests of the row with this key."""
    call = getattr(item, "callspec", None)  # of a parametrized test
    row = call.params.get("row") if call else None
    if isinstance(row, Row):
        item.extra_keyword_matches.update(row.all_keys)


def _leave_out_what_is_alive() -> None:
    """Lets the garbage collector leave out what is alive now. PyTorch collects often."""
    gc.collect()
    gc.freeze()


def pytest_collection_finish() -> None:
    _leave_out_what_is_alive()  # modules and tests


@pytest.fixture(autouse=True, scope="module")
def _keeps_collections_short() -> Iterator[None]:
    yield
    _leave_out_what_is_alive()  # the models and programs that PyTorch and the tests cache
