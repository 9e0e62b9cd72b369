"""Takes over torch.onnx.export(..., dynamo=False) for those who ask for it.

torch.onnx.export imports ``utils.export`` of PyTorch's older exporter at each call. A function
takes its place, which passes calls on unless the option ``legacy`` is set. torch.onnx.export itself
gets a wrapper that takes more positional arguments, as it did before PyTorch 2.6.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from onnx_native import _options
from onnx_native.routes import _hook
from onnx_native.upstream import _older_exporter

# The arguments that could be positional, after the model, its arguments and the file.
_POSITIONAL = (
    "export_params",
    "verbose",
    "training",
    "input_names",
    "output_names",
    "operator_export_type",
    "opset_version",
    "do_constant_folding",
    "dynamic_axes",
    "keep_initializers_as_inputs",
    "custom_opsets",
    "export_modules_as_functions",
    "autograd_inlining",
)
_original: Callable[..., None] | None = None


def install() -> None:
    """Makes calls pass through this module; does nothing if they already do."""
    global _original
    if _original is not None:
        return
    modules = _older_exporter.modules()
    _original = modules[0].export
    replacement = functools.wraps(_original)(_export)
    for module in modules:
        module.export = replacement
    _older_exporter.put_export(_with_positional(_older_exporter.export_function()))


def _is_wanted() -> bool:
    return _options.current().legacy and _hook.is_installed()


def _with_positional(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def export(*args: Any, **kwargs: Any) -> Any:
        if len(args) > 3 and _is_wanted():
            if len(args) > 3 + len(_POSITIONAL):
                raise TypeError(f"torch.onnx.export takes at most {3 + len(_POSITIONAL)} arguments")
            more = dict(zip(_POSITIONAL, args[3:], strict=False))
            twice = sorted(more.keys() & kwargs.keys())
            if twice:
                raise TypeError(f"torch.onnx.export got multiple values for argument {twice[0]!r}")
            return function(*args[:3], **more, **{"dynamo": False, **kwargs})
        return function(*args, **kwargs)

    return export


def _export(*args: Any, **kwargs: Any) -> None:
    assert _original is not None
    if not _is_wanted():
        _original(*args, **kwargs)
        return
    from onnx_native.legacy import _export as native

    native.export(_original, *args, **kwargs)
