"""The tests of this folder test the reader of torch.export's graphs.

test_native_capture_operators.py exports the same rows through the native capture.
"""

import pytest


@pytest.fixture(autouse=True)
def _captured_by_torch_export(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONNX_NATIVE_CAPTURE", "torch.export")
