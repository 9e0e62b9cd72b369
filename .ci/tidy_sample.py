"""Prints the sources that `make lint` shows to clang-tidy when nothing is changed.

Rooms without torch headers are cheap: two files of each; of the others, one. The whole tree takes
twenty minutes: `clang-tidy -p build/tidy` on what you touch (`make lint` makes that folder).
"""

import hashlib
import json
import pathlib

ROOT = pathlib.Path(__file__).resolve().parent.parent
HOW_MANY = {"base": 2, "onnx": 2, "ops": 2, "passes": 2, "writer": 1, "aten": 1, "api": 1, "cli": 1}


def main() -> None:
    commands = json.loads((ROOT / "build" / "tidy" / "compile_commands.json").read_text())
    built = {pathlib.Path(command["file"]) for command in commands}
    for room, count in HOW_MANY.items():
        sources = [path for path in built if path.is_relative_to(ROOT / "csrc" / room)]
        sources.sort(key=lambda path: hashlib.sha256(path.name.encode()).digest())
        for path in sources[:count]:
            print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
