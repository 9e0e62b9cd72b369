"""Small modules that stand for those of public code."""

from __future__ import annotations

import collections
from typing import Any

import torch
from torch import Tensor, nn


class Classifier(nn.Module):
    """An image classifier."""

    def __init__(self, classes: int = 5) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.MaxPool2d(2)
        )
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.dropout = nn.Dropout(0.5)
        self.classifier = nn.Linear(4, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.avgpool(self.features(x)).flatten(1)
        return self.classifier(self.dropout(x))


class SuperResolution(nn.Module):
    """The network of PyTorch's tutorial."""

    def __init__(self, upscale_factor: int = 3, inplace: bool = False) -> None:
        super().__init__()
        self.relu = nn.ReLU(inplace=inplace)
        self.conv1 = nn.Conv2d(1, 8, (5, 5), (1, 1), (2, 2))
        self.conv2 = nn.Conv2d(8, upscale_factor**2, (3, 3), (1, 1), (1, 1))
        self.pixel_shuffle = nn.PixelShuffle(upscale_factor)

    def forward(self, x: Tensor) -> Tensor:
        return self.pixel_shuffle(self.conv2(self.relu(self.conv1(x))))


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc1 = nn.Linear(4, 8)
        self.fc2 = nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(torch.relu(self.fc1(x)))


class Pair(nn.Module):
    """Two inputs, two outputs."""

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return x + y, x * y


class Encoder(nn.Module):
    """A text encoder, called with keyword arguments; its result is a dict."""

    def __init__(self) -> None:
        super().__init__()
        self.embeddings = nn.Embedding(11, 8)
        self.layer = nn.Linear(8, 8)

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        labels: Tensor | None = None,
        return_dict: bool = True,
    ) -> Any:
        x = self.layer(self.embeddings(input_ids))
        if attention_mask is not None:
            x = x * attention_mask.unsqueeze(-1)
        if token_type_ids is not None:
            x = x + token_type_ids.unsqueeze(-1)
        if position_ids is not None:
            x = x + self.embeddings(position_ids)
        pooled = torch.tanh(x.mean(1))
        if not return_dict:
            return x, pooled
        return collections.OrderedDict(last_hidden_state=x, pooler_output=pooled)


class Detector(nn.Module):
    """Takes a list of images, like torchvision's detectors."""

    def forward(self, images: list[Tensor], targets: list[dict[str, Tensor]] | None = None) -> Any:
        return [{"boxes": image.mean(0), "scores": image.sum((1, 2))} for image in images]


class Yolo(nn.Module):
    """A detector with a grid that depends on the size of the image."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 6, 3, stride=2, padding=1)

    def forward(self, x: Tensor, augment: bool = False, profile: bool = False) -> Any:
        y = self.conv(x).sigmoid()
        b, c, h, w = y.shape
        yv, xv = torch.meshgrid([torch.arange(h), torch.arange(w)], indexing="ij")
        grid = torch.stack((xv, yv), 0).float()
        boxes = y[:, :2] * 2 - 0.5 + grid
        return torch.cat((boxes, y[:, 2:]), 1).reshape(b, c, h * w).transpose(1, 2), [y]


class Lstm(nn.Module):
    """A recurrent network that takes and returns its state."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(3, 4, 1, batch_first=True)

    def forward(self, x: Tensor, h0: Tensor, c0: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        return self.lstm(x, (h0, c0))


class Policy(nn.Module):
    """A policy of reinforcement learning."""

    def __init__(self) -> None:
        super().__init__()
        self.extractor = nn.Flatten()
        self.net = nn.Sequential(nn.Linear(4, 8), nn.Tanh())
        self.action = nn.Linear(8, 3)
        self.value = nn.Linear(8, 1)

    def forward(self, observation: Tensor, deterministic: bool = False) -> Any:
        x = self.net(self.extractor(observation))
        return self.action(x).argmax(1), self.value(x), self.action(x).log_softmax(-1)
