"""Loads torchvision's C++ library with a PyTorch without CUDA.

PyPI has torchvision built for CUDA. Its CPU kernels do not need CUDA, but the library does not load
without the CUDA libraries. Here, empty functions that are never called replace those libraries.
"""

import ctypes
import functools
import importlib
import importlib.util
import os
import pathlib
import subprocess
import tempfile

import torch

# Library -> parts of the names of the symbols that it must define.
_LIBRARIES = {
    "libcudart.so.13": lambda symbol: symbol.lstrip("_").startswith("cuda"),
    "libc10_cuda.so": lambda symbol: "4cuda" in symbol,
    "libtorch_cuda.so": lambda _: False,
}


def _undefined_symbols(library: pathlib.Path) -> list[str]:
    listing = subprocess.run(
        ["nm", "-D", "--undefined-only", str(library)], check=True, capture_output=True, text=True
    )
    return [line.split()[-1].partition("@")[0] for line in listing.stdout.splitlines()]


def _load_empty(name: str, symbols: list[str], folder: pathlib.Path) -> None:
    source, versions, library = folder / "empty.c", folder / "versions.map", folder / name
    source.write_text("".join(f"void *{symbol}(void) {{ return 0; }}\n" for symbol in symbols))
    versions.write_text(f"{name} {{ global: *; }};\n")
    options = ["-shared", "-fPIC", "-w", "-fno-builtin", f"-Wl,-soname,{name}"]
    if name.startswith("libcudart"):  # its symbols are versioned
        options.append(f"-Wl,--version-script={versions}")
    compiler = os.environ.get("CC", "cc")
    subprocess.run([compiler, *options, str(source), "-o", str(library)], check=True)
    ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)


@functools.cache
def load_torchvision_kernels() -> None:
    """Makes torch.ops.torchvision available; without it, `import torchvision` fails."""
    package = importlib.util.find_spec("torchvision")
    assert package is not None
    assert package.origin is not None
    (library,) = pathlib.Path(package.origin).parent.glob("_C*.so")  # since 0.29: _C_stable.so
    try:
        torch.ops.load_library(str(library))
    except OSError:
        symbols = _undefined_symbols(library)
        with tempfile.TemporaryDirectory(prefix="onnx_native_") as folder:
            for name, belongs in _LIBRARIES.items():
                _load_empty(name, [s for s in symbols if belongs(s)], pathlib.Path(folder))
        torch.ops.load_library(str(library))
    importlib.import_module("torchvision")  # shapes, for capture
