"""torchvision's operators at opsets with other ONNX operators for them."""

import pytest
import torch
from models.running import newest_opset

from ops import checking
from ops.row import Row
from ops.rows import vision


@pytest.mark.parametrize("opset", [18, newest_opset()])
@pytest.mark.parametrize("row", [row for row in vision.ROWS if not row.name], ids=lambda r: r.title)
@torch.no_grad()
def test_opsets(row: Row, opset: int) -> None:
    for case in row.cases:
        program = checking.export(case, opset_version=opset)
        assert program.model_proto.opset_import[0].version == opset
        checking.compare(row, checking.session(program), case, case.inputs)
