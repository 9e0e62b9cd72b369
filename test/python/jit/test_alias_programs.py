"""Writes through views, in control flow and with out=: correct at all sizes, or an error."""

import pytest
import torch
from models.running import assert_same
from ops.checking import session

SIZES = ((3, 4), (5, 2), (4, 6))
# x and y have n rows and m columns; i is an integer.
STRAIGHT = {
    "mscatter": """
z = x * 1
z.t().masked_scatter_(z.t() > 0, y)
return z
""",
    "mscatter_dtype": """
z = x.to(torch.float64)
z[1:].masked_scatter_(z[1:] > 0, y.to(torch.float64))
return z
""",
    "scatter": """
z = x * 1
z[:, :2].scatter_(0, torch.zeros(1, 2, dtype=torch.int64), 9.0)
return z
""",
    "scatter_add": """
z = x * 1
z.t().scatter_add_(0, torch.zeros(2, 2, dtype=torch.int64), torch.ones(2, 2))
return z
""",
    "index_add": """
z = x * 1
z.t().index_add_(0, torch.tensor([0, 0]), y.t()[:2])
return z
""",
    "index_fill": """
z = x * 1
z[1:].index_fill_(1, torch.tensor([0]), 4.0)
return z
""",
    "index_copy": """
z = x * 1
z.t().index_copy_(0, torch.tensor([1, 0]), y.t()[:2])
return z
""",
    "swap_vals": """
z = x * 1
t = z[0].clone()
z[0] = z[1]
z[1] = t
return z
""",
    "swap_noclone": """
z = x * 1
t = z[0]
z[0] = z[1]
z[1] = t
return z
""",
    "swap_names": """
z = x * 1
w = y * 1
z, w = w, z
z.add_(1)
w.mul_(2)
return z, w
""",
    "overlap_copy": """
z = x * 1
z[1:] = z[:-1].clone()
return z
""",
    "self_add_t": """
z = x[:2, :2] * 1
z.add_(z.t().clone())
return z
""",
    "self_mul": """
z = x * 1
z[0].mul_(z[1])
z[1].sub_(z[0])
return z
""",
    "real": """
z = torch.complex(x, y)
z.real.add_(1)
return torch.view_as_real(z)
""",
    "imag": """
z = torch.complex(x, y)
v = z.imag
v[0] = 3
z.mul_(2)
return torch.view_as_real(z), v + 0
""",
    "var": """
z = torch.complex(x, y)
v = torch.view_as_real(z)
v[..., 0].neg_()
return torch.view_as_real(z * 1), v + 0
""",
    "vac": """
z = torch.stack([x, y], -1)
v = torch.view_as_complex(z)
v.mul_(2)
return z + 0
""",
    "vac2": """
z = torch.stack([x, y], -1)
v = torch.view_as_complex(z)
z[..., 1] = 0
return z + 0, torch.view_as_real(v * 1)
""",
    "cunfold": """
z = torch.complex(x, y)
v = z.view(-1).as_strided([2, 2], [1, 1])
v[0].mul_(2)
return torch.view_as_real(z * 1)
""",
    "cexpand": """
z = torch.complex(x, y)[0]
v = z.expand(1, z.size(0))
v.add_(1)
return torch.view_as_real(z * 1)
""",
    "cexpand2": """
z = torch.complex(x, y)[0] * 1
v = z.expand(3, -1)
v[1] = 2
return torch.view_as_real(z * 1)
""",
    "detach_": """
z = x * 1
v = z.detach_()
v.add_(1)
return z
""",
    "in_mut": """
x.add_(1)
return x * 2
""",
    "in_mut_view": """
x[0].add_(1)
x.t()[1].mul_(2)
return x + y
""",
    "in_mut_two": """
v = x.view(-1)
v[1:3] = y.view(-1)[1:3]
return x, v
""",
    "out_add": """
z = x * 1
torch.add(x, y, out=z)
return z
""",
    "out_view": """
z = x * 1
torch.add(x[0], y[0], out=z[1])
return z
""",
    "out_self": """
z = x * 1
torch.mul(z, y, out=z)
return z
""",
    "out_bool": """
z = torch.zeros_like(x, dtype=torch.bool)
torch.gt(x, y, out=z)
return z
""",
    "out_bool_f": """
z = torch.zeros_like(x)
torch.gt(x, y, out=z)
return z
""",
    "out_f2h": """
z = torch.zeros_like(x, dtype=torch.float16)
torch.mul(x, y, out=z)
return z
""",
    "out_f64": """
z = torch.zeros_like(x, dtype=torch.float64)
torch.add(x, y, out=z)
return z
""",
    "out_int": """
z = torch.zeros(2, dtype=torch.int32)
torch.add(torch.tensor([1, 2]), torch.tensor([3, 4]), out=z)
return z
""",
    "out_sum": """
z = torch.zeros(x.size(1))
torch.sum(x, 0, out=z)
return z
""",
    "out_cat": """
z = torch.zeros_like(x)
torch.cat([x[:1], y[1:]], out=z)
return z
""",
    "out_mm": """
z = torch.zeros(x.size(0), x.size(0))
torch.mm(x, y.t(), out=z)
return z
""",
    "out_resized": """
z = torch.zeros(0)
torch.add(x, y, out=z)
return z
""",
    "out_logical": """
z = torch.zeros_like(x, dtype=torch.bool)
torch.logical_and(x > 0, y > 0, out=z)
torch.logical_not(z, out=z)
return z
""",
    "out_boolsum": """
z = torch.zeros(x.size(1), dtype=torch.bool)
torch.any(x > 0, 0, out=z)
return z
""",
    "out_boolview": """
z = torch.zeros(2, 3, dtype=torch.bool)
torch.eq(torch.ones(3), torch.tensor([1.0, 0.0, 1.0]), out=z[1])
return z
""",
    "dropout_add": """
z = x * 1
v = torch.dropout(z, 0.5, False)
v.add_(1)
return z * 1, v * 1
""",
    "contig_write": """
z = x * 1
v = z.contiguous()
v.add_(1)
return z, v
""",
    "to_same": """
z = x * 1
v = z.to(torch.float32)
v.add_(1)
return z, v
""",
    "to_other": """
z = x * 1
v = z.to(torch.float64)
v.add_(1)
return z, v
""",
    "type_as": """
z = x * 1
v = z.type_as(y)
v.add_(1)
return z, v
""",
    "float": """
z = x * 1
v = z.float()
v.add_(1)
return z, v
""",
    "real_of_real": """
z = x * 1
v = torch.real(z)
v.add_(1)
return z, v
""",
    "conj_real": """
z = x * 1
v = z.conj()
v.add_(1)
return z, v
""",
    "pos": """
z = x * 1
v = torch.positive(z)
v.add_(1)
return z, v
""",
    "atleast": """
z = x * 1
v = torch.atleast_3d(z)
v[0].add_(1)
return z, v
""",
    "bt": """
z = x * 1
a, b = torch.broadcast_tensors(z, z[0])
a.add_(1)
return z, b + 0
""",
    "mesh": """
z = x[0] * 1
a, b = torch.meshgrid([z, z], indexing='ij')
z.add_(1)
return a + 0, b + 0
""",
    "hsplit": """
z = x * 1
a = torch.hsplit(z, [1])
a[1].add_(1)
return z
""",
    "ddim": """
z = x.view(1, x.size(0), x.size(1)) * 1
z.diagonal(0, 1, 2).fill_(0)
return z
""",
    "tril_": """
z = x * 1
z[:2, :2].tril_()
return z
""",
    "cumsum_": """
z = x * 1
z.t().cumsum_(0)
return z
""",
    "sort_out": """
z = x * 1
v = z.sort(1)[0]
v.add_(1)
return z, v
""",
    "lerp_": """
z = x * 1
z[1:].lerp_(y[1:], 0.3)
return z
""",
    "addcmul_": """
z = x * 1
z.t().addcmul_(y.t(), y.t(), value=2)
return z
""",
    "addmm_": """
z = x[:2, :2] * 1
w = z.t()
w.addmm_(y[:2], y[:2].t())
return z
""",
    "bernz": """
z = x * 1
z[z > 0] = 0
z[:, 0][z[:, 1] > 0] = 1
return z
""",
    "setrow": """
z = torch.zeros_like(x)
for j in range(2):
    z[j] = x[j] * j
return z
""",
    "chain": """
z = x * 1
a = z[1:]
b = a[:, 1:]
c = b.t()
c.add_(1)
a.mul_(2)
z.sub_(1)
return z + 0, a + 0, b + 0, c + 0
""",
    "ret_same": """
z = x * 1
w = z.add_(1)
w.mul_(2)
return z, w
""",
    "t_inplace": """
z = x * 1
v = z.view(-1)
z.t_()
v.add_(1)
return z, v
""",
    "unsq_alias": """
z = x * 1
w = z
z.unsqueeze_(0)
return w + 0, z.sum(0)
""",
    "squeeze_in": """
z = x.unsqueeze(0) * 1
v = z[0]
z.squeeze_(0)
z.add_(1)
return v, z
""",
    "int_div": """
z = (x * 10).to(torch.int32)
z[0].floor_divide_(2)
return z
""",
    "bool_or": """
z = x > 0
z[0] |= y[0] > 0
return z
""",
    "bool_write": """
z = x > 0
z.t()[0].logical_not_()
return z
""",
    "half_view": """
z = x.half()
z[1:].add_(1)
return z
""",
    "rolling": """
z = x * 1
for j in range(3):
    z[:, j % 2].add_(z[:, (j + 1) % 2])
return z
""",
    "copy_bcast": """
z = x * 1
z.copy_(y[0])
return z
""",
    "copy_t": """
z = x[:2, :2] * 1
z.copy_(z.t().clone())
return z
""",
    "copy_self_t": """
z = x[:2, :2] * 1
v = z.t()
z.copy_(y[:2, :2])
return z, v
""",
    "normal_list": """
z = x * 1
l = [z, z[0]]
l[1].add_(1)
return l[0], z
""",
    "zip_views": """
z = x * 1
for a, b in zip(z[:2].unbind(0), y[:2].unbind(0)):
    a.add_(b)
return z
""",
    "addr": """
z = x * 1
z += 1
z[0] += 1
z[:, 0] -= y[:, 0]
return z
""",
    "ipow": """
z = x * 1
z[0] **= 2
z[1] /= 2
return z
""",
    "where_in": """
z = x * 1
z[0] = torch.where(z[0] > 0, z[0], z[1])
return z
""",
    "expand_add": """
z = x[0] * 1
v = z.unsqueeze(0).expand(2, -1)
z.add_(1)
return v + 0
""",
    "expand_sel": """
z = x[0] * 1
v = z.unsqueeze(0).expand(2, -1)
v[0].add_(1)
return v + 0, z
""",
}
CONTROL_FLOW = {
    "if_view": """
z = x * 1
v = z[0]
if i > 2:
    v.add_(1)
else:
    z.mul_(2)
return z, v
""",
    "if_vv": """
z = x * 1
v = z[1:]
w = v.t()
if i > 2:
    w.add_(1)
    v.mul_(3)
return z, v, w
""",
    "if_t": """
z = x * 1
if i > 2:
    z.add_(1)
    z.t_()
else:
    z = z.t()
return z
""",
    "if_unsq": """
z = x * 1
w = z
if i > 2:
    z.unsqueeze_(0)
else:
    z.unsqueeze_(0)
return w + 0
""",
    "if_ret": """
z = x * 1
if i > 2:
    z = z.add_(1)
z.mul_(2)
return z
""",
    "loop_slice": """
z = torch.zeros_like(x)
for j in range(x.size(0)):
    z[j] = x[j] * j
return z
""",
    "loop_slice2": """
z = torch.zeros_like(x)
for j in range(1, x.size(0)):
    z[j, 1:] = z[j - 1, :-1] + x[j, 1:]
return z
""",
    "loop_view": """
z = x * 1
v = z[0]
for j in range(int(i)):
    v.add_(1)
return z, v
""",
    "loop_view2": """
z = x * 1
v = z.t()
for j in range(int(i)):
    z[0].add_(1)
return z, v
""",
    "loop_view4": """
z = x * 1
v = z[0]
for j in range(int(i)):
    v.add_(1)
    z.mul_(2)
return z, v
""",
    "loop_two": """
z = x * 1
w = y * 1
for j in range(int(i)):
    t = z
    z = w
    w = t
    z.add_(1)
return z, w
""",
    "loop_if": """
z = x * 1
for j in range(int(i)):
    if j > 0:
        z[j].add_(1)
    else:
        z[0].mul_(2)
return z
""",
    "loop_nest": """
z = x * 1
for j in range(x.size(0)):
    for k in range(x.size(1)):
        z[j, k] = z[j, k] + j * k
return z
""",
    "loop_t": """
z = x[:2, :2] * 1
for j in range(int(i)):
    z.t_()
return z
""",
    "while_write": """
z = x * 1
k = 0
while k < int(i):
    z[k].fill_(0)
    k += 1
return z
""",
    "in_loop": """
for j in range(int(i)):
    x[j].add_(1)
return x
""",
    "in_if": """
if i > 2:
    x.mul_(2)
return x + y
""",
    "dict_view": """
d = {'a': x * 1}
d['b'] = d['a'][0]
d['b'].add_(1)
return d['a']
""",
    "dict_loop": """
d = {'a': x * 1}
for j in range(int(i)):
    d['a'].add_(1)
return d['a']
""",
    "dict_loop2": """
d = {'a': x * 1}
w = d['a']
for j in range(int(i)):
    d['a'] = d['a'] + 1
    d['a'].add_(1)
return d['a'], w
""",
    "tuple_loop": """
s = (x * 1, y * 1)
for j in range(int(i)):
    s = (s[1], s[0] + 1)
return s[0], s[1]
""",
    "tuple_loop2": """
s = (x * 1, y * 1)
for j in range(int(i)):
    s[0].add_(1)
    s = (s[1], s[0])
return s[0], s[1]
""",
    "list_loop": """
l = [x * 1, y * 1]
for j in range(int(i)):
    l[0].add_(1)
    l[1] = l[0]
return l[0], l[1]
""",
    "copy_if": """
z = x * 1
v = z[1:]
if i > 2:
    v.copy_(y[1:])
return z
""",
    "is_same": """
z = x * 1
w = z
z += 1
return w
""",
    "aug_loop": """
z = x * 1
w = z
for j in range(int(i)):
    z += 1
return w, z
""",
    "aug_loop2": """
z = x * 1
w = z
for j in range(int(i)):
    z = z + 1
    z += 1
return w, z
""",
    "chunk_loop": """
z = x * 1
for c in z.chunk(2, 0):
    c.add_(1)
return z
""",
    "split_loop": """
z = x * 1
for c in z.split(1, 1):
    c.mul_(2)
return z
""",
    "unbind_loop": """
z = x * 1
for c in z.unbind(1):
    c.mul_(2)
return z
""",
    "unbind_if": """
z = x * 1
for c in z.unbind(0):
    if bool(c.sum() > 0):
        c.zero_()
return z
""",
    "row_if": """
z = x * 1
for j in range(z.size(0)):
    row = z[j]
    if bool(row.sum() > 0):
        row.fill_(1)
    else:
        z[j] = 0
return z
""",
    "nested_if": """
z = x * 1
v = z.t()
if i > 1:
    w = v[0]
    if i > 2:
        w.add_(1)
    else:
        z.mul_(2)
    v.add_(1)
return z, v
""",
    "early": """
z = x * 1
if i > 2:
    z.add_(1)
    return z
z.mul_(2)
return z
""",
    "break": """
z = x * 1
for j in range(x.size(0)):
    z[j].add_(1)
    if j >= int(i):
        break
return z
""",
    "out_loop": """
z = x * 1
for j in range(int(i)):
    torch.add(z, y, out=z)
return z
""",
    "out_if": """
z = x * 1
if i > 2:
    torch.mul(z[0], y[0], out=z[1])
return z
""",
}
REFUSED = {
    "if_view2": """
z = x * 1
if i > 2:
    v = z[0]
else:
    v = z[1]
v.add_(1)
return z
""",
    "if_view3": """
z = x * 1
if i > 2:
    v = z[0]
else:
    v = y[1]
z.add_(1)
return v + 0
""",
    "if_clone": """
z = x * 1
w = z
if i > 2:
    w = z.clone()
w.add_(1)
return z, w
""",
    "loop_view3": """
z = x * 1
v = z[0]
for j in range(int(i)):
    v = v + 1
    z.add_(1)
return z, v
""",
    "loop_first": """
z = x * 1
v = z
for j in range(int(i)):
    v.add_(1)
    v = v * 2
return z, v
""",
    "loop_move": """
z = x * 1
v = z[0]
for j in range(int(i)):
    v.add_(1)
    v = z[j]
return z, v
""",
    "loop_reshape": """
z = x * 1
for j in range(int(i)):
    z = z.view(-1)
    z.add_(1)
return z
""",
    "list_loop2": """
l = [x * 1, y * 1]
for j in range(int(i)):
    l[j % 2].add_(1)
return l[0], l[1]
""",
    "list_idx": """
l = [x * 1, y * 1]
l[int(i) % 2].add_(1)
return l[0], l[1]
""",
    "list_idx2": """
l = [x * 1, y * 1]
v = l[int(i) % 2]
l[0].add_(1)
return v + 0
""",
    "aug_if": """
z = x * 1
w = z
if i > 2:
    z += 1
else:
    z = z + 2
z += 1
return w, z
""",
    "set_if": """
z = x * 1
if i > 2:
    z.set_(y)
return z
""",
    "resize_if": """
z = x * 1
if i > 2:
    z.resize_(2, 2)
else:
    z.resize_(2, 2)
return z
""",
}


