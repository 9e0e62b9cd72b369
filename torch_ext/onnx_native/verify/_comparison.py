"""Runs a model in ONNX Runtime beside the program that it was exported from; compares values."""

from __future__ import annotations

import pathlib
import re
import tempfile
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from onnx_native.modules import _differences
from onnx_native.program import _calls, _contents
from onnx_native.replay import _program_names, _replay
from onnx_native.upstream import _upstream

if TYPE_CHECKING:
    import onnx

    from onnx_native.program._program import ONNXProgram

_LINE = re.compile(r'File "([^"]*)", line (\d+)')
_TORCH = str(pathlib.Path(torch.__file__).parent)
_FX_NODE = "pkg.torch.onnx.fx_node"
_BATCH = 1 << 29  # bytes of values of the model that are in memory at a time


class Runtime:
    """Runs a program's model in ONNX Runtime without optimizations, from a temporary folder.

    Attributes:
        path: The model's file.
        proto: The model without its weights.
    """

    def __init__(self, program: ONNXProgram) -> None:
        import onnx

        self._folder = tempfile.TemporaryDirectory(
            prefix="onnx_native_", ignore_cleanup_errors=True
        )
        self.path = pathlib.Path(self._folder.name) / "model.onnx"
        program.save(self.path, external_data=True)
        self.proto: onnx.ModelProto = onnx.load(self.path, load_external_data=False)
        self.outputs = [
            value.name
            for value in self.proto.graph.output
            if value.name not in program.state_outputs.values()
        ]

    def __enter__(self) -> Runtime:
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()

    def run(self, feeds: Mapping[str, Any], names: Sequence[str]) -> dict[str, torch.Tensor]:
        """Returns values of the model's graph by their names."""
        import onnxruntime as ort

        path = self.path.with_name("values.onnx")
        path.write_bytes(self._with_outputs(names).SerializeToString())
        options = ort.SessionOptions()
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.log_severity_level = 3
        session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        values = session.run_with_ort_values(list(names), dict(feeds))
        return dict(zip(names, map(_calls.to_tensor, values), strict=True))

    def _with_outputs(self, names: Sequence[str]) -> onnx.ModelProto:
        import onnx

        proto = onnx.ModelProto()
        proto.CopyFrom(self.proto)
        known = {value.name: value for value in self.proto.graph.output}
        del proto.graph.output[:]
        proto.graph.output.extend(known.get(name, onnx.ValueInfoProto(name=name)) for name in names)
        return proto


def compare(
    program: ONNXProgram,
    inputs: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    sizes: Mapping[str, int] | None = None,
    rtol: float | None = None,
    memory: int = _BATCH,
) -> _differences.Comparison:
    """Finds where the values of a model begin to differ from eager PyTorch's.

    The model runs in ONNX Runtime without optimizations, the program call by call. Each call runs
    twice: on eager's values, and on the model's, which shows what its own lowering contributes.

    Args:
        program: The result of torch.onnx.export.
        inputs: A tensor, the positional arguments as a tuple or list, or the keyword arguments as
            a dict. By default the example inputs of the export.
        kwargs: Keyword arguments.
        sizes: Dynamic sizes by name, for which to resize the example inputs.
        rtol: The relative difference that counts as rounding; by default it depends on the dtype.
        memory: Bytes of the model's values in memory at a time. Less memory takes more runs.

    Raises:
        TypeError: The program is not an ONNXProgram of this package.
        ValueError: The inputs do not fit the program, or it cannot be captured again.
        ImportError: ONNX Runtime is not installed.
    """
    from onnx_native.program._program import ONNXProgram

    if not isinstance(program, ONNXProgram):
        raise TypeError(f"expected the ONNXProgram of an export, got {type(program).__name__}")
    if memory <= 0:
        raise ValueError(f"memory must be a positive number of bytes, got {memory}")
    needs_runtime("onnx_native.compare")
    replay = _contents.replay(program)
    with Runtime(program) as runtime:
        args = _arguments(replay, runtime, inputs, kwargs, sizes)
        args, given = _calls.arranged(program, *args)
        return _Run(program, replay, runtime, args, given, rtol, memory).comparison()


def needs_runtime(what: str) -> None:
    """Raises an error that says what to install if ONNX Runtime is missing."""
    try:
        import onnxruntime  # noqa: F401
    except ImportError as error:
        raise ImportError(
            f"{what} runs the model in ONNX Runtime; install it (pip install onnxruntime)"
        ) from error


