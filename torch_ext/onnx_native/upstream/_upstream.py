# ruff: noqa: F401, N811, N813
"""What this package uses of PyTorch's private names. `_names` lists them, each with its purpose.

Private names change between versions of PyTorch. The rest of the package uses only public names;
`.ci/lint_rules.py` enforces this, and `test/python/upstream/test_upstream.py` checks every name.

Names are imported at their first use, because modules of PyTorch's translation import onnxscript,
which a native export must not do. The checker sees them as imports.
"""

import contextlib
import functools
import importlib.abc
import re
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from onnx_native import _builds, _undo
from onnx_native.upstream._names import EXPORTER, TORCHSCRIPT
from onnx_native.upstream._names import NAMES as NAMES
from onnx_native.upstream._names import Name as Name

if TYPE_CHECKING:
    # Each name of `_names`; `test_upstream.py` compares them.
    import torch._higher_order_ops.flex_attention as flex_attention
    from torch import _assert as torch_assert
    from torch import _check as check
    from torch import _pad_packed_sequence as pad_packed_sequence
    from torch._C import DispatchKeySet as DispatchKeySet
    from torch._C import Graph as JitGraph
    from torch._C import NoneType as JitNone
    from torch._C import Value as JitValue
    from torch._C import _dispatch_has_kernel_for_dispatch_key as has_kernel
    from torch._C import _enter_dual_level as enter_dual_level
    from torch._C import _ExcludeDispatchKeyGuard as ExcludeDispatchKeys
    from torch._C import _exit_dual_level as exit_dual_level
    from torch._C import _functorch as functorch
    from torch._C import _is_fwd_grad_enabled as is_forward_grad_enabled
    from torch._C import _jit_get_schemas_for_operator as jit_schemas
    from torch._C import _parse_dispatch_key as parse_dispatch_key
    from torch._C import _set_fwd_grad_enabled as set_forward_grad_enabled
    from torch._C import _swap_tensor_impl as swap_contents
    from torch._decomp import decomposition_table as decomposition_table
    from torch._decomp.decompositions import _rnn_helper as recurrent_layers
    from torch._decomp.decompositions import gather_params as layer_weights
    from torch._dispatch.python import enable_python_dispatcher as enable_python_dispatcher
    from torch._dynamo.eval_frame import OptimizedModule as OptimizedModule
    from torch._export.utils import _is_cia_op as is_cia_op
    from torch._export.utils import _is_preservable_cia_op as is_preservable_cia_op
    from torch._functorch import eager_transforms as eager_transforms
    from torch._functorch.autograd_function import custom_function_call as custom_function_call
    from torch._functorch.pyfunctorch import dispatch_functorch as dispatch_functorch
    from torch._guards import detect_fake_mode as detect_fake_mode
    from torch._higher_order_ops import associative_scan as associative_scan
    from torch._higher_order_ops import utils as higher_order_utils
    from torch._higher_order_ops import while_loop as while_loop
    from torch._higher_order_ops.cond import cond_op as cond_op
    from torch._higher_order_ops.map import map_impl as map_impl
    from torch._higher_order_ops.scan import scan_op as scan_op
    from torch._higher_order_ops.while_loop import while_loop_op as while_loop_op
    from torch._library import fake_impl as fake_impl
    from torch._ops import HigherOrderOperator as HigherOrderOperator
    from torch._ops import OpOverload as OpOverload
    from torch._subclasses.fake_tensor import FakeTensorMode as FakeTensorMode
    from torch.autograd.function import _is_setup_context_defined as has_setup_context
    from torch.autograd.function import _SingleLevelFunction as SingleLevelFunction
    from torch.export import exported_program as exported_program
    from torch.export._patches import _register_rnn_while_loop_decomposition as recurrence_as
    from torch.export._patches import gru_while_loop_impl as gru_loop
    from torch.export._patches import lstm_while_loop_impl as lstm_loop
    from torch.export.dynamic_shapes import _DimHint as DimHint
    from torch.export.dynamic_shapes import _DimHintType as DimHintType
    from torch.fx.experimental.proxy_tensor import make_fx as make_fx
    from torch.fx.experimental.symbolic_shapes import ShapeEnv as ShapeEnv
    from torch.fx.experimental.symbolic_shapes import free_symbols as free_symbols
    from torch.jit import _recursive as jit_recursive
    from torch.jit import _state as jit_state
    from torch.jit._script import call_prepare_scriptable_func as prepare_to_script
    from torch.jit._trace import _unique_state_dict as unique_state_dict
    from torch.onnx._constants import ONNX_DEFAULT_OPSET as DEFAULT_OPSET
    from torch.onnx._constants import ONNX_MAX_OPSET as torchscript_newest_opset
    from torch.onnx._internal.exporter import _flags as onnx_exporting_flag
    from torch.onnx._internal.exporter._building import OpRecorder as OpRecorder
    from torch.onnx._internal.exporter._capture_strategies import (
        CAPTURE_STRATEGIES as CAPTURE_STRATEGIES,
    )
    from torch.onnx._internal.exporter._constants import TORCHLIB_OPSET as TORCHLIB_OPSET
    from torch.onnx._internal.exporter._core import (
        _STEP_ONE_ERROR_MESSAGE as STEP_ONE_ERROR_MESSAGE,
    )
    from torch.onnx._internal.exporter._core import _TORCH_DTYPE_TO_ONNX as TORCH_DTYPE_TO_ONNX
    from torch.onnx._internal.exporter._core import _get_onnxscript_opset as onnxscript_opset
    from torch.onnx._internal.exporter._core import (
        _summarize_exception_stack as summarize_exception_stack,
    )
    from torch.onnx._internal.exporter._core import (
        torch_dtype_to_onnx_dtype as torch_dtype_to_onnx_dtype,
    )
    from torch.onnx._internal.exporter._decomp import (
        create_onnx_friendly_decomposition_table as create_onnx_friendly_decomposition_table,
    )
    from torch.onnx._internal.exporter._decomp import (
        get_onnx_implemented_overloads as get_onnx_implemented_overloads,
    )
    from torch.onnx._internal.exporter._dispatching import dispatch as dispatch
    from torch.onnx._internal.exporter._dynamic_shapes import (
        _flatten_dynamic_shapes_to_axes as flatten_dynamic_shapes,
    )
    from torch.onnx._internal.exporter._errors import ConversionError as ConversionError
    from torch.onnx._internal.exporter._errors import (
        GraphConstructionError as GraphConstructionError,
    )
    from torch.onnx._internal.exporter._errors import TorchExportError as TorchExportError
    from torch.onnx._internal.exporter._exportable_module import (
        ExportableModule as ExportableModule,
    )
    from torch.onnx._internal.exporter._onnx_program import (
        _LARGE_MODEL_THRESHOLD as LARGE_MODEL_THRESHOLD,
    )
    from torch.onnx._internal.exporter._onnx_program import (
        _count_initializer_size as count_initializer_size,
    )
    from torch.onnx._internal.exporter._onnx_program import _from_ort_value as from_ort_value
    from torch.onnx._internal.exporter._onnx_program import (
        _ort_session_initializer as ort_session_initializer,
    )
    from torch.onnx._internal.exporter._onnx_program import _process_args as process_args
    from torch.onnx._internal.exporter._registration import ONNXRegistry as ONNXRegistry
    from torch.onnx._internal.exporter._tensors import SymbolicTensor as SymbolicTensor
    from torch.onnx._internal.fx.passes.type_promotion import (
        TypePromotionTable as TypePromotionTable,
    )
    from torch.onnx._internal.torchscript_exporter._globals import GLOBALS as torchscript_globals
    from torch.onnx._internal.torchscript_exporter._type_utils import (
        JitScalarType as jit_scalar_type,
    )
    from torch.onnx._internal.torchscript_exporter.jit_utils import GraphContext as GraphContext
    from torch.onnx._internal.torchscript_exporter.registration import registry as symbolic_registry
    from torch.overrides import _get_current_function_mode as current_mode
    from torch.overrides import _get_overridable_functions as overridable_functions
    from torch.overrides import _get_tensor_methods as tensor_methods
    from torch.utils import _pytree as pytree
    from torch.utils._device import DeviceContext as DeviceContext
    from torch.utils._device import _device_constructors as device_constructors
    from torch.utils._python_dispatch import TorchDispatchMode as TorchDispatchMode
    from torch.utils._python_dispatch import _disable_current_modes as disable_current_modes
    from torch.utils._python_dispatch import is_traceable_wrapper_subclass as is_wrapper

    SymNode: Any  # PyTorch's stubs lack it
    caller_state: Any  # as well

