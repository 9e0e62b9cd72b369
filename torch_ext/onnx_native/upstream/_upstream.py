"""The private names of PyTorch that this package uses, each with its purpose.

Private names change between versions of PyTorch. The rest of the package uses only public names;
`.ci/lint_rules.py` enforces this, and `test/python/upstream/test_upstream.py` checks every name.

Names are imported at their first use, because modules of PyTorch's translation import onnxscript,
which a native export must not do. A use starts with "to" and completes the error message.
"""

import importlib.abc
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import torch

from onnx_native import _build_info, _undo

if TYPE_CHECKING:
    from torch._ops import HigherOrderOperator as HigherOrderOperator
    from torch._ops import OpOverload as OpOverload
    from torch.fx.experimental.symbolic_shapes import ShapeEnv as ShapeEnv
    from torch.onnx._internal.exporter._errors import ConversionError as ConversionError

Function = TypeVar("Function", bound=Callable[..., Any])

_EXPORTER = "torch.onnx._internal.exporter"
_TORCHSCRIPT = "torch.onnx._internal.torchscript_exporter"
_SHAPES = "torch.fx.experimental.symbolic_shapes"
# The module whose `export_compat` torch.onnx.export calls.
COMPAT = f"{_EXPORTER}._compat"
# The attribute of a function of torch.compile that holds what it compiles.
_COMPILED = "_torchdynamo_orig_callable"
# The module of the functions that torch.export records for torch.vmap.
VMAP = "torch._functorch.predispatch"


class Name(NamedTuple):
    """A private name: its module in PyTorch, and what this package uses it for."""

    module: str
    name: str  # empty: the module itself
    use: str


