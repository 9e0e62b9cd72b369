"""The private names of PyTorch that this package uses, each with its module and its purpose.

A use starts with "to" and completes the error message for a version of PyTorch without the name.
`_upstream` imports each name at its first use, and states its type.
"""

from typing import NamedTuple

EXPORTER = "torch.onnx._internal.exporter"
TORCHSCRIPT = "torch.onnx._internal.torchscript_exporter"
_SHAPES = "torch.fx.experimental.symbolic_shapes"


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
    "TorchDispatchMode": Name(
        "torch.utils._python_dispatch",
        "TorchDispatchMode",
        "to copy what a run writes to before it does",
    ),
    "device_constructors": Name(
        "torch.utils._device", "_device_constructors", "to keep PyTorch's list of them as it is"
    ),
    "overridable_functions": Name(
        "torch.overrides", "_get_overridable_functions", "to keep PyTorch's list of them as it is"
    ),
    "current_mode": Name(
        "torch.overrides",
        "_get_current_function_mode",
        "to leave functions to modes of the program",
    ),
    "DeviceContext": Name(
        "torch.utils._device", "DeviceContext", "to tell torch.device from modes of the program"
    ),
    "tensor_methods": Name(
        "torch.overrides", "_get_tensor_methods", "to keep PyTorch's list of them as it is"
    ),
    "pad_packed_sequence": Name(
        "torch", "_pad_packed_sequence", "to pad packed sequences to their longest one"
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
    "functorch": Name("torch._C._functorch", "", "to leave the transforms of a failed trace"),
    "caller_state": Name(
        "torch._C", "_RestorePythonTLSSnapshot", "to run custom operators in the caller's autocast"
    ),
    "eager_transforms": Name(
        "torch._functorch.eager_transforms", "", "to leave the derivatives of a failed trace"
    ),
    "enter_dual_level": Name(
        "torch._C", "_enter_dual_level", "to know whether a failed trace has left derivatives"
    ),
    "exit_dual_level": Name(
        "torch._C", "_exit_dual_level", "to leave the derivatives of a failed trace"
    ),
    "is_forward_grad_enabled": Name(
        "torch._C", "_is_fwd_grad_enabled", "to leave the derivatives of a failed trace"
    ),
    "set_forward_grad_enabled": Name(
        "torch._C", "_set_fwd_grad_enabled", "to leave the derivatives of a failed trace"
    ),
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
    "swap_contents": Name(
        "torch._C", "_swap_tensor_impl", "to leave no recorded tensor where a program keeps it"
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
    "onnx_exporting_flag": Name(
        f"{EXPORTER}._flags", "", "to reset what an interrupted export leaves"
    ),
    "ExportableModule": Name(
        f"{EXPORTER}._exportable_module", "ExportableModule", "to take its example arguments"
    ),
    "flatten_dynamic_shapes": Name(
        f"{EXPORTER}._dynamic_shapes",
        "_flatten_dynamic_shapes_to_axes",
        "to flatten dynamic_shapes without the arguments",
    ),
    "CAPTURE_STRATEGIES": Name(
        f"{EXPORTER}._capture_strategies", "CAPTURE_STRATEGIES", "to capture as torch.onnx does"
    ),
    "TorchExportError": Name(
        f"{EXPORTER}._errors", "TorchExportError", "to raise torch.onnx's errors"
    ),
    "ConversionError": Name(
        f"{EXPORTER}._errors", "ConversionError", "to raise torch.onnx's errors"
    ),
    "GraphConstructionError": Name(
        f"{EXPORTER}._errors", "GraphConstructionError", "to raise torch.onnx's errors"
    ),
    "STEP_ONE_ERROR_MESSAGE": Name(
        f"{EXPORTER}._core", "_STEP_ONE_ERROR_MESSAGE", "to report a failed capture"
    ),
    "summarize_exception_stack": Name(
        f"{EXPORTER}._core", "_summarize_exception_stack", "to report a failed capture"
    ),
    # Running and saving an exported program.
    "count_initializer_size": Name(
        f"{EXPORTER}._onnx_program", "_count_initializer_size", "to decide on external data"
    ),
    "LARGE_MODEL_THRESHOLD": Name(
        f"{EXPORTER}._onnx_program", "_LARGE_MODEL_THRESHOLD", "to decide on external data"
    ),
    "ort_session_initializer": Name(
        f"{EXPORTER}._onnx_program", "_ort_session_initializer", "to run a program"
    ),
    "process_args": Name(f"{EXPORTER}._onnx_program", "_process_args", "to run a program"),
    "from_ort_value": Name(f"{EXPORTER}._onnx_program", "_from_ort_value", "to run a program"),
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
    "GraphContext": Name(f"{TORCHSCRIPT}.jit_utils", "GraphContext", "to call symbolic functions"),
    "jit_scalar_type": Name(
        f"{TORCHSCRIPT}._type_utils", "JitScalarType", "to call symbolic functions"
    ),
    "symbolic_registry": Name(
        f"{TORCHSCRIPT}.registration", "registry", "to find symbolic functions"
    ),
    "unique_state_dict": Name(
        "torch.jit._trace", "_unique_state_dict", "to order parameters as the older exporter does"
    ),
    "torchscript_globals": Name(
        f"{TORCHSCRIPT}._globals", "GLOBALS", "to tell symbolic functions the opset"
    ),
    "torchscript_newest_opset": Name(
        "torch.onnx._constants", "ONNX_MAX_OPSET", "to tell symbolic functions the opset"
    ),
    # PyTorch's ONNX function library and the user's translation table.
    "OpRecorder": Name(f"{EXPORTER}._building", "OpRecorder", "to replay onnxscript functions"),
    "SymbolicTensor": Name(
        f"{EXPORTER}._tensors", "SymbolicTensor", "to replay onnxscript functions"
    ),
    "onnxscript_opset": Name(
        f"{EXPORTER}._core", "_get_onnxscript_opset", "to replay onnxscript functions"
    ),
    "torch_dtype_to_onnx_dtype": Name(
        f"{EXPORTER}._core", "torch_dtype_to_onnx_dtype", "to replay onnxscript functions"
    ),
    "TORCH_DTYPE_TO_ONNX": Name(
        f"{EXPORTER}._core", "_TORCH_DTYPE_TO_ONNX", "to replay onnxscript functions"
    ),
    "TORCHLIB_OPSET": Name(
        f"{EXPORTER}._constants", "TORCHLIB_OPSET", "to know the opset of PyTorch's functions"
    ),
    "ONNXRegistry": Name(
        f"{EXPORTER}._registration", "ONNXRegistry", "to find functions of PyTorch's library"
    ),
    "dispatch": Name(
        f"{EXPORTER}._dispatching", "dispatch", "to find functions of PyTorch's library"
    ),
    "get_onnx_implemented_overloads": Name(
        f"{EXPORTER}._decomp", "get_onnx_implemented_overloads", "to use a translation table"
    ),
    "create_onnx_friendly_decomposition_table": Name(
        f"{EXPORTER}._decomp",
        "create_onnx_friendly_decomposition_table",
        "to use a translation table",
    ),
    "TypePromotionTable": Name(
        "torch.onnx._internal.fx.passes.type_promotion",
        "TypePromotionTable",
        "to promote the arguments of a translation table's functions",
    ),
}
