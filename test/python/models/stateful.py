"""Small language models of transformers that keep other tensors than keys and values."""

from __future__ import annotations

from typing import Any

import torch

from models.torchvision_kernels import load_torchvision_kernels

load_torchvision_kernels()  # transformers imports torchvision

import transformers  # noqa: E402

VOCABULARY = 99
WIDTH = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
    "tie_word_embeddings": False,  # a tied head of random weights repeats the last token
}
BASE = WIDTH | {
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 40,
    "max_position_embeddings": 256,
}
LATENT = BASE | {
    "num_key_value_heads": 4,
    "kv_lora_rank": 8,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 8,
    "v_head_dim": 8,
    "mlp_layer_types": ["dense", "sparse", "sparse"],
    "num_local_experts": 4,
    "num_experts_per_tok": 2,
    "n_shared_experts": 1,
    "moe_intermediate_size": 24,
}
MAMBA = {"mamba_d_state": 8, "mamba_dt_rank": 4, "use_mamba_kernels": False}
MAMBA2 = {
    "mamba_d_state": 8,
    "mamba_d_conv": 4,
    "mamba_expand": 2,
    "mamba_d_head": 8,
    "mamba_n_heads": 8,
    "mamba_n_groups": 2,
    "mamba_chunk_size": 16,
}
DELTA = {
    "head_dim": 8,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
    "linear_conv_kernel_dim": 4,
}
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24}
SHARED = EXPERTS | {"shared_expert_intermediate_size": 24}


def layers(*types: str) -> dict[str, Any]:
    return {"num_hidden_layers": len(types), "layer_types": list(types)}


LINEAR, FULL = "linear_attention", "full_attention"
# The settings of each configuration. The name is that of the classes.
MODELS: dict[str, dict[str, Any]] = {
    "Mamba": WIDTH | {"state_size": 8, "num_hidden_layers": 2},
    "FalconMamba": WIDTH | {"state_size": 8, "num_hidden_layers": 2},
    "Mamba2": WIDTH
    | {
        "state_size": 8,
        "num_hidden_layers": 2,
        "num_heads": 8,
        "head_dim": 8,
        "n_groups": 2,
        "chunk_size": 16,
    },
    "Jamba": BASE
    | MAMBA
    | {
        "num_hidden_layers": 4,
        "attn_layer_period": 2,
        "attn_layer_offset": 1,
        "expert_layer_period": 2,
        "expert_layer_offset": 1,
        "num_experts": 4,
        "num_experts_per_tok": 2,
    },
    "Bamba": BASE | MAMBA2 | {"num_hidden_layers": 3, "attn_layer_indices": [1]},
    "FalconH1": BASE | MAMBA2 | {"num_hidden_layers": 2, "head_dim": 8, "mamba_d_ssm": 64},
    "GraniteMoeHybrid": BASE
    | MAMBA2
    | layers("mamba", "attention", "mamba")
    | {"num_local_experts": 4, "num_experts_per_tok": 2, "shared_intermediate_size": 24},
    "NemotronH": BASE
    | {
        "num_hidden_layers": 4,
        "layers_block_type": ["mamba", "attention", "mamba", "moe"],
        "mamba_num_heads": 8,
        "mamba_head_dim": 8,
        "ssm_state_size": 8,
        "n_groups": 2,
        "chunk_size": 16,
        "head_dim": 8,
        "n_routed_experts": 4,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 24,
        "moe_shared_expert_intermediate_size": 24,
    },
    "Zamba": BASE
    | MAMBA
    | {
        "num_hidden_layers": 4,
        "layers_block_type": ["mamba", "hybrid"] * 2,
        "n_mamba_heads": 2,
        "attn_layer_period": 2,
        "attn_layer_offset": 1,
    },
    "Zamba2": BASE
    | {
        "num_hidden_layers": 4,
        "layers_block_type": ["mamba", "hybrid"] * 2,
        "mamba_d_state": 8,
        "mamba_ngroups": 2,
        "n_mamba_heads": 8,
        "chunk_size": 16,
        "use_mem_rope": True,
    },
    "Qwen3Next": BASE | DELTA | SHARED | layers(LINEAR, FULL, LINEAR, FULL),
    "Qwen3_5": BASE | DELTA | layers(LINEAR, FULL, LINEAR, FULL),
    "Qwen3_5Moe": BASE | DELTA | SHARED | layers(LINEAR, FULL, LINEAR, FULL),
    "OlmoHybrid": BASE | DELTA | layers(LINEAR, FULL, LINEAR, FULL),
    "KimiLinear": LATENT
    | layers(LINEAR, FULL, LINEAR)
    | {"linear_head_dim": 8, "linear_num_heads": 4},
    "BailingHybrid": LATENT
    | layers(LINEAR, FULL, LINEAR)
    | {"n_group": 2, "topk_group": 1, "head_dim": 8, "num_mtp_layers": 0},
    "Lfm2": BASE
    | layers("conv", FULL, "conv")
    | {"conv_L_cache": 3, "block_auto_adjust_ff_dim": False},
    "Lfm2Moe": BASE
    | EXPERTS
    | layers("conv", FULL, "conv")
    | {"conv_L_cache": 3, "num_dense_layers": 1},
    "RecurrentGemma": BASE
    | {
        "num_hidden_layers": 3,
        "lru_width": 32,
        "head_dim": 8,
        "attention_window_size": 16,
        "block_types": ["recurrent", "recurrent", "attention"],
    },
    "MiniMax": BASE
    | layers(FULL, LINEAR, FULL, LINEAR)
    | {"block_size": 16, "num_local_experts": 4, "num_experts_per_tok": 2, "head_dim": 8},
    "Rwkv": WIDTH
    | {
        "attention_hidden_size": 32,
        "num_hidden_layers": 3,
        "context_length": 256,
        "rescale_every": 1,
    },
    "xLSTM": WIDTH
    | {
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "num_heads": 4,
        "qk_dim_factor": 1.0,
        "chunk_size": 16,
    },
}
# Their configurations are those of the text model of a model of images.
TEXTS = ("Qwen3_5", "Qwen3_5Moe")


