"""Speech models of transformers."""

from typing import Any

from models.architecture import Architecture, floats, tokens
from models.architectures.text import build

_WAV2VEC2: dict[str, Any] = {
    "vocab_size": 32,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 37,
    "conv_dim": (16, 16, 16),
    "conv_stride": (5, 4, 2),
    "conv_kernel": (10, 8, 4),
    "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 2,
}
_WAVES = {"input_values": floats("batch", "samples")}

SPEECH = [
    Architecture(
        "whisper",
        build(
            "WhisperForConditionalGeneration",
            vocab_size=99,
            d_model=32,
            encoder_layers=2,
            decoder_layers=2,
            encoder_attention_heads=4,
            decoder_attention_heads=4,
            encoder_ffn_dim=37,
            decoder_ffn_dim=37,
            num_mel_bins=16,
            max_source_positions=30,
            max_target_positions=128,
            pad_token_id=0,
            bos_token_id=1,
            eos_token_id=2,
            decoder_start_token_id=1,
            use_cache=False,
        ),
        {
            "input_features": floats("batch", 16, 60),
            "decoder_input_ids": tokens("batch", "decoder_sequence"),
        },
    ),
    Architecture("wav2vec2", build("Wav2Vec2ForCTC", **_WAV2VEC2), _WAVES),
    Architecture("hubert", build("HubertModel", **_WAV2VEC2), _WAVES),
    Architecture("wavlm", build("WavLMModel", **_WAV2VEC2), _WAVES),
]
