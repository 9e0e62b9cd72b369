"""Tensors and lists that share memory because of a branch or a loop: right, or refused."""

import pytest
import torch
from models.running import assert_same
from ops.checking import session

RIGHT = {
    "one_tensor_two_results": """
if bool(x.sum() > 0):
    t = x * 2
    b = t
    c = t
else:
    t = x * 3
    b = t
    c = t
b.add_(1)
return b, c
""",
    "swapped_states": """
a = x[0] * 1
b = x[1] * 1
for i in range(x.size(0)):
    t = a
    a = b
    b = t
    a.add_(1)
return a - b * 2
""",
    "a_state_that_is_a_capture": """
a = x[0] * 1
b = x[1] * 1
for i in range(x.size(0)):
    a.add_(1)
    b = a
return a - b * 2
""",
    "read_before_the_write": """
a = x[0] * 1
last = x[0] * 1
y = x[0] * 0
for i in range(x.size(0)):
    y = y + last
    last = a
    a.mul_(2)
return y
""",
    "a_state_that_a_branch_passes": """
h = x[0] * 1
for i in range(x.size(0)):
    if bool(x[i].sum() > 0):
        h = h * 2
    h += x[i]
return h
""",
    "a_branch_in_a_branch": """
y = x * 1
if bool(x.sum() > 0):
    if bool(x.mean() > 0.5):
        y = y * 2
    y += 1
return y
""",
    "a_loop_in_a_loop": """
s = torch.zeros(3)
for i in range(x.size(0)):
    t = s
    for j in range(i):
        t += x[j]
    s = s * 1.5
return s
""",
    "states_in_a_tuple": """
s = (x[0] * 1, x[1] * 1)
for i in range(x.size(0)):
    s[0].add_(x[i])
    s = (s[1], s[0])
return s[0] - s[1] * 3
""",
    "lists_made_in_branches": """
if bool(x.sum() > 0):
    c = [1, 2]
else:
    c = [1, 2]
c.append(3)
return x * len(c)
""",
    "a_copied_list": """
a = [1, 2]
b = [1, 2]
c = a
if bool(x.sum() > 0):
    c = b
c = c.copy()
c.append(3)
return x * len(a) + len(b) + len(c)
""",
    "lists_that_a_loop_swaps": """
a = [1, 2]
b = [1, 2]
for i in range(x.size(0)):
    t = a
    a = b
    b = t
    a[0] += 1
return x * a[0] + b[0]
""",
}
REFUSED = {
    "initial_state_is_a_capture": """
a = x[0] * 1
c = a
y = x[0] * 0
for i in range(x.size(0)):
    c.add_(1)
    y = y + a
    c = c * 2
return y
""",
    "two_states_of_one_step": """
b = x[0] * 1
c = x[0] * 2
for i in range(x.size(0)):
    t = x[i] * 2
    b = t
    c = t
b.add_(1)
return b, c
""",
    "a_state_and_its_view": """
b = x[0] * 1
c = x[0, :1] * 2
for i in range(x.size(0)):
    t = x[i] * 2
    b = t
    c = t[:1]
b.add_(1)
return b, c
""",
    "one_tensor_in_one_branch": """
if bool(x.sum() > 0):
    t = x * 2
    b = t
    c = t
else:
    b = x * 3
    c = x * 4
b.add_(1)
return b, c
""",
    "views_of_each_branch": """
if bool(x.sum() > 0):
    b = x * 2
    c = b[0]
else:
    b = x * 3
    c = b[1]
c.add_(1)
return b, c
""",
    "read_inside_a_branch": """
a = x * 1
b = x * 2
c = a if bool(x.sum() > 0) else b
if bool(x.mean() > 0.1):
    a.add_(1)
    y = c * 2
else:
    y = c * 3
return y
""",
    "a_capture_that_a_branch_passes": """
a = x[0] * 1
b = x[1] * 1
c = a
for i in range(x.size(0)):
    if bool(x[i].sum() > 0):
        c = b
    else:
        c = a
    c.add_(1)
return a - b * 3
""",
    "states_that_change_places": """
a = torch.zeros(3)
b = torch.zeros(3)
c = a
for i in range(x.size(0)):
    c.add_(1)
    t = a
    a = b
    b = t
    c = b
return x[0] * a + b * 3
""",
    "a_used_initial_state": """
first = x[0] * 1
h = first
for i in range(x.size(0)):
    if bool(x[i].sum() > 0):
        h = h * 2
    h += x[i]
return h + first
""",
    "a_used_operand_of_a_branch": """
y = x * 1
z = y
if bool(x.sum() > 0):
    if bool(x.mean() > 0.5):
        y = y * 2
    y += 1
return y - z * 2
""",
    "one_of_two_equal_lists": """
a = [1, 2]
b = [1, 2]
c = a
if bool(x.sum() > 0):
    c = b
c.append(3)
return x * len(a) + len(b)
""",
    "one_of_two_equal_lists_in_a_tuple": """
a = [1, 2]
b = [1, 2]
t = (a, 1)
if bool(x.sum() > 0):
    t = (b, 1)
t[0].append(3)
return x * len(a) + len(b)
""",
    "one_of_two_equal_dicts": """
a = {"k": 1}
b = {"k": 1}
c = a
if bool(x.sum() > 0):
    c = b
c["k"] = 5
return x * a["k"] + b["k"]
""",
    "one_of_two_equal_lists_after_a_loop": """
a = [1, 2]
b = [1, 2]
c = a
for i in range(x.size(0)):
    if bool(x[i].sum() > 0):
        c = b
c.append(3)
return x * len(a) + len(b)
""",
}


def source(body: str) -> str:
    return "def program(x: Tensor):\n    " + body.strip().replace("\n", "\n    ") + "\n"


def export(body: str) -> torch.onnx.ONNXProgram:
    program = torch.jit.CompilationUnit(source(body)).program
    exported = torch.onnx.export(
        program, (torch.ones(4, 3),), dynamo=True, verbose=False, dynamic_shapes=({0: "n"},)
    )
    assert exported is not None
    return exported


@pytest.mark.parametrize("name", RIGHT)
def test_right(name: str) -> None:
    running = session(export(RIGHT[name]))
    environment = {"torch": torch, "Tensor": torch.Tensor}
    exec(source(RIGHT[name]), environment)  # TorchScript itself shares equal lists
    numbers = torch.arange(12.0).view(4, 3).sin()
    for given in (numbers.abs(), -numbers.abs(), numbers, numbers[:2] + 0.5):
        wanted = torch.utils._pytree.tree_leaves(environment["program"](given.clone()))
        results = running.run(None, {running.get_inputs()[0].name: given.numpy()})
        assert_same([torch.from_numpy(result) for result in results], wanted)


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    with pytest.raises(torch.onnx.OnnxExporterError, match="unsupported"):
        export(REFUSED[name])