Function = TypeVar("Function", bound=Callable[..., Any])

# The module whose `export_compat` torch.onnx.export calls.
COMPAT = f"{EXPORTER}._compat"
# The attribute of a function of torch.compile that holds what it compiles.
_COMPILED = "_torchdynamo_orig_callable"
# The module of the functions that torch.export records for torch.vmap.
VMAP = "torch._functorch.predispatch"


def _load(name: str) -> Any:
    """Imports a private name of PyTorch."""
    entry = NAMES.get(name)
    if entry is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        module = importlib.import_module(entry.module)
        return getattr(module, entry.name) if entry.name else module
    except (ImportError, AttributeError) as error:
        built_for = " or ".join(_builds.versions())
        raise ImportError(
            f"PyTorch {torch.__version__} has no {entry.module}.{entry.name}, which onnx_native "
            f"needs {entry.use}; use PyTorch {built_for}, for which it was built"
        ) from error


if not TYPE_CHECKING:
    __getattr__ = _load


# Private fields of PyTorch's objects.


def schema(op: Any) -> Any:
    """Returns the schema of an OpOverload: names, types and aliases of arguments and results."""
    return op._schema


def expression(size: torch.SymInt | torch.SymBool) -> Any:
    """Returns the sympy expression of a symbolic size."""
    return size.node.expr


