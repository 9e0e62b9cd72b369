"""Writes the initial corpus of the fuzz targets: small programs.

    PYTHONPATH=build/python:test/python python test/fuzz/make_corpus.py FOLDER [scenarios ...]

Archives of the named scenarios, or of a selection, go to FOLDER/pt2, and scripted programs of
test/python/jit to FOLDER/jit, without metadata, on which mutations would be wasted.
"""

import json
import pathlib
import sys
import tempfile
import zipfile
from typing import Any

import onnx_native
import torch
from jit.programs import PROGRAMS
from scenarios import SCENARIOS
from scenarios.scenario import export

CHOICE = (
    *("set_item_mask", "diagonal_write", "masked_and_scatter", "BufferedConstant"),
    *("cond_nested", "cond_size_operand", "CondWithWeights", "while_several_states"),
    *("while_carries_a_size", "scan_several_states", "map_trees", "NoGradRegion"),
    *("AutocastRegion", "hinted", "compile_region", "constant_graph"),
    *("ordered_effects_with_tokens", "takes_dynamic_int", "takes_list_with_none"),
    *("gives_sizes", "derived_dimension", "created_from_shape", "cropped_by_content"),
    *("non_zero", "in_bfloat16", "complex_parts", "rolled"),
)


class EveryKind(torch.nn.Module):
    """Inputs and weights of many dtypes and ranks, as arguments for calls of any operator."""

    inputs: tuple[torch.Tensor, ...] = (
        *(torch.ones(2, 3, 4), torch.ones(3, 4), torch.ones(2, 3, 4, 4), torch.ones(4)),
        *(torch.ones(()), torch.ones(3, 3, dtype=torch.float64)),
        *(torch.arange(3), torch.ones(3, 4, dtype=torch.bool)),
        *(torch.ones(3, 4, dtype=torch.complex64), torch.ones(3, 4, dtype=torch.uint8)),
    )

    def __init__(self) -> None:
        super().__init__()
        for name, value in (("weight", torch.ones(4, 3)), ("places", torch.tensor([1, 2, 0]))):
            self.register_buffer(name, value)

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        return inputs[0].neg()


def stripped(value: Any) -> Any:
    """Removes stack traces and guards."""
    if isinstance(value, dict):
        return {
            key: {} if key == "metadata" else [] if key == "guards_code" else stripped(item)
            for key, item in value.items()
        }
    return [stripped(item) for item in value] if isinstance(value, list) else value


def write_archive(program: torch.export.ExportedProgram, path: pathlib.Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        saved = pathlib.Path(folder) / "a.pt2"
        torch.export.save(program, saved)
        with zipfile.ZipFile(saved) as source, zipfile.ZipFile(path, "w") as copy:
            for name in source.namelist():
                content = source.read(name)
                if name.endswith("sample_inputs") or "sample_inputs/" in name:
                    continue
                if name.endswith(".json"):
                    content = json.dumps(stripped(json.loads(content))).encode()
                copy.writestr(name, content)


def input_line(name: str, value: torch.Tensor | float, sizes: dict[int, str]) -> str:
    """Returns an input spec for the command line: "x:float32[batch,4]"."""
    tensor = torch.as_tensor(value)
    shape = [sizes.get(axis, str(size)) for axis, size in enumerate(tensor.shape)]
    return f"{name}:{str(tensor.dtype).removeprefix('torch.')}[{','.join(shape)}]"


def write_script(name: str, folder: pathlib.Path) -> None:
    """Saves the program with its inputs in the record extra/inputs."""
    module, inputs, dynamic_shapes = PROGRAMS[name]
    script = torch.jit.script(module.eval())
    names = [argument.name for argument in script.forward.schema.arguments[1:]]
    if not all(isinstance(value, (torch.Tensor, int, float)) for value in inputs[0]):
        return  # a file's inputs are tensors and numbers
    lines = [
        input_line(*item)
        for item in zip(names, inputs[0], [d or {} for d in dynamic_shapes], strict=False)
    ]
    path = folder / f"{name.replace(' ', '_')}.pt"
    script.save(path, _extra_files={"inputs": "\n".join(lines)})
    with zipfile.ZipFile(path) as source:
        records = [(n, source.read(n)) for n in source.namelist() if not n.endswith("debug_pkl")]
    with zipfile.ZipFile(path, "w") as copy:
        for record, content in records:
            copy.writestr(record, content)


def main() -> None:
    torch.ops.load_library(onnx_native.library_path())
    scripts = pathlib.Path(sys.argv[1]) / "jit"
    folder = pathlib.Path(sys.argv[1]) / "pt2"
    for made in (folder, scripts):
        made.mkdir(parents=True, exist_ok=True)
    for name in PROGRAMS:
        write_script(name, scripts)
    names = sys.argv[2:] or CHOICE
    for scenario in SCENARIOS:
        if scenario.name in names or "all" in names:
            program = export(scenario).exported_program
            assert program is not None
            try:
                write_archive(program, folder / f"{scenario.name}.pt2")
            except Exception as error:  # programs that torch.export.save cannot write
                print(f"{scenario.name}: {type(error).__name__}", file=sys.stderr)
    batch = torch.export.Dim("batch", max=64)
    sizes = tuple({0: batch} if value.ndim > 2 else None for value in EveryKind.inputs)
    every_kind = torch.export.export(EveryKind(), EveryKind.inputs, dynamic_shapes=(sizes,))
    write_archive(every_kind, folder / "every_kind.pt2")


if __name__ == "__main__":
    main()
