"""Language models of transformers."""

from collections.abc import Callable
from typing import Any

import torch

from models.architecture import Architecture, Input, floats, mask, right_mask, tokens

LAYERS, HEADS, HIDDEN = 2, 4, 32
SMALL: dict[str, Any] = {
    "vocab_size": 99,
    "hidden_size": HIDDEN,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "intermediate_size": 40,
    "max_position_embeddings": 128,
}
FEW_HEADS: dict[str, Any] = {**SMALL, "num_key_value_heads": 2, "head_dim": 8}
EXPERTS: dict[str, Any] = {
    **FEW_HEADS,
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 24,
}


def build(model: str, config: str = "", **changes: Any) -> Callable[[], torch.nn.Module]:
    """Returns a transformers class and its configuration class, which share a prefix."""

    def made() -> torch.nn.Module:
        import transformers

        prefix = config or model.partition("For")[0].removesuffix("Model").removesuffix("LMHead")
        settings = getattr(transformers, prefix + "Config")(**changes)
        return getattr(transformers, model)(settings)

    return made


class WithCache(torch.nn.Module):
    """A decoder that takes past keys and values and returns the extended ones."""

    def __init__(self, decoder: torch.nn.Module) -> None:
        super().__init__()
        self.decoder = decoder

    def forward(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        key0: torch.Tensor,
        value0: torch.Tensor,
        key1: torch.Tensor,
        value1: torch.Tensor,
    ) -> list[torch.Tensor]:
        from transformers import DynamicCache

        cache: Any = DynamicCache()
        cache.update(key0, value0, 0)
        cache.update(key1, value1, 1)
        out = self.decoder(
            input_ids=input_ids,
            attention_mask=attention_mask,
            past_key_values=cache,
            use_cache=True,
        )
        grown = [kept for layer in cache.layers for kept in (layer.keys, layer.values)]
        return [out.logits, *grown]


IDS = {"input_ids": tokens("batch", "sequence")}
ENCODED: dict[str, Any] = {**IDS, "attention_mask": right_mask("batch", "sequence")}
DECODED: dict[str, Any] = {**IDS, "attention_mask": mask("batch", "sequence")}
PAIRS: dict[str, Any] = {**ENCODED, "decoder_input_ids": tokens("batch", "decoder_sequence")}


