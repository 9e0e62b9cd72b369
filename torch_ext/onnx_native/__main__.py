"""python -m onnx_native: the command onnx-native, carried out in this process.

``python -m onnx_native run script.py arguments`` runs a program with the exporter in place of
PyTorch's, as onnx_native.run does.
"""

import sys

from onnx_native import _library, run
from onnx_native.legacy._run import NoProgramError


def _main(words: list[str]) -> int:
    if words[:1] != ["run"]:
        status: int = _library.extension().command_line(words)
        return status
    if len(words) < 2 or words[1] in ("-h", "--help"):
        print("usage: python -m onnx_native run SCRIPT|COMMAND|-m MODULE [ARGUMENT ...]")
        return 0 if len(words) > 1 else 2
    try:
        run(*words[1:])
    except NoProgramError as error:
        print(f"onnx_native run: {error}", file=sys.stderr)
        return 2
    return 0


sys.exit(_main(sys.argv[1:]))
