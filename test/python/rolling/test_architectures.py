"""Recurrent models of transformers, whose loops over the sequence become scans."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from models.recording import assert_equal_to_eager, exported
from models.torchvision_kernels import load_torchvision_kernels

load_torchvision_kernels()  # transformers imports torchvision
import transformers  # noqa: E402

SMALL = {"vocab_size": 100, "hidden_size": 32, "num_hidden_layers": 2}
HEADS = {"intermediate_size": 64, "num_attention_heads": 4}


def mamba() -> Any:
    return transformers.MambaForCausalLM(transformers.MambaConfig(**SMALL, state_size=8))


def falcon_mamba() -> Any:
    config = transformers.FalconMambaConfig(**SMALL, state_size=8)
    return transformers.FalconMambaForCausalLM(config)


def jamba() -> Any:
    config = transformers.JambaConfig(
        **{**SMALL, "num_hidden_layers": 4},
        **HEADS,
        num_key_value_heads=2,
        use_mamba_kernels=False,
        num_experts=2,
        mamba_d_state=8,
        mamba_dt_rank=4,
        attn_layer_period=2,
        attn_layer_offset=1,
        expert_layer_period=2,
        expert_layer_offset=1,
    )
    return transformers.JambaForCausalLM(config)


def recurrent_gemma() -> Any:
    config = transformers.RecurrentGemmaConfig(
        **{**SMALL, "num_hidden_layers": 3}, **HEADS, lru_width=32, attention_window_size=64
    )
    return transformers.RecurrentGemmaForCausalLM(config)


def rwkv() -> Any:
    """Its first call rescales weights."""
    config = transformers.RwkvConfig(**SMALL, attention_hidden_size=32, rescale_every=1)
    return transformers.RwkvForCausalLM(config)


class Logits(torch.nn.Module):
    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.model(input_ids, use_cache=False).logits
        return logits


def tokens(n: int) -> tuple[torch.Tensor]:
    return (torch.randint(5, 90, (2, n), generator=torch.Generator().manual_seed(n)),)


@pytest.mark.parametrize("make", [mamba, falcon_mamba, jamba, recurrent_gemma, rwkv])
def test_right_at_every_length(make: Callable[[], Any]) -> None:
    torch.manual_seed(0)
    module = Logits(make()).eval()
    program = exported(module, tokens(12), ({0: "batch", 1: "n"},))
    assert len(program.export_report["capture"]["rolled"]) == 2
    assert_equal_to_eager(program, module, *map(tokens, (1, 2, 5, 12, 33)))