def example_size(size: torch.SymInt) -> int | None:
    """Returns the example's value of a symbolic size, if known."""
    return size.node.hint


def shape_env(size: torch.SymInt) -> "ShapeEnv":
    """Returns the object that holds the guards and ranges of a symbolic size."""
    return size.node.shape_env


def source_of_symbol(env: "ShapeEnv", symbol: Any) -> str:
    """Returns the size or the number that a symbol is: "x.size(0)"; the symbol if unknown."""
    for source in env.var_to_sources.get(symbol, ()):
        name = source.name() if callable(source.name) else source.name
        found = re.fullmatch(r"L\['(\w+)'\]([\w.\[\]']*?)(\.size\(\)\[(\d+)\])?", name)
        if found is not None:
            return f"{found[1]}{found[2]}" + (f".size({found[4]})" if found[3] else "")
    return str(symbol)


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
    module = _load("exported_program")
    remove = module._remove_unnecessary_copy_op_pass
    with _undo.at_end(lambda: setattr(module, "_remove_unnecessary_copy_op_pass", remove)):
        module._remove_unnecessary_copy_op_pass = lambda graph, signature: (graph, signature)
        yield


@contextmanager
def leaving_transforms() -> Iterator[None]:
    """Leaves the functorch transforms that a capture or a trace has left entered in this thread.

    A captured program enters torch.vmap by one call and leaves it by another. A failed capture of
    torch.func leaves levels of derivatives, too: all later ones in the process would fail.
    """
    functorch, transforms = _load("functorch"), _load("eager_transforms")
    depth = functorch.get_dynamic_layer_stack_depth()
    nesting, is_forward, grad = transforms.JVP_NESTING, _has_dual_level(), torch.is_grad_enabled()
    level = torch.autograd.forward_ad._current_level
    forward_grad = _load("is_forward_grad_enabled")()
    try:
        yield
    finally:
        functorch.pop_dynamic_layer_stack_and_undo_to_depth(depth)
        transforms.JVP_NESTING = nesting
        if not is_forward and _has_dual_level():
            _load("exit_dual_level")(level=0)
        torch.autograd.forward_ad._current_level = level
        _load("set_forward_grad_enabled")(forward_grad)
        torch.set_grad_enabled(grad)


