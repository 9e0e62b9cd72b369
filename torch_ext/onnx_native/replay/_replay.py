"""The program that a model was exported from, to run call by call."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

from onnx_native import _context, _library, _options
from onnx_native.modules import _uninitialized
from onnx_native.recording import _recorded_program, _recorder
from onnx_native.replay import _written_parameters
from onnx_native.request import _inputs, _jit, _sizes
from onnx_native.upstream import _upstream

if TYPE_CHECKING:
    from onnx_native._C import ScriptSource


@dataclasses.dataclass
class Replay:
    """A program as a graph of torch.fx.

    Attributes:
        module: The module that has the program's tensors.
        graph: The calls. Those with a value in the model have its name.
        example: The example's (args, kwargs); None if there is none.
        flatten: Maps (args, kwargs) to the values of the graph's inputs.
        sizes: Returns the dynamic sizes, for the inputs of the ModelProto's graph; None if it is
            not known which sizes the program allows.
    """

    module: torch.nn.Module
    graph: torch.fx.Graph
    example: tuple[Any, Any] | None
    flatten: Callable[[Any, Any], Sequence[Any]]
    sizes: Callable[[Any], _sizes.Sizes | None]

    def start(self, inputs: Sequence[Any]) -> EagerRun:
        """Returns a run with these values of the graph's inputs."""
        return EagerRun(self.module, self.graph, inputs)

    def results(self, args: Any, kwargs: Any) -> Any:
        """Returns what eager PyTorch returns, constants included."""
        eager = self.start(self.flatten(args, kwargs))
        result: Any = ()
        for node in self.graph.nodes:
            result = eager.step(node)
            eager.forget(node)
        return result

    def outputs(self, args: Any, kwargs: Any) -> list[Any]:
        """Returns the tensors and numbers that eager PyTorch returns."""
        with undisturbed():
            result = self.results(args, kwargs)
        (output,) = self.graph.find_nodes(op="output")
        sources = _upstream.pytree.tree_leaves(output.args[0])
        values = _upstream.pytree.tree_leaves(result, is_leaf=lambda x: x is None)
        return [v for v, s in zip(values, sources, strict=True) if isinstance(s, torch.fx.Node)]


def of(
    recorded: Callable[[], Replay] | None,
    exported: Callable[[], torch.export.ExportedProgram | None],
) -> Replay:
    """Returns a program as it was captured.

    Args:
        recorded: Records the program again; None if it was not recorded.
        exported: Returns the program as torch.export captures it.

    Raises:
        ValueError: There is no captured program.
    """
    why_not = "there is no captured program"
    if recorded is not None:
        try:
            return recorded()
        except NotImplementedError as error:
            why_not = str(error)
    try:
        captured = exported()
    except Exception as error:
        raise ValueError(f"{why_not}, and torch.export cannot capture it: {error}") from error
    if captured is None:
        raise ValueError(f"{why_not}, so there is nothing to compare the model with")
    return of_captured(captured)


def of_captured(captured: torch.export.ExportedProgram) -> Replay:
    """Returns a program that torch.export captured."""
    module = captured.module()
    return Replay(
        module,
        module.graph,  # type: ignore[arg-type]
        captured.example_inputs,
        lambda args, kwargs: _flat_inputs(captured, args, kwargs),
        lambda inputs: _sizes.of_program(captured, _sizes.names_in(captured, inputs)),
    )


def of_recording(record: Callable[[], _recorder.Recorded], inputs: _inputs.Inputs) -> Replay:
    """Records a program natively once more."""
    try:
        with _context.neutral(), _options.options(metadata="names"):
            recorded = _context.one_at_a_time(record)()
    except _recorder.StepAsideError as error:
        raise ValueError(f"the program cannot be recorded again: {error}") from error
    program = recorded.native.program(_recorded_program.Builder())
    example = inputs.args, inputs.kwargs or {}
    return _of_program(program, example, recorded.flatten, recorded.sizes)


def of_script(source: ScriptSource, inputs: _jit.ScriptInputs) -> Replay:
    """Reads a TorchScript program."""
    program = _library.extension().script_program(source, _recorded_program.Builder())
    return _of_program(program, (tuple(inputs.arguments), {}), inputs.flat, None)


def _of_program(
    program: _recorded_program.Program,
    example: tuple[Any, Any],
    flatten: Callable[[Any, Any], Sequence[Any]],
    sizes: _sizes.Sizes | None,
) -> Replay:
    count = len(program.graph.find_nodes(op="placeholder"))

    def flat(args: Any, kwargs: Any) -> Sequence[Any]:
        values = flatten(args, kwargs)
        if len(values) != count:
            raise ValueError(
                f"the inputs do not fit the program: it takes {count} tensors and numbers, "
                f"not {len(values)}"
            )
        return values

    return Replay(program, program.graph, example, flat, lambda _: sizes)


class EagerRun(torch.fx.Interpreter):
    """Runs a program call by call. Its tensors and inputs keep their contents."""

    def __init__(
        self, module: torch.nn.Module, graph: torch.fx.Graph, inputs: Sequence[Any]
    ) -> None:
        super().__init__(module, graph=graph)
        self._own: dict[str, torch.Tensor] = {}
        self._written = _written_parameters.written_parameters(module, graph)
        copies = (x.detach().clone() if isinstance(x, torch.Tensor) else x for x in inputs)
        self.args_iter: Iterator[Any] = iter(copies)

    def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
        value = super().get_attr(target, args, kwargs)
        if not isinstance(value, torch.Tensor):
            return value
        if target in self._written or not isinstance(value, torch.nn.Parameter):
            if target not in self._own:
                self._own[target] = value.detach().clone()
            return self._own[target]
        return value

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        return _uninitialized.zeros_for(target, super().call_function(target, args, kwargs))

    def step(self, node: torch.fx.Node) -> Any:
        """Runs a call and remembers its result."""
        self.env[node] = self.run_node(node)
        return self.env[node]

    def forget(self, node: torch.fx.Node) -> None:
        """Drops the values that no later call uses."""
        for last in self.user_to_last_uses.get(node, ()):
            del self.env[last]


@contextmanager
def undisturbed() -> Iterator[None]:
    """Keeps autograd and the random numbers of the caller out of a run."""
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        yield


def _flat_inputs(captured: torch.export.ExportedProgram, args: Any, kwargs: Any) -> Sequence[Any]:
    """Returns the values of the captured program's inputs.

    Raises:
        ValueError: The arguments do not fit the program.
    """
    leaves, structure = _upstream.pytree.tree_flatten((args, dict(kwargs or {})))
    recorded = _sizes.user_inputs(captured)
    if len(leaves) == len(recorded):
        leaves = list(map(_as_recorded, leaves, recorded))
    try:
        args, kwargs = _upstream.pytree.tree_unflatten(leaves, structure)
        return _upstream.flat_arguments(captured, args, kwargs)
    except Exception as error:
        raise ValueError(f"the inputs do not fit the program: {error}") from error


def _as_recorded(leaf: Any, recorded: Any) -> Any:
    """Returns an argument as the capture took it: some numbers as tensors, constants as text."""
    if isinstance(recorded, torch.Tensor) and isinstance(leaf, (bool, int, float)):
        return torch.tensor(leaf, dtype=recorded.dtype)
    return recorded if isinstance(recorded, str) and str(leaf) == recorded else leaf