NAMES = {
    # Operators and captured graphs.
    "OpOverload": Name("torch._ops", "OpOverload", "to tell operators from other functions"),
    "HigherOrderOperator": Name("torch._ops", "HigherOrderOperator", "to name them in a table"),
    "pytree": Name("torch.utils._pytree", "", "to flatten arguments as torch.export does"),
    "disable_current_modes": Name(
        "torch.utils._python_dispatch", "_disable_current_modes", "to capture outside of modes"
    ),
    "functions_of_rnn": Name(
        "torch._VF", "", "to pad packed sequences, which torch.nn.utils.rnn calls by this module"
    ),
    "exported_program": Name(
        "torch.export.exported_program", "", "to keep copies into buffers when it traces again"
    ),
    "ShapeEnv": Name(_SHAPES, "ShapeEnv", "to find what a capture assumes about sizes"),
    "free_symbols": Name(_SHAPES, "free_symbols", "to find the symbols of a size"),
    "SymNode": Name("torch._C", "_SymNode", "to notice what a recorded number does not have"),
    "FakeTensorMode": Name(
        "torch._subclasses.fake_tensor", "FakeTensorMode", "to compute eager's shapes again"
    ),
    "DimHint": Name(
        "torch.export.dynamic_shapes", "_DimHint", "to recognize Dim.DYNAMIC and similar hints"
    ),
    "DimHintType": Name("torch.export.dynamic_shapes", "_DimHintType", "to recognize Dim.STATIC"),
    "OptimizedModule": Name(
        "torch._dynamo.eval_frame", "OptimizedModule", "to export what torch.compile compiles"
    ),
    "is_wrapper": Name(
        "torch.utils._python_dispatch",
        "is_traceable_wrapper_subclass",
        "to find the tensors in quantized weights",
    ),
    "compiling_state": Name(
        "torch._export.utils", "_compiling_state_context", "to capture as torch.export does"
    ),
    "functorch": Name("torch._C._functorch", "", "to leave the transforms of a failed trace"),
    # Higher-order operators in a native capture.
    "parse_dispatch_key": Name(
        "torch._C", "_parse_dispatch_key", "to record higher-order operators"
    ),
    "higher_order_utils": Name(
        "torch._higher_order_ops.utils", "", "to call higher-order operators without compiling"
    ),
    "cond_op": Name("torch._higher_order_ops.cond", "cond_op", "to record torch.cond"),
    "while_loop_op": Name("torch._higher_order_ops.while_loop", "while_loop_op", "to record it"),
    "scan_op": Name("torch._higher_order_ops.scan", "scan_op", "to record scan"),
    "map_impl": Name("torch._higher_order_ops.map", "map_impl", "to record map"),
    "flex_attention": Name("torch._higher_order_ops.flex_attention", "", "to record it"),
    "custom_function_call": Name(
        "torch._functorch.autograd_function",
        "custom_function_call",
        "to record autograd functions in torch.vmap",
    ),
    "dispatch_functorch": Name(
        "torch._functorch.pyfunctorch",
        "dispatch_functorch",
        "to record autograd functions in torch.vmap",
    ),
    "SingleLevelFunction": Name(
        "torch.autograd.function", "_SingleLevelFunction", "to use symbolic functions"
    ),
    "has_setup_context": Name(
        "torch.autograd.function", "_is_setup_context_defined", "to use symbolic functions"
    ),
    "has_kernel": Name(
        "torch._C",
        "_dispatch_has_kernel_for_dispatch_key",
        "to know what autocast does to an operator",
    ),
    "DispatchKeySet": Name("torch._C", "DispatchKeySet", "to call functions unrecorded"),
    "ExcludeDispatchKeys": Name(
        "torch._C", "_ExcludeDispatchKeyGuard", "to call functions unrecorded"
    ),
    "fake_impl": Name("torch._library.fake_impl", "", "to run fake kernels in a native capture"),
    "associative_scan": Name(
        "torch._higher_order_ops.associative_scan", "", "to record associative_scan"
    ),
    # Decompositions of single operators.
    "lstm_loop": Name(
        "torch.export._patches", "lstm_while_loop_impl", "to keep the length of a sequence dynamic"
    ),
    "gru_loop": Name(
        "torch.export._patches", "gru_while_loop_impl", "to keep the length of a sequence dynamic"
    ),
    "recurrence_as": Name(
        "torch.export._patches",
        "_register_rnn_while_loop_decomposition",
        "to keep the length of a sequence dynamic",
    ),
    "recurrent_layers": Name(
        "torch._decomp.decompositions", "_rnn_helper", "to decompose recurrent layers"
    ),
    "layer_weights": Name(
        "torch._decomp.decompositions", "gather_params", "to decompose recurrent layers"
    ),
    "while_loop": Name(
        "torch._higher_order_ops", "while_loop", "to keep the length of a sequence dynamic"
    ),
    "check": Name("torch", "_check", "to bound the steps of a loop"),
    "torch_assert": Name("torch", "_assert", "to recognize the messages of assertions"),
    "detect_fake_mode": Name("torch._guards", "detect_fake_mode", "to trace a captured call again"),
    "enable_python_dispatcher": Name(
        "torch._dispatch.python", "enable_python_dispatcher", "to trace with symbolic sizes"
    ),
    "make_fx": Name("torch.fx.experimental.proxy_tensor", "make_fx", "to trace a decomposition"),
    "decomposition_table": Name(
        "torch._decomp", "decomposition_table", "to decompose operators without a lowering"
    ),
    "is_cia_op": Name(
        "torch._export.utils", "_is_cia_op", "to know what run_decompositions decomposes"
    ),
    "is_preservable_cia_op": Name(
        "torch._export.utils", "_is_preservable_cia_op", "to know what run_decompositions keeps"
    ),
    # The interface of torch.onnx.export: arguments, captures and errors.
    "DEFAULT_OPSET": Name(
        "torch.onnx._constants", "ONNX_DEFAULT_OPSET", "to export at torch.onnx's default opset"
    ),
    "set_onnx_exporting_flag": Name(
        f"{_EXPORTER}._flags", "set_onnx_exporting_flag", "to set torch.onnx.is_in_onnx_export()"
    ),
    "ExportableModule": Name(
        f"{_EXPORTER}._exportable_module", "ExportableModule", "to take its example arguments"
    ),
    "flatten_dynamic_shapes": Name(
        f"{_EXPORTER}._dynamic_shapes",
        "_flatten_dynamic_shapes_to_axes",
        "to flatten dynamic_shapes without the arguments",
    ),
    "CAPTURE_STRATEGIES": Name(
        f"{_EXPORTER}._capture_strategies", "CAPTURE_STRATEGIES", "to capture as torch.onnx does"
    ),
    "TorchExportError": Name(
        f"{_EXPORTER}._errors", "TorchExportError", "to raise torch.onnx's errors"
    ),
    "ConversionError": Name(
        f"{_EXPORTER}._errors", "ConversionError", "to raise torch.onnx's errors"
    ),
    "GraphConstructionError": Name(
        f"{_EXPORTER}._errors", "GraphConstructionError", "to raise torch.onnx's errors"
    ),
    "STEP_ONE_ERROR_MESSAGE": Name(
        f"{_EXPORTER}._core", "_STEP_ONE_ERROR_MESSAGE", "to report a failed capture"
    ),
    "summarize_exception_stack": Name(
        f"{_EXPORTER}._core", "_summarize_exception_stack", "to report a failed capture"
    ),
    # Running and saving an exported program.
    "count_initializer_size": Name(
        f"{_EXPORTER}._onnx_program", "_count_initializer_size", "to decide on external data"
    ),
    "LARGE_MODEL_THRESHOLD": Name(
        f"{_EXPORTER}._onnx_program", "_LARGE_MODEL_THRESHOLD", "to decide on external data"
    ),
    "ort_session_initializer": Name(
        f"{_EXPORTER}._onnx_program", "_ort_session_initializer", "to run a program"
    ),
    "process_args": Name(f"{_EXPORTER}._onnx_program", "_process_args", "to run a program"),
    "from_ort_value": Name(f"{_EXPORTER}._onnx_program", "_from_ort_value", "to run a program"),
    "prepare_to_script": Name(
        "torch.jit._script", "call_prepare_scriptable_func", "to compile a module as TorchScript"
    ),
    "jit_state": Name("torch.jit._state", "", "to compile functions apart from those of the user"),
    "jit_recursive": Name("torch.jit._recursive", "", "to compile a module as TorchScript"),
    # Symbolic functions of the TorchScript exporter.
    "JitGraph": Name("torch._C", "Graph", "to call symbolic functions"),
    "JitValue": Name("torch._C", "Value", "to call symbolic functions"),
    "JitNone": Name("torch._C", "NoneType", "to call symbolic functions"),
    "jit_schemas": Name("torch._C", "_jit_get_schemas_for_operator", "to find symbolic functions"),
    "GraphContext": Name(f"{_TORCHSCRIPT}.jit_utils", "GraphContext", "to call symbolic functions"),
    "jit_scalar_type": Name(
        f"{_TORCHSCRIPT}._type_utils", "JitScalarType", "to call symbolic functions"
    ),
    "symbolic_registry": Name(
        f"{_TORCHSCRIPT}.registration", "registry", "to find symbolic functions"
    ),
    "torchscript_globals": Name(
        f"{_TORCHSCRIPT}._globals", "GLOBALS", "to tell symbolic functions the opset"
    ),
    "torchscript_newest_opset": Name(
        "torch.onnx._constants", "ONNX_MAX_OPSET", "to tell symbolic functions the opset"
    ),
    # PyTorch's ONNX function library and the user's translation table.
    "OpRecorder": Name(f"{_EXPORTER}._building", "OpRecorder", "to replay onnxscript functions"),
    "SymbolicTensor": Name(
        f"{_EXPORTER}._tensors", "SymbolicTensor", "to replay onnxscript functions"
    ),
    "onnxscript_opset": Name(
        f"{_EXPORTER}._core", "_get_onnxscript_opset", "to replay onnxscript functions"
    ),
    "torch_dtype_to_onnx_dtype": Name(
        f"{_EXPORTER}._core", "torch_dtype_to_onnx_dtype", "to replay onnxscript functions"
    ),
    "TORCH_DTYPE_TO_ONNX": Name(
        f"{_EXPORTER}._core", "_TORCH_DTYPE_TO_ONNX", "to replay onnxscript functions"
    ),
    "TORCHLIB_OPSET": Name(
        f"{_EXPORTER}._constants", "TORCHLIB_OPSET", "to know the opset of PyTorch's functions"
    ),
    "ONNXRegistry": Name(
        f"{_EXPORTER}._registration", "ONNXRegistry", "to find functions of PyTorch's library"
    ),
    "dispatch": Name(
        f"{_EXPORTER}._dispatching", "dispatch", "to find functions of PyTorch's library"
    ),
    "get_onnx_implemented_overloads": Name(
        f"{_EXPORTER}._decomp", "get_onnx_implemented_overloads", "to use a translation table"
    ),
    "create_onnx_friendly_decomposition_table": Name(
        f"{_EXPORTER}._decomp",
        "create_onnx_friendly_decomposition_table",
        "to use a translation table",
    ),
    "TypePromotionTable": Name(
        "torch.onnx._internal.fx.passes.type_promotion",
        "TypePromotionTable",
        "to promote the arguments of a translation table's functions",
    ),
}


