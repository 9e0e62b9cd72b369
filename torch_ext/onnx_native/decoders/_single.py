"""Exports a decoder: one model for the prompt and for each later step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch.export import Dim

from onnx_native import _options, _warnings
from onnx_native.decoders import (
    _attention_functions,
    _door,
    _embedded,
    _genai,
    _group_query_attention,
    _kept_tensors,
    _static_cache,
    _steps,
)
from onnx_native.upstream import _upstream

if TYPE_CHECKING:
    from onnx_native.program._program import ONNXProgram

# The arguments of export_decoder that choose another form of the caches.
Form = Literal["window_caches", "static_cache"] | None


def export(
    model: torch.nn.Module,
    last_logits: bool,
    arguments: dict[str, Any],
    embedded: _embedded.Embedded | None = None,
    *,
    form: Form = None,
) -> tuple[dict[str, ONNXProgram], dict[str, Any] | None]:
    """Exports a decoder; returns the program and ``genai_config.json``.

    Args:
        model: The model.
        last_logits: See ``export_decoder``.
        arguments: Other arguments of ``torch.onnx.export``.
        embedded: What the decoder takes in place of tokens.
        form: The argument of ``export_decoder`` that chooses another form of the caches.

    Raises:
        ValueError: No layer can keep the keys and values of its window alone, or the cache cannot
            be static.
    """
    kept = _kept_tensors.Kept(model)
    layers = kept.layers
    windows: list[int] | None = None
    if form == "static_cache":
        _check_static(model, kept, arguments)
    elif (
        _options.current().target in _group_query_attention.TARGETS
        and kept.only_grows
        and (embedded is None or not embedded.types)
    ):
        windows = _windows_of_groups(model, layers)
    is_grouped = windows is not None
    # Of other providers it is not known whether they drop what is outside of the window.
    drops = _options.current().target == "onnxruntime-cpu" and any(windows or ())
    if form == "window_caches" and not drops:
        raise ValueError(
            f"window_caches= is for sliding windows in {type(model).__name__} that "
            'GroupQueryAttention computes, with target="onnxruntime-cpu"; there are none'
        )
    windows = windows if form == "window_caches" and windows else [0] * len(layers)
    continues = kept.only_grows or _continues(model, kept)
    has_buffers = is_grouped or form == "static_cache"
    signature = _signature(model, kept, embedded, has_buffers=has_buffers, windows=windows)

    def run(forward: Callable[..., Any], inputs: dict[str, torch.Tensor]) -> list[torch.Tensor]:
        values = [inputs.pop(f"past_key_values.{tensor.name}") for tensor in kept.tensors]
        if embedded is not None:
            forward = embedded.entered(forward, inputs)
        length = inputs["input_ids"].shape[1]
        options: dict[str, Any] = {"use_cache": True}
        if last_logits and _kept_tensors.takes(model, "logits_to_keep"):
            options["logits_to_keep"] = 1
        if has_buffers:
            past = inputs["attention_mask"].shape[1] - length
            pairs = list(zip(values[::2], values[1::2], strict=True))
            buffers = (
                _static_cache.cache(pairs, past)
                if form == "static_cache"
                else _group_query_attention.cache(pairs, past, windows)
            )
            with buffers as cache:
                output = forward(**inputs, **options, past_key_values=cache)
            logits = _steps.logits_kept(output.logits, last_logits)
            return [
                logits,
                *(each for layer in cache.layers for each in (layer.keys, layer.values)),
            ]
        past = kept.length(values)
        if "attention_mask" in inputs and kept.grows:
            _upstream.check(inputs["attention_mask"].shape[1] == past + length)
        # The program may write to its states.
        with kept.given([value.clone() for value in values], past) as cache:
            if kept.argument is not None:
                options[kept.argument] = cache
            output = forward(**inputs, **options)
            present = kept.present(cache, output)
        logits = output.logits
        if not continues and length != 1:
            logits = torch.where(_is_past(kept, values), torch.nan, logits)
        return [_steps.logits_kept(logits, last_logits), *present]

    try:
        program = _steps.export(model, signature, run, arguments, is_grouped=is_grouped)
    except torch.onnx.OnnxExporterError:
        if kept.only_grows or embedded is not None:
            raise
        signature = _signature(model, kept, embedded, has_buffers=False, length=1)
        program = _steps.export(model, signature, run, arguments)
        _warnings.warn(
            "The decoder takes one token at a time, also of a prompt: no capture has the program "
            "for a sequence_length that is dynamic"
        )
        return {"model.onnx": program}, None
    names = [tensor.name for tensor in kept.tensors]
    if not kept.only_grows and not _genai.runs_states(model, names):
        return {"model.onnx": program}, None
    config = _genai.config(model, layers)
    config["search"]["past_present_share_buffer"] = has_buffers
    config["model"]["decoder"] |= {
        "filename": "model.onnx",
        "outputs": dict(_steps.OUTPUTS),
        "inputs": {
            name: name
            for name in ("input_ids", _door.EMBEDS, "attention_mask", "position_ids")
            if name in signature.inputs
        }
        | {"past_key_names": _steps.PAST_KEY, "past_value_names": _steps.PAST_VALUE},
    }
    _genai.add_states(config["model"]["decoder"], names)
    return {"model.onnx": program}, config


def _continues(model: torch.nn.Module, kept: _kept_tensors.Kept) -> bool:
    """Returns whether a step of several tokens goes on from the states of a past.

    Raises:
        ValueError: Zeros do not stand for no past.
    """
    with _attention_functions.replaced(model, is_grouped=False):
        if not kept.starts_from_zeros():
            names = ", ".join(tensor.name for tensor in kept.tensors if tensor.growing is None)
            raise ValueError(
                f"the states {names} of the model do not begin with zeros, or it is on the meta "
                "device and no layers of transformers' cache hold them"
            )
        return kept.continues()


def _is_past(kept: _kept_tensors.Kept, values: list[torch.Tensor]) -> torch.Tensor:
    """Returns whether there is a past: a state that is not zero."""
    states = [
        (value != 0).any()
        for tensor, value in zip(kept.tensors, values, strict=True)
        if tensor.growing is None
    ]
    return torch.stack(states).any()


def _signature(
    model: torch.nn.Module,
    kept: _kept_tensors.Kept,
    embedded: _embedded.Embedded | None,
    *,
    has_buffers: bool,
    windows: Sequence[int] = (),
    length: int = _steps.SEQUENCE,
) -> _steps.Signature:
    """Returns the inputs and outputs of a step; one of one token has no other length."""
    if embedded is not None:
        length = embedded.length
    sizes, signature = _steps.StepSizes(), _steps.Signature()
    if has_buffers:
        sizes.total = Dim("total_sequence_length")
    if length == 1:
        sizes.sequence, sizes.total = None, sizes.past + 1
    device = next(model.parameters()).device
    ids = torch.ones(_steps.BATCH, length, dtype=torch.int64, device=device)
    if embedded is None:
        signature.add("input_ids", ids, axis0=sizes.batch, axis1=sizes.sequence)
    else:
        embedded.add_inputs(signature, sizes)
    if _kept_tensors.takes(model, "attention_mask"):
        # A model whose cache does not grow takes the mask of the new tokens.
        mask, total = ids, sizes.sequence
        if kept.grows:
            mask, total = ids.new_ones(_steps.BATCH, _steps.PAST + length), sizes.total
        signature.add("attention_mask", mask.clone(), axis0=sizes.batch, axis1=total)
    if _kept_tensors.takes(model, "position_ids"):
        positions = torch.arange(_steps.PAST, _steps.PAST + length, device=device)
        positions = positions.repeat(_steps.BATCH, 1)
        if embedded is not None and embedded.rows is not None:
            positions = positions.repeat(embedded.rows, 1, 1)
            signature.add("position_ids", positions, axis1=sizes.batch, axis2=sizes.sequence)
        else:
            signature.add("position_ids", positions, axis0=sizes.batch, axis1=sizes.sequence)
    signature.outputs.append("logits")
    window = Dim("window_cache_length", min=max(windows, default=0) or 1)
    for i, tensor in enumerate(kept.tensors):
        # Each layer has keys and values.
        past = window if any(windows) and windows[i // 2] else sizes.past
        axes = {tensor.batch: sizes.batch, tensor.growing: past}
        signature.add(
            f"past_key_values.{tensor.name}",
            tensor.zeros(_steps.BATCH, max(windows) if past is window else _steps.PAST),
            **{f"axis{axis}": size for axis, size in axes.items() if axis is not None},
        )
        signature.outputs.append(f"present.{tensor.name}")
    return signature


def _check_static(
    model: torch.nn.Module, kept: _kept_tensors.Kept, arguments: dict[str, Any]
) -> None:
    name = type(model).__name__
    if not kept.only_grows or not _kept_tensors.takes(model, "attention_mask"):
        raise ValueError(f"static_cache= is for caches of keys and values; {name} has another one")
    opset = arguments.get("opset_version")
    if opset is None or opset < _static_cache.OPSET:
        raise ValueError(
            f"static_cache= needs TensorScatter: pass opset_version={_static_cache.OPSET}"
        )


def _windows_of_groups(model: torch.nn.Module, layers: _steps.Layers) -> list[int] | None:
    """Returns the sliding windows of the layers, or 0 for those that see all.

    Returns None if GroupQueryAttention does not compute the attention of the model.
    """
    if not _group_query_attention.is_supported(layers):
        return None
    ids = torch.ones(_steps.BATCH, 2, dtype=torch.int64, device=next(model.parameters()).device)
    empty = [(key[:, :, :0], value[:, :, :0]) for key, value in layers]
    try:
        with (
            torch.no_grad(),
            _attention_functions.replaced(model, is_grouped=True),
            _group_query_attention.cache(empty, 0) as cache,
        ):
            model(input_ids=ids, attention_mask=ids, past_key_values=cache, use_cache=True)
    except _group_query_attention.UnsupportedError:
        return None
    return [layer.sliding_window or 0 for layer in cache.layers]