def _arguments(
    replay: _replay.Replay,
    runtime: Runtime,
    inputs: Any,
    kwargs: dict[str, Any] | None,
    sizes: Mapping[str, int] | None,
) -> tuple[Any, Any]:
    if inputs is None and kwargs is None:
        if replay.example is None:
            raise ValueError("the program has no example inputs; pass inputs to compare")
        if sizes is None:
            return replay.example
        known = replay.sizes(runtime.proto.graph.input)
        if known is None:
            raise ValueError("the sizes of a TorchScript program are not known; pass inputs")
        return known.inputs(sizes)
    if sizes is not None:
        raise ValueError("sizes resizes the example inputs; leave out inputs")
    if isinstance(inputs, dict) and kwargs is None:
        return (), inputs
    if inputs is None:
        inputs = ()
    args = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    return args, dict(kwargs or {})


class _Run:
    """One comparison."""

    def __init__(
        self,
        program: ONNXProgram,
        replay: _replay.Replay,
        runtime: Runtime,
        args: Any,
        kwargs: Any,
        rtol: float | None,
        memory: int,
    ) -> None:
        self._runtime = runtime
        self._rtol = rtol
        self._half = _contents.of(program).native.half_dtype
        self._memory = memory
        self._replay = replay
        self._inputs = replay.flatten(args, kwargs)
        self._feeds = _calls.feeds_of_eager(program, args, kwargs)
        self._graph = replay.graph
        self._producers = {
            name: node for node in runtime.proto.graph.node for name in node.output if name
        }
        self._names = self._paired()
        self._written = _written(self._graph)
        self._values: dict[str, torch.Tensor] = {}  # of the model, of the present batch
        self._rows: dict[torch.fx.Node, _differences.Row] = {}

    def _paired(self) -> dict[torch.fx.Node, str]:
        """Maps calls of the program to the names of their values in the model."""
        (output,) = self._graph.find_nodes(op="output")
        returned = [
            node
            for node in _upstream.pytree.tree_leaves(output.args[0])
            if isinstance(node, torch.fx.Node)
        ]
        names: dict[torch.fx.Node, str] = {}
        if len(returned) == len(self._runtime.outputs):
            for node, name in zip(returned, self._runtime.outputs, strict=True):
                names.setdefault(node, name)
        taken = set(names.values())  # the name of an output may be that of another call
        for node in self._graph.nodes:
            if node in names or node.name in taken or node.name not in self._producers:
                continue
            if _is_of(node, self._producers[node.name]):
                names[node] = node.name
        return {
            node: name
            for node, name in names.items()
            if node.op == "call_function" and name in self._producers
        }

    def comparison(self) -> _differences.Comparison:
        with _replay.undisturbed():
            batches = self._batches()
            eager = self._replay.start(self._inputs)
            forced = self._replay.start(self._inputs)
            for node in self._graph.nodes:
                if node in batches:
                    self._values = {}
                    self._values = self._runtime.run(self._feeds, batches[node])
                expected, own = eager.step(node), forced.step(node)
                if node.op == "call_function" and _differences.is_value(expected):
                    self._rows[node] = self._row(node, expected, own, eager, forced)
                eager.forget(node)
                forced.forget(node)
        return _differences.Comparison(list(self._rows.values()), self._runtime.proto.graph.name)

    def _batches(self) -> dict[torch.fx.Node, list[str]]:
        """Runs eager; returns the values to take from the model, by the call that follows them."""
        eager = self._replay.start(self._inputs)
        batches: dict[torch.fx.Node, list[str]] = {}
        names: list[str] = []
        filled = self._memory
        for node in self._graph.nodes:
            try:
                value = eager.step(node)
            except Exception as error:
                raise ValueError(
                    f"the inputs do not fit the program (at {node.name}): {error}"
                ) from error
            if node in self._names and _differences.is_value(value):
                size = value.nbytes if isinstance(value, torch.Tensor) else 8
                if filled + size > self._memory:
                    names, filled = [], 0
                    batches[node] = names
                names.append(self._names[node])
                filled += size
            eager.forget(node)
        return batches

    def _row(
        self,
        node: torch.fx.Node,
        expected: Any,
        own: Any,
        eager: _replay.EagerRun,
        forced: _replay.EagerRun,
    ) -> _differences.Row:
        """Compares the value of a call; its users get the model's value in the forced run."""
        if node not in self._names:
            status = "fused" if node.users else "unused"
            return _differences.Row(status=status, **_described(node, expected))
        name = self._names[node]
        actual = self._values.pop(name)
        producer = self._producers[name]
        total = _differences.measure(expected, actual, self._rtol, self._half)
        difference = _differences.measure(own, actual, self._rtol, self._half)
        status = (
            "begins"
            if difference.is_significant
            else "follows"
            if total.is_significant
            else "agrees"
        )
        fits = isinstance(own, torch.Tensor) and not difference.note
        if status == "begins" and fits and _is_arbitrary(node, forced):
            status = "random"
            if node not in self._written:
                eager.env[node] = actual.to(own)
        if fits and not own.is_complex() and node not in self._written:
            forced.env[node] = actual.to(own)
        is_known = status != "random"
        return _differences.Row(
            status=status,
            value=name,
            node=producer.name,
            onnx_operator=producer.op_type,
            includes=tuple(self._rows[inner] for inner in self._fused_into(node)),
            own=difference if is_known else None,
            total=total if is_known else None,
            **_described(node, expected),
        )

    def _fused_into(self, node: torch.fx.Node) -> list[torch.fx.Node]:
        """Returns the calls without a value in the model that this call's value depends on."""
        found: list[torch.fx.Node] = []
        pending = list(node.all_input_nodes)
        while pending:
            inner = pending.pop()
            if inner in self._rows and inner not in self._names and inner not in found:
                found.append(inner)
                pending += inner.all_input_nodes
            elif inner not in self._rows and inner.op == "call_function":
                pending += inner.all_input_nodes  # a call that returns a list
        return [other for other in self._rows if other in found]


