"""The elements of buffers that neither a model on the meta device nor its checkpoint has."""

from __future__ import annotations

import inspect
from typing import Any

import torch


def values(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Returns elements for buffers on the meta device that ``state_dict`` leaves out.

    The keys are their names in the model. A module that is made of its configuration alone, such as
    transformers' rotary embeddings, is made again on the CPU. Buffers of other modules are not in
    the result.
    """
    saved = model.state_dict().keys()
    found: dict[str, torch.Tensor] = {}
    for path, module in model.named_modules():
        lost = {
            name: buffer
            for name, buffer in module.named_buffers(recurse=False)
            if buffer.is_meta and f"{path}.{name}" not in saved
        }
        config = getattr(module, "config", None)
        if lost and config is not None and _takes_config_alone(type(module)):
            with torch.device("cpu"):
                made = type(module)(config)
            for name, buffer in lost.items():
                found[f"{path}.{name}"] = made.get_buffer(name).to(buffer.dtype)
    return found


def _takes_config_alone(kind: Any) -> bool:
    parameters = inspect.signature(kind).parameters.values()
    return [each.name for each in parameters if each.default is each.empty] == ["config"]
