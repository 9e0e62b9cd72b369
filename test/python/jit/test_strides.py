"""is_contiguous(), stride() and storage_offset() match the true strides, or are an error."""

import pytest
import torch

from .running import check

SIZES = ((3, 4), (5, 2), (1, 4), (4, 1), (1, 1))
INPUTS = [(torch.linspace(-1, 1, n * m).view(n, m), torch.tensor(n)) for n, m in SIZES]
SHAPES = {"x": {0: "n", 1: "m"}, "k": None}
# Contiguity and strides are known.
STRIDES = """
x
x.t()
x.t().contiguous()
x.t().clone()
x.t().to(torch.float64)
x.mT
x.movedim(0, 1)
torch.zeros_like(x.t())
x.t().new_zeros([2, 3])
x + x
torch.where(x > 0, x, x * 2)
torch.relu(x)
x.softmax(0)
x.cumsum(0)
x.sum(0)
x.tril()
x.repeat(2, 1)
x[:, torch.tensor([0])]
torch.cat([x, x], 1)
torch.stack([x, x])
torch.matmul(x, x.t())
torch.mm(x.t(), x)
torch.ones(2, 3)
torch.ones(2, 3).t()
torch.ones(2, 3).t() * 2
torch.ones(2, 3, 4).permute(2, 0, 1).relu()
x[1:]
x[:, 1:]
x[:, ::2]
x[0]
x[:, 0]
x[:, :1].contiguous()
x.diagonal()
x.chunk(2, 1)[0]
x.unsqueeze(0)
x.unsqueeze(1).expand(-1, 3, -1)
x.unsqueeze(1).permute(2, 0, 1)
x[None].expand(2, -1, -1).contiguous()
x.as_strided([1, 1], [1, 2])
x.view(-1)
x.flatten()
x.reshape(-1, 1)
x.detach().t()
(x * 1).t_()
(x * 1).unsqueeze_(1)
(x * 1).t().add_(1)
"""
# Only contiguity is known.
CONTIGUOUS = """
x.t() + 1
x.t().relu()
x.t() * x.t()
x[:, ::2] * 2
x[:, :2].clone()
x[None].expand(2, -1, -1) + 1
"""
FAIL_WITHOUT_ELEMENTS = {"x[0]", "x.as_strided([1, 1], [1, 2])", "x[:, torch.tensor([0])]"}


def lines(text: str) -> list[str]:
    return text.strip().split("\n")


def compile_body(body: str) -> torch.jit.ScriptFunction:
    source = "def program(x: Tensor, k: Tensor):\n    " + body.strip().replace("\n", "\n    ")
    return torch.jit.CompilationUnit(source + "\n").program


@pytest.mark.parametrize("sizes", ["dynamic", "static"])
def test_strides(sizes: str) -> None:
    body = "results: List[Tensor] = []\n"
    for expression in lines(STRIDES):
        body += f"v = {expression}\nresults.append(torch.tensor(v.is_contiguous()))\n"
        body += "results.append(torch.tensor(v.stride()))\n"
        body += "results.append(torch.tensor(v.stride(-1)))\n"
    program = compile_body(body + "return results")
    if sizes == "dynamic":
        check(program, INPUTS, SHAPES, opsets=(20,))
    else:
        for inputs in INPUTS[:2]:
            check(program, [inputs], opsets=(20,))


def test_contiguous() -> None:
    body = "results: List[Tensor] = []\n"
    for expression in lines(STRIDES) + lines(CONTIGUOUS):
        if expression not in FAIL_WITHOUT_ELEMENTS:
            body += f"v = {expression}\nresults.append(torch.tensor(v.is_contiguous()))\n"
    empty = (torch.zeros(0, 3), torch.tensor(0))
    check(compile_body(body + "return results"), [*INPUTS, empty], SHAPES, opsets=(20,))


