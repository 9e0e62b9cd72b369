"""The tensors that a model keeps from step to step, found by running it.

They are in the cache that the model takes and returns, or in attributes of its modules. Keys and
values grow with the text; other tensors, such as the states of a convolution or of a linear
attention, do not.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
import inspect
import re
from collections.abc import Iterator
from typing import Any

import torch

# Sizes of the runs. They differ, so that the size of an axis tells what it is.
_BATCH, _OTHER_BATCH, _LENGTH, _OTHER_LENGTH = 2, 3, 5, 7

# The attributes and the keys that lead to a tensor.
Path = tuple[tuple[str, Any], ...]


@dataclasses.dataclass(frozen=True)
class KeptTensor:
    """A tensor that each step takes from the last one.

    Attributes:
        path: Where it is.
        name: Its name in inputs and outputs, such as ``"3.conv_state"``.
        example: The tensor after a prompt.
        batch: The axis of the batch; None: the tensor is one for all texts.
        growing: The axis along which it grows with the text; None: it keeps its size.
    """

    path: Path
    name: str
    example: torch.Tensor
    batch: int | None
    growing: int | None

    def zeros(self, batch: int, length: int) -> torch.Tensor:
        """Returns zeros of the form that the tensor has after ``length`` tokens."""
        shape = list(self.example.shape)
        if self.batch is not None:
            shape[self.batch] = batch
        if self.growing is not None:
            shape[self.growing] = length
        return self.example.new_zeros(shape)


class Kept:
    """What a model keeps from step to step.

    Attributes:
        argument: The argument that takes the cache; None: the modules of the model keep all.
        tensors: The tensors, in the order of the layers.
    """

    def __init__(self, model: torch.nn.Module) -> None:
        """Runs a model to find out what it keeps.

        Raises:
            ValueError: It keeps nothing, or something that depends on the sizes in another way.
        """
        self._model = model
        self.argument = _argument(model)
        self._is_returned = True  # the model makes its cache, and returns it
        after = self.after_prompt(_BATCH, _LENGTH)[1]
        found = dict(_leaves(after))
        kept = [path for path, leaf in found.items() if isinstance(leaf, torch.Tensor)]
        is_known = all(_is_of_layer(after, path) for path in kept)
        if not kept or (is_known and not self._is_returned):
            raise ValueError(
                "the model keeps no tensors for the next step: it returns no cache, such as "
                "past_key_values"
            )
        self._template = after
        self._counts: dict[Path, int] = {}
        if is_known:
            of_batch = of_length = found
        else:
            of_batch = dict(_leaves(self.after_prompt(_OTHER_BATCH, _LENGTH)[1]))
            of_length = dict(_leaves(self.after_prompt(_BATCH, _OTHER_LENGTH)[1]))
        self.tensors: list[KeptTensor] = []
        names: dict[str, int] = {}
        for path in sorted(found, key=_layer):
            leaf, others = found[path], (of_batch.get(path), of_length.get(path))
            if not isinstance(leaf, torch.Tensor):
                self._add_number(path, leaf, *others)
                continue
            axes = (0, 2) if _is_of_layer(after, path) else _axes(path, leaf, *others)
            if axes == (None, None) and _is_constant(leaf, *others):
                continue
            name = _name(path, self.argument)
            names[name] = names.get(name, -1) + 1
            unique = f"{name}_{names[name]}" if names[name] else name
            self.tensors.append(KeptTensor(path, unique, leaf, *axes))
        if self._counts and not self.grows:
            raise ValueError(f"{_text(min(self._counts))} counts tokens, which no input tells")

    def _add_number(self, path: Path, number: Any, of_batch: Any, of_length: Any) -> None:
        if number == of_batch == of_length:
            return
        if type(number) is not int or number != of_batch:
            raise ValueError(f"{_text(path)} of the model's cache depends on its inputs")
        if of_length - number != _OTHER_LENGTH - _LENGTH:
            raise ValueError(f"{_text(path)} of the model's cache does not count tokens")
        self._counts[path] = number - _LENGTH

    @property
    def grows(self) -> bool:
        """Whether there are tensors that grow with the text, so that they tell its length."""
        return any(tensor.growing is not None for tensor in self.tensors)

    @property
    def only_grows(self) -> bool:
        """Whether the model keeps nothing but keys and values of layers that append to them."""
        return all(_is_of_layer(self._template, tensor.path) for tensor in self.tensors)

    @property
    def layers(self) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """The keys and values of each layer that has them and appends to them."""
        found = [each.example for each in self.tensors if _is_of_layer(self._template, each.path)]
        return list(zip(found[::2], found[1::2], strict=True))

    def length(self, values: list[torch.Tensor]) -> Any:
        """Returns the length of a past; None if no tensor grows with it."""
        for tensor, value in zip(self.tensors, values, strict=True):
            if tensor.growing is not None:
                return value.shape[tensor.growing]
        return None

    @contextlib.contextmanager
    def given(self, values: list[torch.Tensor], past: Any) -> Iterator[Any]:
        """Gives the tensors of a past to the model, and yields its cache.

        Args:
            values: A value for each of the tensors.
            past: The number of tokens of the past.
        """
        new = {
            id(tensor.example): value for tensor, value in zip(self.tensors, values, strict=True)
        }
        counts = {path: past + offset for path, offset in self._counts.items()}
        root = _rebuilt(self._template, (), new, counts)
        with _modules_as_before(self._model):
            for path, attributes in root["modules"].items():
                vars(self._model.get_submodule(path)).update(attributes)
            yield root["cache"]

    def present(self, cache: Any, output: Any) -> list[torch.Tensor]:
        """Returns the values of the tensors after a step, inside of ``given``."""
        root = self._root(cache, output, self._template["modules"])
        return [_at(root, tensor.path) for tensor in self.tensors]

    def _root(self, cache: Any, output: Any, modules: Any) -> dict[str, Any]:
        returned = getattr(output, self.argument, None) if self.argument else None
        kept = {
            path: {name: getattr(self._model.get_submodule(path), name) for name in attributes}
            for path, attributes in modules.items()
        }
        return {"cache": cache if returned is None else returned, "modules": kept}

    def after_prompt(self, batch: int, length: int) -> tuple[Any, dict[str, Any]]:
        """Runs a prompt without a past; returns the output and what the model keeps then."""
        with torch.no_grad(), _modules_as_before(self._model) as before:
            cache = {} if self._is_returned else self._new_cache()
            output = self._model(**self.example(batch, length), **cache)
            if self._is_returned and getattr(output, self.argument or "", None) is None:
                self._is_returned = False
                return self.after_prompt(batch, length)
            changed = {
                path: {
                    name: vars(module)[name]
                    for name in names
                    if vars(module)[name] is not names[name]
                    and isinstance(vars(module)[name], torch.Tensor)
                }
                for path, module in self._model.named_modules()
                if (names := before[path])
            }
            modules = {path: names for path, names in changed.items() if names}
            return output, self._root(cache.get(str(self.argument)), output, modules)

    def starts_from_zeros(self) -> bool:
        """Returns whether zeros stand for no past: a prompt and the next step are the same.

        Layers of transformers' caches begin with zeros. Other models are run to find out, which
        takes elements.
        """
        if any(tensor.example.is_meta for tensor in self.tensors):
            return all(tensor.path[1] == ("attribute", "layers") for tensor in self.tensors)
        zeros = [tensor.zeros(_BATCH, 0) for tensor in self.tensors]
        for cut in (1, _LENGTH - 1):
            with torch.no_grad():
                prompt, past = self._after(zeros, 0, cut)
                step = self._after(past, cut, 1)[0]
                expected = self._after(self._past(cut), cut, 1)[0]
            whole = self.after_prompt(_BATCH, cut)[0].logits
            if not (_are_close(prompt, whole) and _are_close(step, expected)):
                return False
        return True

    def continues(self) -> bool:
        """Returns whether a step of several tokens goes on from the past.

        Some programs do so for one token only: their scan over several starts from zeros. Without
        elements, the result says whether the step reads all states.
        """
        cut, rest = _LENGTH - 2, 2
        past = self._past(cut)
        if any(value.is_meta for value in past):
            past = [
                value.requires_grad_() if value.is_floating_point() else value for value in past
            ]
            with torch.enable_grad():
                logits = self._after(past, cut, rest)[0]
            states = [value for value in past if value.requires_grad]
            gradients = torch.autograd.grad(logits.sum(), states, allow_unused=True)
            return all(gradient is not None for gradient in gradients)
        expected = self.after_prompt(_BATCH, _LENGTH)[0].logits[:, cut:]
        with torch.no_grad():
            return _are_close(self._after(past, cut, rest)[0], expected)

    def _past(self, length: int) -> list[torch.Tensor]:
        root = self.after_prompt(_BATCH, length)[1]
        return [_at(root, tensor.path) for tensor in self.tensors]

    def _after(
        self, values: list[torch.Tensor], past: int, length: int
    ) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """Runs a step after a past; returns the logits and what the model keeps then."""
        arguments = self.example(_BATCH, length, past)
        values = [value.clone() for value in values]
        with self.given(values, past) as cache:
            if self.argument is not None:
                arguments[self.argument] = cache
            output = self._model(**arguments)
            return output.logits, self.present(cache, output)

    def _new_cache(self) -> dict[str, Any]:
        """Returns the cache that transformers' ``generate`` makes."""
        from transformers import DynamicCache

        config: Any = self._model.config
        made = DynamicCache(config=config.get_text_config(decoder=True))
        return {} if self.argument is None else {self.argument: made}

    def example(self, batch: int, length: int, past: int = 0) -> dict[str, Any]:
        """Returns arguments for a step of the model without its cache."""
        device = next(self._model.parameters()).device
        ids = torch.arange(past + 1, past + length + 1, device=device).repeat(batch, 1)
        arguments: dict[str, Any] = {"input_ids": ids, "use_cache": True}
        if takes(self._model, "position_ids"):
            arguments["position_ids"] = ids - 1
        return arguments


