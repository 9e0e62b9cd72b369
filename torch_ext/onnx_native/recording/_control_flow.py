"""Higher-order operators in a native capture: torch.cond, while_loop, the scans and map.

PyTorch dispatches these operators in Python. The recorder's kernels for them run the branches and
bodies of loops once each, as regions of the recording.
"""

from __future__ import annotations

import dataclasses
import functools
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

import torch
from torch.nn.attention import flex_attention

from onnx_native import _library, _replaced, _undo
from onnx_native._refusals import first_line
from onnx_native.lowerings import _autograd_functions
from onnx_native.upstream import _upstream

if TYPE_CHECKING:
    from onnx_native._C import Capture, Region

_active = threading.local()


@contextmanager
def recorded(native: Capture) -> Iterator[None]:
    """Records the higher-order operators that this thread calls."""
    _register()
    module = _upstream.associative_scan
    name = "generic_associative_scan"
    in_order = functools.partial(_associative_scan, getattr(module, name))
    replaced: list[tuple[Any, str, Any]] = [(module, name, in_order)]
    asks = "has_free_unbacked_symbols"  # of torch.export's numbers, from PyTorch 2.15 on
    if plain := getattr(flex_attention, asks, None):
        replaced.append((flex_attention, asks, lambda x: _current() is None and plain(x)))
    with (
        _undo.at_end(lambda: setattr(_active, "native", None)),
        _upstream.without_compiling(lambda: _current() is not None),
        _replaced.attributes(replaced),
    ):
        _active.native = native
        yield


def _current() -> Any:
    return getattr(_active, "native", None)


@functools.cache
def _register() -> None:
    """Gives the operators kernels for the key of the recorder."""
    key = _upstream.parse_dispatch_key("TESTING_ONLY_GenericMode")
    assert key is not None
    _upstream.cond_op.py_impl(key)(_cond)
    _upstream.while_loop_op.py_impl(key)(_while_loop)
    _upstream.scan_op.py_impl(key)(_scan)
    _upstream.map_impl.py_impl(key)(_map)
    _upstream.custom_function_call.py_impl(key)(_mapped_function)
    _upstream.flex_attention.flex_attention.py_impl(key)(_flex_attention)
    others = torch.ops.higher_order
    others.hints_wrapper.py_impl(key)(lambda body, args, kwargs, hints: body(*args, **kwargs))
    others.run_const_graph.py_impl(key)(lambda graph, args: graph(*args))
    others.print.py_impl(key)(lambda *_: None)


def region(native: Capture, run: Callable[[], Any], end: Callable[[Any], Any]) -> Any:
    """Runs a part of the program in a region of the recording; returns what `end` returns."""
    native.regions.begin()
    try:
        return end(run())
    except Exception as error:
        name = type(error).__name__
        native.regions.drop(f"{name} in a branch or loop: {first_line(error)}")
        raise


def _region_of_structure(native: Capture, run: Callable[[], Any]) -> tuple[Region, Any]:
    """Runs a part of the program in a region; returns it with the structure of its results."""

    def end(results: Any) -> tuple[Region, Any]:
        leaves, structure = _upstream.pytree.tree_flatten(results)
        return native.regions.end(leaves), structure

    body, structure = region(native, run, end)
    return body, structure


def _cond(
    condition: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], operands: Any
) -> Any:
    native = _current()
    if isinstance(condition, (bool, int, float)):
        return true_fn(*operands) if condition else false_fn(*operands)
    yes, structure = _region_of_structure(native, lambda: true_fn(*operands))
    no, other = _region_of_structure(native, lambda: false_fn(*operands))
    if structure != other:
        refuse(native, "the branches return different structures")
    return _upstream.pytree.tree_unflatten(native.regions.cond(condition, yes, no), structure)


