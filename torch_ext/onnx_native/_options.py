"""Export options that torch.onnx.export has no arguments for."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Literal, get_args

import torch

# The words of the options, as csrc/base knows them.
Metadata = Literal["none", "names", "full"]
Target = Literal[
    "onnx",
    "onnxruntime-cpu",
    "onnxruntime-cuda",
    "onnxruntime-webgpu",
    "opencv",
    "mnn",
    "tract",
]
WeightLayout = Literal["runtime", "module"]
NanMode = Literal["standard", "exact", "ignore"]
Precision = Literal["program", "float16", "bfloat16"]
QuantizedDType = Literal["none", "int4", "int8"]
# How a module is captured; the routes of this package know it.
CaptureMode = Literal["auto", "native", "torch.export"]
BranchMode = Literal["both", "example"]


@dataclasses.dataclass(frozen=True)
class WeightQuantization:
    """How the weights of products are quantized.

    Attributes:
        dtype: ``"int4"``, ``"int8"``, or ``"none"`` for weights as they are.
        block_size: How many elements share a scale: a power of two, 16 or more.
        symmetric: Whether blocks have no zero points.
        embeddings: Whether tables of embeddings are quantized too, where the target takes them.
        excluded: Names of weights and modules that stay as they are; ``*`` and ``?`` stand for
            other characters.
        accuracy_level: The attribute of MatMulNBits: 0, the default, computes in the dtype of the
            activations, and 4 rounds them to 8 bits, which is faster.
    """

    dtype: QuantizedDType = "int4"
    block_size: int = 32
    symmetric: bool = True
    embeddings: bool = False
    excluded: tuple[str, ...] = ()
    accuracy_level: int = 0


@dataclasses.dataclass(frozen=True)
class Options:
    """The options of an export."""

    state: bool | tuple[str, ...] = False
    metadata: Metadata = "full"
    functions: bool | tuple[str, ...] = False
    disabled_passes: tuple[str, ...] = ()
    target: Target = "onnx"
    weights: WeightLayout = "runtime"
    nan: NanMode = "standard"
    precision: Precision = "program"
    keep_io_types: bool = True
    float32_modules: tuple[str, ...] = ()
    adapters: tuple[str, ...] = ()
    quantize_weights: WeightQuantization = WeightQuantization("none")
    capture: CaptureMode = "auto"
    branches: BranchMode = "both"
    fallbacks: bool | None = None
    legacy: bool = False


_current: ContextVar[Options | None] = ContextVar("onnx_native_options", default=None)


def current() -> Options:
    """Returns the options that apply to exports in the current context."""
    return _current.get() or _from_environment()


def _from_environment() -> Options:
    """The options outside of all blocks.

    ONNX_NATIVE_CAPTURE sets another capture; ONNX_NATIVE_LEGACY=1 asks for ``dynamo=False`` too, as
    enable(legacy=True) does.
    """
    capture = os.environ.get("ONNX_NATIVE_CAPTURE") or "auto"
    return Options(
        capture=_choice("ONNX_NATIVE_CAPTURE", capture, CaptureMode),
        legacy=_legacy if _legacy is not None else legacy_in_environment(),
    )


def legacy_in_environment() -> bool:
    """Whether ONNX_NATIVE_LEGACY asks for calls with ``dynamo=False``."""
    return os.environ.get("ONNX_NATIVE_LEGACY", "") not in ("", "0")


# What enable(legacy=...) asked for, and what makes these calls pass through this package.
_legacy: bool | None = None
_at_legacy: list[Callable[[], None]] = []


def when_legacy(action: Callable[[], None]) -> None:
    """Calls a function as soon as somebody asks for calls with ``dynamo=False``."""
    _at_legacy.append(action)


def set_legacy(wanted: bool | None) -> bool | None:
    """Sets whether exports outside of all blocks take calls with ``dynamo=False``.

    None leaves that to the environment. Returns what was set before.
    """
    global _legacy
    before, _legacy = _legacy, wanted
    if wanted:
        prepare_legacy()
    return before


def prepare_legacy() -> None:
    """Makes calls with ``dynamo=False`` pass through this package."""
    for action in _at_legacy:
        action()


def _names(classes: Iterable[type[torch.nn.Module] | str]) -> tuple[str, ...]:
    if isinstance(classes, (str, type)):
        classes = (classes,)
    names = []
    for given in classes:
        if isinstance(given, type) and issubclass(given, torch.nn.Module):
            names.append(f"{given.__module__}.{given.__qualname__}")
        elif isinstance(given, str) and given:
            names.append(given)
        else:
            raise TypeError(f"functions= takes module classes or their names, got {given!r}")
    return tuple(sorted(names))


def _choice(name: str, given: object, words: Any) -> Any:
    """Returns a word that is among those of a Literal type."""
    known = get_args(words)
    if given not in known:
        raise ValueError(f"{name}= takes one of {', '.join(map(repr, known))}, not {given!r}")
    return given


def _quantization(given: QuantizedDType | WeightQuantization) -> WeightQuantization:
    settings = given if isinstance(given, WeightQuantization) else WeightQuantization(given)
    _choice("quantize_weights", settings.dtype, QuantizedDType)
    return dataclasses.replace(settings, excluded=_as_tuple(settings.excluded))


def _as_tuple(names: Sequence[str]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


@contextmanager
def options(
    *,
    state: bool | str | Sequence[str] | None = None,
    metadata: Metadata | bool | None = None,
    functions: bool | Iterable[type[torch.nn.Module] | str] | None = None,
    disabled_passes: Sequence[str] | None = None,
    target: Target | None = None,
    weights: WeightLayout | None = None,
    nan: NanMode | None = None,
    precision: Precision | None = None,
    keep_io_types: bool | None = None,
    float32_modules: Sequence[str] | None = None,
    adapters: Sequence[str] | None = None,
    quantize_weights: QuantizedDType | WeightQuantization | None = None,
    capture: CaptureMode | None = None,
    branches: BranchMode | None = None,
    fallbacks: bool | None = None,
    legacy: bool | None = None,
) -> Iterator[None]:
    """Sets options for the exports in the block. None keeps the surrounding value.

    Args:
        state: The buffers (``state_dict`` names) and inputs whose updated values the model returns;
            True for all that the program writes to. A buffer ``k`` becomes an input ``k`` and an
            output ``k_out``; an input gets an output. With False, a warning names the buffers and
            inputs that the program writes to.
        metadata: What the model records of the program: with ``"names"`` the names of modules,
            calls and operators; with ``"full"``, the default, also source lines, the calls and the
            signature, as PyTorch's exporter does; with ``"none"`` nothing. True and False are
            ``"full"`` and ``"none"``. See docs/names.md.
        functions: The modules that become local functions of the ONNX model: True for all, or
            classes or their names, ``"package.module.Class"`` or ``"Class"``.
        disabled_passes: Names of optimization passes that do not run, for example
            ``"rms_normalization"``. ``export_report["passes"]`` counts the changes of each pass.
        target: The tool that the model is written for: ``"onnx"``, the default, for all tools, with
            standard operators only; ``"onnxruntime-cpu"``, ``"onnxruntime-cuda"`` and
            ``"onnxruntime-webgpu"`` also with ONNX Runtime's contrib operators that the provider
            has, with a warning for each node that it has no kernel for; ``"opencv"``, ``"mnn"`` and
            ``"tract"`` in the forms that these importers take, likewise. See docs/targets.md.
        weights: How the model stores a matrix that only products use: ``"runtime"`` transposed, as
            runtimes and quantizers expect it, under the name ``"<name>.T"``; ``"module"`` as the
            module does, under its name, with a Transpose node.
        nan: What the model computes from NaN: with ``"standard"`` what eager does, except for max
            pools, which ignore it; with ``"exact"`` max pools are exact too, and slower; with
            ``"ignore"`` sorts and max pools have the shortest form, for models in which no NaN
            occurs. ``export_report["nan_differences"]`` says what was given up. See docs/nan.md.
        precision: What a float32 program computes in: ``"program"``, the default, float32;
            ``"float16"`` and ``"bfloat16"`` half precision, except where float32 is needed. Weights
            are converted while they are written. ``export_report["float32_nodes"]`` counts the
            operators that stayed float32. See docs/precision.md.
        keep_io_types: Whether float32 inputs and outputs stay float32 where ``precision`` lowers
            the rest; with False they have its dtype too.
        float32_modules: Names of modules that compute in float32 where ``precision`` lowers the
            rest, with the modules in them; ``*`` and ``?`` stand for other characters.
        adapters: Names of parameters, likewise, that become inputs of the model with zeros as
            defaults, so that ONNX Runtime swaps them (``save_adapter``). See docs/adapters.md.
        quantize_weights: Whether the weights of products are stored in blocks of ``"int4"`` or
            ``"int8"``, as ONNX Runtime's quantizer rounds them, or as they are (``"none"``, the
            default). A WeightQuantization has more settings. Weights are quantized while they are
            written. ``export_report["quantized_weights"]`` lists them, and
            ``export_report["unquantized_weights"]`` says why others stay. See docs/quantization.md.
        capture: How a module is captured: with ``"auto"``, the default, and ``"native"`` by the
            native recorder, which leaves programs that it cannot record to torch.export, and
            those that torch.export cannot capture to TorchScript; with ``"torch.export"`` by
            torch.export only.
            ``export_report["capture"]`` says which one captured the program, and why. See
            docs/capture.md.
        branches: What the native capture does where the program decides by a dynamic size,
            ``if n > 512``: with ``"both"``, the default, the model has both ways, where that can
            be; with ``"example"`` it has the way of the example, and a warning says for which
            sizes it is valid.
        fallbacks: Whether operators without a native lowering may use PyTorch's decompositions and
            its function library. ``ONNX_NATIVE_FALLBACKS=0`` forbids it outside of such blocks.
            See docs/operators.md.
        legacy: Whether ``torch.onnx.export(..., dynamo=False)`` runs natively too, with the names
            and inputs of PyTorch's older exporter. See docs/legacy.md.

    Raises:
        ValueError: There is no such level of metadata, target, layout, treatment of NaN,
            precision, dtype of weights, capture or treatment of branches.
    """
    changes: dict[str, Any] = {}
    if state is not None:
        names = (state,) if isinstance(state, str) else state
        changes["state"] = names if isinstance(names, bool) else tuple(names)
    if metadata is not None:
        level = metadata if isinstance(metadata, str) else "full" if metadata else "none"
        changes["metadata"] = _choice("metadata", level, Metadata)
    if functions is not None:
        changes["functions"] = functions if isinstance(functions, bool) else _names(functions)
    if disabled_passes is not None:
        changes["disabled_passes"] = _as_tuple(disabled_passes)
    if target is not None:
        changes["target"] = _choice("target", target, Target)
    if weights is not None:
        changes["weights"] = _choice("weights", weights, WeightLayout)
    if nan is not None:
        changes["nan"] = _choice("nan", nan, NanMode)
    if precision is not None:
        changes["precision"] = _choice("precision", precision, Precision)
    if keep_io_types is not None:
        changes["keep_io_types"] = bool(keep_io_types)
    if float32_modules is not None:
        changes["float32_modules"] = _as_tuple(float32_modules)
    if adapters is not None:
        changes["adapters"] = _as_tuple(adapters)
    if quantize_weights is not None:
        changes["quantize_weights"] = _quantization(quantize_weights)
    if capture is not None:
        changes["capture"] = _choice("capture", capture, CaptureMode)
    if branches is not None:
        changes["branches"] = _choice("branches", branches, BranchMode)
    if fallbacks is not None:
        changes["fallbacks"] = bool(fallbacks)
    if legacy is not None:
        changes["legacy"] = bool(legacy)
    if legacy:
        prepare_legacy()
    token = _current.set(dataclasses.replace(current(), **changes))
    try:
        yield
    finally:
        _current.reset(token)
