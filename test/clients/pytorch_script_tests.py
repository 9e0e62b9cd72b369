"""Exports the programs of PyTorch's own tests of TorchScript, which stay where they are.

    pytorch_script_tests.py PYTORCH/test
    pytorch_script_tests.py PYTORCH/test jit/test_list_dict.py

Needs the folder `test` of PyTorch's sources: see README.md. PyTorch's tests run as they are; each
program that one of them compiles and runs is also exported for the same inputs. The model must
return what the program returns, or the export must refuse it. Prints how many programs did so, and
the others.
"""

from __future__ import annotations

import argparse
import collections
import copy
import importlib
import io
import pathlib
import sys
import unittest
import warnings
from typing import Any

import numpy as np
import onnx_native
import onnxruntime
import torch
from torch.testing._internal import common_utils, jit_utils

REFUSALS = ("[unsupported", "[invalid program]")  # also "[unsupported operator]"

counts: collections.Counter[str] = collections.Counter()
seen: set[str] = set()
found: list[str] = []  # what is neither right nor refused
reasons: collections.Counter[str] = collections.Counter()
_exports = False  # an export runs


def leaves(value: Any) -> list[Any]:
    """The numbers and tensors that a model can return."""
    if isinstance(value, dict):
        return leaves(list(value.values()))
    if isinstance(value, (list, tuple)):
        return [leaf for each in value for leaf in leaves(each)]
    return [value]


def is_comparable(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return value.layout is torch.strided and not value.is_quantized
    return isinstance(value, (bool, int, float, complex))


def real(value: Any) -> torch.Tensor:
    """A value as models have it: complex numbers are pairs."""
    tensor = torch.as_tensor(value).detach().resolve_conj().resolve_neg()
    return torch.view_as_real(tensor) if tensor.is_complex() else tensor


def run(model: bytes, arguments: tuple[Any, ...]) -> list[torch.Tensor]:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    tensors = [each for each in leaves(arguments) if isinstance(each, torch.Tensor)]
    names = [each.name for each in session.get_inputs()]
    feeds = {name: real(x).numpy() for name, x in zip(names, tensors, strict=True)}
    return [torch.from_numpy(np.array(each)) for each in session.run(None, feeds)]


def differs(got: list[torch.Tensor], wanted: list[Any]) -> str | None:
    if len(got) != len(wanted):
        return f"{len(got)} results instead of {len(wanted)}"
    for number, (result, value) in enumerate(zip(got, wanted, strict=True)):
        expected = real(value)
        if isinstance(value, (float, complex)):
            expected, result = expected.double(), result.double()
        try:
            torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-5, equal_nan=True)
        except AssertionError as error:
            return f"result {number}: {' '.join(str(error).split())[:200]}"
    return None


def outcome(program: Any, arguments: tuple[Any, ...], wanted: list[Any]) -> tuple[str, str]:
    """Exports a program and runs its model; returns how that ended, and details."""
    try:
        exported = torch.onnx.export(program, arguments, dynamo=True, verbose=False)
    except torch.onnx.OnnxExporterError as error:
        text = " ".join(str(error).split())
        return "refused" if any(kind in text for kind in REFUSALS) else "other error", text
    except Exception as error:
        return "other error", f"{type(error).__name__}: {error}"
    assert exported is not None
    try:
        got = run(exported.model_proto.SerializeToString(), arguments)
    except Exception as error:
        return "fails", f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
    difference = differs(got, wanted)
    return ("right", "") if difference is None else ("wrong", difference)


def try_program(program: Any, arguments: Any, test: str) -> None:
    """Exports a program of a test, once for each text of it."""
    global _exports
    arguments = tuple(arguments)
    text = f"{getattr(program, 'code', '')}{[type(each).__name__ for each in leaves(arguments)]}"
    if _exports or text in seen:
        return
    seen.add(text)
    _exports = True
    try:
        with torch.no_grad(), torch.random.fork_rng():
            torch.manual_seed(0)
            try:
                wanted = leaves(program(*copy.deepcopy(arguments)))
                torch.manual_seed(1)
                again = leaves(program(*copy.deepcopy(arguments)))
            except Exception:
                return
            wanted = [each for each in wanted if each is not None]
            again = [each for each in again if each is not None]
            if not wanted or not all(map(is_comparable, wanted)):
                counts["not comparable"] += 1
                return
            if differs([real(each) for each in wanted], again):
                counts["random, or of another state"] += 1
                return
            how, details = outcome(program, arguments, wanted)
    finally:
        _exports = False
    counts[how] += 1
    if how == "refused":
        reasons[details.partition(" %")[0][:110]] += 1
    elif how != "right":
        found.append(f"{how}: {test}: {details[:400]}\n{program.code}")


def watch() -> None:
    """Makes PyTorch's checks of TorchScript export the programs, too."""
    case = jit_utils.JitTestCase
    plain_script, plain_module, plain_trace = case.checkScript, case.checkModule, case.checkTrace

    def check_script(self: Any, script: Any, inputs: Any, *args: Any, **options: Any) -> Any:
        if isinstance(script, str):  # it reads the variables of the test, some frames above
            options["frames_up"] = options["frames_up"] + 2 if "frames_up" in options else 2
        program = plain_script(self, script, inputs, *args, **options)
        try_program(program, inputs, self.id())
        return program

    def check_module(self: Any, module: Any, args: Any) -> Any:
        result = plain_module(self, module, args)
        try_program(torch.jit.script(module), args, self.id())
        return result

    def check_trace(self: Any, function: Any, inputs: Any, *args: Any, **options: Any) -> Any:
        traced = plain_trace(self, function, inputs, *args, **options)
        try_program(traced, inputs, self.id())
        return traced

    case.checkScript, case.checkModule, case.checkTrace = check_script, check_module, check_trace  # type: ignore[method-assign, assignment]


def tests_of(path: pathlib.Path, root: pathlib.Path) -> unittest.TestSuite:
    name = ".".join(path.relative_to(root).with_suffix("").parts)
    try:
        module = importlib.import_module(name)
    except BaseException as error:
        print(f"{name}: {type(error).__name__}: {error}")
        return unittest.TestSuite()
    return unittest.defaultTestLoader.loadTestsFromModule(module)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=pathlib.Path, help="the folder `test` of PyTorch's sources")
    parser.add_argument("files", nargs="*", help="of these tests only, as jit/test_slice.py")
    options = parser.parse_args()
    root = options.folder.resolve()
    sys.path.insert(0, str(root))
    warnings.simplefilter("ignore")
    torch.ops.load_library(onnx_native.library_path())
    watch()
    files = [root / each for each in options.files] or sorted((root / "jit").glob("test_*.py"))
    files += [] if options.files else [root / "test_jit.py"]
    sys.argv = sys.argv[:1]
    common_utils.parse_cmd_line_args()
    for path in files:
        runner = unittest.TextTestRunner(stream=io.StringIO())
        result = runner.run(tests_of(path, root))
        print(path.name, result.testsRun, "tests;", dict(counts), flush=True)
    for reason, count in reasons.most_common():
        print(f"{count} refused: {reason}")
    for each in found:
        print("---", each, sep="\n")
    print(dict(counts))
    return bool(counts["wrong"] or counts["fails"])


if __name__ == "__main__":
    sys.exit(main())