def cached(heads: int) -> dict[str, Input]:
    past = {
        f"{kind}{layer}": floats("batch", heads, "past", HIDDEN // HEADS)
        for layer in range(LAYERS)
        for kind in ("key", "value")
    }
    return {**IDS, "attention_mask": mask("batch", "past + sequence"), **past}


def with_cache(model: str, **changes: Any) -> Callable[[], torch.nn.Module]:
    return lambda: WithCache(build(model, **changes)())


_NO_CACHE: dict[str, Any] = {"use_cache": False}
_BART: dict[str, Any] = {
    "vocab_size": 99,
    "d_model": HIDDEN,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 37,
    "decoder_ffn_dim": 37,
    "max_position_embeddings": 128,
    **_NO_CACHE,
}
_T5: dict[str, Any] = {
    "vocab_size": 99,
    "d_model": HIDDEN,
    "d_kv": 8,
    "d_ff": 37,
    "num_layers": 2,
    "num_heads": 4,
    **_NO_CACHE,
}

ENCODERS = [
    Architecture("bert", build("BertModel", **SMALL), ENCODED),
    Architecture("roberta", build("RobertaForMaskedLM", **SMALL), ENCODED),
    Architecture(
        "distilbert",
        build(
            "DistilBertForSequenceClassification",
            vocab_size=99,
            dim=HIDDEN,
            n_layers=2,
            n_heads=4,
            hidden_dim=37,
            max_position_embeddings=128,
        ),
        ENCODED,
    ),
    Architecture("albert", build("AlbertModel", embedding_size=16, **SMALL), ENCODED),
    Architecture(
        "electra", build("ElectraForTokenClassification", embedding_size=16, **SMALL), ENCODED
    ),
    Architecture(
        "deberta_v2",
        build(
            "DebertaV2Model",
            relative_attention=True,
            pos_att_type=["p2c", "c2p"],
            position_buckets=16,
            **SMALL,
        ),
        ENCODED,
    ),
    Architecture("mpnet", build("MPNetModel", **SMALL), ENCODED),
    Architecture(
        "modernbert",
        build("ModernBertForMaskedLM", pad_token_id=0, local_attention=8, **SMALL),
        ENCODED,
    ),
    Architecture("xlm_roberta", build("XLMRobertaForQuestionAnswering", **SMALL), ENCODED),
    Architecture("fnet", build("FNetModel", **SMALL), IDS),
]
DECODERS = [
    Architecture(
        "gpt2",
        build(
            "GPT2LMHeadModel",
            vocab_size=99,
            n_embd=HIDDEN,
            n_layer=2,
            n_head=4,
            n_positions=128,
            **_NO_CACHE,
        ),
        DECODED,
    ),
    Architecture("llama", build("LlamaForCausalLM", **FEW_HEADS, **_NO_CACHE), DECODED),
    Architecture("llama_cache", with_cache("LlamaForCausalLM", **FEW_HEADS), cached(2)),
    Architecture(
        "gpt2_cache",
        with_cache(
            "GPT2LMHeadModel", vocab_size=99, n_embd=HIDDEN, n_layer=2, n_head=4, n_positions=128
        ),
        cached(4),
    ),
    Architecture(
        "mistral",
        build("MistralForCausalLM", sliding_window=8, **FEW_HEADS, **_NO_CACHE),
        DECODED,
    ),
    Architecture("qwen2", build("Qwen2ForCausalLM", **FEW_HEADS, **_NO_CACHE), DECODED),
    Architecture("qwen3_cache", with_cache("Qwen3ForCausalLM", **FEW_HEADS), cached(2)),
    Architecture(
        "gemma2", build("Gemma2ForCausalLM", sliding_window=8, **FEW_HEADS, **_NO_CACHE), DECODED
    ),
    Architecture(
        "phi3", build("Phi3ForCausalLM", pad_token_id=0, **FEW_HEADS, **_NO_CACHE), DECODED
    ),
    Architecture("gpt_neox", build("GPTNeoXForCausalLM", **SMALL, **_NO_CACHE), DECODED),
    Architecture(
        "opt",
        build(
            "OPTForCausalLM",
            word_embed_proj_dim=HIDDEN,
            ffn_dim=37,
            **SMALL,
            **_NO_CACHE,
        ),
        DECODED,
    ),
    Architecture(
        "bloom",
        build(
            "BloomForCausalLM", vocab_size=99, hidden_size=HIDDEN, n_layer=2, n_head=4, **_NO_CACHE
        ),
        DECODED,
    ),
    Architecture("falcon", build("FalconForCausalLM", **SMALL, **_NO_CACHE), DECODED),
    Architecture(
        "mixtral",
        build("MixtralForCausalLM", num_local_experts=4, **FEW_HEADS, **_NO_CACHE),
        DECODED,
    ),
    Architecture("qwen3_moe", build("Qwen3MoeForCausalLM", **EXPERTS, **_NO_CACHE), DECODED),
    Architecture("olmoe", build("OlmoeForCausalLM", **EXPERTS, **_NO_CACHE), DECODED),
    Architecture(
        "mamba",
        build(
            "MambaForCausalLM",
            vocab_size=99,
            hidden_size=HIDDEN,
            num_hidden_layers=2,
            state_size=8,
            **_NO_CACHE,
        ),
        {"input_ids": tokens("batch", 12)},  # its scan is a Python loop over the length
    ),
    Architecture(
        "mamba2",
        build(
            "Mamba2ForCausalLM",
            vocab_size=99,
            hidden_size=HIDDEN,
            num_hidden_layers=2,
            state_size=8,
            num_heads=8,
            head_dim=8,
            n_groups=2,
            chunk_size=8,
            **_NO_CACHE,
        ),
        {"input_ids": tokens("batch", 12)},
    ),
]
SEQ2SEQ = [
    Architecture("t5", build("T5ForConditionalGeneration", **_T5), PAIRS),
    Architecture("bart", build("BartForConditionalGeneration", **_BART), PAIRS),
    Architecture("marian", build("MarianMTModel", config="Marian", pad_token_id=0, **_BART), PAIRS),
    Architecture("pegasus", build("PegasusForConditionalGeneration", **_BART), PAIRS),
]
TEXT = [*ENCODERS, *DECODERS, *SEQ2SEQ]
