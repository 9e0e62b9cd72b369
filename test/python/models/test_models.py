"""Real models, end to end: captured once, exported at three opsets, run at three sizes."""

import functools

import onnx
import pytest
import torch

from models import running, zoo


@functools.lru_cache(maxsize=1)
def captured(name: str) -> tuple[torch.nn.Module, torch.export.ExportedProgram]:
    module = zoo.ZOO[name].module()
    return module, zoo.ZOO[name].capture(module)


@functools.lru_cache(maxsize=3)
def expected(name: str, sizes: zoo.Sizes) -> list[torch.Tensor]:
    return running.eager(captured(name)[0], zoo.ZOO[name].example(sizes))


@pytest.mark.parametrize("opset", [18, 20, running.newest_opset()])
@pytest.mark.parametrize("name", zoo.ZOO)
def test_export_equals_eager(name, opset):
    model = zoo.ZOO[name]
    module, program = captured(name)
    # Not tmp_path, where pytest would keep gigabytes of weights.
    with zoo.scratch_folder() as folder:
        path = folder / "m.onnx"
        exported = torch.onnx.export(
            program,
            f=path,
            dynamo=True,
            opset_version=opset,
            dynamic_shapes=model.dynamic_shapes(),
            verbose=False,
        )
        assert exported is not None
        onnx.checker.check_model(str(path), full_check=True)

        header = onnx.load(path, load_external_data=False)
        assert header.producer_name == "onnx_native"
        assert [(o.domain, o.version) for o in header.opset_import if not o.domain] == [("", opset)]
        for value in header.graph.input:
            dims = value.type.tensor_type.shape.dim
            assert {axis: dim.dim_param for axis, dim in enumerate(dims) if dim.dim_param} == (
                model.dynamic_axes[value.name]
            )
        parameters = {parameter_name for parameter_name, _ in module.named_parameters()}
        assert parameters & {tensor.name for tensor in header.graph.initializer}

        session = running.session(path)
        for sizes in (model.traced, *model.others):
            running.assert_same(running.run(session, model.example(sizes)), expected(name, sizes))
