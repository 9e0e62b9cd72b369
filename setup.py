"""Builds the wheel: CMake makes the libraries and the command, setuptools packs them."""

import os
import pathlib
import shutil
import subprocess
import sys
from typing import ClassVar

from setuptools import Command, Distribution, setup
from setuptools.command.build_py import build_py

ROOT = pathlib.Path(__file__).resolve().parent
BUILD = pathlib.Path(os.environ.get("ONNX_NATIVE_BUILD_DIR", ROOT / "build"))
TARGETS = ["onnx_native_core", "onnx_native_check", "onnx_native_plugin", "onnx_native_cli"]


def install(component: str, folder: str) -> None:
    """Copies a part of the wheel out of CMake's build."""
    prefix = str(pathlib.Path(folder).resolve())
    command = ["cmake", "--install", str(BUILD), "--component", component, "--prefix", prefix]
    subprocess.run(command, check=True)


class BuildWithCMake(build_py):
    def run(self) -> None:
        super().run()
        configure = ["cmake", "-S", str(ROOT), "-B", str(BUILD), "-DONNX_NATIVE_WHEEL=ON"]
        if not (BUILD / "CMakeCache.txt").exists() and shutil.which("ninja"):
            configure += ["-G", "Ninja"]
        configure += [f"-DPython3_EXECUTABLE={sys.executable}"]
        subprocess.run(configure, check=True)
        jobs = os.environ.get("MAX_JOBS", str(os.cpu_count() or 1))
        subprocess.run(
            ["cmake", "--build", str(BUILD), "-j", jobs, "--target", *TARGETS], check=True
        )
        install("python", self.build_lib)


class BuildScripts(Command):
    """Puts the executable where setuptools collects scripts, for pip to put it on the path."""

    user_options: ClassVar[list[str]] = []

    def initialize_options(self) -> None:
        self.build_dir: str | None = None

    def finalize_options(self) -> None:
        self.set_undefined_options("build", ("build_scripts", "build_dir"))

    def run(self) -> None:
        assert self.build_dir is not None
        install("command", self.build_dir)

    def get_source_files(self) -> list[str]:
        return []


class BinaryDistribution(Distribution):
    def has_ext_modules(self) -> bool:
        return True


setup(
    cmdclass={"build_py": BuildWithCMake, "build_scripts": BuildScripts},
    distclass=BinaryDistribution,
    scripts=["onnx-native"],
    options={"build": {"build_base": "build/wheel"}},
)
