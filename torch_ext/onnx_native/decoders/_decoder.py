"""Exports a transformers model that generates text, with its cache.

The exported decoder takes the keys, values and states of the past and returns those after the step.
One model serves the prompt (no past) and each later step. Inputs and outputs have the names that
onnxruntime-genai expects. See docs/decoders.md.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from onnx_native import _options, _undo
from onnx_native.decoders import (
    _attention_functions,
    _encoder_decoder,
    _meta_buffers,
    _multimodal,
    _single,
)
from onnx_native.program import _contents
from onnx_native.together import _together
from onnx_native.upstream import _upstream

if TYPE_CHECKING:
    import os

    import torch

    from onnx_native.program import _checkpoint
    from onnx_native.program._program import ONNXProgram


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


@functools.partial(_undo.all_at_end, flags=_upstream.modules_of_flags)
def export_decoder(
    model: torch.nn.Module,
    folder: str | os.PathLike | None = None,
    *,
    last_logits: bool = False,
    target: _options.Target | None = None,
    checkpoint: _checkpoint.AnyPaths | None = None,
    max_shard_size: int | str | None = None,
    inputs: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
    window_caches: bool = False,
    static_cache: bool = False,
    **arguments: Any,
) -> ExportedDecoder:
    """Exports a transformers model for generation, with its key and value cache.

    A decoder becomes one model for the prompt and for each later step: batch size, sequence length
    and past length are dynamic, and the past may be empty. An encoder-decoder model becomes two:
    the encoder returns the keys and values for the cross-attention, and the decoder takes them.
    docs/decoders.md lists the inputs and outputs. A model of images or sounds becomes three or
    more: its towers, the embedding that puts their features among those of the tokens, and the
    decoder. See docs/vision-language.md.

    Args:
        model: A causal language model, an encoder-decoder model, or a model of images or sounds
            that generates text, of transformers.
        folder: Where to save the models and ``genai_config.json``; None: nowhere.
        last_logits: Whether ``logits`` has only the last position, ``[batch, 1, vocabulary]``.
        target: See ``onnx_native.options``; None keeps the surrounding value.
        checkpoint: ``.safetensors`` files with the weights, or their ``.index.json``, for a model
            that may be on the meta device; see ``ONNXProgram.save``.
        max_shard_size: The largest size of a data file; see ``onnx_native.save_many``.
        inputs: For a model of images or sounds, what its processor returns, for sizes that the
            configuration does not tell. Sizes that differ between two of them are dynamic. An empty
            one is a text: the decoder is exported alone, and takes tokens.
        window_caches: Whether layers with a sliding window keep the keys and values of the window
            alone, in buffers of a length that the caller chooses: at least the window. It is for
            texts with target ``"onnxruntime-cpu"``, without padding after tokens.
        static_cache: Whether the keys and values are buffers of a length that the caller chooses,
            into which ONNX's ``TensorScatter`` writes, so that past and present may be the same
            memory. It needs opset 24.
        arguments: Other arguments of ``torch.onnx.export``, for example ``opset_version``.

    Returns:
        The exported models.

    Raises:
        ValueError: The model keeps no tensors from step to step, or its states are of a form that
            docs/decoders.md does not list; or a run changes its weights, and there is a checkpoint;
            or there are no sliding windows for ``window_caches``; or ``static_cache`` is for
            another cache or opset.
        torch.onnx.OnnxExporterError: The export failed.
    """
    before = _upstream.versions(model)
    if window_caches and static_cache:
        raise ValueError("window_caches= and static_cache= are two forms of the same caches")
    form: _single.Form = "window_caches" if window_caches else None
    form = "static_cache" if static_cache else form
    with _options.options(target=target):
        exported = ExportedDecoder(*_exported(model, last_logits, arguments, inputs, form))
    if checkpoint is not None and _upstream.versions(model) != before:
        raise ValueError(
            "a run of the model changes its weights, so that the checkpoint no longer has them; "
            "export it without checkpoint="
        )
    buffers = _meta_buffers.values(model)
    for program in exported.programs.values():
        _contents.of(program).native.set_weights(buffers)
    if folder is not None:
        exported.save(folder, checkpoint=checkpoint, max_shard_size=max_shard_size)
    return exported


def _exported(
    model: Any,
    last_logits: bool,
    arguments: dict[str, Any],
    inputs: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None,
    form: _single.Form,
) -> tuple[dict[str, ONNXProgram], dict[str, Any] | None]:
    is_encoder_decoder = _attention_functions.config(model).is_encoder_decoder
    given = [inputs] if isinstance(inputs, Mapping) else list(inputs or ())
    towers = [] if is_encoder_decoder else _multimodal.towers(model, given)
    if form is not None and (towers or is_encoder_decoder):
        raise ValueError(f"{form}= is for decoders of texts; {type(model).__name__} is none")
    if is_encoder_decoder:
        return _encoder_decoder.export(model, last_logits, arguments)
    if towers:
        return _multimodal.export(model, towers, last_logits, arguments)
    return _single.export(model, last_logits, arguments, form=form)
