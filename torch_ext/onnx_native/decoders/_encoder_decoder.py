"""Exports an encoder and its decoder."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from onnx_native.decoders import _attention_functions, _genai, _kept_tensors, _steps

if TYPE_CHECKING:
    from onnx_native.program._program import ONNXProgram


def export(
    model: torch.nn.Module, last_logits: bool, arguments: dict[str, Any]
) -> tuple[dict[str, ONNXProgram], dict[str, Any] | None]:
    """Exports an encoder and its decoder; returns the programs and ``genai_config.json``."""
    source = _Source(model)
    ids = torch.ones(_steps.BATCH, 2, dtype=torch.int64, device=next(model.parameters()).device)
    with torch.no_grad(), _attention_functions.replaced(model, is_grouped=False):
        output = model(**source.examples(), decoder_input_ids=ids, use_cache=True)
    layers = _layers(output.past_key_values.self_attention_cache)
    cross = _layers(output.past_key_values.cross_attention_cache)
    hidden = output.encoder_last_hidden_state.shape[-1]

    sizes = _steps.StepSizes()
    encoder = _steps.Signature()
    for name, value in source.examples().items():
        axes = {"axis1": sizes.source} if source.is_text else {}
        encoder.add(source.public_name(name), value, axis0=sizes.batch, **axes)
    encoder.outputs.append("encoder_hidden_states")
    encoder.add_outputs((_steps.CROSS_PRESENT_KEY, _steps.CROSS_PRESENT_VALUE), len(cross))

    def encode(forward: Callable[..., Any], inputs: dict[str, torch.Tensor]) -> list[torch.Tensor]:
        # The first token only makes the decoder fill the cache of the cross-attention.
        given = {source.own_name(name): value for name, value in inputs.items()}
        first = next(iter(given.values()))
        start = first.new_zeros((first.shape[0], 1), dtype=torch.int64)
        output = forward(**given, decoder_input_ids=start, use_cache=True)
        return [
            output.encoder_last_hidden_state,
            *_flat(output.past_key_values.cross_attention_cache),
        ]

    decoder, sizes = _steps.Signature(), _steps.StepSizes()
    ids = ids.new_ones(_steps.BATCH, _steps.SEQUENCE)
    decoder.add("input_ids", ids, axis0=sizes.batch, axis1=sizes.sequence)
    length = cross[0][0].shape[2]
    axes = {}
    if source.is_text:
        length = _steps.SOURCE
        axes = {"axis2": sizes.source}
        mask = ids.new_ones(_steps.BATCH, _steps.SOURCE)
        decoder.add("encoder_attention_mask", mask, axis0=sizes.batch, axis1=sizes.source)
    names = (_steps.PAST_KEY, _steps.PAST_VALUE)
    cross_names = (_steps.CROSS_PAST_KEY, _steps.CROSS_PAST_VALUE)
    decoder.add_cache(layers, names, _steps.PAST, axis0=sizes.batch, axis2=sizes.past)
    decoder.add_cache(cross, cross_names, length, axis0=sizes.batch, **axes)
    decoder.outputs.append("logits")
    decoder.add_outputs((_steps.PRESENT_KEY, _steps.PRESENT_VALUE), len(layers))

    def decode(forward: Callable[..., Any], inputs: dict[str, torch.Tensor]) -> list[torch.Tensor]:
        from transformers.cache_utils import EncoderDecoderCache
        from transformers.modeling_outputs import BaseModelOutput

        kept = _cache(_taken(inputs, names, len(layers)))
        encoded = _taken(inputs, cross_names, len(cross))
        cache = EncoderDecoderCache(kept, _cache(encoded))
        cache.is_updated = dict.fromkeys(range(len(cross)), True)
        key = encoded[0][0]
        # Only the shape counts: the keys and values of the cross-attention are in the cache.
        states = key.new_zeros((key.shape[0], key.shape[2], hidden))
        output = forward(
            encoder_outputs=BaseModelOutput(last_hidden_state=states),
            attention_mask=inputs.get("encoder_attention_mask"),
            decoder_input_ids=inputs["input_ids"],
            past_key_values=cache,
            use_cache=True,
        )
        return [_steps.logits_kept(output.logits, last_logits), *_flat(kept)]

    programs = {
        "encoder.onnx": _steps.export(model, encoder, encode, arguments),
        "decoder.onnx": _steps.export(model, decoder, decode, arguments),
    }
    if not _genai.runs_pair(model):
        return programs, None
    config = _genai.config(model, layers)
    config["model"]["encoder"] = {
        "filename": "encoder.onnx",
        "head_size": cross[0][0].shape[3],
        "hidden_size": hidden,
        "num_attention_heads": cross[0][0].shape[1],
        "num_hidden_layers": _attention_functions.config(model).encoder_layers,
        "inputs": {"audio_features": "audio_features"},
        "outputs": {
            "encoder_hidden_states": "encoder_hidden_states",
            "cross_present_key_names": _steps.CROSS_PRESENT_KEY,
            "cross_present_value_names": _steps.CROSS_PRESENT_VALUE,
        },
    }
    config["model"]["decoder"] |= {
        "filename": "decoder.onnx",
        "outputs": dict(_steps.OUTPUTS),
        "inputs": {
            "input_ids": "input_ids",
            "past_key_names": _steps.PAST_KEY,
            "past_value_names": _steps.PAST_VALUE,
            "cross_past_key_names": _steps.CROSS_PAST_KEY,
            "cross_past_value_names": _steps.CROSS_PAST_VALUE,
        },
    }
    return programs, config


class _Source:
    """What an encoder takes: identifiers and their mask, or the features of a sound."""

    def __init__(self, model: torch.nn.Module) -> None:
        self._model = model
        self.is_text = getattr(model, "main_input_name", "input_ids") == "input_ids"

    def examples(self) -> dict[str, torch.Tensor]:
        device = next(self._model.parameters()).device
        if self.is_text:
            ids = torch.ones(_steps.BATCH, _steps.SOURCE, dtype=torch.int64, device=device)
            return {"input_ids": ids, "attention_mask": ids.clone()}
        config = _attention_functions.config(self._model)
        # Two frames per position, as the strides of Whisper's convolutions have it.
        shape = (_steps.BATCH, config.num_mel_bins, 2 * config.max_source_positions)
        dtype = next(self._model.parameters()).dtype
        return {"input_features": torch.zeros(shape, device=device, dtype=dtype)}

    def public_name(self, name: str) -> str:
        return "audio_features" if name == "input_features" else name

    def own_name(self, name: str) -> str:
        return "input_features" if name == "audio_features" else name


def _taken(inputs: dict[str, torch.Tensor], names: tuple[str, str], count: int) -> _steps.Layers:
    """Takes keys and values out of the inputs."""
    key, value = names
    return [(inputs.pop(key % i), inputs.pop(value % i)) for i in range(count)]


def _layers(cache: Any) -> _steps.Layers:
    """Returns the keys and values of a cache.

    Raises:
        ValueError: There is none, or a layer has another state.
    """
    from transformers.cache_utils import Cache, DynamicLayer, DynamicSlidingWindowLayer

    if not isinstance(cache, Cache):
        raise ValueError("the model does not return past_key_values, a cache of keys and values")
    layers: list[Any] = cache.layers
    for i, layer in enumerate(layers):
        if type(layer) not in (DynamicLayer, DynamicSlidingWindowLayer):
            raise ValueError(
                f"layer {i} of the model's cache is a {type(layer).__name__}; export_decoder "
                "supports caches of keys and values only"
            )
    return [(layer.keys, layer.values) for layer in layers]


def _cache(layers: _steps.Layers) -> Any:
    """Returns a cache that holds keys and values.

    All layers keep the whole past, also those with a sliding window: the mask hides what is out of
    the window.
    """
    from transformers.cache_utils import Cache, DynamicLayer

    made: list[Any] = []
    for keys, values in layers:
        layer = _kept_tensors.growing(DynamicLayer)()
        layer.lazy_initialization(keys, values)
        layer.keys, layer.values = keys, values
        made.append(layer)
    return Cache(layers=made)


def _flat(cache: Any) -> list[torch.Tensor]:
    return [kept for layer in cache.layers for kept in (layer.keys, layer.values)]
