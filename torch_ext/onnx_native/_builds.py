"""The folders of the package with the libraries for one version of PyTorch each.

Imports neither PyTorch nor the package: the command onnx-native loads this file by its path.
"""

import pathlib

PACKAGE = pathlib.Path(__file__).absolute().parent
_PREFIX = "torch-"


def versions() -> list[str]:
    """Returns the versions of PyTorch that have libraries, in order: ``["2.13", "2.15"]``."""
    found = [each.name.removeprefix(_PREFIX) for each in PACKAGE.glob(f"{_PREFIX}*")]
    return sorted(found, key=lambda version: [int(part) for part in version.split(".")])


def folder(torch_version: str) -> pathlib.Path:
    """Returns the folder with the libraries for a version of PyTorch, such as ``"2.13.0+cpu"``.

    They would load with another version and give wrong results: interned symbols differ.

    Raises:
        ImportError: There is none. The text says what to install.
    """
    wanted = ".".join(torch_version.split(".")[:2])
    found = PACKAGE / f"{_PREFIX}{wanted}"
    if not found.is_dir():
        raise ImportError(
            f"onnx_native was built for PyTorch {' and '.join(versions()) or '(nothing)'}, but "
            f"PyTorch {torch_version} is installed; install one of these versions, an onnx_native "
            "that was built for yours, or build it: pip install . in its sources takes this PyTorch"
        )
    return found
