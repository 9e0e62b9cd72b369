"""Brings a call of torch.onnx.export into the form that its documentation describes.

People also pass wrapped modules, functions, and lists or dicts in place of the tuple of arguments.
"""

from __future__ import annotations

import copy
import functools
import inspect
import re
import types
from collections.abc import Mapping
from typing import Any

import torch

from onnx_native.request import _structure
from onnx_native.upstream import _upstream

# The annotation of a parameter that takes a list, as text or as a type.
_LIST = re.compile(r"(typing\.)?(list|List|Sequence|Iterable|tuple|Tuple)\b")


def unwrapped(model: Any) -> Any:
    """Returns the program behind wrappers that do not compute, as a module if it is a function.

    The weights of the model then have the names that the module itself gives them.
    """
    while True:
        inner = _upstream.compiled_from(model)
        if isinstance(model, (torch.nn.DataParallel, torch.nn.parallel.DistributedDataParallel)):
            inner = model.module
        if inner is None:
            break
        model = inner
    if isinstance(model, (torch.nn.Module, torch.export.ExportedProgram)) or not callable(model):
        return model
    if isinstance(model, torch.jit.ScriptFunction):
        return model
    return _as_module(model)


def _as_module(function: Any) -> torch.nn.Module:
    """Returns a module whose forward is the function.

    A method of a module becomes the forward of a copy that shares the module's weights.
    """
    owner = getattr(function, "__self__", None)
    if isinstance(function, types.MethodType) and isinstance(owner, torch.nn.Module):
        module = copy.copy(owner)
        forward: Any = types.MethodType(function.__func__, _with_own_forward(module))
    else:
        module = torch.nn.Module()
        forward = function if _is_python(function) else _in_python(function)
        module.eval()
    module.forward = forward
    return module


def _with_own_forward(module: torch.nn.Module) -> torch.nn.Module:
    """Returns a module of the same attributes, which has the present forward from now on.

    A method that takes the place of the forward may call it.
    """
    kind: Any = type(module)
    forward = vars(module).get("forward")

    def own(self: torch.nn.Module) -> Any:
        return types.MethodType(kind.forward, self) if forward is None else forward

    # A property comes before an attribute of the module.
    names = {"__module__": kind.__module__, "__qualname__": kind.__qualname__}
    same: Any = type(kind.__name__, (kind,), {**names, "forward": property(own)})
    made: torch.nn.Module = same.__new__(same)
    made.__dict__ = module.__dict__
    return made


def _is_python(function: Any) -> bool:
    """Whether a function has code in Python, which captures look at."""
    if isinstance(function, functools.partial):
        return _is_python(function.func)
    kinds = (types.FunctionType, types.MethodType)
    return isinstance(function, kinds) or isinstance(type(function).__call__, types.FunctionType)


def _in_python(function: Any) -> Any:
    """Returns a Python function that calls a builtin one, such as torch.maximum."""

    def forward(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return forward


def of_call(model: Any, args: Any, kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any] | None]:
    """Returns the positional and keyword arguments of a call that passes these.

    A dict at the end of the arguments, or in their place, has the keyword arguments, unless the
    program has no such parameters: then it is an argument. A list in place of the tuple has the
    positional arguments, unless the program takes a list. Keyword arguments come in the order of
    the parameters.
    """
    signature = _signature(model)
    if isinstance(args, Mapping):
        args = (args,)
    elif isinstance(args, list):
        args = (args,) if _takes_list(signature, args) else tuple(args)
    elif not isinstance(args, tuple) or hasattr(args, "_fields"):
        args = (args,)
    if not kwargs and args and isinstance(args[-1], Mapping):
        keywords = dict(args[-1])
        if _are_keywords(signature, args[:-1], keywords):
            args, kwargs = args[:-1], keywords
    return args, None if kwargs is None else _in_order(signature, kwargs)


def _signature(model: Any) -> inspect.Signature | None:
    try:
        return inspect.signature(getattr(model, "forward", model))
    except (TypeError, ValueError):
        return None


def _in_order(signature: inspect.Signature | None, kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Returns keyword arguments in the order of the parameters; those of ``**kwargs`` come last."""
    named = signature.parameters if signature is not None else ()
    ordered = {name: kwargs[name] for name in named if name in kwargs}
    return {**ordered, **kwargs}


def _takes_list(signature: inspect.Signature | None, values: list[Any]) -> bool:
    """Whether a list is the one argument of a program, rather than all of its arguments."""
    if signature is None:
        return False
    positional = [
        parameter
        for parameter in signature.parameters.values()
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ]
    if not positional:
        return False
    annotation = positional[0].annotation
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    if annotation is not inspect.Parameter.empty and _LIST.match(text):
        return True
    required = [p for p in positional if p.default is inspect.Parameter.empty]
    return not _binds(signature, values, {}) or (len(required) == 1 and len(values) > 1)


def _are_keywords(
    signature: inspect.Signature | None, args: tuple[Any, ...], keywords: dict[Any, Any]
) -> bool:
    """Whether a dict after these arguments has keyword arguments."""
    if signature is None or not keywords:
        return True
    if not all(isinstance(key, str) for key in keywords):
        return False
    return _binds(signature, args, keywords) or not _binds(signature, (*args, keywords), {})


def _binds(signature: inspect.Signature, args: Any, keywords: dict[str, Any]) -> bool:
    try:
        signature.bind(*args, **keywords)
    except TypeError:
        return False
    return True


class Arrangement:
    """Brings the arguments of a call into the order of the export's, and dicts among them."""

    def __init__(self, model: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None) -> None:
        self._signature = _signature(model)
        if isinstance(model, torch.export.ExportedProgram):
            spec = model.call_spec.in_spec
            assert spec is not None
            of_args, of_kwargs = spec.children()
            self._count = of_args.num_children
            self._keywords = list(of_kwargs.context)
            self._args = _structure.Structure("args", spec=of_args)
            self._kwargs = _structure.Structure("kwargs", spec=of_kwargs)
            return
        self._count = len(args)
        self._keywords = list(kwargs or ())
        self._args = _structure.Structure("args", tuple(args))
        self._kwargs = _structure.Structure("kwargs", dict(kwargs or {}))

    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
        """Returns the arguments as the export had them; as they are if they do not match.

        Raises:
            ValueError: A dict among them has other keys than in the export.
        """
        args, kwargs = self._in_order(args, kwargs)
        if len(args) != self._count or list(kwargs) != self._keywords:
            return args, kwargs
        return self._args.arranged(tuple(args)), self._kwargs.arranged(kwargs)

    def _in_order(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
        if len(args) == self._count and kwargs.keys() == set(self._keywords):
            return args, {name: kwargs[name] for name in self._keywords}
        parameters = list(self._signature.parameters.values()) if self._signature else []
        kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        positional = [parameter.name for parameter in parameters if parameter.kind in kinds]
        names = [*positional[: self._count], *self._keywords]
        if self._signature is None or len(positional) < self._count:
            return args, kwargs
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError:
            return args, kwargs
        bound.apply_defaults()
        given = dict(bound.arguments)
        for parameter in parameters:
            if parameter.kind is parameter.VAR_KEYWORD:
                given |= given.pop(parameter.name)
        if not all(name in given for name in names):
            return args, kwargs
        return (
            tuple(given[name] for name in positional[: self._count]),
            {name: given[name] for name in self._keywords},
        )
