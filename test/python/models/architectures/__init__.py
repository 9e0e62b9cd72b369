"""Small models with random weights, one per architecture; nothing is downloaded."""

from models.architecture import Architecture
from models.architectures.multimodal import MULTIMODAL
from models.architectures.of_diffusers import DIFFUSERS
from models.architectures.of_timm import TIMM
from models.architectures.of_torch import TORCH
from models.architectures.of_torchvision import TORCHVISION
from models.architectures.speech import SPEECH
from models.architectures.text import TEXT
from models.architectures.vision import VISION

ARCHITECTURES: dict[str, Architecture] = {
    model.name: model
    for model in (*TEXT, *SPEECH, *VISION, *MULTIMODAL, *TIMM, *TORCHVISION, *DIFFUSERS, *TORCH)
}
