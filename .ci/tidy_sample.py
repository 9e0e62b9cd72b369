"""Prints the sources that `make lint` shows to clang-tidy when nothing is changed.

The rooms that read torch's headers (capture, readers, torch_ext) take two of its CPU-minutes. The
whole tree takes far longer: `clang-tidy -p build/tidy` on what you touch (`make lint` makes that
folder).
"""

import hashlib
import json
import pathlib

ROOT = pathlib.Path(__file__).resolve().parent.parent
HOW_MANY = {
    "csrc/base": 2,
    "csrc/onnx": 2,
    "csrc/ops": 2,
    "csrc/passes": 2,
    "csrc/writer": 1,
    "csrc/aten": 1,
    "csrc/readers/jit": 2,
    "csrc/readers/pt2": 1,
    "csrc/capture": 2,
    "csrc/api": 1,
    "csrc/cli": 1,
    "torch_ext/fx": 1,
    "torch_ext/plugin": 2,
}


def main() -> None:
    commands = json.loads((ROOT / "build" / "tidy" / "compile_commands.json").read_text())
    built = {pathlib.Path(command["file"]) for command in commands}
    for room, count in HOW_MANY.items():
        sources = [path for path in built if path.is_relative_to(ROOT / room)]
        sources.sort(key=lambda path: hashlib.sha256(path.name.encode()).digest())
        for path in sources[:count]:
            print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
