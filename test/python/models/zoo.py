"""The models that tests, demo and benchmarks export: real architectures with random weights.

Nothing is downloaded. Each model comes with example inputs for any batch and sequence length, the
dynamic dimensions a user would declare, and the sizes at which its export is compared with eager.
"""

import pathlib
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from models.torchvision_kernels import load_torchvision_kernels

Inputs = dict[str, torch.Tensor]
Sizes = tuple[int, int]  # batch, sequence length (0 if the model has none)


@contextmanager
def scratch_folder() -> Iterator[pathlib.Path]:
    """Yields a folder for gigabytes of weights and removes it afterwards."""
    with tempfile.TemporaryDirectory(prefix="onnx_native_") as folder:
        yield pathlib.Path(folder)


@dataclass(frozen=True)
class ZooModel:
    name: str
    build: Callable[[], torch.nn.Module]
    inputs: Callable[[int, int], Inputs]
    dynamic_axes: dict[str, dict[int, str]]
    traced: Sizes
    others: tuple[Sizes, Sizes]

    def module(self) -> torch.nn.Module:
        load_torchvision_kernels()  # transformers imports torchvision too
        torch.manual_seed(0)
        return self.build().eval()

    def example(self, sizes: Sizes | None = None) -> Inputs:
        torch.manual_seed(1)
        return self.inputs(*(sizes or self.traced))

    def dynamic_shapes(self) -> dict[str, dict[int, Any]]:
        """Returns one Dim per name, shared by all inputs that use it."""
        dims: dict[str, Any] = {}
        return {
            name: {
                axis: dims.setdefault(dim, torch.export.Dim(dim, min=1, max=1 << 16))
                if dim == "batch"
                else dims.setdefault(dim, torch.export.Dim(dim, min=2, max=512))
                for axis, dim in axes.items()
            }
            for name, axes in self.dynamic_axes.items()
        }

    def capture(self, module: torch.nn.Module | None = None) -> torch.export.ExportedProgram:
        return torch.export.export(
            module if module is not None else self.module(),
            (),
            self.example(),
            dynamic_shapes=self.dynamic_shapes(),
        )


def _image(batch: int, _: int) -> Inputs:
    return {"x": torch.randn(batch, 3, 224, 224)}


def _tokens(vocabulary: int) -> Callable[[int, int], Inputs]:
    def make(batch: int, length: int) -> Inputs:
        mask = torch.ones(batch, length, dtype=torch.int64)
        mask[-1, length - length // 3 :] = 0  # the last sentence is padded
        return {
            "input_ids": torch.randint(0, vocabulary, (batch, length)),
            "attention_mask": mask,
        }

    return make


def _resnet18() -> torch.nn.Module:
    import torchvision

    model = torchvision.models.resnet18(weights=None)
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm2d):  # statistics other than 0 and 1
            mean, variance = module.running_mean, module.running_var
            assert mean is not None
            assert variance is not None
            mean.normal_(0, 0.1)
            variance.uniform_(0.5, 1.5)
    return model


def _vit_b16() -> torch.nn.Module:
    import timm

    return timm.create_model("vit_base_patch16_224", pretrained=False)


def _bert(**changes: Any) -> torch.nn.Module:
    from transformers import BertConfig, BertModel

    return BertModel(BertConfig(**changes))


def _llama(layers: int) -> torch.nn.Module:
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=8000,
            hidden_size=512,
            intermediate_size=1376,
            num_hidden_layers=layers,
            num_attention_heads=8,
            num_key_value_heads=2,
            max_position_embeddings=1024,
            use_cache=False,
        )
    )


def _gpt2() -> torch.nn.Module:
    from transformers import GPT2Config, GPT2LMHeadModel

    return GPT2LMHeadModel(GPT2Config(use_cache=False))


def _t5(attention: str) -> torch.nn.Module:
    from transformers import T5Config, T5ForConditionalGeneration

    model = T5ForConditionalGeneration(T5Config(use_cache=False))  # the sizes of t5-small
    model.set_attn_implementation(attention)
    return model


def _t5_inputs(batch: int, length: int) -> Inputs:
    inputs = _tokens(32128)(batch, length)
    inputs["decoder_input_ids"] = torch.randint(0, 32128, (batch, length + 3))
    return inputs


_TEXT_AXES = {
    "input_ids": {0: "batch", 1: "sequence"},
    "attention_mask": {0: "batch", 1: "sequence"},
}
_TEXT_SIZES: dict[str, Any] = {"traced": (2, 16), "others": ((1, 9), (3, 27))}


def llama(layers: int) -> ZooModel:
    return ZooModel(
        f"llama{layers}", lambda: _llama(layers), _tokens(8000), _TEXT_AXES, **_TEXT_SIZES
    )


def t5(attention: str) -> ZooModel:
    """With "sdpa", its default, PyTorch's own exporter fails; with "eager" it does not."""
    return ZooModel(
        "t5" if attention == "sdpa" else f"t5_{attention}",
        lambda: _t5(attention),
        _t5_inputs,
        {**_TEXT_AXES, "decoder_input_ids": {0: "batch", 1: "decoder_sequence"}},
        **_TEXT_SIZES,
    )


ZOO = {
    model.name: model
    for model in (
        ZooModel("resnet18", _resnet18, _image, {"x": {0: "batch"}}, (2, 0), ((1, 0), (3, 0))),
        ZooModel("vit_b16", _vit_b16, _image, {"x": {0: "batch"}}, (2, 0), ((1, 0), (3, 0))),
        ZooModel("bert_base", _bert, _tokens(30522), _TEXT_AXES, **_TEXT_SIZES),
        llama(16),
        ZooModel("gpt2", _gpt2, _tokens(50257), _TEXT_AXES, **_TEXT_SIZES),
        t5("sdpa"),
    )
}

BERT_SMALL = ZooModel(
    "bert_small",
    lambda: _bert(
        hidden_size=256, num_hidden_layers=4, num_attention_heads=4, intermediate_size=1024
    ),
    _tokens(30522),
    _TEXT_AXES,
    **_TEXT_SIZES,
)
