"""Generates tokens about images or sounds with an exported model in ONNX Runtime.

    python examples/describe.py    exports a small LLaVA, compares it with eager PyTorch

The folder that onnx_native.export_decoder wrote has vision.onnx or speech.onnx, which make
features, embedding.onnx, which puts them among the embeddings of the tokens, and model.onnx, the
decoder. The inputs besides tokens are what the model's processor returns.
"""

import argparse
import pathlib
import sys
import tempfile
import warnings
from collections.abc import Mapping
from typing import Any

import generate
import numpy as np
import onnxruntime
from numpy.typing import NDArray

ROOT = pathlib.Path(__file__).resolve().parent.parent
TOWERS = ("vision.onnx", "speech.onnx")
TYPES = ("token_type_ids", "mm_token_type_ids")
Array = NDArray[Any]


class Describer(generate.Decoder):
    """The parts of a model that reads images or sounds, in ONNX Runtime."""

    def __init__(self, folder: pathlib.Path | str) -> None:
        super().__init__(folder)
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3

        def session(name: str) -> onnxruntime.InferenceSession:
            path = pathlib.Path(folder) / name
            return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])

        self.towers = [session(name) for name in TOWERS if (pathlib.Path(folder) / name).exists()]
        self.embedding = session("embedding.onnx")

    def features(self, given: Mapping[str, Array]) -> dict[str, Array]:
        """Returns the features of images and sounds; none have no rows."""
        found = {
            each.name: np.zeros([0, *each.shape[1:]], generate.TYPES[each.type])
            for each in self.embedding.get_inputs()
            if each.name != "input_ids"
        }
        for tower in self.towers:
            if all(each.name in given for each in tower.get_inputs()):
                found |= joined(tower, given)
        return found

    def describe(
        self,
        ids: Array,
        mask: Array,
        steps: int,
        *,
        given: Mapping[str, Array] | None = None,
        positions: Array | None = None,
    ) -> tuple[Array, Array]:
        """Appends the most likely tokens to prompts with images or sounds.

        Args:
            ids: The prompts, `[batch, length]`, padded on the left.
            mask: 0 where the prompts are padded.
            steps: The number of tokens to generate.
            given: What the processor returns besides: pixels, grids, types of tokens.
            positions: The positions of the prompts, `[3, batch, length]`, for models that have
                three for each token; by default those of a text.

        Returns:
            The new tokens, `[batch, steps]`, and the logits that they maximize.
        """
        given = given or {}
        features = self.features(given)
        past = self.empty_past(len(ids), ids.shape[1] + steps)
        types = {name: given.get(name, np.zeros_like(ids)) for name in TYPES if name in self.inputs}
        tokens: list[Array] = []
        scores: list[Array] = []
        while len(tokens) < steps:
            feeds = self.feeds(ids, mask) | types
            if len(self.inputs["position_ids"].shape) == 3:
                if positions is None:
                    positions = np.stack([feeds["position_ids"]] * 3)
                feeds["position_ids"] = positions
                # The next token follows the largest position of its text.
                positions = np.stack([positions.max((0, 2))[:, None] + 1] * 3)
            logits, past = self.step(
                feeds | run(self.embedding, {"input_ids": ids, **features}), past
            )
            features = {name: each[:0] for name, each in features.items()}
            scores.append(logits[:, -1])
            ids = scores[-1].argmax(-1)[:, None]
            tokens.append(ids)
            mask = np.concatenate([mask, np.ones_like(ids)], 1)
            types = {name: np.pad(each, ((0, 0), (0, 1)), "edge") for name, each in types.items()}
        return np.concatenate(tokens, 1), np.stack(scores, 1)


def joined(tower: onnxruntime.InferenceSession, given: Mapping[str, Array]) -> dict[str, Array]:
    """Runs a tower, or once for each image if it takes one."""
    names = [each.name for each in tower.get_inputs()]
    rows = len(given[names[0]])
    if tower.get_inputs()[0].shape[0] != 1 or rows == 1:
        return run(tower, given)
    parts = [run(tower, {name: given[name][i : i + 1] for name in names}) for i in range(rows)]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def run(session: onnxruntime.InferenceSession, given: Mapping[str, Array]) -> dict[str, Array]:
    names = [each.name for each in session.get_outputs()]
    feeds = {each.name: given[each.name] for each in session.get_inputs()}
    return dict(zip(names, session.run(names, feeds), strict=True))


def demo(steps: int) -> None:
    """Exports a small LLaVA with random weights, and compares its tokens with eager's."""
    sys.path[:0] = [str(ROOT / "build" / "python"), str(ROOT / "test" / "python")]
    warnings.filterwarnings("ignore")
    import onnx_native
    import torch
    from models import multimodal, stateful

    model: Any
    model, images = multimodal.make("Llava")
    given, lengths = images(2)
    ids = torch.tensor([multimodal.prompt(lengths)])
    with tempfile.TemporaryDirectory() as folder:
        onnx_native.export_decoder(model, folder, opset_version=23)
        arrays = {name: each.numpy() for name, each in given.items()}
        mask = np.ones_like(ids.numpy())
        tokens, _ = Describer(folder).describe(ids.numpy(), mask, steps, given=arrays)
    expected = stateful.eager(model, ids, torch.ones_like(ids), steps, **given)[0]
    print(tokens)
    same = int((tokens == expected.numpy()).sum())
    print(f"tokens equal to eager PyTorch's: {same} of {tokens.size}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=32, help="tokens to generate (default 32)")
    demo(parser.parse_args().steps)
