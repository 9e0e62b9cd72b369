"""Exports models of peft, sentence-transformers, setfit and Lightning.

setfit and Lightning export by themselves. Needs the packages: see README.md.
"""

from __future__ import annotations

import os
import tempfile
from typing import Any

import comparison
import numpy as np
import torch
from models import torchvision_kernels

torchvision_kernels.load_torchvision_kernels()
import lightning  # noqa: E402
import peft  # noqa: E402
import transformers  # noqa: E402
from sentence_transformers import SentenceTransformer  # noqa: E402
from sentence_transformers import models as parts  # noqa: E402
from setfit import SetFitHead  # noqa: E402
from setfit.exporters.onnx import export_onnx  # noqa: E402
from sklearn.linear_model import LogisticRegression  # noqa: E402
from torch import Tensor, nn  # noqa: E402

DYNAMIC = ({0: "batch", 1: "sequence"},) * 2
WIDTH = 32


def example(batch: int, length: int) -> comparison.Example:
    mask = torch.ones(batch, length, dtype=torch.int64)
    mask[0, length // 2 :] = 0
    return torch.randint(0, 99, (batch, length)), mask


EXAMPLES = [example(2, 6), example(3, 9), example(1, 4)]


class FirstResult(nn.Module):
    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        return self.model(input_ids=input_ids, attention_mask=attention_mask)[0]


def bert() -> Any:
    sizes = {"hidden_size": WIDTH, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = transformers.BertConfig(vocab_size=100, intermediate_size=64, **sizes)
    return transformers.BertModel(config)


def gpt() -> Any:
    config = transformers.GPT2Config(
        vocab_size=100, n_embd=WIDTH, n_layer=2, n_head=2, use_cache=False
    )
    return transformers.GPT2LMHeadModel(config)


def adapted(model: Any, config: Any) -> nn.Module:
    made = peft.get_peft_model(model, config)
    for name, parameter in made.named_parameters():
        if "lora" in name:
            nn.init.normal_(parameter, std=0.1)
    return FirstResult(made).eval()


def of_peft() -> dict[str, comparison.Case]:
    attention: dict[str, Any] = {"target_modules": ["c_attn"]}
    makers = {
        "LoRA": lambda: adapted(gpt(), peft.LoraConfig(r=4, **attention)),
        "LoRA of BERT": lambda: adapted(
            bert(), peft.LoraConfig(r=4, target_modules=["query", "value"])
        ),
        "DoRA": lambda: adapted(gpt(), peft.LoraConfig(r=4, use_dora=True, **attention)),
        "AdaLoRA": lambda: adapted(gpt(), peft.AdaLoraConfig(r=4, total_step=10, **attention)),
        "IA3": lambda: adapted(gpt(), peft.IA3Config(feedforward_modules=[], **attention)),
        "prompt tuning": lambda: adapted(
            gpt(), peft.PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=4)
        ),
    }
    return {f"peft {name}": (make, EXAMPLES, DYNAMIC) for name, make in makers.items()}


def sentences() -> Any:
    folder = tempfile.mkdtemp()
    bert().save_pretrained(folder)
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{i}" for i in range(95))]
    vocabulary = os.path.join(folder, "vocab.txt")
    with open(vocabulary, "w") as file:
        file.write("\n".join(words))
    transformers.BertTokenizerFast(vocabulary).save_pretrained(folder)
    modules = [parts.Transformer(folder), parts.Pooling(WIDTH), parts.Normalize()]
    return SentenceTransformer(modules=modules, device="cpu").eval()


class Embedding(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.model = sentences()

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        features = {"input_ids": input_ids, "attention_mask": attention_mask}
        return self.model(features)["sentence_embedding"]


class Module(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 2)
        self.example_input_array = torch.rand(2, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)


def path() -> str:
    return os.path.join(tempfile.mkdtemp(), "model.onnx")


def with_regression() -> None:
    labels = np.arange(20) % 3
    head = LogisticRegression().fit(np.random.default_rng(0).random((20, WIDTH)), labels)
    export_onnx(sentences(), head, opset=17, output_path=path())


CALLS = {
    "setfit, head of scikit-learn": with_regression,
    "setfit, head of PyTorch": lambda: export_onnx(
        sentences(), SetFitHead(in_features=WIDTH, out_features=3), opset=17, output_path=path()
    ),
    "Lightning": lambda: Module().to_onnx(path()),
    "Lightning, dynamo=False": lambda: Module().to_onnx(path(), torch.rand(3, 4), dynamo=False),
}

if __name__ == "__main__":
    comparison.start()
    embedding = {"sentence-transformers": (lambda: Embedding().eval(), EXAMPLES, DYNAMIC)}
    comparison.of_models({**of_peft(), **embedding})
    comparison.of_calls(CALLS)
