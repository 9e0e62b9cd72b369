"""Branches and bodies of loops that return what they are given, where PyTorch runs them.

PyTorch refuses them: "Encountered aliasing during higher order op". A model has no shared memory,
so that their results may be copies, as in a native capture.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from onnx_native import _replaced
from onnx_native.upstream import _upstream

_BODY = "combine_fn"  # the variable in the function of a scan that holds the user's


@contextmanager
def inserted(*, always: bool = True) -> Iterator[None]:
    """Copies what branches and bodies return, and what the bodies of loops may write to.

    Args:
        always: Not only where PyTorch refuses the program without copies.
    """
    owner = _upstream.higher_order_utils
    name = "_hop_compile_and_call"
    plain = getattr(owner, name)
    thread = threading.get_ident()
    depth = 0

    def call(operator: Any, args: Any, kwargs: Any = None) -> Any:
        nonlocal depth
        # An operator that PyTorch calls again instead of compiling it is not tried twice each time.
        if threading.get_ident() != thread or (depth > 0 and not always):
            return plain(operator, args, kwargs)
        if always:
            return plain(operator, _with_copies(args), kwargs)
        depth += 1
        try:
            return plain(operator, args, kwargs)
        except Exception as error:
            refusal = error
        finally:
            depth -= 1
        depth += 1
        try:
            return plain(operator, _with_copies(args), kwargs)
        except Exception:
            raise refusal from None
        finally:
            depth -= 1

    with _replaced.attributes([(owner, name, call)]):
        yield


def _with_copies(args: Any) -> tuple[Any, ...]:
    # The second function of a while_loop and the only one of a scan or map is a body. Branches
    # follow the condition of torch.cond.
    is_while = len(args) > 1 and callable(args[0]) and callable(args[1])
    is_cond = not callable(args[0])
    return tuple(
        _copying(arg, writes=not is_cond and i == int(is_while)) if callable(arg) else arg
        for i, arg in enumerate(args)
    )


def _copying(function: Callable[..., Any], *, writes: bool) -> Callable[..., Any]:
    if isinstance(function, functools.partial) and _BODY in function.keywords:
        body = _copying(function.keywords[_BODY], writes=writes)
        return functools.partial(
            function.func, *function.args, **{**function.keywords, _BODY: body}
        )
    tree_map_only = _upstream.pytree.tree_map_only

    # PyTorch's compiler follows plain functions.
    def copying(*args: Any) -> Any:
        if writes:
            args = tree_map_only(torch.Tensor, torch.clone, args)
        return tree_map_only(torch.Tensor, torch.clone, function(*args))

    return copying
