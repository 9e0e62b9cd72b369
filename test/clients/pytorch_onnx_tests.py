"""Runs PyTorch's own tests of its older exporter, which stay where they are, with `legacy=True`.

    pytorch_onnx_tests.py PYTORCH/test
    pytorch_onnx_tests.py PYTORCH/test --by older -k lstm

Needs the folder `test` of the sources of a PyTorch that has onnx/test_pytorch_onnx_onnxruntime.py,
and the package parameterized: see README.md. PyTorch's tests and its comparison of the model with
the module run as they are; only the exporter is another one. Tests that need torchvision are
skipped. Prints how many tests pass, by whom the models were exported, and the tests that fail.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import io
import os
import pathlib
import sys
import types
import unittest
import warnings
from collections.abc import Iterator
from typing import Any

import onnx
import onnx_native
import torch
from torch.onnx._internal.torchscript_exporter import verification


class _Missing(types.ModuleType):
    """Stands for a package that only some tests need."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise unittest.SkipTest(f"needs {self.__name__}")


class Exporter:
    """Stands for the function with which PyTorch's tests export.

    Attributes:
        by: Who exported the models of the current test.
    """

    def __init__(self, dynamo: bool) -> None:
        self._dynamo = dynamo
        self.by: set[str] = set()

    def export(self, model: Any, args: Any, file: Any, **options: Any) -> None:
        options.pop("fixed_batch_size", None)
        if self._dynamo:
            for name in ("training", "do_constant_folding"):
                options.pop(name, None)
            program = torch.onnx.export(model, args, dynamo=True, **options)
            assert program is not None
            file.write(program.model_proto.SerializeToString())
        else:
            torch.onnx.export(model, args, file, dynamo=False, **options)
        self.by.add(onnx.load_from_string(file.getvalue()).producer_name)


class Result(unittest.TextTestResult):
    def __init__(self, exporter: Exporter) -> None:
        super().__init__(unittest.runner._WritelnDecorator(io.StringIO()), False, 0)
        self.exporter = exporter
        self.counts: collections.Counter[str] = collections.Counter()

    def startTest(self, test: unittest.TestCase) -> None:  # noqa: N802
        super().startTest(test)
        self.exporter.by.clear()

    def addSuccess(self, test: unittest.TestCase) -> None:  # noqa: N802
        super().addSuccess(test)
        self.counts[" and ".join(sorted(self.exporter.by)) or "nothing exported"] += 1


@contextlib.contextmanager
def exporting(by: str) -> Iterator[Exporter]:
    exporter = Exporter(dynamo=by in ("native", "torch.export"))
    plain = verification.utils
    own = {**vars(plain), "_export": exporter.export}
    verification.utils = types.SimpleNamespace(**own)  # type: ignore[assignment]
    try:
        if by == "legacy":
            onnx_native.enable(legacy=True)
        elif by == "native":
            onnx_native.enable()
        yield exporter
    finally:
        verification.utils = plain


def tests_of(folder: pathlib.Path, opset: int, is_script: bool, part: str) -> unittest.TestSuite:
    from torch.testing._internal import common_utils

    sys.path.insert(0, str(folder))
    sys.modules["torchvision"] = _Missing("torchvision")
    # The tests know modules of PyTorch that have moved or are gone.
    diagnostics: Any = types.ModuleType("diagnostics")
    diagnostics.engine = types.SimpleNamespace(clear=lambda: None)
    moved = {
        "torch.onnx.verification": verification,
        "torch.onnx._internal.diagnostics": diagnostics,
    }
    for name, module in moved.items():
        sys.modules[name] = module
        outer, _, inner = name.rpartition(".")
        setattr(sys.modules[outer], inner, module)
    common_utils.parse_cmd_line_args()
    import test_pytorch_onnx_onnxruntime as tests

    name = f"opset_version_{opset}_is_script_{is_script}_keep_initializers_as_inputs_False"
    (found,) = (each for each in vars(tests) if each.endswith(name))
    loader = unittest.TestLoader()
    cases = loader.loadTestsFromTestCase(getattr(tests, found))
    return unittest.TestSuite(case for case in cases if part in case.id())  # type: ignore[union-attr]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=pathlib.Path, help="the folder `test` of PyTorch's sources")
    parser.add_argument("--opset", type=int, default=17)
    parser.add_argument("--script", action="store_true", help="the tests of scripted modules")
    parser.add_argument(
        "--by", choices=("legacy", "native", "older", "torch.export"), default="legacy"
    )
    parser.add_argument("-k", default="", help="tests whose name contains this")
    options = parser.parse_args()
    sys.argv = sys.argv[:1]
    os.environ["PYTORCH_PRINT_REPRO_ON_FAILURE"] = "0"
    warnings.simplefilter("ignore")
    suite = tests_of((options.folder / "onnx").resolve(), options.opset, options.script, options.k)
    with exporting(options.by) as exporter:
        result = Result(exporter)
        suite.run(result)
    failed = [*result.failures, *result.errors]
    for test, text in failed:
        lines = [line for line in text.strip().splitlines() if line.strip()]
        print(f"--- {test.id().rpartition('.')[2]}: {lines[-1][:400]}")
    passed = sum(result.counts.values())
    ran = passed + len(failed)
    print(f"{passed} of {ran} pass, {len(result.skipped)} are skipped; {dict(result.counts)}")


if __name__ == "__main__":
    main()
