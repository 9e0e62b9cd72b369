"""Calls of torch.onnx.export as people write them."""

from __future__ import annotations

import pathlib
import re
import warnings

import pytest
import torch
from calls import axes, libraries, more, tutorials  # noqa: F401
from calls.call import CALLS, Call, check


@pytest.mark.parametrize("call", CALLS, ids=[call.name for call in CALLS])
def test_call(call: Call, tmp_path: pathlib.Path) -> None:
    torch.manual_seed(0)
    path = tmp_path / "model.onnx"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if call.error is not None:
            with pytest.raises(Exception, match=re.compile(call.error, re.DOTALL)):
                call.run(path)
            if call.name != "a_file_open_for_text":
                assert not path.exists()
        else:
            given = call.run(path)
            if given is not None:
                check(given)
    if call.warning is not None:
        assert any(re.search(call.warning, str(warning.message)) for warning in caught)


def test_there_are_many_calls() -> None:
    assert len(CALLS) >= 100
    assert len({call.name for call in CALLS}) == len(CALLS)