def takes(model: torch.nn.Module, name: str) -> bool:
    """Returns whether the forward of a model has an argument."""
    return name in inspect.signature(model.forward).parameters


def _argument(model: torch.nn.Module) -> str | None:
    """Returns the argument of a model that takes its cache."""
    names = ("past_key_values", "cache_params", "state")
    return next((name for name in names if takes(model, name)), None)


def _leaves(root: Any) -> Iterator[tuple[Path, Any]]:
    """Yields the tensors and numbers of nested objects, each of them once."""
    seen: set[int] = set()

    def walk(value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
        if value is None or isinstance(value, (int, float, str)):
            yield path, value
            return
        if id(value) in seen:
            return
        seen.add(id(value))
        if isinstance(value, torch.Tensor):
            yield path, value
        for step, part in _parts(value):
            yield from walk(part, (*path, step))

    yield from walk(root, ())


def _parts(value: Any) -> Iterator[tuple[tuple[str, Any], Any]]:
    if isinstance(value, dict):
        yield from ((("item", key), part) for key, part in value.items())
    elif isinstance(value, (list, tuple)):
        yield from ((("item", i), part) for i, part in enumerate(value))
    elif _is_holder(value):
        names = ("keys", "values") if _only_grows(value) else vars(value)
        yield from ((("attribute", name), getattr(value, name)) for name in names)


def _is_holder(value: Any) -> bool:
    """Returns whether a value is an object like a cache or one of its layers."""
    from transformers import PretrainedConfig

    others = (torch.Tensor, torch.nn.Module, PretrainedConfig, type)
    return hasattr(value, "__dict__") and not callable(value) and not isinstance(value, others)


def _at(root: Any, path: Path) -> Any:
    for kind, key in path:
        root = getattr(root, key) if kind == "attribute" else root[key]
    return root


def _rebuilt(value: Any, path: Path, new: dict[int, Any], counts: dict[Path, Any]) -> Any:
    """Returns a copy of nested objects with other tensors and counts."""
    if path in counts:
        return counts[path]
    if isinstance(value, torch.Tensor):
        return new.get(id(value), value)

    parts = {step[1]: _rebuilt(part, (*path, step), new, counts) for step, part in _parts(value)}
    if isinstance(value, dict):
        return parts
    if isinstance(value, (list, tuple)):
        return type(value)(parts.values())
    if not _is_holder(value):
        return value
    made = copy.copy(value)
    vars(made).update(parts)
    if _grows_by_update(value) and value.keys is not None:
        kind: Any = type(value)
        made.__class__ = growing(kind)
    return made


def _grows_by_update(layer: Any) -> bool:
    """Returns whether a layer of a cache appends to its keys and values, and does nothing else."""
    from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

    known = (DynamicLayer.update, DynamicSlidingWindowLayer.update)
    return isinstance(layer, DynamicLayer) and type(layer).update in known


def _only_grows(value: Any) -> bool:
    """Returns whether a value is a layer with keys and values alone."""
    from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

    return type(value) in (DynamicLayer, DynamicSlidingWindowLayer)


def _is_constant(tensor: torch.Tensor, *others: Any) -> bool:
    """Returns whether a tensor has the same elements after other prompts."""
    return tensor.is_meta or all(torch.equal(tensor, other) for other in others)


def _is_of_layer(root: Any, path: Path) -> bool:
    """Returns whether a tensor is the keys or the values of a layer that only appends to them."""
    names = (("attribute", "keys"), ("attribute", "values"))
    return path[-1] in names and _grows_by_update(_at(root, path[:-1]))


def _are_close(result: torch.Tensor, expected: torch.Tensor) -> bool:
    """Returns whether two results differ by no more than rounding."""
    allowed = torch.finfo(expected.dtype).eps ** 0.5 * expected.abs().max()
    return bool((result - expected).abs().max() <= allowed)


@functools.cache
def growing(kind: Any) -> Any:
    """Returns a class of layers that keep the whole past and do not decide by its length.

    So do layers with a sliding window: the mask hides what is out of the window.
    """
    from transformers.cache_utils import DynamicLayer

    class GrowingLayer(kind):  # type: ignore[misc]
        """A layer whose sizes are those of its keys."""

        update = DynamicLayer.update
        get_mask_sizes = DynamicLayer.get_mask_sizes

        def get_seq_length(self) -> int:
            return self.keys.shape[-2]  # type: ignore[no-any-return]

    return GrowingLayer


def _axes(
    path: Path, leaf: torch.Tensor, of_batch: Any, of_length: Any
) -> tuple[int | None, int | None]:
    """Returns the axes of a tensor that depend on the batch and on the length of the text."""

    def axis(other: Any, size: int, of_other: int) -> int | None:
        pairs = list(zip(leaf.shape, other.shape, strict=False))
        changed = [i for i, (one, two) in enumerate(pairs) if one != two]
        if leaf.ndim != other.ndim or [pairs[i] for i in changed] not in ([], [(size, of_other)]):
            raise ValueError(
                f"{_text(path)} of the model's cache has the shape {list(leaf.shape)} and, for "
                f"{of_other} in place of {size}, {list(other.shape)}: export_decoder supports "
                "sizes that are fixed, the batch size, or the length of the text"
            )
        return changed[0] if changed else None

    for other in (of_batch, of_length):
        if not isinstance(other, torch.Tensor):
            raise ValueError(f"{_text(path)} of the model's cache is not always a tensor")
    return axis(of_batch, _BATCH, _OTHER_BATCH), axis(of_length, _LENGTH, _OTHER_LENGTH)


def _layer(path: Path) -> int:
    """Returns the first number in a path."""
    for kind, key in path:
        if isinstance(key, int):
            return key
        found = re.search(r"(?<!\w)\d+(?!\w)", key) if kind == "item" else None
        if found:
            return int(found[0])
    return -1


def _name(path: Path, argument: str | None) -> str:
    attributes = [key for kind, key in path if kind == "attribute"]
    if path[0] == ("item", "modules"):
        attributes = [path[-1][1]]
    name = str((attributes or [argument])[-1]).removesuffix("s")
    layer = _layer(path)
    return name if layer < 0 else f"{layer}.{name}"


def _text(path: Path) -> str:
    parts = (f".{key}" if kind == "attribute" else f"[{key!r}]" for kind, key in path[1:])
    return "".join(parts).removeprefix(".") or "the value"


@contextlib.contextmanager
def _modules_as_before(model: torch.nn.Module) -> Iterator[dict[str, dict[str, Any]]]:
    """Sets attributes of modules back that are tensors, or are tensors after a run."""
    before = {
        path: {
            name: value
            for name, value in vars(module).items()
            if value is None or isinstance(value, torch.Tensor)
        }
        for path, module in model.named_modules()
    }
    try:
        yield before
    finally:
        for path, module in model.named_modules():
            vars(module).update(before[path])
