"""Describes a decoder to onnxruntime-genai."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from onnx_native import _options

# What onnxruntime-genai calls the providers of the targets; it takes the CPU's without a name.
_PROVIDERS = {"onnxruntime-cuda": "cuda", "onnxruntime-webgpu": "webgpu"}

# The types of decoders that onnxruntime-genai knows by name; "decoder" stands for any other.
_TYPES = frozenset(
    "chatglm ernie4_5 gemma gemma2 gemma3_text granite internlm2 llama mistral nemotron olmo phi "
    "phimoe phi3 phi3small qwen2 qwen3 smollm3".split()
)

# What the layers of its decoders keep: keys and values, or states, whose names have other lists.
_KEYS = {"key", "value"}
_STATES = {"conv_state": "conv_names", "recurrent_state": "recurrent_names"}

# The length of the sounds that onnxruntime-genai gives to Whisper.
_FRAMES = 3000


def config(model: Any, layers: Sequence[tuple[torch.Tensor, torch.Tensor]]) -> dict[str, Any]:
    """Returns the contents of genai_config.json, without the names of files, inputs and outputs.

    Args:
        model: A model of transformers.
        layers: Keys and values of each layer, ``[batch, heads, length, head_size]``.
    """
    whole = model.config
    text = whole.get_text_config(decoder=True)
    generation = getattr(model, "generation_config", None)

    def token(name: str) -> Any:
        found = getattr(generation, name, None)
        return found if found is not None else getattr(whole, name, None)

    provider = _PROVIDERS.get(_options.current().target)
    key = layers[0][0]
    length = _first(text, "max_position_embeddings", "max_target_positions", default=2048)
    heads = _first(text, "num_attention_heads", default=key.shape[1])
    described: dict[str, Any] = {
        "type": "whisper" if whole.is_encoder_decoder else _type(text.model_type),
        "vocab_size": text.vocab_size,
        "context_length": length,
        "decoder": {
            "session_options": {
                "log_id": "onnxruntime-genai",
                "provider_options": [{provider: {}}] if provider else [],
            },
            "head_size": key.shape[3],
            "hidden_size": text.hidden_size,
            "num_attention_heads": heads,
            "num_hidden_layers": len(layers),
            "num_key_value_heads": key.shape[1],
        },
    }
    end = token("eos_token_id")
    pad = token("pad_token_id")
    if pad is None:
        pad = end[0] if isinstance(end, list) else end
    tokens = {
        "bos_token_id": token("bos_token_id"),
        "eos_token_id": end,
        "pad_token_id": pad,
        "decoder_start_token_id": token("decoder_start_token_id"),
    }
    described |= {name: value for name, value in tokens.items() if value is not None}
    search = {
        "do_sample": False,
        "early_stopping": True,
        "length_penalty": 1.0,
        "max_length": length,
        "min_length": 0,
        "num_beams": 1,
        "num_return_sequences": 1,
        "past_present_share_buffer": False,
        "repetition_penalty": 1.0,
        "temperature": 1.0,
        "top_k": 1,
        "top_p": 1.0,
    }
    return {"model": described, "search": search}


def runs_states(model: Any, names: Sequence[str]) -> bool:
    """Returns whether onnxruntime-genai runs a decoder that keeps tensors with these names.

    Each of its layers has keys and values, or states of a convolution and of a recurrence.

    Args:
        model: A model of transformers.
        names: The names, such as ``"3.conv_state"``.
    """
    layers = _by_layer(names)
    count = model.config.get_text_config(decoder=True).num_hidden_layers
    return (
        layers.keys() == {str(i) for i in range(count)}
        and _KEYS in layers.values()
        and all(kinds == _KEYS or kinds <= _STATES.keys() for kinds in layers.values())
    )


def add_states(decoder: dict[str, Any], names: Sequence[str]) -> None:
    """Adds the states to the configuration of a decoder that ``runs_states``."""
    layers = _by_layer(names)
    states = sorted(set().union(*layers.values()) - _KEYS)
    if not states:
        return
    decoder["num_hidden_layers"] = len(layers)
    decoder["layer_types"] = [
        "full_attention"
        if kinds == _KEYS
        else "conv"
        if kinds == {"conv_state"}
        else "linear_attention"
        for kinds in layers.values()
    ]
    for kind in states:
        decoder["inputs"][f"past_{_STATES[kind]}"] = f"past_key_values.%d.{kind}"
        decoder["outputs"][f"present_{_STATES[kind]}"] = f"present.%d.{kind}"


def _by_layer(names: Sequence[str]) -> dict[str, set[str]]:
    layers: dict[str, set[str]] = {}
    for name in names:
        layer, _, kind = name.rpartition(".")
        layers.setdefault(layer, set()).add(kind)
    return layers


def runs_pair(model: Any) -> bool:
    """Returns whether onnxruntime-genai runs an encoder with its decoder: only Whisper's."""
    whole = model.config
    return whole.model_type == "whisper" and 2 * whole.max_source_positions == _FRAMES


def _type(model_type: str) -> str:
    return model_type if model_type in _TYPES else "decoder"


def _first(text: Any, *names: str, default: Any) -> Any:
    """Returns the first of these settings that a configuration has."""
    for name in names:
        found = getattr(text, name, None)
        if found is not None:
            return found
    return default