def _is_of(node: torch.fx.Node, producer: onnx.NodeProto) -> bool:
    """Returns false if the model's value of the same name is of another call."""
    text = next((prop.value for prop in producer.metadata_props if prop.key == _FX_NODE), "")
    if not text.startswith(f"%{node.name} :"):
        return True
    targets = [_program_names.target_of(each) for each in (text, node.format_node() or "")]
    return None in targets or targets[0] == targets[1]


def _schema(node: torch.fx.Node) -> Any:
    is_operator = isinstance(node.target, _upstream.OpOverload)
    return _upstream.schema(node.target) if is_operator else None


def _is_arbitrary(node: torch.fx.Node, forced: _replay.EagerRun) -> bool:
    """Returns true if eager computes another value each time."""
    if not isinstance(node.target, _upstream.OpOverload):
        return False
    if torch.Tag.nondeterministic_seeded not in node.target.tags:
        return False
    if _schema(node).is_mutable:
        return True
    first, second = forced.run_node(node), forced.run_node(node)
    return not torch.equal(first.nan_to_num(), second.nan_to_num())


def _written(graph: torch.fx.Graph) -> set[torch.fx.Node]:
    """Returns the calls whose results share memory with a tensor that the program writes to."""
    group: dict[torch.fx.Node, set[torch.fx.Node]] = {node: {node} for node in graph.nodes}
    written: list[torch.fx.Node] = []
    for node in graph.nodes:
        schema = _schema(node)
        if schema is None:
            shared = node.all_input_nodes if node.op == "call_function" else []
        else:
            aliases = [argument.name for argument in schema.arguments if argument.alias_info]
            shared = []
            values = {a.name: v for a, v in zip(schema.arguments, node.args, strict=False)}
            for name in aliases:
                leaves = _upstream.pytree.tree_leaves({**values, **node.kwargs}.get(name))
                shared += [leaf for leaf in leaves if isinstance(leaf, torch.fx.Node)]
            if schema.is_mutable:
                written += shared
        for other in shared:
            if group[other] is not group[node]:
                group[node] |= group[other]
                for member in group[other]:
                    group[member] = group[node]
    return set().union(*(group[node] for node in written))


def _described(node: torch.fx.Node, value: Any) -> dict[str, Any]:
    """Returns what a row says of a call."""
    target: Any = node.target
    is_tensor = isinstance(value, torch.Tensor)
    return {
        "name": node.name,
        "operator": str(target) if hasattr(target, "namespace") else target.__name__,
        "source": node.meta.get("source", _source_of(node)),
        "module": node.meta.get("module", _module_of(node)),
        "shape": tuple(value.shape) if is_tensor else (),
        "dtype": str(value.dtype).removeprefix("torch.") if is_tensor else type(value).__name__,
    }


def _source_of(node: torch.fx.Node) -> str:
    lines = _LINE.findall(node.meta.get("stack_trace") or "")
    lines = [line for line in lines if not line[0].startswith(_TORCH)] or lines
    return f"{pathlib.Path(lines[-1][0]).name}:{lines[-1][1]}" if lines else ""


def _module_of(node: torch.fx.Node) -> str:
    modules = list((node.meta.get("nn_module_stack") or {}).values())
    path, kind = modules[-1] if modules else ("", "")
    kind = kind if isinstance(kind, str) else kind.__qualname__
    return " ".join(filter(None, (path, f"({kind.rpartition('.')[2]})" if kind else "")))
