"""Exports a transformers model that generates text, with its key and value cache.

The exported decoder takes the keys and values of the past and returns the extended ones. One model
serves the prompt (no past) and each later step. Inputs and outputs have the names that
onnxruntime-genai expects. See docs/decoders.md.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import inspect
import json
import pathlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch.export import Dim

from onnx_native import _options
from onnx_native.decoders import (
    _genai,
    _group_query_attention,
    _meta_buffers,
    _scaled_dot_product,
    _windows,
)
from onnx_native.program import _contents
from onnx_native.together import _together
from onnx_native.upstream import _upstream

if TYPE_CHECKING:
    import os

    from onnx_native.program import _checkpoint
    from onnx_native.program._program import ONNXProgram

# Where a configuration keeps the name of its attention function. set_attn_implementation would also
# change the configurations of parts that have another one.
_CHOSEN = "_attn_implementation_internal"

PAST_KEY, PAST_VALUE = "past_key_values.%d.key", "past_key_values.%d.value"
PRESENT_KEY, PRESENT_VALUE = "present.%d.key", "present.%d.value"
CROSS_PAST_KEY, CROSS_PAST_VALUE = "past_key_cross_%d", "past_value_cross_%d"
CROSS_PRESENT_KEY, CROSS_PRESENT_VALUE = "present_key_cross_%d", "present_value_cross_%d"

# Sizes of the example. A present length of one or a past length of zero would make the model
# decide by them.
_BATCH, _SEQUENCE, _PAST, _SOURCE = 2, 4, 3, 5

_OUTPUTS = {
    "logits": "logits",
    "present_key_names": PRESENT_KEY,
    "present_value_names": PRESENT_VALUE,
}

# Runs the forward of a model with named inputs and returns its outputs.
Run = Callable[[Callable[..., Any], dict[str, torch.Tensor]], list[torch.Tensor]]
Layers = list[tuple[torch.Tensor, torch.Tensor]]  # the keys and values of each layer


@dataclasses.dataclass
class ExportedDecoder:
    """The models of a decoder.

    Attributes:
        programs: The programs by the names of their files: ``"model.onnx"``, or ``"encoder.onnx"``
            and ``"decoder.onnx"``.
        genai_config: The contents of ``genai_config.json``; None if onnxruntime-genai cannot run
            such a model.
    """

    programs: dict[str, ONNXProgram]
    genai_config: dict[str, Any] | None

    def save(
        self,
        folder: str | os.PathLike,
        *,
        external_data: bool | None = None,
        checkpoint: _checkpoint.AnyPaths | None = None,
        max_shard_size: int | str | None = None,
    ) -> None:
        """Saves the models and ``genai_config.json`` in a folder, which is made if needed.

        Args:
            folder: The path of the folder.
            external_data: See ``ONNXProgram.save``. Several models share one data file, as
                ``onnx_native.save_many`` writes it, unless this is False.
            checkpoint: See ``ONNXProgram.save``.
            max_shard_size: See ``onnx_native.save_many``.

        Raises:
            ValueError: The weights cannot be inside and in shards, or the checkpoint has none of
                them.
            OSError: Writing failed.
        """
        if external_data is False and max_shard_size is not None:
            raise ValueError(
                "max_shard_size= is about data files, and external_data=False has none"
            )
        path = pathlib.Path(folder)
        path.mkdir(parents=True, exist_ok=True)
        has_one_file_each = len(self.programs) == 1 or external_data is False
        if has_one_file_each and max_shard_size is None:
            for name, program in self.programs.items():
                program.save(path / name, external_data=external_data, checkpoint=checkpoint)
        else:
            _together.save_many(
                self.programs, path, checkpoint=checkpoint, max_shard_size=max_shard_size
            )
        if self.genai_config is not None:
            text = json.dumps(self.genai_config, indent=4)
            (path / "genai_config.json").write_text(text + "\n")


def export_decoder(
    model: torch.nn.Module,
    folder: str | os.PathLike | None = None,
    *,
    last_logits: bool = False,
    target: _options.Target | None = None,
    checkpoint: _checkpoint.AnyPaths | None = None,
    max_shard_size: int | str | None = None,
    **arguments: Any,
) -> ExportedDecoder:
    """Exports a transformers model for generation, with its key and value cache.

    A decoder becomes one model for the prompt and for each later step: batch size, sequence length
    and past length are dynamic, and the past may be empty. An encoder-decoder model becomes two:
    the encoder returns the keys and values for the cross-attention, and the decoder takes them.
    docs/decoders.md lists the inputs and outputs.

    Args:
        model: A causal language model or an encoder-decoder model of transformers.
        folder: Where to save the models and ``genai_config.json``; None: nowhere.
        last_logits: Whether ``logits`` has only the last position, ``[batch, 1, vocabulary]``.
        target: See ``onnx_native.options``; None keeps the surrounding value.
        checkpoint: ``.safetensors`` files with the weights, or their ``.index.json``, for a model
            that may be on the meta device; see ``ONNXProgram.save``.
        max_shard_size: The largest size of a data file; see ``onnx_native.save_many``.
        arguments: Other arguments of ``torch.onnx.export``, for example ``opset_version``.

    Returns:
        The exported models.

    Raises:
        ValueError: The cache of the model has layers other than keys and values that grow, for
            example the states of a linear attention.
        torch.onnx.OnnxExporterError: The export failed.
    """
    with _options.options(target=target):
        if _config(model).is_encoder_decoder:
            exported = _export_pair(model, last_logits, arguments)
        else:
            exported = _export_single(model, last_logits, arguments)
    buffers = _meta_buffers.values(model)
    for program in exported.programs.values():
        _contents.of(program).native.set_weights(buffers)
    if folder is not None:
        exported.save(folder, checkpoint=checkpoint, max_shard_size=max_shard_size)
    return exported


class _Signature:
    """The inputs of a model with their example values and dynamic axes, and its outputs."""

    def __init__(self) -> None:
        self.inputs: dict[str, torch.Tensor] = {}
        self.axes: list[dict[int, Any]] = []
        self.outputs: list[str] = []

    def add(self, name: str, value: torch.Tensor, **axes: Any) -> None:
        """Adds an input. ``axis0=size`` makes the first axis dynamic."""
        self.inputs[name] = value
        self.axes.append({int(axis.removeprefix("axis")): size for axis, size in axes.items()})

    def add_cache(self, layers: Layers, names: tuple[str, str], length: int, **axes: Any) -> None:
        """Adds inputs for keys and values like those of ``layers``, but of another length."""
        for i, layer in enumerate(layers):
            for name, like in zip(names, layer, strict=True):
                shape = (_BATCH, like.shape[1], length, like.shape[3])
                self.add(name % i, like.new_zeros(shape), **axes)

    def add_outputs(self, names: tuple[str, str], count: int) -> None:
        self.outputs += [name % i for i in range(count) for name in names]


class _Sizes:
    """The dynamic sizes of a model. Only the past may be empty; the total is past and present."""

    def __init__(self) -> None:
        self.batch = Dim("batch_size", min=1)
        self.sequence = Dim("sequence_length", min=1)
        self.past = Dim("past_sequence_length")
        self.source = Dim("encoder_sequence_length", min=1)
        self.total: Any = Dim.AUTO


def _step(
    model: torch.nn.Module, names: list[str], run: Run, *, is_grouped: bool
) -> torch.nn.Module:
    """Returns a module whose argument is the list of a signature's inputs.

    It is a copy of the model that shares its weights, which keep their names.
    """
    step = copy.copy(model)

    def forward(inputs: list[torch.Tensor]) -> list[torch.Tensor]:
        with _attention_functions(model, is_grouped=is_grouped):
            return run(model.forward, dict(zip(names, inputs, strict=True)))

    step.forward = forward
    return step


def _export(
    model: torch.nn.Module,
    signature: _Signature,
    run: Run,
    arguments: dict[str, Any],
    *,
    is_grouped: bool = False,
) -> ONNXProgram:
    """Exports a step of a model."""
    names = list(signature.inputs)
    return _together.export(
        _step(model, names, run, is_grouped=is_grouped),
        (list(signature.inputs.values()),),
        dynamic_shapes=[signature.axes],
        input_names=names,
        output_names=signature.outputs,
        **arguments,
    )


def _export_single(
    model: torch.nn.Module, last_logits: bool, arguments: dict[str, Any]
) -> ExportedDecoder:
    ids = torch.ones(_BATCH, 2, dtype=torch.int64, device=_device(model))
    with torch.no_grad():
        output = model(input_ids=ids, use_cache=True)
    layers = _layers(getattr(output, "past_key_values", None))
    is_grouped = _options.current().target == "onnxruntime-cpu" and _can_group(model, layers)
    sizes, signature = _Sizes(), _Signature()
    if is_grouped:
        sizes.total = Dim("total_sequence_length")
    ids = ids.new_ones(_BATCH, _SEQUENCE)
    signature.add("input_ids", ids, axis0=sizes.batch, axis1=sizes.sequence)
    mask = ids.new_ones(_BATCH, _PAST + _SEQUENCE)
    signature.add("attention_mask", mask, axis0=sizes.batch, axis1=sizes.total)
    if _takes(model, "position_ids"):
        positions = torch.arange(_PAST, _PAST + _SEQUENCE, device=ids.device).repeat(_BATCH, 1)
        signature.add("position_ids", positions, axis0=sizes.batch, axis1=sizes.sequence)
    names = (PAST_KEY, PAST_VALUE)
    signature.add_cache(layers, names, _PAST, axis0=sizes.batch, axis2=sizes.past)
    signature.outputs.append("logits")
    signature.add_outputs((PRESENT_KEY, PRESENT_VALUE), len(layers))

    def run(forward: Callable[..., Any], inputs: dict[str, torch.Tensor]) -> list[torch.Tensor]:
        past = _taken(inputs, names, len(layers))
        total, length = inputs["attention_mask"].shape[1], inputs["input_ids"].shape[1]
        options = {"logits_to_keep": 1} if last_logits and _takes(model, "logits_to_keep") else {}
        made: contextlib.AbstractContextManager[Any]
        if is_grouped:
            made = _group_query_attention.cache(past, total - length)
        else:
            made = contextlib.nullcontext(_cache(past))
            _upstream.check(total == past[0][0].shape[2] + length)
        with made as cache:
            output = forward(**inputs, **options, past_key_values=cache, use_cache=True)
        return [_kept(output.logits, last_logits), *_flat(cache)]

    program = _export(model, signature, run, arguments, is_grouped=is_grouped)
    config = _genai.config(model, layers)
    config["search"]["past_present_share_buffer"] = is_grouped
    config["model"]["decoder"] |= {
        "filename": "model.onnx",
        "outputs": dict(_OUTPUTS),
        "inputs": {
            name: name
            for name in ("input_ids", "attention_mask", "position_ids")
            if name in signature.inputs
        }
        | {"past_key_names": PAST_KEY, "past_value_names": PAST_VALUE},
    }
    return ExportedDecoder({"model.onnx": program}, config)


def _can_group(model: torch.nn.Module, layers: Layers) -> bool:
    """Returns whether GroupQueryAttention computes the attention of a model."""
    if not _group_query_attention.is_supported(layers):
        return False
    ids = torch.ones(_BATCH, 2, dtype=torch.int64, device=_device(model))
    empty = [(key[:, :, :0], value[:, :, :0]) for key, value in layers]
    try:
        with (
            torch.no_grad(),
            _attention_functions(model, is_grouped=True),
            _group_query_attention.cache(empty, 0) as cache,
        ):
            model(input_ids=ids, attention_mask=ids, past_key_values=cache, use_cache=True)
    except _group_query_attention.UnsupportedError:
        return False
    return True


def _export_pair(
    model: torch.nn.Module, last_logits: bool, arguments: dict[str, Any]
) -> ExportedDecoder:
    source = _Source(model)
    ids = torch.ones(_BATCH, 2, dtype=torch.int64, device=_device(model))
    with torch.no_grad(), _attention_functions(model, is_grouped=False):
        output = model(**source.examples(), decoder_input_ids=ids, use_cache=True)
    layers = _layers(output.past_key_values.self_attention_cache)
    cross = _layers(output.past_key_values.cross_attention_cache)
    hidden = output.encoder_last_hidden_state.shape[-1]

    sizes = _Sizes()
    encoder = _Signature()
    for name, value in source.examples().items():
        axes = {"axis1": sizes.source} if source.is_text else {}
        encoder.add(source.public_name(name), value, axis0=sizes.batch, **axes)
    encoder.outputs.append("encoder_hidden_states")
    encoder.add_outputs((CROSS_PRESENT_KEY, CROSS_PRESENT_VALUE), len(cross))

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

    decoder, sizes = _Signature(), _Sizes()
    ids = ids.new_ones(_BATCH, _SEQUENCE)
    decoder.add("input_ids", ids, axis0=sizes.batch, axis1=sizes.sequence)
    length = cross[0][0].shape[2]
    axes = {}
    if source.is_text:
        length = _SOURCE
        axes = {"axis2": sizes.source}
        mask = ids.new_ones(_BATCH, _SOURCE)
        decoder.add("encoder_attention_mask", mask, axis0=sizes.batch, axis1=sizes.source)
    names = (PAST_KEY, PAST_VALUE)
    cross_names = (CROSS_PAST_KEY, CROSS_PAST_VALUE)
    decoder.add_cache(layers, names, _PAST, axis0=sizes.batch, axis2=sizes.past)
    decoder.add_cache(cross, cross_names, length, axis0=sizes.batch, **axes)
    decoder.outputs.append("logits")
    decoder.add_outputs((PRESENT_KEY, PRESENT_VALUE), len(layers))

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
        return [_kept(output.logits, last_logits), *_flat(kept)]

    programs = {
        "encoder.onnx": _export(model, encoder, encode, arguments),
        "decoder.onnx": _export(model, decoder, decode, arguments),
    }
    if not _genai.runs_pair(model):
        return ExportedDecoder(programs, None)
    config = _genai.config(model, layers)
    config["model"]["encoder"] = {
        "filename": "encoder.onnx",
        "head_size": cross[0][0].shape[3],
        "hidden_size": hidden,
        "num_attention_heads": cross[0][0].shape[1],
        "num_hidden_layers": _config(model).encoder_layers,
        "inputs": {"audio_features": "audio_features"},
        "outputs": {
            "encoder_hidden_states": "encoder_hidden_states",
            "cross_present_key_names": CROSS_PRESENT_KEY,
            "cross_present_value_names": CROSS_PRESENT_VALUE,
        },
    }
    config["model"]["decoder"] |= {
        "filename": "decoder.onnx",
        "outputs": dict(_OUTPUTS),
        "inputs": {
            "input_ids": "input_ids",
            "past_key_names": PAST_KEY,
            "past_value_names": PAST_VALUE,
            "cross_past_key_names": CROSS_PAST_KEY,
            "cross_past_value_names": CROSS_PAST_VALUE,
        },
    }
    return ExportedDecoder(programs, config)


class _Source:
    """What an encoder takes: identifiers and their mask, or the features of a sound."""

    def __init__(self, model: torch.nn.Module) -> None:
        self._model = model
        self.is_text = getattr(model, "main_input_name", "input_ids") == "input_ids"

    def examples(self) -> dict[str, torch.Tensor]:
        device = _device(self._model)
        if self.is_text:
            ids = torch.ones(_BATCH, _SOURCE, dtype=torch.int64, device=device)
            return {"input_ids": ids, "attention_mask": ids.clone()}
        config = _config(self._model)
        # Two frames per position, as the strides of Whisper's convolutions have it.
        shape = (_BATCH, config.num_mel_bins, 2 * config.max_source_positions)
        dtype = next(self._model.parameters()).dtype
        return {"input_features": torch.zeros(shape, device=device, dtype=dtype)}

    def public_name(self, name: str) -> str:
        return "audio_features" if name == "input_features" else name

    def own_name(self, name: str) -> str:
        return "input_features" if name == "audio_features" else name


def _config(model: torch.nn.Module) -> Any:
    """Returns the configuration of a model of transformers; None for other modules."""
    return getattr(model, "config", None)


def _device(model: torch.nn.Module) -> torch.device:
    return next(model.parameters()).device


def _takes(model: torch.nn.Module, name: str) -> bool:
    return name in inspect.signature(model.forward).parameters


def _taken(inputs: dict[str, torch.Tensor], names: tuple[str, str], count: int) -> Layers:
    """Takes keys and values out of the inputs."""
    key, value = names
    return [(inputs.pop(key % i), inputs.pop(value % i)) for i in range(count)]


def _kept(logits: torch.Tensor, last_only: bool) -> torch.Tensor:
    return logits[:, -1:] if last_only else logits


def _layers(cache: Any) -> Layers:
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


def _cache(layers: Layers) -> Any:
    """Returns a cache that holds keys and values.

    All layers keep the whole past, also those with a sliding window: the mask hides what is out of
    the window.
    """
    from transformers.cache_utils import Cache, DynamicLayer

    class Layer(DynamicLayer):
        """A layer that does not decide by the length of the past."""

        keys: torch.Tensor

        def __init__(self, keys: torch.Tensor, values: torch.Tensor) -> None:
            super().__init__()
            self.lazy_initialization(keys, values)
            self.keys, self.values = keys, values

        def get_seq_length(self) -> int:
            return self.keys.shape[-2]

    return Cache(layers=[Layer(*layer) for layer in layers])


def _flat(cache: Any) -> list[torch.Tensor]:
    return [kept for layer in cache.layers for kept in (layer.keys, layer.values)]


@contextlib.contextmanager
def _attention_functions(model: torch.nn.Module, *, is_grouped: bool) -> Iterator[None]:
    """Replaces transformers' "sdpa" attention by a function that has one form at all sizes.

    transformers' own decides by the length of the sequence, and leaves out the mask of some.
    "eager" attention has one form already, and stays unless GroupQueryAttention replaces it; only
    its windows become those of ``_windows``. The name stays "sdpa", because some models compare it.
    """
    from transformers import AttentionInterface, AttentionMaskInterface

    ours = _group_query_attention if is_grouped else _scaled_dot_product
    functions = (
        (AttentionInterface, "sdpa", ours.attention),
        (AttentionMaskInterface, "sdpa", ours.mask),
        (AttentionMaskInterface, "eager", _windows.eager_mask),
    )
    before = [(table, name, table()[name]) for table, name, _ in functions]
    configs = {id(each): each for each in map(_config, model.modules())}
    eager = [each for each in configs.values() if getattr(each, _CHOSEN, None) == "eager"]
    try:
        for table, name, function in functions:
            table.register(name, function)
        for config in eager if is_grouped else []:
            setattr(config, _CHOSEN, "sdpa")
        yield
    finally:
        for table, name, function in before:
            table.register(name, function)
        for config in eager:
            setattr(config, _CHOSEN, "eager")
