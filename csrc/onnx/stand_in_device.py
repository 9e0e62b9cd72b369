"""Runs a command on a machine on which a graphics card seems to be installed, as root on Linux.

    python csrc/onnx/stand_in_device.py libonnxruntime_providers_cuda.so -- \
        python csrc/onnx/generate_provider_kernels.py cuda \
        --library libonnxruntime_providers_cuda.so --source "onnxruntime-gpu 1.31.1"

A library of a provider lists its kernels, and places nodes, without computing anything. But it
loads CUDA's libraries, and ONNX Runtime offers its device only where Linux lists a card. The
command sees a folder /sys/class with a card of NVIDIA, and libraries whose functions do nothing in
place of CUDA's. Nothing can run there.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import re
import subprocess
import tempfile
from collections import defaultdict

# Functions that must return something. All others return 0, which means success.
FUNCTIONS = {
    "cudaGetDeviceCount": "(int* count) { *count = 1; return 0; }",
    "cudaGetDevice": "(int* device) { *device = 0; return 0; }",
    "cudaMemGetInfo": "(size_t* free, size_t* all) { *free = *all = (size_t)1 << 33; return 0; }",
    "cudaMalloc": "(void** p, size_t size) { *p = malloc(size + 256); return 0; }",
    "cudaMallocHost": "(void** p, size_t size) { *p = malloc(size + 256); return 0; }",
    "cudaHostAlloc": "(void** p, size_t size) { *p = malloc(size + 256); return 0; }",
    "cudaMemcpy": "(void* to, void* from, size_t size) { memcpy(to, from, size); return 0; }",
    "cudaMemcpyAsync": "(void* to, void* from, size_t size) { memcpy(to, from, size); return 0; }",
}
# Their names in libraries whose functions have no version.
PREFIXES = {"libcuda.so.1": "cuTensor", "libcurand.so.10": "curand"}
CARD = """
mount -t tmpfs none /sys/class && mkdir -p /sys/class/drm/card0/device
cd /sys/class/drm/card0/device && echo 0x10de > vendor && echo 0x2330 > device && cd "$OLDPWD"
exec "$@"
"""


def output(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def needed(library: str) -> dict[str, list[str]]:
    """Returns the functions that a library needs of each of CUDA's libraries."""
    others = re.findall(r"\[(libcu\S+)\]", output("readelf", "-d", library))
    functions: dict[str, list[str]] = defaultdict(list)
    for line in output("nm", "-D", "--undefined-only", library).splitlines():
        name, _, version = line.split()[-1].partition("@")
        for each in others:
            prefix = PREFIXES.get(each)
            if version == each or (prefix is not None and name.startswith(prefix)):
                functions[each].append(name)
    return {each: functions[each] for each in others}


def write(folder: pathlib.Path, library: str, functions: list[str]) -> None:
    source, versions = folder / "library.c", folder / "library.map"
    lines = [f"int {name}{FUNCTIONS.get(name, '() { return 0; }')}" for name in functions]
    source.write_text("\n".join(["#include <stdlib.h>", "#include <string.h>", *lines, ""]))
    versions.write_text(f"{library} {{ global: *; }};\n")
    flags = ["-w", "-shared", "-fPIC", f"-Wl,-soname,{library}", f"-Wl,--version-script={versions}"]
    output("gcc", *flags, "-o", str(folder / library), str(source))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("library", help="the provider's library")
    parser.add_argument("command", nargs="+")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="onnx_native_") as scratch:
        folder = pathlib.Path(scratch)
        for library, functions in needed(given.library).items():
            write(folder, library, functions)
        path = os.pathsep.join(filter(None, [scratch, os.environ.get("LD_LIBRARY_PATH")]))
        subprocess.run(
            ["unshare", "-m", "bash", "-c", CARD, "-", *given.command],
            check=True,
            env={**os.environ, "LD_LIBRARY_PATH": path},
        )


if __name__ == "__main__":
    main()