def __getattr__(name: str) -> Any:
    entry = NAMES.get(name)
    if entry is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        module = importlib.import_module(entry.module)
        return getattr(module, entry.name) if entry.name else module
    except (ImportError, AttributeError) as error:
        raise ImportError(
            f"PyTorch {torch.__version__} has no {entry.module}.{entry.name}, which onnx_native "
            f"needs {entry.use}; use PyTorch {_build_info.TORCH_VERSION}, for which it was built"
        ) from error


# Private fields of PyTorch's objects.


def schema(op: Any) -> Any:
    """Returns the schema of an OpOverload: names, types and aliases of arguments and results."""
    return op._schema


def expression(size: torch.SymInt) -> Any:
    """Returns the sympy expression of a symbolic size."""
    return size.node.expr


def example_size(size: torch.SymInt) -> int | None:
    """Returns the example's value of a symbolic size, if known."""
    return size.node.hint


def shape_env(size: torch.SymInt) -> "ShapeEnv":
    """Returns the object that holds the guards and ranges of a symbolic size."""
    return size.node.shape_env


def loaded_guards(program: torch.export.ExportedProgram) -> Iterable[str]:
    """Returns the guards of a program that torch.export.load read, as Python expressions."""
    return getattr(program, "_guards_code", None) or ()


