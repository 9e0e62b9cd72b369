"""Exports small random models by optimum-onnx, which validates each against PyTorch.

Needs optimum-onnx: see README.md. Prints the seconds of the whole export with its validation, by
PyTorch's older exporter and natively, and what captured each model.
"""

import importlib.util
import logging
import sys
import tempfile
import time
import warnings
from typing import Any

_find = importlib.util.find_spec
# Packages of the environment that are too new for optimum's version of transformers.
_TOO_NEW = ("diffusers", "torchao", "peft", "timm")
importlib.util.find_spec = lambda name, *args: (
    None if name.partition(".")[0] in _TOO_NEW else _find(name, *args)
)

import onnx_native  # noqa: E402
import torch  # noqa: E402
from models import torchvision_kernels  # noqa: E402
from onnx_native.routes import _log  # noqa: E402
from small_sizes import IMAGE, TEXT  # noqa: E402

torchvision_kernels.load_torchvision_kernels()
import transformers as hf  # noqa: E402
from optimum.exporters.onnx import onnx_export_from_model  # noqa: E402

PAIR: dict[str, Any] = {
    "d_model": 32,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "vocab_size": 99,
}
WHISPER = PAIR | {"num_mel_bins": 80, "max_target_positions": 40, "pad_token_id": 1}
WHISPER |= {"bos_token_id": 2, "eos_token_id": 3, "decoder_start_token_id": 4}
GENERATION = "text-generation-with-past"
TRANSLATION = "text2text-generation-with-past"
IMAGES = "image-classification"
# The class of the model, that of its configuration with its options, and the task.
MODELS: list[tuple[str, str, dict[str, Any], str]] = [
    ("BertForSequenceClassification", "BertConfig", TEXT, "text-classification"),
    ("RobertaModel", "RobertaConfig", TEXT, "feature-extraction"),
    ("DebertaV2Model", "DebertaV2Config", TEXT, "feature-extraction"),
    (
        "DistilBertModel",
        "DistilBertConfig",
        {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64, "vocab_size": 99},
        "feature-extraction",
    ),
    (
        "GPT2LMHeadModel",
        "GPT2Config",
        {"n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": 99, "n_positions": 64},
        GENERATION,
    ),
    ("LlamaForCausalLM", "LlamaConfig", TEXT | {"num_key_value_heads": 2}, GENERATION),
    ("Qwen2ForCausalLM", "Qwen2Config", TEXT | {"num_key_value_heads": 2}, GENERATION),
    (
        "T5ForConditionalGeneration",
        "T5Config",
        {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4, "vocab_size": 99}
        | {"decoder_start_token_id": 0},
        TRANSLATION,
    ),
    (
        "BartForConditionalGeneration",
        "BartConfig",
        PAIR | {"max_position_embeddings": 64},
        TRANSLATION,
    ),
    (
        "MarianMTModel",
        "MarianConfig",
        PAIR | {"max_position_embeddings": 64, "pad_token_id": 98, "decoder_start_token_id": 98},
        TRANSLATION,
    ),
    (
        "WhisperForConditionalGeneration",
        "WhisperConfig",
        WHISPER,
        "automatic-speech-recognition-with-past",
    ),
    ("ViTForImageClassification", "ViTConfig", IMAGE, IMAGES),
    (
        "SwinForImageClassification",
        "SwinConfig",
        {"image_size": 32, "patch_size": 4, "embed_dim": 8, "depths": [1, 1]}
        | {"num_heads": [2, 2], "window_size": 4},
        IMAGES,
    ),
    (
        "ConvNextForImageClassification",
        "ConvNextConfig",
        {"hidden_sizes": [8, 8, 8, 8], "depths": [1, 1, 1, 1], "image_size": 32},
        IMAGES,
    ),
    (
        "ResNetForImageClassification",
        "ResNetConfig",
        {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1]},
        IMAGES,
    ),
    (
        "SegformerForSemanticSegmentation",
        "SegformerConfig",
        {"hidden_sizes": [8, 16, 16, 16], "depths": [1, 1, 1, 1], "decoder_hidden_size": 16}
        | {"num_attention_heads": [1, 2, 2, 2]},
        "semantic-segmentation",
    ),
    (
        "CLIPModel",
        "CLIPConfig",
        {"text_config": TEXT | {"eos_token_id": 98}, "vision_config": IMAGE, "projection_dim": 16},
        "zero-shot-image-classification",
    ),
    (
        "Wav2Vec2ForCTC",
        "Wav2Vec2Config",
        TEXT
        | {"conv_dim": [8, 8], "conv_stride": [5, 2], "conv_kernel": [10, 3]}
        | {"num_feat_extract_layers": 2, "num_conv_pos_embeddings": 16}
        | {"num_conv_pos_embedding_groups": 2},
        "automatic-speech-recognition",
    ),
]


class _Complaints(logging.Handler):
    """Keeps what optimum finds wrong when it validates a model."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if "[x]" in record.getMessage() or record.levelno >= logging.ERROR:
            self.found.append(record.getMessage())


def main() -> None:
    warnings.simplefilter("ignore")
    torch.ops.load_library(onnx_native.library_path())
    complaints = _Complaints()
    logger = logging.getLogger("optimum.exporters.onnx.convert")
    logger.setLevel(logging.INFO)
    logger.addHandler(complaints)
    for name, config, options, task in MODELS:
        if sys.argv[1:] and name not in sys.argv[1:]:
            continue
        torch.manual_seed(0)
        model = getattr(hf, name)(getattr(hf, config)(**options)).eval()
        line = name
        for legacy in (False, True):
            onnx_native.enable(legacy=legacy)
            _log.exports, complaints.found = [], []
            start = time.perf_counter()
            try:
                onnx_export_from_model(
                    model, tempfile.mkdtemp(), task=task, opset=17, no_post_process=True
                )
            except Exception as error:
                complaints.found.append(str(error).partition("\n")[0])
            by = ", ".join(f"{export.by} {export.reason}".strip() for export in _log.exports)
            result = "; ".join(complaints.found) or "right"
            line += f" | {time.perf_counter() - start:.2f} s, {result}" + (f", {by}" if by else "")
        print(line, flush=True)


if __name__ == "__main__":
    main()
