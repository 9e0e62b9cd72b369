"""Builds the wheel: CMake makes the libraries, setuptools packs them."""

import os
import pathlib
import shutil
import subprocess
import sys

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

ROOT = pathlib.Path(__file__).resolve().parent


class BuildWithCMake(build_py):
    def run(self) -> None:
        super().run()
        build = pathlib.Path(os.environ.get("ONNX_NATIVE_BUILD_DIR", ROOT / "build"))
        configure = ["cmake", "-S", str(ROOT), "-B", str(build)]
        if not (build / "CMakeCache.txt").exists() and shutil.which("ninja"):
            configure += ["-G", "Ninja"]
        configure += [f"-DPython3_EXECUTABLE={sys.executable}"]
        subprocess.run(configure, check=True)
        jobs = os.environ.get("MAX_JOBS", str(os.cpu_count() or 1))
        targets = ["onnx_native_core", "onnx_native_plugin"]
        subprocess.run(
            ["cmake", "--build", str(build), "-j", jobs, "--target", *targets], check=True
        )
        subprocess.run(
            [
                "cmake",
                "--install",
                str(build),
                "--prefix",
                str(pathlib.Path(self.build_lib).resolve()),
            ],
            check=True,
        )


class BinaryDistribution(Distribution):
    def has_ext_modules(self) -> bool:
        return True


setup(
    cmdclass={"build_py": BuildWithCMake},
    distclass=BinaryDistribution,
    options={"build": {"build_base": "build/wheel"}},
)