def flat_arguments(program: torch.export.ExportedProgram, args: Any, kwargs: Any) -> Any:
    """Returns the arguments as the inputs of a captured program; raises if they do not fit."""
    return program._get_flat_args_with_check(args, kwargs)[0]


def clear_dispatch_cache(op: Any) -> None:
    """Clears an operator's cache of decompositions."""
    op._dispatch_cache.clear()


@contextmanager
def keeping_copies() -> Iterator[None]:
    """Keeps copies into buffers when PyTorch traces a captured program again.

    PyTorch replaces ``copy(buffer, source)`` by ``source``, which may have another dtype or shape.
    """
    module = __getattr__("exported_program")
    remove = module._remove_unnecessary_copy_op_pass
    with _undo.at_end(lambda: setattr(module, "_remove_unnecessary_copy_op_pass", remove)):
        module._remove_unnecessary_copy_op_pass = lambda graph, signature: (graph, signature)
        yield


@contextmanager
def leaving_transforms() -> Iterator[None]:
    """Leaves the functorch transforms that an exception has left entered.

    A captured program enters torch.vmap by one call and leaves it by another.
    """
    functorch = __getattr__("functorch")
    depth = functorch.get_dynamic_layer_stack_depth()
    try:
        yield
    except BaseException:
        functorch.pop_dynamic_layer_stack_and_undo_to_depth(depth)
        raise


def _is_compiler_imported() -> bool:
    """Returns whether TorchDynamo is imported, and not just being imported by another thread."""
    module = sys.modules.get("torch._dynamo")
    return module is not None and not getattr(module.__spec__, "_initializing", False)


@contextmanager
def as_written() -> Iterator[None]:
    """Runs functions and modules of torch.compile as they are, without compiling them."""
    if not _is_compiler_imported():  # nothing is compiled
        yield
        return
    with torch.compiler.set_stance("force_eager"):
        yield