PROGRAMS = {
    "a_view_in_a_branch": """
v = x.t()
return v.view(-1) if v.is_contiguous() else v.reshape(-1)
""",
    "memory_formats": """
v = x.view(1, 1, x.size(0), x.size(1)).expand(2, 3, -1, -1)
w = torch.ones(2, 3, 4, 5).permute(0, 2, 3, 1)
return torch.tensor([
    v.is_contiguous(), v.is_contiguous(memory_format=torch.channels_last),
    w.is_contiguous(), w.is_contiguous(memory_format=torch.channels_last),
    w.permute(0, 3, 1, 2).is_contiguous(), x.is_contiguous(memory_format=torch.channels_last),
    w.permute(0, 3, 1, 2).is_contiguous(memory_format=torch.channels_last),
    torch.ones(2, 3, 4, 5).is_contiguous(memory_format=torch.channels_last),
    torch.ones(2, 3, 4, 4, 5).is_contiguous(memory_format=torch.channels_last_3d)])
""",
    "a_branch_by_contiguity": """
v = x.t()
if not v.is_contiguous():
    v = v.contiguous()
return v.view(-1)
""",
    "a_branch": """
v = x
if k > 2:
    v = x.clone()
return torch.tensor(v.is_contiguous()), torch.tensor(v.stride())
""",
    "a_loop": """
v = x * 1
count = 0
for i in range(int(k)):
    if v.is_contiguous():
        count += 1
    v = v + 1
return torch.tensor(v.is_contiguous()), torch.tensor(v.stride()), v, torch.tensor(count)
""",
    "offsets": """
v = x[1:, 0]
return torch.tensor([v.storage_offset(), x.t()[0].storage_offset(), x.storage_offset()])
""",
    "as_strided": """
return x.as_strided(x.size(), x.stride()), torch.as_strided(x, [1, 1], [x.stride(0), x.stride(1)])
""",
    "views": """
return x.t().view(x.size(1), 1, x.size(0)), x[:1].view(-1), x.t().contiguous().view(-1)
""",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str) -> None:
    check(compile_body(PROGRAMS[name]), INPUTS, SHAPES)


REFUSED = {
    "a_branch": """
v = x * 1
if k > 2:
    v = x[:1, :1].t()
else:
    v = x[:1, :1] * 2
return torch.tensor(v.stride())
""",
    "a_loop": """
v = torch.mm(x, x.t())
for i in range(int(k)):
    v = v.t()
return torch.tensor(v.is_contiguous())
""",
    "inside_a_loop": """
v = torch.mm(x, x.t())
count = 0
for i in range(int(k)):
    if v.is_contiguous():
        count += 1
    v = v.t()
return v, torch.tensor(count)
""",
    "an_element": """
results: List[Tensor] = []
for i in range(int(k)):
    results.append(x.t() + i)
return torch.tensor(results[0].is_contiguous())
""",
    "arithmetic": "return torch.tensor((x.t() + 1).stride())",
    "an_unknown_order": "return torch.tensor(x.rot90().is_contiguous())",
}


@pytest.mark.parametrize("name", REFUSED)
def test_unknown_strides_are_refused(name: str) -> None:
    with pytest.raises(torch.onnx.OnnxExporterError, match=r"strides of %\w+ are unknown; call co"):
        check(compile_body(REFUSED[name]), INPUTS, SHAPES)


@pytest.mark.parametrize("view", ["x.t().view(-1)", "x[:, 1:].view(-1)"])
def test_views_that_strides_forbid(view: str) -> None:
    with pytest.raises(torch.onnx.OnnxExporterError, match=r"do not allow view\(\); call reshape"):
        check(compile_body(f"return {view}"), INPUTS, SHAPES)


def test_offsets_of_slices_that_begin_outside() -> None:
    program = torch.jit.CompilationUnit("""
def program(x: Tensor):
    offsets = [x[5:].storage_offset(), x[-2:].storage_offset(), x[:, 2:].storage_offset(),
               x[:, -3:].storage_offset(), x[2:9].storage_offset()]
    return torch.tensor(offsets)
""").program
    sizes = ((3, 4), (7, 1), (1, 9), (2, 2), (0, 3), (3, 0))
    inputs = [(torch.ones(n, m),) for n, m in sizes]
    check(program, inputs, {"x": {0: "n", 1: "m"}}, opsets=(20,))
