"""Models of diffusers: U-Nets, a variational autoencoder, a diffusion transformer."""

from collections.abc import Callable
from typing import Any

import torch

from models.architecture import Architecture, Input, floats


def create(name: str, **changes: Any) -> Callable[[], torch.nn.Module]:
    def made() -> torch.nn.Module:
        import diffusers

        return getattr(diffusers, name)(**changes)

    return made


class Decoder(torch.nn.Module):
    def __init__(self, autoencoder: Any) -> None:
        super().__init__()
        self.autoencoder = autoencoder

    def forward(self, latent: torch.Tensor) -> torch.Tensor:
        return self.autoencoder.decode(latent).sample


_BLOCKS: dict[str, Any] = {
    "block_out_channels": (16, 32),
    "norm_num_groups": 8,
    "layers_per_block": 1,
}
_VAE: dict[str, Any] = {
    **_BLOCKS,
    "down_block_types": ("DownEncoderBlock2D",) * 2,
    "up_block_types": ("UpDecoderBlock2D",) * 2,
}
_STEP = Input(lambda shape: torch.randint(0, 1000, shape), ("batch",))
_LATENT = floats("batch", 4, "8*height", "8*width")

DIFFUSERS = [
    Architecture(
        "diffusers_unet",
        create(
            "UNet2DModel",
            in_channels=4,
            out_channels=4,
            attention_head_dim=8,
            down_block_types=("DownBlock2D", "AttnDownBlock2D"),
            up_block_types=("AttnUpBlock2D", "UpBlock2D"),
            **_BLOCKS,
        ),
        {"sample": _LATENT, "timestep": _STEP},
    ),
    Architecture(
        "diffusers_unet_condition",
        create(
            "UNet2DConditionModel",
            cross_attention_dim=24,
            attention_head_dim=8,
            down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
            up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
            **_BLOCKS,
        ),
        {
            "sample": _LATENT,
            "timestep": _STEP,
            "encoder_hidden_states": floats("batch", "sequence", 24),
        },
    ),
    Architecture(
        "diffusers_vae_decoder",
        lambda: Decoder(create("AutoencoderKL", **_VAE)()),
        {"latent": _LATENT},
    ),
    Architecture(
        "diffusers_dit",
        create(
            "DiTTransformer2DModel",
            num_attention_heads=4,
            attention_head_dim=8,
            in_channels=4,
            out_channels=8,
            num_layers=2,
            sample_size=16,
            patch_size=2,
            norm_num_groups=8,
            num_embeds_ada_norm=10,
        ),
        {
            "hidden_states": floats("batch", 4, 16, 16),
            "timestep": _STEP,
            "class_labels": Input(lambda shape: torch.randint(0, 10, shape), ("batch",)),
        },
    ),
]