def _while_loop(
    condition: Callable[..., Any],
    body: Callable[..., Any],
    carried: Sequence[Any],
    additional: Sequence[Any],
    **_: Any,
) -> Any:
    native = _current()
    states = [_as_tensor(value) for value in carried]
    _check_tensors(native, states)

    def run(
        function: Callable[..., Any], end: Callable[[Any], Any], *, writes: bool = False
    ) -> Any:
        def call() -> Any:
            inputs = [native.regions.add_input(value, False) for value in states]
            if writes:
                inputs = _copies(inputs)
            return function(*map(_as_given, carried, inputs), *additional)

        return region(native, call, end)

    def advance(*values: Any) -> list[Any]:
        return [_as_tensor(result) for result in body(*values)]

    conditional = run(condition, native.regions.end_with_condition)
    results = run(advance, native.regions.end, writes=True)
    found = native.regions.while_loop(states, conditional, results)
    return tuple(map(_as_given, carried, found))


def _scan(
    combine: Callable[..., Any], init: Sequence[Any], xs: Sequence[Any], additional: Sequence[Any]
) -> Any:
    native = _current()
    _check_tensors(native, [*init, *xs])
    if isinstance(combine, Steps):
        return combine.recorded(native, init, xs)

    def run() -> Any:
        inputs = [native.regions.add_input(value, False) for value in init]
        inputs += [native.regions.add_input(value, True) for value in xs]
        return combine(*_copies(inputs), *additional)

    body, structure = _region_of_structure(native, run)
    results = native.regions.scan(list(init), list(xs), body, [])
    return _upstream.pytree.tree_unflatten(results, structure)


@dataclasses.dataclass
class Steps:
    """The steps of a scan whose states may grow, and whose results may have different lengths.

    Attributes:
        combine: Maps the number of a step (None if no state grows), the states and the slices to
            the next states and the results.
        growing: For each state, the axis along which each step adds rows and how many; None for a
            state that keeps its shape.
        axes: For each result after the states, the axis along which it is concatenated; None for
            one that is stacked. `combine` may fill the list.
    """

    combine: Callable[..., list[Any]]
    growing: Sequence[tuple[int, int] | None]
    axes: list[int | None]

    def recorded(
        self, native: Capture, init: Sequence[torch.Tensor], xs: Sequence[torch.Tensor]
    ) -> list[torch.Tensor]:
        """Records the scan; returns the last states and the results of all steps."""

        def run() -> Any:
            inputs: list[torch.Tensor] = []
            step: Any = None
            for value, growth in zip(init, self.growing, strict=True):
                if growth is None:
                    inputs.append(native.regions.add_input(value, False))
                    continue
                axis, rows = growth
                start = value.shape[axis]
                size: Any = None if step is None else start + rows * step
                inputs.append(native.regions.add_growing_input(value, axis, rows, size))
                if step is None:  # the size of a state tells it
                    step = (inputs[-1].shape[axis] - start) // rows
            inputs += [native.regions.add_input(value, True) for value in xs]
            return self.combine(step, *_copies(inputs))

        body, _ = _region_of_structure(native, run)
        return native.regions.scan(list(init), list(xs), body, self.axes)


def _map(
    function: Callable[..., Any], xs: Sequence[Any], additional: Sequence[Any], **_: Any
) -> Any:
    native = _current()
    _check_tensors(native, xs)

    def run() -> Any:
        inputs = [native.regions.add_input(x, True) for x in xs]
        return function(*_copies(inputs), *additional)

    body, structure = _region_of_structure(native, run)
    return _upstream.pytree.tree_unflatten(native.regions.map(list(xs), body), structure)


def _mapped_function(function: Any, *args: Any, **kwargs: Any) -> Any:
    """Runs an autograd function that torch.vmap maps by its own rule, which is recorded."""
    if _current() is not None and hasattr(function, "symbolic"):
        _autograd_functions.warn(function, "torch.vmap maps the call")
    call = _upstream.custom_function_call
    return _upstream.dispatch_functorch(call, (function, *args), kwargs)