def print_by(strategy: Any, say: Callable[..., None]) -> None:
    """Makes a capture strategy print its messages by a function."""
    strategy._verbose_print = say


def compiled_from(model: Any) -> Any:
    """Returns the module or function that torch.compile compiled; None for others."""
    if not _is_compiler_imported():  # nothing is compiled
        return None
    if isinstance(model, __getattr__("OptimizedModule")):
        return model._orig_mod
    return None if isinstance(model, torch.nn.Module) else vars(model).get(_COMPILED)


def set_exporting(value: bool) -> bool:
    """Sets what torch.compiler.is_exporting() returns; returns what it was."""
    compiler: Any = torch.compiler
    was: bool = compiler._is_exporting_flag
    compiler._is_exporting_flag = value
    return was


def modules_of_flags() -> list[ModuleType]:
    """Returns the modules of the flags that say whether PyTorch exports."""
    exporter = importlib.import_module(NAMES["set_onnx_exporting_flag"].module)
    return [torch.compiler, exporter]


def recomputed(module: torch.nn.Module) -> set[str]:
    """Returns the attributes that hooks of weight_norm and the like set before each call."""
    from torch.nn.utils.prune import BasePruningMethod
    from torch.nn.utils.spectral_norm import SpectralNorm
    from torch.nn.utils.weight_norm import WeightNorm

    names = set()
    for hook in module._forward_pre_hooks.values():
        if isinstance(hook, BasePruningMethod):
            names.add(hook._tensor_name)
        elif isinstance(hook, (SpectralNorm, WeightNorm)):
            names.add(hook.name)
    return names


class _CompilerFinder(importlib.abc.MetaPathFinder):
    def __init__(self) -> None:
        self._thread = threading.get_ident()
        self.stopped: list[str] = []

    def find_spec(self, name: str, *_: Any) -> None:
        if name == "torch._dynamo" and threading.get_ident() == self._thread:
            self.stopped.append(name)
            raise ImportError("TorchDynamo is not imported while a program is recorded")


@contextmanager
def without_compiler() -> Iterator[list[str]]:
    """Stops this thread from importing TorchDynamo, which costs seconds and makes tables of the
    functions that a recording replaces.

    Yields:
        What was stopped, if anything: the recording is to be made again after import_compiler().
    """
    finder = _CompilerFinder()
    if _is_compiler_imported():
        yield finder.stopped
        return
    sys.meta_path.insert(0, finder)
    try:
        yield finder.stopped
    finally:
        sys.meta_path.remove(finder)


def import_compiler() -> None:
    """Imports TorchDynamo."""
    import torch._dynamo  # noqa: F401


def unrecorded() -> Any:
    """A context in which the recorder of the native capture does not see what runs."""
    key = __getattr__("parse_dispatch_key")("TESTING_ONLY_GenericMode")
    return __getattr__("ExcludeDispatchKeys")(__getattr__("DispatchKeySet")(key))


@contextmanager
def without_compiling(is_recorded: Callable[[], bool]) -> Iterator[None]:
    """Calls higher-order operators without compiling them first, where `is_recorded` says so."""
    module = __getattr__("higher_order_utils")
    compile_and_call = module._hop_compile_and_call

    def call(function: Callable[..., Any], args: Any, kwargs: Any = None) -> Any:
        if is_recorded():
            return function(*args, **(kwargs or {}))
        return compile_and_call(function, args, kwargs)

    with _undo.at_end(lambda: setattr(module, "_hop_compile_and_call", compile_and_call)):
        module._hop_compile_and_call = call
        yield


def forward_schema(module: Any) -> Any:
    """Returns the schema of a ScriptModule's forward, including ``self``."""
    return module._c._get_method("forward").schema


def forget_runs(script: Any) -> None:
    """Frees the plans that a ScriptModule made when it ran, which keep the module alive."""
    script.forward._debug_flush_compilation_cache()


def children(value: Any) -> list[Any] | None:
    """Returns the elements of a container in pytree's order, or None for a leaf."""
    pytree = __getattr__("pytree")
    kind = pytree._get_node_type(value)
    if kind not in pytree.SUPPORTED_NODES:
        return None
    return list(pytree.SUPPORTED_NODES[kind].flatten_fn(value)[0])


