"""Lists of unknown length hold copies: a write that a copy would miss is an error."""

import pytest
import torch

from .running import check

INPUTS = [
    (torch.linspace(-1, 1, n * m).view(n, m), torch.full((n, m), 3.0), torch.tensor(k))
    for n, m, k in ((3, 4, 2), (2, 2, 1), (4, 3, 3))
]
SHAPES = {"x": {0: "n", 1: "m"}, "y": {0: "n", 1: "m"}, "k": None}
RIGHT = {
    "element": "ys[0].add_(1)\nreturn torch.stack(ys)",
    "elements": "for z in ys:\n    z.add_(1)\nreturn torch.stack(ys)",
    "slice": "zs = ys[:1]\nzs[0].add_(1)\nreturn torch.stack(zs), torch.stack(ys)",
    "after_stack": "z = torch.stack(ys)\nz.add_(1)\nreturn z, ys[0]",
    "after_cat": "z = torch.cat(ys)\nz.add_(1)\nreturn z, ys[0]",
    "after_stack_last": "z = torch.stack(ys, -1)\nz.add_(1)\nreturn z, ys[0]",
    "copies_made_later": "z = y * 2\nz.add_(1)\nys.append(z)\nreturn torch.stack(ys), z",
    "clone": "z = y * 2\nys.append(z.clone())\nz.add_(1)\nreturn torch.stack(ys), z",
    "in_a_step": """
zs: List[Tensor] = []
for i in range(int(k)):
    z = x * i
    zs.append(z)
    z.add_(1)
return torch.stack(zs)
""",
    "of_a_state": """
zs: List[Tensor] = []
z = x * 2
for i in range(int(k)):
    z.add_(1)
    zs.append(z)
    z = z * 2
return torch.stack(zs), z
""",
    "in_a_branch": """
z = y * 1
zs: List[Tensor] = [x]
if k > 1:
    z.add_(1)
    zs.append(z)
return torch.stack(zs), z
""",
    "rows": "z = x * 2\nfor row in z.unbind(0):\n    row.add_(1)\nreturn z",
    "pieces": "z = x * 2\nz.split(2)[0].add_(1)\nreturn z",
}
REFUSED = {
    "original": "z = y * 2\nys.append(z)\nz.add_(1)\nreturn torch.stack(ys)",
    "original_is_used": "z = y * 2\nys.append(z)\nys[0].add_(1)\nreturn torch.stack(ys), z",
    "input": "ys.append(y)\ny.add_(1)\nreturn torch.stack(ys)",
    "view": "z = y * 2\nys.append(z[:])\nz.add_(1)\nreturn torch.stack(ys)",
    "set": "z = y * 2\nys[0] = z\nz.add_(1)\nreturn torch.stack(ys)",
    "old_element": "z = ys[0]\nys.append(x)\nz.add_(1)\nreturn torch.stack(ys)",
    "two_lists": "zs = ys + [y]\nzs[0].add_(1)\nreturn torch.stack(zs), torch.stack(ys)",
    "twice": "zs = ys + ys\nzs[0].add_(1)\nreturn torch.stack(zs)",
    "one_tensor": """
z = x * 2
zs: List[Tensor] = []
for i in range(int(k)):
    zs.append(z)
zs[0].add_(1)
return torch.stack(zs)
""",
    "after_the_loop": """
z = x * 2
zs: List[Tensor] = []
for i in range(int(k)):
    zs.append(z)
z.add_(1)
return torch.stack(zs)
""",
    "in_the_loop": """
z = x * 2
zs: List[Tensor] = []
for i in range(int(k)):
    z.add_(1)
    zs.append(z)
return torch.stack(zs)
""",
    "in_the_next_step": """
z = x * 2
zs: List[Tensor] = []
for i in range(int(k)):
    z.add_(1)
    z = z * 2
    zs.append(z)
return torch.stack(zs)
""",
    "in_a_list_that_is_read": """
z = x * 2
zs: List[Tensor] = []
for i in range(int(k)):
    z.add_(1)
    zs.append(z)
    if len(zs) > 1:
        z = z + zs[0]
return torch.stack(zs)
""",
    "sizes_differ": """
zs: List[Tensor] = []
for i in range(int(k)):
    zs.append(x[: i + 1])
zs[0].add_(1)
return torch.cat(zs), x
""",
    "branch": """
zs: List[Tensor] = [x]
if k > 1:
    zs.append(y)
y.add_(1)
return torch.stack(zs)
""",
    "branch_element": """
zs: List[Tensor] = [x]
if k > 1:
    zs.append(y)
zs[0].add_(1)
return torch.stack(zs), x
""",
    "computed_index": "zs = [x * 1, y * 1]\nzs[int(k) % 2].add_(1)\nreturn zs[0], zs[1]",
}


def compile_body(body: str) -> torch.jit.ScriptFunction:
    before = (
        "ys: List[Tensor] = []\nfor i in range(int(k)):\n    ys.append(x * i)\n"
        if ("ys" in body)
        else ""
    )
    lines = (before + body.strip()).replace("\n", "\n    ")
    source = f"def program(x: Tensor, y: Tensor, k: Tensor):\n    {lines}\n"
    return torch.jit.CompilationUnit(source).program


@pytest.mark.parametrize("name", RIGHT)
def test_writes_that_no_copy_misses(name: str) -> None:
    check(compile_body(RIGHT[name]), INPUTS, SHAPES, opsets=(20,))


@pytest.mark.parametrize("name", REFUSED)
def test_writes_that_a_copy_misses(name: str) -> None:
    with pytest.raises(torch.onnx.OnnxExporterError, match=r"list .*clone\(\)"):
        check(compile_body(REFUSED[name]), INPUTS, SHAPES, opsets=(20,))


SECOND_NAMES = {
    "after": "for i in range(int(k)):\n    zs = zs + [x]\nzs.append(y)",
    "before_it_is_replaced": "for i in range(int(k)):\n    zs.append(y)\n    zs = zs + [x]",
    "the_other_one": "for i in range(int(k)):\n    zs = zs + [x]\nws.append(y)",
    "one_or_the_other": "vs = [y]\nws = vs\nfor i in range(int(k)):\n    zs = vs\nzs.append(x)",
    "elements": "for i in range(int(k)):\n    zs = [zs[0] + 1]\nzs[0] = y",
}


@pytest.mark.parametrize("name", SECOND_NAMES)
def test_a_second_name_of_a_carried_list(name: str) -> None:
    body = f"zs = [x * 2]\nws = zs\n{SECOND_NAMES[name]}\nreturn torch.stack(zs), torch.stack(ws)"
    with pytest.raises(torch.onnx.OnnxExporterError, match=r"may be aliased.*make a copy"):
        check(compile_body(body), INPUTS, SHAPES, opsets=(20,))


@pytest.mark.parametrize(
    "body",
    [
        "for i in range(int(k)):\n    zs = zs + [x]",
        "for i in range(int(k)):\n    zs.append(x)\nzs.append(y)",
        "zs = list(ws)\nfor i in range(int(k)):\n    zs = zs + [x]\nws.append(y)\nws.append(x)",
        "for i in range(int(k)):\n    zs = zs + [x]\n    zs.append(y)",
    ],
)
def test_second_names_that_do_not_matter(body: str) -> None:
    body = f"zs = [x * 2]\nws = zs\n{body}\nreturn torch.stack(zs), torch.stack(ws)"
    check(compile_body(body), INPUTS, SHAPES, opsets=(20,))
