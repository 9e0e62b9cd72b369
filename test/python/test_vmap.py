"""Programs with torch.vmap."""

import torch
from ops import checking
from torch import nn


class Mapped(nn.Module):
    """Maps a layer over rows, and a product over all pairs."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(5, 3)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        rows = torch.vmap(lambda row: self.layer(row).softmax(0) + row.sum())(x)
        pairs = torch.vmap(torch.vmap(torch.mul, (None, 0)), (0, None))(x[:, 0], x[:, 1])
        return rows, pairs


def test_mapped_functions_work_on_batches_of_any_size() -> None:
    torch.manual_seed(0)
    model = Mapped().eval()
    program = torch.onnx.export(
        model,
        (torch.randn(4, 5),),
        dynamo=True,
        dynamic_shapes={"x": {0: torch.export.Dim("n")}},
        verbose=False,
    )
    assert program is not None
    running = checking.session(program)
    for size in (4, 7):
        x = torch.randn(size, 5)
        results = running.run(None, {running.get_inputs()[0].name: x.numpy()})
        for result, wanted in zip(results, model(x), strict=True):
            torch.testing.assert_close(torch.from_numpy(result), wanted.detach())