def _associative_scan(
    plain: Callable[..., Any],
    combine: Callable[..., Any],
    xs: Sequence[Any],
    dim: int = 0,
    additional_inputs: Any = (),
) -> Any:
    """Combines from the first slice to the last, which is right for an associative function.

    PyTorch's own function combines neighbors, and its steps depend on the length. `combine` takes
    batches of slices.
    """
    native = _current()
    if native is None or dim != 0:
        return plain(combine, xs, dim, additional_inputs)
    _check_tensors(native, xs)
    first = [x[0].clone() for x in xs]
    slices = [*xs, torch.arange(xs[0].shape[0])]

    def run() -> Any:
        before = [native.regions.add_input(value, False) for value in first]
        *now, step = [native.regions.add_input(x, True) for x in slices]
        batches = [value.unsqueeze(0).clone() for value in (*before, *now)]
        combined = [value.squeeze(0) for value in combine(*batches, *additional_inputs)]
        results = [torch.where(step == 0, a, b) for a, b in zip(now, combined, strict=True)]
        return [*results, *results]

    body, _ = _region_of_structure(native, run)
    return native.regions.scan(first, slices, body, [])[len(first) :]


def _flex_attention(
    query: Any, key: Any, value: Any, score_mod: Any, block_mask: Any, scale: Any, *rest: Any
) -> Any:
    """Runs attention if the scores are only masked; else what PyTorch runs without compiling.

    Does not use attention in half precision: flex_attention computes the scores in float32.
    """
    plain = _upstream.flex_attention.math_attention
    computed, *others = plain(query, key, value, score_mod, block_mask, scale, *rest)
    results = _laid_out_like(query, computed), *others
    if query.dtype not in (torch.float32, torch.float64) or query.shape[0] != key.shape[0]:
        return results
    score = torch.empty(())
    if score_mod(score, *[torch.zeros((), dtype=torch.int64)] * 4) is not score:
        return results
    mask = None
    if block_mask[-1] is not flex_attention.noop_mask:
        sizes = (query.shape[0], query.shape[1], query.shape[2], key.shape[2])
        mask = flex_attention.create_mask(block_mask[-1], *sizes, device=query.device)
    attention = torch.nn.functional.scaled_dot_product_attention(
        query, key, value, mask, scale=scale, enable_gqa=query.shape[1] != key.shape[1]
    )
    return _laid_out_like(query, attention), *others


def _laid_out_like(query: torch.Tensor, attention: torch.Tensor) -> torch.Tensor:
    """Returns the same elements in the memory layout of flex_attention's result.

    That is the order of the query's strides, except that the last axis is innermost.
    """
    strides = _library.extension().example_strides(query)
    last = query.dim() - 1
    outermost_first = sorted(range(last), key=lambda axis: strides[axis])[::-1]
    order = [*outermost_first, last]
    if order == sorted(order):
        return attention.contiguous()
    inverse = sorted(range(query.dim()), key=order.__getitem__)
    return attention.permute(order).contiguous().permute(inverse)


def _copies(inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """What the body of a loop may write to: nothing outside of it changes."""
    return [value.clone() for value in inputs]


# Loops carry integers as tensors.


def _as_tensor(value: Any) -> Any:
    if isinstance(value, (int, torch.SymInt)) and not isinstance(value, bool):
        number: Any = value
        return torch.scalar_tensor(number, dtype=torch.int64)
    return value


def _as_given(given: Any, tensor: Any) -> Any:
    """The integer in a tensor that stands for one."""
    return tensor if isinstance(given, torch.Tensor) else _current().item(tensor)


def _check_tensors(native: Capture, values: Sequence[Any]) -> None:
    if not all(isinstance(value, torch.Tensor) for value in values):
        refuse(native, "a loop over a value that is not a tensor")


def refuse(native: Capture, reason: str) -> NoReturn:
    """Refuses the recording for a reason."""
    native.note_refusal(reason)
    raise RuntimeError(reason)