def source(body: str, name: str = "program") -> str:
    lines = body.strip().replace("\n", "\n    ")
    return f"def {name}(x: Tensor, y: Tensor, i: Tensor):\n    {lines}\n"


def inputs(size: tuple[int, int]) -> tuple[torch.Tensor, ...]:
    numbers = torch.arange(float(size[0] * size[1])).view(size)
    return (numbers * 0.7).sin(), (numbers * 0.3 + 1).cos(), torch.tensor(size[0] - 2)


def export(program: torch.jit.ScriptFunction) -> torch.onnx.ONNXProgram:
    sizes = {0: "n", 1: "m"}
    exported = torch.onnx.export(
        program,
        inputs(SIZES[0]),
        dynamo=True,
        verbose=False,
        dynamic_shapes=(sizes, sizes, None),
    )
    assert exported is not None
    return exported


def clones(tensors: tuple[torch.Tensor, ...]) -> list[torch.Tensor]:
    return [tensor.clone() for tensor in tensors]


@pytest.mark.parametrize("name", [*STRAIGHT, *CONTROL_FLOW])
def test_scripted(name: str) -> None:
    program = torch.jit.CompilationUnit(source({**STRAIGHT, **CONTROL_FLOW}[name])).program
    running = session(export(program))
    for size in SIZES:
        given = dict(zip(("x", "y", "i"), inputs(size), strict=True))
        wanted = torch.utils._pytree.tree_leaves(program(*clones(inputs(size))))
        names = [argument.name for argument in running.get_inputs()]
        results = running.run(None, {name: given[name].numpy() for name in names})
        assert_same([torch.from_numpy(result) for result in results], wanted)


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    program = torch.jit.CompilationUnit(source(REFUSED[name])).program
    with pytest.raises(torch.onnx.OnnxExporterError, match="unsupported"):
        export(program)
