"""Exports two real models natively, checks the files and runs them in ONNX Runtime.

    make demo

ResNet-18 has a dynamic batch, a small BERT a dynamic batch and sequence length. Seconds are printed
per stage: the native capture, what follows it, and the rest.
"""

import logging
import pathlib
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "build" / "python"), str(ROOT / "test" / "python")]
logging.disable(logging.WARNING)  # of what transformers imports

import onnx  # noqa: E402
import onnx_native  # noqa: E402
import torch  # noqa: E402
from models import running, zoo  # noqa: E402


def print_seconds(name: str, seconds: float) -> None:
    print(f"  {name:<34}{seconds:8.3f} s")


@contextmanager
def stage(name: str) -> Iterator[None]:
    start = time.perf_counter()
    yield
    print_seconds(name, time.perf_counter() - start)


def show(model: zoo.ZooModel, folder: pathlib.Path) -> None:
    print(f"{model.name}: {dict(model.dynamic_axes)}")
    path = folder / f"{model.name}.onnx"
    with stage("build the model"):
        module = model.module()
    start = time.perf_counter()
    exported = torch.onnx.export(
        module,
        kwargs=model.example(),
        dynamo=True,
        dynamic_shapes=model.dynamic_shapes(),
        verbose=False,
    )
    whole = time.perf_counter() - start
    assert isinstance(exported, onnx_native.ONNXProgram)
    for attempt in exported.export_report["capture"]["attempts"]:
        print_seconds(f"capture ({attempt['route']})", attempt["seconds"])
        whole -= attempt["seconds"]
    print_seconds("the rest of the export", whole)
    with stage("save"):
        exported.save(path)
    with stage("onnx.checker, full check"):
        onnx.checker.check_model(str(path), full_check=True)
    with stage("load into ONNX Runtime"):
        session = running.session(path)
    for sizes in (model.traced, *model.others):
        inputs = model.example(sizes)
        expected = running.eager(module, inputs)
        got = running.run(session, inputs)
        running.assert_same(got, expected)
        shape = "x".join(map(str, next(iter(inputs.values())).shape))
        difference = running.greatest_difference(got, expected)
        print(f"  ONNX Runtime equals eager at {shape:<12} (difference {difference:.1e})")
    header = onnx.load(path, load_external_data=False)
    operators = Counter(node.op_type for node in header.graph.node)
    frequent = ", ".join(f"{count} {name}" for name, count in operators.most_common(6))
    print(f"  {header.producer_name} wrote {operators.total()} nodes: {frequent}, ...\n")


def main() -> None:
    start = time.perf_counter()
    torch.ops.load_library(onnx_native.library_path())
    print(f"onnx_native {onnx_native.__version__} on PyTorch {torch.__version__}, ", end="")
    print(f"loaded in {time.perf_counter() - start:.3f} s\n")
    with zoo.scratch_folder() as folder:
        show(zoo.ZOO["resnet18"], folder)
        show(zoo.BERT_SMALL, folder)
    print("both exported, checked and equal to eager")


if __name__ == "__main__":
    main()
