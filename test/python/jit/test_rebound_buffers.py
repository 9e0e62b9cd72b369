"""Scripted modules that rebind a buffer in control flow, and writes with lists of indices."""

import pytest
import torch

from .running import check

BODIES = {
    "branch": """
if bool(x.sum() > 0):
    self.buf = self.buf + 1
return x + self.buf
""",
    "both_branches": """
if bool(x.sum() > 0):
    self.buf = self.buf + x[0]
else:
    self.buf = self.buf * 2 + 1
y = self.buf + x
self.buf = y[0]
return y
""",
    "loop": """
for i in range(x.size(0)):
    if bool(x[i].sum() > 0):
        self.buf = self.buf + x[i]
return x * self.buf
""",
    "indices": """
z = x * 1
z.index_put_([torch.tensor([0, 1]), torch.tensor([2, 0])], torch.tensor([7.0, 8.0]))
return z
""",
    "index_lists": """
z = x * 1
z.index_put_([torch.tensor([0, 0])], torch.ones(3), True)
z[torch.tensor([1]), 1:] = 4.0
indices = [torch.tensor([1])]
indices.append(torch.tensor([2]))
z.index_put_(indices, torch.tensor([9.0]))
return z
""",
}
MAYBE_SHARED = """
v = self.buf
if bool(x.sum() > 0):
    self.buf = self.buf.clone()
self.buf.add_(1)
return v + x
"""
ROWS = torch.linspace(0, 1, 9).view(3, 3)


def module(body: str) -> torch.jit.ScriptModule:
    class Plain(torch.nn.Module):
        """Creates a new class per call, because modules of one class share compiled methods."""

    plain = Plain()
    plain.register_buffer("buf", torch.zeros(3))
    result: torch.jit.ScriptModule = torch.jit.script(plain)
    result.define("def forward(self, x: Tensor):" + body.replace("\n", "\n    "))
    return result


@pytest.mark.parametrize("name", BODIES)
def test_right(name: str) -> None:
    inputs = [(ROWS,), (-ROWS,), (torch.linspace(-1, 1, 15).view(5, 3),)]
    check(module(BODIES[name]), inputs, {"x": {0: "n"}}, opsets=(20,))


def test_a_buffer_that_a_branch_may_have_copied_is_refused() -> None:
    with pytest.raises(torch.onnx.errors.OnnxExporterError, match="may share"):
        torch.onnx.export(module(MAYBE_SHARED), (ROWS,), dynamo=True, verbose=False)
