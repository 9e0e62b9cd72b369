"""Builds the wheel: CMake makes the libraries and the command, setuptools packs them.

Variables of the environment:
  ONNX_NATIVE_TORCH_ROOTS  the PyTorch versions to build for, as folders (.../site-packages/torch)
                           with colons between them; unset: the version of this environment
  ONNX_NATIVE_PROTOBUF     a folder of cmake/get_protobuf.py, to link protobuf statically; unset:
                           the system's, or that of a source distribution if the system has none
  MAX_JOBS                 how many compilers run at once; unset: as cores and memory allow
"""

import os
import pathlib
import shutil
import subprocess
import sys

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

ROOT = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT / "cmake"))
from build_backend import torch_root  # noqa: E402

TARGETS = ["onnx_native_core", "onnx_native_check", "onnx_native_plugin", "onnx_native_cli"]
_GIB_PER_JOB = 1.6  # what the largest sources take to compile


def jobs() -> int:
    if given := os.environ.get("MAX_JOBS"):
        return int(given)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return max(1, min(os.cpu_count() or 1, int(memory / 2**30 / _GIB_PER_JOB)))


def build(folder: pathlib.Path, prefix: str, *definitions: str) -> None:
    """Compiles for one version of PyTorch, and installs what belongs into the wheel."""
    configure = ["cmake", "-S", str(ROOT), "-B", str(folder), *definitions]
    configure += ["-DONNX_NATIVE_WHEEL=ON", f"-DPython3_EXECUTABLE={sys.executable}"]
    if protobuf := os.environ.get("ONNX_NATIVE_PROTOBUF"):
        configure += [f"-DONNX_NATIVE_PROTOBUF={protobuf}"]
    if not (folder / "CMakeCache.txt").exists() and shutil.which("ninja"):
        configure += ["-G", "Ninja"]
    subprocess.run(configure, check=True)
    print(f"onnx_native: compiling with {jobs()} jobs: about 15 minutes of one core", flush=True)
    compile_all = ["cmake", "--build", str(folder), "-j", str(jobs()), "--target", *TARGETS]
    subprocess.run(compile_all, check=True)
    subprocess.run(["cmake", "--install", str(folder), "--strip", "--prefix", prefix], check=True)


class BuildWithCMake(build_py):
    def run(self) -> None:
        super().run()
        prefix = str(pathlib.Path(self.build_lib).resolve())
        roots = [each for each in os.environ.get("ONNX_NATIVE_TORCH_ROOTS", "").split(":") if each]
        for root in roots:
            name = f"build-{sys.implementation.cache_tag}-{pathlib.Path(root).parent.name}"
            build(ROOT / name, prefix, f"-DTORCH_ROOT={root}")
        if not roots:
            build(ROOT / "build", prefix, f"-DTORCH_ROOT={torch_root()}")


class SourceDistribution(sdist):
    def make_release_tree(self, base_dir: str, files: list[str]) -> None:
        """Adds the sources of what the wheel links, so that pip alone can build it."""
        super().make_release_tree(base_dir, files)
        third_party = pathlib.Path(base_dir, "third_party")
        subprocess.run([sys.executable, "cmake/get_protobuf.py", str(third_party)], check=True)
        for headers, package in (("CLI", "libcli11-dev"), ("nlohmann", "nlohmann-json3-dev")):
            shutil.copytree(f"/usr/include/{headers}", third_party / headers)
            shutil.copy(f"/usr/share/doc/{package}/copyright", third_party / headers)


class BinaryDistribution(Distribution):
    def has_ext_modules(self) -> bool:
        return True


setup(
    cmdclass={"build_py": BuildWithCMake, "sdist": SourceDistribution},
    distclass=BinaryDistribution,
    scripts=["torch_ext/onnx-native"],
    options={"build": {"build_base": "build/wheel"}},
)