def _has_dual_level() -> bool:
    """Returns whether derivatives in forward mode are open. PyTorch opens no more than one."""
    try:
        level = _load("enter_dual_level")()
    except RuntimeError:
        return True
    _load("exit_dual_level")(level=level)
    return False


@contextmanager
def autocast_of_caller() -> Iterator[None]:
    """Lets an operator that a dispatch mode calls see autocast as its caller does.

    Autocast is off in a mode. A custom operator without a rule for autocast calls others in it.
    """
    with _load("caller_state")():
        devices = [device for device in ("cpu", "cuda") if torch.is_autocast_enabled(device)]
    before = [(device, torch.is_autocast_enabled(device)) for device in devices]
    try:
        for device in devices:
            torch.set_autocast_enabled(device, True)
        yield
    finally:
        for device, was in before:
            torch.set_autocast_enabled(device, was)


def is_compiler_imported() -> bool:
    """Returns whether TorchDynamo is imported, and not just being imported by another thread."""
    module = sys.modules.get("torch._dynamo")
    return module is not None and not getattr(module.__spec__, "_initializing", False)


@contextmanager
def as_written() -> Iterator[None]:
    """Runs functions and modules of torch.compile as they are, without compiling them."""
    if not is_compiler_imported():  # nothing is compiled
        yield
        return
    with torch.compiler.set_stance("force_eager"):
        yield


def print_by(strategy: Any, say: Callable[..., None]) -> None:
    """Makes a capture strategy print its messages by a function."""
    strategy._verbose_print = say


def compiled_from(model: Any) -> Any:
    """Returns the module or function that torch.compile compiled; None for others."""
    if not is_compiler_imported():  # nothing is compiled
        return None
    if isinstance(model, _load("OptimizedModule")):
        return model._orig_mod
    # A builtin function has no attributes.
    return None if isinstance(model, torch.nn.Module) else getattr(model, _COMPILED, None)


def modules_of_flags() -> list[ModuleType]:
    """Returns the modules of the flags that say whether PyTorch exports."""
    return [torch.compiler, _load("onnx_exporting_flag")]


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
    if is_compiler_imported():
        yield finder.stopped
        return
    sys.meta_path.insert(0, finder)
    try:
        yield finder.stopped
    finally:
        sys.meta_path.remove(finder)


def import_compiler() -> None:
    """Imports TorchDynamo."""
    import torch._dynamo


def unrecorded() -> Any:
    """A context in which the recorder of the native capture does not see what runs."""
    key = _load("parse_dispatch_key")("TESTING_ONLY_GenericMode")
    return _load("ExcludeDispatchKeys")(_load("DispatchKeySet")(key))


@contextmanager
def without_compiling(is_recorded: Callable[[], bool]) -> Iterator[None]:
    """Calls higher-order operators without compiling them first, where `is_recorded` says so."""
    module = _load("higher_order_utils")
    compile_and_call = module._hop_compile_and_call

    def call(function: Callable[..., Any], args: Any, kwargs: Any = None) -> Any:
        if is_recorded():
            return function(*args, **(kwargs or {}))
        return compile_and_call(function, args, kwargs)

    put_back = functools.partial(setattr, module, "_hop_compile_and_call", compile_and_call)
    with _undo.at_end(put_back, of_process=True):
        module._hop_compile_and_call = call
        yield