def is_fake(tensor: torch.Tensor) -> bool:
    """Whether a tensor is a FakeTensor."""
    module = sys.modules.get("torch._subclasses.fake_tensor")
    return module is not None and isinstance(tensor, module.FakeTensor)


def hide_frames_of(file: str) -> None:
    """Makes messages of torch.export leave out the frames of a file, as they do PyTorch's own."""
    from torch.fx.experimental import symbolic_shapes

    symbolic_shapes.uninteresting_files().add(file)


def is_static_hint(dim: Any) -> bool:
    """Returns whether a size in dynamic_shapes is Dim.STATIC."""
    return _is_hint(dim, "STATIC")


def is_dynamic_hint(dim: Any) -> bool:
    """Returns whether a size in dynamic_shapes is Dim.DYNAMIC."""
    return _is_hint(dim, "DYNAMIC")


def _is_hint(dim: Any, kind: str) -> bool:
    is_hint = isinstance(dim, __getattr__("DimHint"))
    return is_hint and dim.type is getattr(__getattr__("DimHintType"), kind)


def function_library(opset: int | None = None) -> Any:
    """Returns PyTorch's ONNX function library as a registry, by default at its own opset."""
    registry = __getattr__("ONNXRegistry")
    return (
        registry.from_torchlib() if opset is None else registry.from_torchlib(opset_version=opset)
    )


def empty_function_library(opset: int) -> Any:
    """Returns a registry of this opset without functions."""
    registry = __getattr__("ONNXRegistry")()
    registry._opset_version = opset
    return registry


def op_recorder(opset: Any) -> Any:
    """Returns an onnxscript evaluator that records the nodes that a function creates."""
    return __getattr__("OpRecorder")(opset, {})


def symbolic_functions(opset: int) -> Iterator[tuple[str, Callable[..., Any], bool]]:
    """Returns the operators with symbolic functions that users registered.

    The bool says whether the function is for this opset.
    """
    if f"{_TORCHSCRIPT}.registration" not in sys.modules:
        return
    registry = __getattr__("symbolic_registry")
    for name in registry.all_functions():
        group = registry.get_function_group(name)
        own = dict(group._functions._overrides)
        # Not group.get(): a function of PyTorch's own for a newer opset, which is there once
        # something has imported it, would win over the user's.
        fitting = [version for version in own if version <= opset]
        if fitting:
            yield name, own[max(fitting)], True
        elif own:
            yield name, own[min(own)], False


@contextmanager
def torchscript_opset(opset: int) -> Iterator[None]:
    """Tells symbolic functions the opset."""
    known = __getattr__("torchscript_globals")
    before = known.export_onnx_opset_version
    with _undo.at_end(lambda: setattr(known, "export_onnx_opset_version", before)):
        known.export_onnx_opset_version = opset
        yield


def exporting(function: Function) -> Function:
    """Makes torch.onnx.is_in_onnx_export() true while the function runs."""
    decorated: Function = __getattr__("set_onnx_exporting_flag")(function)
    return decorated


def temporary_buffers(module: torch.nn.Module) -> Iterator[str]:
    """The names of the buffers that are not in the module's state_dict."""
    for path, part in module.named_modules(remove_duplicate=False):
        for name in part._non_persistent_buffers_set:
            yield f"{path}.{name}" if path else name


def argument_names(operator: Any) -> list[str]:
    """The names of an operator's arguments, as its schema has them."""
    return [argument.name for argument in operator._schema.arguments]


def loaded_compat() -> ModuleType | None:
    """Returns the entry of PyTorch's ``_compat`` in ``sys.modules``."""
    return sys.modules.get(COMPAT)


def put_compat(module: ModuleType | None) -> None:
    """Replaces PyTorch's ``_compat`` by a module; None removes it."""
    package: Any = importlib.import_module(_EXPORTER)
    if module is None:
        sys.modules.pop(COMPAT, None)
        if hasattr(package, "_compat"):
            del package._compat
    else:
        sys.modules[COMPAT] = module
        package._compat = module