def make(name: str, **settings: Any) -> Any:
    """Returns a model with weights large enough that the tokens vary."""
    torch.manual_seed(0)
    kind = name + ("TextConfig" if name in TEXTS else "Config")
    config = getattr(transformers, kind)(**MODELS[name] | settings)
    model = getattr(transformers, f"{name}ForCausalLM")(config)
    for parameter in model.parameters():
        if parameter.ndim > 1:
            torch.nn.init.normal_(parameter, std=0.2)
    return model.eval()


def prompts(batch: int, length: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns prompts, of which the first two are padded on the left if there are several."""
    generator = torch.Generator().manual_seed(10 * length + batch)
    ids = torch.randint(3, VOCABULARY, (batch, length), generator=generator)
    mask = torch.ones_like(ids)
    if batch > 1 and length > 1:
        mask[0, : length // 2] = 0
        mask[1, :1] = 0
    return ids * mask, mask


def eager(
    model: Any, ids: torch.Tensor, mask: torch.Tensor, steps: int, **given: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the tokens of transformers' generate(), and their logits."""
    found = model.generate(
        input_ids=ids,
        attention_mask=mask,
        do_sample=False,
        max_new_tokens=steps,
        eos_token_id=None,
        pad_token_id=0,
        return_dict_in_generate=True,
        output_logits=True,
        **given,
    )
    return found.sequences[:, -steps:], torch.stack(found.logits, 1)


def weight_bytes(model: torch.nn.Module) -> int:
    """Returns the bytes of a module's weights, of which each counts once."""
    return sum(each.nbytes for each in {id(v): v for v in model.state_dict().values()}.values())
