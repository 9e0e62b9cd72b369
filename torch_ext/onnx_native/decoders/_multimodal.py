"""Exports a model of images or sounds: its towers, its embedding and its decoder."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch.export import Dim

from onnx_native import _warnings
from onnx_native.decoders import (
    _attention_functions,
    _door,
    _embedded,
    _genai_images,
    _inline_towers,
    _single,
    _steps,
    _towers,
)
from onnx_native.upstream import _upstream

if TYPE_CHECKING:
    from onnx_native.program._program import ONNXProgram

_FILES = {"image": "vision.onnx", "audio": "speech.onnx"}
# Sizes of two examples, which tell what an axis is: batch, text around the features, and rows.
_SIZES = (
    {"batch": _steps.BATCH, "text": 2, "rows": 2},
    {"batch": _steps.BATCH + 1, "text": 4, "rows": 5},
)


def towers(model: Any, given: Sequence[Mapping[str, Any]]) -> list[_towers.Tower]:
    """Returns the towers of a model; none: it takes text alone. See ``_towers.find``."""
    with _attention_functions.replaced(model, is_grouped=False):
        found: list[_towers.Tower] = _towers.find(model, given)
        for modality in _FILES:
            if any(tower.modality == modality for tower in found):
                continue
            tower = _inline_towers.find(model, modality, given)
            if tower is not None:
                found.append(tower)
        return found


def export(
    model: Any,
    towers: Sequence[_towers.Tower],
    last_logits: bool,
    arguments: dict[str, Any],
) -> tuple[dict[str, ONNXProgram], dict[str, Any] | None]:
    """Exports the parts of a model; returns the programs and ``genai_config.json``."""
    with _attention_functions.replaced(model, is_grouped=False):
        parts = _Parts(model, towers)
        step = parts.step()
    programs = {_FILES[tower.modality]: _export_tower(model, tower, arguments) for tower in towers}
    programs["embedding.onnx"] = _export_embedding(model, parts, arguments)
    decoder, config = _single.export(model, last_logits, arguments, step)
    if config is not None:
        config = (
            _genai_images.described(config, model, towers, rows=step.rows)
            if step.takes_embeddings_alone
            else None
        )
    return programs | decoder, config


class _Parts:
    """What the parts of a model pass to each other, found by running it."""

    def __init__(self, model: Any, towers: Sequence[_towers.Tower]) -> None:
        self.model = model
        self.towers = towers
        self.door = _door.Door(model, towers)
        self.tokens = {tower.modality: _towers.token(model, tower.modality) for tower in towers}
        self.text = next(i for i in range(1, 99) if i not in self.tokens.values())
        for tower in towers:
            self._name_features(tower)
        with torch.no_grad():
            self.examples = [self._example(**sizes) for sizes in _SIZES]

    def _name_features(self, tower: _towers.Tower) -> None:
        """Names the features that reach the language model."""
        leaves = {
            path: _towers.joined(unit).detach().clone().requires_grad_()
            for path, unit in _towers.units(tower.output)
            if _towers.joined(unit).is_floating_point()
        }
        main = leaves.get(("pooler_output",), next(iter(leaves.values())))
        ids = self._ids({tower.modality: main.shape[:-1].numel()}, 2, 2)
        with torch.enable_grad():
            passed = self._passed(self.model.forward, ids, {tower.modality: leaves})
            outputs = [
                each.float().sum()
                for name, value in passed.items()
                for _, each in _door.tensors(name, value)
                if each.requires_grad
            ]
            total = torch.stack(outputs).sum()
            gradients = torch.autograd.grad(total, list(leaves.values()), allow_unused=True)
        used = [path for path, each in zip(leaves, gradients, strict=True) if each is not None]
        first = next((path for path in used if path[0] == "pooler_output"), used[0])
        for path in used:
            name = ".".join(map(str, path))
            tower.names[path] = f"{tower.modality}_features" if path == first else name
        if not isinstance(tower, _inline_towers.InlineTower):
            self._check_features(tower, ids)

    def _check_features(self, tower: _towers.Tower, ids: torch.Tensor) -> None:
        """Checks that features of all images in one tensor are merged as those of the program.

        Raises:
            ValueError: They are not.
        """
        with torch.no_grad():
            forward = self.model.forward
            named = self._features(tower.features(tower.output), [tower])
            results = [
                dict(_door.tensors("", [*_door.extras(passed).values(), passed[_door.EMBEDS]]))
                for passed in (
                    self._passed(forward, ids, {tower.modality: {}}),
                    self._passed(forward, ids, named),
                )
            ]
        expected, found = results
        if expected.keys() != found.keys() or not all(
            torch.equal(found[name], value) for name, value in expected.items()
        ):
            raise ValueError(
                f"{type(self.model).__name__} does not merge the {tower.modality} features of "
                "several inputs one after the other; inputs={} exports its texts alone"
            )

    def _ids(self, counts: Mapping[str, int], batch: int, text: int) -> torch.Tensor:
        """Returns identifiers with so many tokens of each modality in the last row."""
        tokens = [self.tokens[modality] for modality, n in counts.items() for _ in range(n)]
        row = [self.text, *tokens, *[self.text] * (text - 1)]
        device = next(self.model.parameters()).device
        return torch.tensor([[self.text] * len(row)] * (batch - 1) + [row], device=device)

    def _example(self, batch: int, text: int, rows: int) -> _Example:
        ids = self._ids({tower.modality: rows for tower in self.towers}, batch, text)
        features: dict[str, torch.Tensor] = {}
        for tower in self.towers:
            units = dict(_towers.units(tower.output))
            for path, name in tower.names.items():
                features[name] = tower.formed(_towers.joined(units[path]))[:1].repeat(rows, 1)
        return _Example(ids, features, self.merged(self.model.forward, ids, features))

    def merged(
        self, forward: Callable[..., Any], ids: torch.Tensor, named: Mapping[str, torch.Tensor]
    ) -> dict[str, Any]:
        """Returns what reaches the language model, from features by their names."""
        return self._passed(forward, ids, self._features(named))

    def without(self, forward: Callable[..., Any], ids: torch.Tensor) -> dict[str, Any]:
        """Returns what reaches the language model from a text alone."""
        return self._passed(forward, ids, None)

    def _passed(self, forward: Callable[..., Any], ids: torch.Tensor, features: Any) -> Any:
        passed = self.door.passed(forward, {"input_ids": ids, "use_cache": False}, features)
        for tower in self.towers:
            if isinstance(tower, _inline_towers.InlineTower) and features:
                values = features[tower.modality]
                passed[_door.EMBEDS] = tower.merged(ids, passed[_door.EMBEDS], values)
        return passed

    def _features(
        self, named: Mapping[str, torch.Tensor], towers: Sequence[_towers.Tower] | None = None
    ) -> dict[str, dict[_towers.Path, torch.Tensor]]:
        features: dict[str, dict[_towers.Path, torch.Tensor]] = {}
        for tower in self.towers if towers is None else towers:
            units = dict(_towers.units(tower.output))
            features[tower.modality] = {
                path: named[name][None] if _towers.joined(units[path]).ndim == 3 else named[name]
                for path, name in tower.names.items()
            }
        return features

    def step(self) -> _embedded.Embedded:
        passed, other = (example.passed for example in self.examples)
        absent = self._features(
            {name: each[:0] for name, each in self.examples[0].features.items()}
        )
        return _embedded.Embedded(self.model, self.door, self.text, absent, (passed, other))


@dataclasses.dataclass
class _Example:
    ids: torch.Tensor
    features: dict[str, torch.Tensor]
    passed: dict[str, Any]


def _export_tower(
    model: torch.nn.Module, tower: _towers.Tower, arguments: dict[str, Any]
) -> ONNXProgram:
    """Exports a tower for any number of images, or for one where no capture has its loops."""
    inputs = tower.inputs
    try:
        return _export_form(model, tower, inputs.tensors, inputs.axes, {}, arguments)
    except torch.onnx.OnnxExporterError as error:
        fixed = dataclasses.replace(tower, is_packed=False, is_whole=False)
        numbers = {
            name: each for name, each in inputs.fixed.items() if not each.is_floating_point()
        }
        for constants in ({}, numbers) if numbers else ({},):
            try:
                program = _export_form(model, fixed, inputs.fixed, {}, constants, arguments)
            except torch.onnx.OnnxExporterError:
                continue
            shape = list(inputs.fixed[tower.main].shape)
            values = [f"{name} = {each.tolist()}" for name, each in constants.items()]
            _warnings.warn(
                f"{_FILES[tower.modality]} takes {', '.join([f'{tower.main} {shape}', *values])}: "
                "no capture has the program for other sizes. Run it for one such example after "
                "the other, and join the features. inputs= sets the sizes"
            )
            return program
        raise error


def _export_form(
    model: torch.nn.Module,
    tower: _towers.Tower,
    tensors: Mapping[str, torch.Tensor],
    axes: Mapping[str, Mapping[int, Any]],
    constants: Mapping[str, torch.Tensor],
    arguments: dict[str, Any],
) -> ONNXProgram:
    signature = _steps.Signature()
    for name, value in tensors.items():
        signature.add(
            name, value, **{f"axis{axis}": size for axis, size in axes.get(name, {}).items()}
        )
    signature.outputs += list(tower.names.values())

    def run(_: Callable[..., Any], inputs: dict[str, torch.Tensor]) -> list[torch.Tensor]:
        features = list(tower.features(tower.run({**inputs, **constants})).values())
        for name, value in constants.items():
            # Not a wrong number for other sizes.
            is_same = (inputs[name] == value).all()
            features = [torch.where(is_same, each, torch.nan) for each in features]
        return features

    return _steps.export(model, signature, run, arguments)


def _export_embedding(
    model: torch.nn.Module, parts: _Parts, arguments: dict[str, Any]
) -> ONNXProgram:
    example = parts.examples[0]
    sizes, signature = _steps.StepSizes(), _steps.Signature()
    signature.add("input_ids", example.ids, axis0=sizes.batch, axis1=sizes.sequence)
    for tower in parts.towers:
        count = Dim(f"num_{tower.modality}_tokens")
        for name in tower.names.values():
            signature.add(name, example.features[name], axis0=count)
    extras = _door.extras(example.passed)
    names = [name for key, value in extras.items() for name, _ in _door.tensors(key, value)]
    signature.outputs += [_door.EMBEDS, *names]

    def run(forward: Callable[..., Any], inputs: dict[str, torch.Tensor]) -> list[torch.Tensor]:
        ids = inputs.pop("input_ids")
        lost = torch.zeros_like(ids, dtype=torch.bool)
        for tower in parts.towers:
            rows = next(iter(inputs[name] for name in tower.names.values()))
            has_none = ~rows.new_ones(rows.shape[0], dtype=torch.bool).any()
            lost = lost | ((ids == parts.tokens[tower.modality]) & has_none)
        # A token of an image without an image is a token like others.
        text = parts.without(forward, ids)[_door.EMBEDS]
        ids = torch.where(lost, parts.text, ids)
        for tower in parts.towers:  # as many tokens as features, as the program checks
            places = (ids == parts.tokens[tower.modality]).nonzero()
            rows = next(iter(inputs[name] for name in tower.names.values()))
            _upstream.check(places.shape[0] == rows.shape[0])
        passed = parts.merged(forward, ids, inputs)
        embeds = torch.where(lost[..., None], text, passed[_door.EMBEDS])
        others = [each for key in extras for _, each in _door.tensors(key, passed[key])]
        return [embeds, *others]

    return _steps.export(model, signature, run, arguments)
