"""Writes small programs for the fuzz targets to start from.

    PYTHONPATH=build/python:test/python python test/fuzz/make_corpus.py FOLDER [scenarios ...]

Archives of the named scenarios, or of a choice of them, go to FOLDER/pt2 without the metadata that
mutations would be wasted on.
"""

import json
import pathlib
import sys
import tempfile
import zipfile
from typing import Any

import onnx_native
import torch
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


def stripped(value: Any) -> Any:
    """Without stack traces and guards."""
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


def main() -> None:
    torch.ops.load_library(onnx_native.library_path())
    folder = pathlib.Path(sys.argv[1]) / "pt2"
    folder.mkdir(parents=True, exist_ok=True)
    names = sys.argv[2:] or CHOICE
    for scenario in SCENARIOS:
        if scenario.name in names or "all" in names:
            program = export(scenario).exported_program
            assert program is not None
            try:
                write_archive(program, folder / f"{scenario.name}.pt2")
            except Exception as error:  # what torch.export.save refuses
                print(f"{scenario.name}: {type(error).__name__}", file=sys.stderr)


if __name__ == "__main__":
    main()
