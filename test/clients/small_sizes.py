"""Sizes of small random models of transformers."""

from typing import Any

TEXT: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "vocab_size": 99,
}
IMAGE = {name: TEXT[name] for name in list(TEXT)[:4]} | {"image_size": 32, "patch_size": 8}