def forward_schema(module: Any) -> Any:
    """Returns the schema of a ScriptModule's forward, including ``self``."""
    return module._c._get_method("forward").schema


def forget_runs(script: Any) -> None:
    """Frees the plans that a ScriptModule made when it ran, which keep the module alive."""
    with contextlib.suppress(RuntimeError):  # the older executor keeps none
        script.forward._debug_flush_compilation_cache()


def children(value: Any) -> list[Any] | None:
    """Returns the elements of a container in pytree's order, or None for a leaf."""
    pytree = _load("pytree")
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
    is_hint = isinstance(dim, _load("DimHint"))
    return is_hint and dim.type is getattr(_load("DimHintType"), kind)


def function_library(opset: int | None = None) -> Any:
    """Returns PyTorch's ONNX function library as a registry, by default at its own opset."""
    registry = _load("ONNXRegistry")
    return (
        registry.from_torchlib() if opset is None else registry.from_torchlib(opset_version=opset)
    )


def empty_function_library(opset: int) -> Any:
    """Returns a registry of this opset without functions."""
    registry = _load("ONNXRegistry")()
    registry._opset_version = opset
    return registry


def op_recorder(opset: Any) -> Any:
    """Returns an onnxscript evaluator that records the nodes that a function creates."""
    return _load("OpRecorder")(opset, {})


def symbolic_functions(opset: int) -> Iterator[tuple[str, Callable[..., Any], bool]]:
    """Returns the operators with symbolic functions that users registered.

    The bool says whether the function is for this opset.
    """
    if f"{TORCHSCRIPT}.registration" not in sys.modules:
        return
    registry = _load("symbolic_registry")
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
    known = _load("torchscript_globals")
    before = known.export_onnx_opset_version
    with _undo.at_end(lambda: setattr(known, "export_onnx_opset_version", before)):
        known.export_onnx_opset_version = opset
        yield


def temporary_buffers(module: torch.nn.Module) -> Iterator[str]:
    """The names of the buffers that are not in the module's state_dict."""
    for path, part in module.named_modules(remove_duplicate=False):
        for name in part._non_persistent_buffers_set:
            yield f"{path}.{name}" if path else name


def argument_names(operator: Any) -> list[str]:
    """The names of an operator's arguments, as its schema has them."""
    return [argument.name for argument in operator._schema.arguments]


class _CompatFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Gives a module to the first import of PyTorch's ``_compat``."""

    def __init__(self, module: ModuleType) -> None:
        self.module = module

    def find_spec(self, name: str, *_: Any) -> ModuleSpec | None:
        return ModuleSpec(COMPAT, self) if name == COMPAT else None

    def create_module(self, _: ModuleSpec) -> ModuleType:
        return self.module

    def exec_module(self, _: ModuleType) -> None:
        sys.meta_path.remove(self)


def _waiting_compat() -> _CompatFinder | None:
    return next((each for each in sys.meta_path if isinstance(each, _CompatFinder)), None)


def loaded_compat() -> ModuleType | None:
    """Returns what an import of PyTorch's ``_compat`` gives without loading the original."""
    finder = _waiting_compat()
    return finder.module if finder else sys.modules.get(COMPAT)


def put_compat(module: ModuleType | None) -> None:
    """Replaces PyTorch's ``_compat`` by a module; None removes it.

    Its package takes longer to import than ours. If it is not there yet, the module is put there by
    the first import of it.
    """
    package: Any = sys.modules.get(EXPORTER)
    if finder := _waiting_compat():
        sys.meta_path.remove(finder)
    if module is None:
        sys.modules.pop(COMPAT, None)
        if hasattr(package, "_compat"):
            del package._compat
    elif package is None:
        sys.meta_path.insert(0, _CompatFinder(module))
    else:
        sys.modules[COMPAT] = module
        package._compat = module


def versions(module: torch.nn.Module) -> list[int]:
    """Returns how often each parameter of a module was written to."""
    return [0 if each.is_inference() else each._version for each in module.parameters()]
