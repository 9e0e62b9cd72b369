"""Reduced programs that the storm found: correct by every route at three sizes."""

import pytest
import torch
from storm.program import Input, Program
from storm.routes import REFUSED, RIGHT, Capture, judge
from storm.worker import judged

SIZES = [{"n": 3}, {"n": 1}, {"n": 5}]
MATRIX = Input("x", "float32", ["n", 4])
COMPLEX = Input("x", "complex64", ["n", 2])


def program(result, *inputs, **options):
    return Program(list(inputs), [], [], [result], SIZES, **options)


FOUND = {
    "cosine similarity with a number": program(
        "torch.cosine_similarity(x, y)", Input("x", "float32", ["n", 2]), Input("y", "float32", [])
    ),
    "cosine similarity of one column": program(
        "torch.cosine_similarity(x, y, dim=-1)",
        Input("x", "float32", ["n", 4]),
        Input("y", "float32", ["n", 1]),
    ),
    "cosine similarity of fewer dimensions": program(
        "torch.cosine_similarity(y, x, dim=1)",
        Input("x", "float32", [2, 3, "n"]),
        Input("y", "float32", ["n"]),
    ),
    "inverse of unique of what may be empty": program(
        "torch.unique(x[:-1].transpose(0, 1), return_inverse=True)[1]", MATRIX
    ),
    "extremes of no elements at run time": Program(
        [MATRIX],
        [],
        ["y = x[:, x[0] > 99]", "z = y.reshape(x.size(0), 1, -1)"],
        ["torch.cummax(z, 1)[0]", "torch.cumprod(z, 1)", "torch.logcumsumexp(z, 1)"],
        SIZES,
        routes=("native", "traced", "scripted"),
    ),
    "contraction of a size that may be 1": program(
        "torch.tensordot(torch.ones(4), x[:1], dims=1) + torch.einsum('i,ij->j', x[:, 0], x)",
        MATRIX,
    ),
    "ravel copies what is expanded": Program(
        [Input("x", "float32", [])],
        [],
        ["y = x.expand(3)", "z = y.ravel()", "x.mul_(2)"],
        ["z", "x"],
        [{}] * 3,
    ),
    "median of no elements": program("torch.median(x[2:]), torch.nanmedian(x[3:, 1])", MATRIX),
    "cosine similarity in half precision with a float": program(
        "0 * torch.cosine_similarity(x, y, dim=-1)",
        Input("x", "float16", [2]),
        Input("y", "float32", []),
    ),
    "minimum of no rows of integers": program(
        "torch.min(x[:0], dim=-1, keepdim=True)[0], torch.max(x[:0], dim=1)[0]",
        Input("x", "int64", ["n", 8]),
    ),
    "sum to a size that may be 1": Program(
        [Input("x", "float32", ["n"])],
        [],
        ["y = x[x >= -3]", "z = y.sum_to_size(y[:1].shape)"],
        ["z", "x.sum_to_size(x[:1].shape)"],
        SIZES,
        routes=("traced", "scripted"),
    ),
    "angle of a product with a negative number": Program(
        [Input("x", "float32", ["n", 2], 1, 3)],
        [],
        ["z = torch.complex(x, x - x)"],
        [f"torch.angle({product})" for product in ("-3 * z", "-x * z", "z * -x[0, 0]", "2 * z")],
        SIZES,
    ),
    "axes of a tensor that resolve_neg returns": Program(
        [MATRIX],
        [],
        ["y = x.resolve_neg()", "y.unsqueeze_(1)", "z = x.resolve_conj()", "z.unsqueeze_(0)"],
        ["x.sum(-2)"],
        SIZES,
        routes=("traced", "scripted"),
    ),
    "products of an empty batch": program(
        "torch.matmul(x, y), torch.matmul(z, y)",
        *(Input("x", "bool", [2]), Input("y", "bool", [0, 2, 2]), Input("z", "bool", [1, 2, 2])),
    ),
    "as_strided of a tensor that was squeezed in place": Program(
        [Input("x", "float32", [4, 2])],
        ["self.l0 = nn.AdaptiveMaxPool1d(1)"],
        ["y = self.l0(x)", "y.squeeze_()", "z = torch.as_strided(y, (2,), (2,))"],
        ["z", "y"],
        [{}] * 3,
    ),
    "product of no elements of two dtypes": Program(
        [Input("x", "float32", [0, 1]), Input("y", "int64", [4, 1, 1])],
        [],
        [],
        ["x @ y"],
        [{}] * 3,
        routes=("traced", "scripted"),
    ),
    "contraction of no elements before einsum exists": Program(
        [Input("x", "float32", ["n"])],
        [],
        ["y = x[x > 99]", "z = y.unsqueeze(1)"],
        ["torch.einsum('i,i', y, y)", "torch.einsum('ij,ik->jk', z, z)"],
        SIZES,
        opset=11,
    ),
    "filling and normalizing no elements": program(
        "x.index_fill(-3, torch.tensor(0), 0), F.layer_norm(y, [0]), F.layer_norm(x, [0, 1])",
        *(Input("x", "float32", [0, 0, 1]), Input("y", "float32", [2, 0])),
    ),
    "recurrent networks over what may be empty": Program(
        [Input("x", "float32", [3, "n", 4])],
        ["self.l0 = nn.LSTM(4, 2, num_layers=2)", "self.l1 = nn.GRU(4, 2, bidirectional=True)"],
        ["y, (h, c) = self.l0(x[:, 1:])", "z, g = self.l1(x[:, 1:])"],
        ["y", "h", "c", "z", "g"],
        SIZES,
    ),
    "attention with heads of dynamic size in a branch": program(
        "F.local_response_norm(F.scaled_dot_product_attention(x, x, x), 2)",
        Input("x", "float32", [4, 2, "n"]),
        opset=23,
    ),
    "log gamma at its zeros": program(
        "torch.lgamma(x.round()) == 0", Input("x", "float64", ["n", 9], 1, 2)
    ),
    "log gamma around its zeros": program(
        "torch.lgamma(1 + 1e-9 * x) * 1e9, torch.lgamma(2 - 1e-9 * x) * 1e9",
        Input("x", "float64", ["n", 9]),
    ),
    "log gamma": program("torch.lgamma(x * 4)", Input("x", "float64", ["n", 99], -9, 9)),
    "writes by an index that may have no elements": Program(
        [Input("x", "float32", [4, "n"])],
        [],
        ["y = torch.stack([x[:, -1:1, None]])"],
        ["torch.scatter(y, 3, y.permute(-1, 1, 0, 2).long(), 7)"],
        SIZES,
        routes=("scripted", "native"),
    ),
    "branches whose condition is the sum of no integers": Program(
        [Input("x", "float32", ["n"]), Input("y", "int64", [1, 2, 0])],
        [],
        [
            "z = x * 2 if bool(x.mean() > 0) else x - 1",
            "for k in range(2):",
            "    if bool(y[:, k].sum() > 0):",
            "        z = z + 1",
        ],
        ["z"],
        SIZES,
        routes=("native",),
    ),
    "product with an empty vector": Program(
        [MATRIX],
        [],
        ["i = (x[0] > 99).nonzero().squeeze(1)", "y = x[:, i]"],
        ["y @ x[0, i]", "torch.mv(y, y[0])", "torch.addmv(x[:, 0], y, y[0])"],
        SIZES,
    ),
    "reshape of what may be empty": program(
        "(x[1:] * 2).transpose(0, 1).reshape(2, x.size(0) - 1, 2)", MATRIX
    ),
    "norms of no elements": Program(
        [Input("x", "float32", [2, 0]), Input("y", "float32", ["n", 2, 0])],
        ["self.norm = nn.InstanceNorm1d(2, affine=True)"],
        ["a = F.batch_norm(x, torch.zeros(1), torch.ones(1))", "b = F.instance_norm(y)"],
        ["a", "b", "self.norm(y)", "F.group_norm(y, 2)"],
        SIZES,
        routes=("fx", "pt2", "scripted"),
    ),
    "recurrences of an empty batch": Program(
        [Input("x", "float32", [2, 0, 3])],
        ["self.gru = nn.GRU(3, 2, num_layers=2)", "self.lstm = nn.LSTM(3, 2, bidirectional=True)"],
        ["a, b = self.gru(x)", "c, (d, e) = self.lstm(x)"],
        ["a", "b", "c", "d", "e"],
        SIZES,
    ),
    "pools into no elements": Program(
        [Input("x", "float32", ["n", 2, 1])],
        [],
        ["a = F.interpolate(x, scale_factor=0.5, mode='area')", "b = F.adaptive_max_pool1d(x, 0)"],
        ["a", "b", "F.adaptive_avg_pool2d(x, (0, 1))"],
        SIZES,
    ),
    "binary cross entropy with a target of another dtype": Program(
        [Input("x", "float32", ["n"]), Input("y", "float16", ["n"])],
        [],
        ["a = F.binary_cross_entropy_with_logits(x, (y > 0).half(), reduction='none')"],
        ["a * 0"],
        SIZES,
        routes=("fx", "pt2", "traced", "scripted"),
    ),
    "losses of two dtypes": Program(
        [Input("x", "float16", ["n"]), Input("y", "float32", ["n"])],
        [],
        ["a = F.huber_loss(x, y)", "b = F.soft_margin_loss(x, y, reduction='none')"],
        ["a * 0", "b * 0"],
        SIZES,
        routes=("traced", "scripted"),  # torch.export records another dtype than eager returns
    ),
    "transposed convolution into no elements": Program(
        [Input("x", "float32", [4, 16, 2])],
        ["self.layer = nn.ConvTranspose2d(4, 2, 1, padding=1, groups=2, dilation=2)"],
        [],
        ["self.layer(x)"],
        SIZES,
    ),
    "softmax of no integers": program("torch.softmax(x, dim=0)", Input("x", "int64", [0])),
    "softmax of selected integers": program(
        "torch.softmax(x[x > 99], dim=0), torch.log_softmax(x[x > 99] * 2, 0)",
        Input("x", "int64", ["n"]),
    ),
    "running sum of a size that is hard to bound": Program(
        [Input("x", "float32", [4, "n"])],
        [],
        ["a = torch.kron(x[2, -2:], x)"],
        ["torch.logcumsumexp(a, 1)"],
        SIZES,
        routes=("traced", "scripted"),  # torch.export makes the size static
    ),
    "reshape of a resized tensor": Program(
        [Input("x", "float32", []), Input("y", "float32", [1, 5, 1])],
        [],
        ["a = torch.empty(x.shape)", "torch.add(x, y, out=a)"],
        ["a.reshape(a.size(0), 1, a.size(1) * a.size(2))"],
        SIZES,
        routes=("fx", "pt2", "traced"),
    ),
    "real tensors like complex ones": program(
        "torch.ones_like(x, dtype=torch.float32) + x.new_zeros(2, dtype=torch.float32)", COMPLEX
    ),
    "integers like complex ones": program(
        "torch.full_like(x, 3, dtype=torch.int64) + torch.zeros_like(x, dtype=torch.int64)", COMPLEX
    ),
    "empty integers divided by an integer of the program": program(
        "y // k, y % k, torch.fmod(y, k)",
        Input("y", "int64", [0, "n"]),
        Input("k", "int64", [], 0, 0),
    ),
    "empty integers divided by one element": program(
        "y // k, y % k, torch.fmod(k, y), y // k.sum()",
        Input("y", "int64", [0, 2]),
        Input("k", "int64", [1], 0, 0),
    ),
    "empty integers divided by more dimensions": program(
        "y % k, torch.div(y, k, rounding_mode='trunc'), y // k[0], torch.fmod(k.int(), y.short())",
        Input("y", "int64", [0]),
        Input("k", "int64", [3, 1], 0, 0),
    ),
    "differences of several dtypes": program(
        "torch.diff(x, prepend=y, dim=0), torch.diff(y, append=x, dim=0), "
        "torch.diff(x, 2, 0, x, y), torch.diff(y.half(), prepend=y, dim=0)",
        Input("x", "bool", ["n", 2]),
        Input("y", "int64", [3, 2]),
    ),
    "empty integers divided by 0": program(
        "torch.div(x.nonzero(), 0, rounding_mode='trunc'), x.nonzero() // 0, x.nonzero() % 0, "
        "torch.fmod(x.nonzero().int(), torch.tensor([0, 2])), x.nonzero().to(torch.int8) // 0",
        Input("x", "float32", ["n"], 0, 0),
    ),
}


for _name, _dtype in (("float32", "complex64"), ("complex64", "complex64"), ("int64", "int32")):
    FOUND[f"out= of {_dtype} from lists of {_name}"] = Program(
        [Input("x", _name, ["n", 2])],
        [],
        [
            f"y = torch.empty(0, dtype=torch.{_dtype})",
            "torch.stack([x, x], out=y)",
            f"z = torch.empty(0, dtype=torch.{_dtype})",
            "torch.cat([x, x], out=z)",
        ],
        ["y", "z"],
        SIZES,
    )


@pytest.mark.parametrize("name", FOUND)
def test_found_program(name):
    with Capture() as capture:
        for route in FOUND[name].routes:
            outcome = judge(FOUND[name], route, capture)
            assert outcome.verdict == RIGHT, f"{route}: {outcome.verdict}: {outcome.message}"


NESTED = """\
if bool(x[0] > 1):
    y = torch.sin(x)
elif bool(x[1] > {number}):
    y = {result}
else:
    y = x - 1"""


@pytest.mark.parametrize(
    ("result", "write", "verdict"),
    [
        ("x", "x.fill_(1.0)", REFUSED),
        ("x[:2]", "y.fill_(1.0)", REFUSED),
        ("x * 2", "x.fill_(1.0)", RIGHT),
    ],
)
def test_results_of_nested_branches_share_memory(result, write, verdict):
    made = Program(
        [Input("x", "float32", [4])],
        [],
        [NESTED.format(number=-9, result=result), write],
        ["x", "y"],
        [{}] * 3,
        routes=("scripted",),
    )
    outcome = judged(made, "scripted")
    assert outcome.verdict == verdict, outcome.message
    if verdict == REFUSED:
        assert "it is data-dependent whether" in outcome.message


@pytest.mark.parametrize("copy", ["contiguous()", "reshape(-1)"])
def test_copies_of_results_of_branches(copy):
    """Whether they share memory depends on the branch that runs."""
    branches = ["y = x.permute(1, 0)", "if x[0, 0] > 0:\n    z = y\nelse:\n    z = y + 2"]
    body = [*branches, f"w = z.{copy}", "w.exp_()"]
    made = Program([MATRIX], [], body, ["z", "w"], SIZES, routes=("scripted",))
    outcome = judged(made, "scripted")
    assert outcome.verdict == REFUSED, outcome
    assert "made a copy depends on unknown strides" in outcome.message


def test_resized_out_argument_with_a_view():
    scalar, vector = Input("y", "float32", []), Input("x", "float32", [2])
    out = Input("z", "float32", [])
    made = program("v", vector, scalar, out)
    made.body = ["v = z.reshape(1)", "torch.add(x, y, out=z)"]
    with Capture() as capture:
        for route in ("traced", "scripted"):
            outcome = judge(made, route, capture)
            assert outcome.verdict == REFUSED, outcome
            assert "is resized" in outcome.message


@pytest.mark.parametrize("route", ["fx", "pt2", "decomposed", "native", "traced", "scripted"])
def test_written_view_of_another_shape(route):
    """Decomposed programs record the view's shape for the written tensor."""
    sizes = [{"n": 2}, {"n": 4}, {"n": 6}]
    made = Program([MATRIX], [], ["y = x.reshape(2, -1)", "y.copy_(y * 2)"], ["x", "y"], sizes)
    with Capture() as capture:
        judge(made, "fx", capture)
        assert judge(made, route, capture).verdict == RIGHT


@pytest.mark.parametrize("rows", ["-2:3", "-3:2", ":3", "-3:", "1:4:2"])
def test_written_slice_beside_vmap(rows):
    """torch.export decomposes programs with vmap and simplifies the sizes of their slices."""
    body = ["y = x * 2", "torch.vmap(torch.abs)(x)", f"y[{rows}] /= -3"]
    made = Program([MATRIX], [], body, ["y"], [{"n": 4}, {"n": 5}, {"n": 3}])
    with Capture() as capture:
        outcome = judge(made, "fx", capture)
    assert outcome.verdict == RIGHT, outcome


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8", "int8"])
@pytest.mark.parametrize("route", ["fx", "pt2", "native", "traced", "scripted"])
def test_integers_that_are_empty_at_run_time(dtype, route):
    """Divided by zeros, which ONNX Runtime refuses also if nothing is divided."""
    inputs = [Input("x", dtype, ["n", 2], 1, 4), Input("y", dtype, ["n"], 1, 4)]
    results = [
        *("x % y.sum().to(x.dtype)", "x // y.sum()", "torch.fmod(x, x.sum(0).to(x.dtype))"),
        *("x % x.sum(0, keepdim=True).unsqueeze(0)", "x % x.size(0)", "x // y[:, None]"),
    ]
    sizes = [{"n": 3}, {"n": 0}, {"n": 5}]
    with Capture() as capture:
        judge(Program(inputs, [], [], results, sizes), "fx", capture)
        outcome = judge(Program(inputs, [], [], results, sizes), route, capture)
    assert outcome.verdict == RIGHT, outcome


@pytest.mark.parametrize("power", ["x ** True", "torch.pow(x, True)", "x.pow(False)"])
def test_powers_of_bools(power):
    """torch.export records int64 for them."""
    made = program(power, Input("x", "bool", ["n"]))
    with Capture() as capture:
        outcome = judge(made, "fx", capture)
    assert outcome.verdict == REFUSED, outcome
    assert "in eager it is bool" in outcome.message


EVERY_ROUTE = ["fx", "pt2", "native", "traced", "scripted"]


@pytest.mark.parametrize("route", EVERY_ROUTE)
@pytest.mark.parametrize(
    "results",
    [
        ["einsum('ij,ij->i', x[:, :0], x[:, :0])", "einsum('ij,kj->ik', x[:, :0], x[:, :0])"],
        ["einsum('ij,kl', x[:, :0], x)", "einsum('ij->ji', x[:, :0])"],
        ["einsum('ij,ik->jk', x[:0].long(), x[:0].long())", "einsum('ij,ij', x[:0], x[:0])"],
    ],
)
@pytest.mark.parametrize("opset", [11, 20])
def test_products_without_elements(results, opset, route):
    """ONNX Runtime's Einsum divides by the size of an axis."""
    results = [text.replace("einsum", "torch.einsum") for text in results]
    made = Program([MATRIX], [], [], results, SIZES, opset=opset)
    outcome = judged(made, route)
    assert outcome.verdict == RIGHT, outcome


@pytest.mark.parametrize("route", EVERY_ROUTE)
@pytest.mark.parametrize(
    "result",
    [
        "x[:1, :2].expand_as(z)",
        "x[:, :2].reshape_as(z) * 2",
        "x[:, :2].contiguous().view_as(z)",
        "torch.gather(z, 0, i)",
        "torch.index_select(z, 0, i[0])",
    ],
)
def test_results_with_the_dtype_of_self(result, route):
    """The other operands may be complex, or self alone."""
    inputs = [MATRIX, Input("z", "complex64", ["n", 2]), Input("i", "int64", ["n", 2], 0, 0)]
    made = Program(inputs, [], [], [result], SIZES)
    outcome = judged(made, route)
    assert outcome.verdict == RIGHT, outcome


@pytest.mark.parametrize("route", ["traced", "scripted"])
@pytest.mark.parametrize("call", ["gather(z, 0, i, out=y)", "index_select(z, 0, i[0], out=y)"])
def test_complex_out_arguments(call, route):
    inputs = [Input("z", "complex64", ["n", 2]), Input("i", "int64", ["n", 2], 0, 0)]
    body = ["y = torch.empty(0, dtype=torch.complex64)", f"torch.{call}"]
    with Capture() as capture:
        outcome = judge(Program(inputs, [], body, ["y"], SIZES), route, capture)
    assert outcome.verdict == RIGHT, outcome


@pytest.mark.parametrize("route", EVERY_ROUTE)
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_sign_of_a_loss_of_zero(reduction, route):
    loss = f"F.nll_loss(x * 0, i, reduction='{reduction}')"
    inputs = [MATRIX, Input("i", "int64", ["n"], 0, 3)]
    made = Program(inputs, [], [], [f"torch.copysign(torch.ones(()), {loss})"], SIZES)
    outcome = judged(made, route)
    assert outcome.verdict == RIGHT, outcome


@pytest.mark.parametrize("route", EVERY_ROUTE)
def test_write_between_a_sum_to_size_and_its_use(route):
    body = ["y = x * 2", "z = y.sum_to_size(y[:1].shape)", "y[:] = 7"]
    made = Program([Input("x", "float32", ["n", 4])], [], body, ["z", "y"], SIZES)
    made.sizes = [{"n": 4}, {"n": 4}, {"n": 3}]
    outcome = judged(made, route)
    assert outcome.verdict == RIGHT, outcome


@pytest.mark.parametrize("route", EVERY_ROUTE)
def test_write_to_a_sum_of_small_integers(route):
    body = ["y = x.sum_to_size(x[:1].shape)", "y[:] = y * 2"]
    made = Program(
        [Input("x", "int8", ["n"])], [], body, ["x", "y"], [{"n": 2}, {"n": 2}, {"n": 3}]
    )
    outcome = judged(made, route)
    assert outcome.verdict == RIGHT, outcome


def test_transforms_are_left_when_a_capture_fails():
    """PyTorch cannot trace a resized out= argument in a program with torch.vmap again."""
    body = ["y = torch.empty(0)", "torch.add(x, x, out=y)"]
    made = Program([MATRIX], [], body, ["torch.vmap(lambda v: v - v.amax())(y)"], SIZES)
    with Capture() as capture:
        assert judge(made, "fx", capture).verdict == REFUSED
    torch.rand(2)  # an error in a transform


@pytest.mark.parametrize("route", EVERY_ROUTE)
@pytest.mark.parametrize(
    "body",
    [
        ["y = x[:1]", "z = torch.as_strided(y, (2,), (1,))"],
        ["y = x[0, 1:2]", "z = y.as_strided((2, 1), (1, 1))"],
        ["y = x[0, :1] * 2", "z = y.as_strided((1, 1), (1, 1))"],
        ["y = x * 2", "z = y[:, 1:].as_strided((1, 4), (4, 1), 0)", "z.mul_(3)"],
        ["y = torch.complex(x, -x)", "z = y[:1].as_strided((2, 2), (2, 1)).abs()"],
    ],
)
def test_as_strided_beyond_a_view(body, route):
    """It reads the storage of the view, which may have more elements."""
    made = Program(
        [Input("x", "float32", ["n", 4])],
        [],
        body,
        ["y.abs()", "z", "z.reshape(-1) + 1", "x.new_ones(z.size(0))"],
        SIZES,
    )
    outcome = judged(made, route)
    assert outcome.verdict == RIGHT, outcome


@pytest.mark.parametrize("route", ["traced", "scripted"])
def test_contents_behind_a_view(route):
    """A size read from as_strided of a view of a constant is that of the storage."""
    body = ["y = torch.tensor([7, 2, 6, 5])[1:3]", "z = y.as_strided((2,), (1,), 0)"]
    made = Program([MATRIX], [], body, ["z", "x.flatten()[int(z[1]) :]"], SIZES)
    outcome = judged(made, route)
    assert outcome.verdict == RIGHT, outcome


@pytest.mark.parametrize("route", ["fx", "pt2", "traced", "scripted"])
@pytest.mark.parametrize("before", ["x", "x.int()", "x.double()"])
def test_complex_dtype_of_an_operator_without_complex_lowering(before, route):
    made = Program([MATRIX], [], [], [f"{before}.cumprod(0, dtype=torch.complex64)"], SIZES)
    outcome = judged(made, route)
    assert outcome.verdict == REFUSED, outcome
    assert "cumprod has no ONNX lowering for complex tensors" in outcome.message


@pytest.mark.parametrize("route", EVERY_ROUTE)
@pytest.mark.parametrize(
    ("inits", "result"),
    [
        (["self.l = nn.GroupNorm(2, 4)"], "self.l(x[2:].transpose(1, 2))"),
        (["self.l = nn.InstanceNorm1d(4)"], "self.l(x[2:].transpose(1, 2))"),
        ([], "torch.ones(4) @ x[2:].transpose(1, 2)"),
        ([], "x[2:] @ torch.ones(4)"),
        ([], "torch.ones(5, 4) @ x[2:].transpose(1, 2)"),
        ([], "torch.ones(1, 5, 4) @ x[2:].transpose(1, 2)"),
        ([], "x[2:] @ torch.ones(1, 4, 2)"),
        ([], "x[2:, None] @ torch.ones(5, 4, 2)"),
        (["self.l = nn.GroupNorm(1, 4)"], "self.l(x[: x.size(0) // 3].transpose(1, 2))"),
        (["self.l = nn.AdaptiveAvgPool1d(1)"], "self.l(x[2:])"),
        (["self.l = nn.AdaptiveAvgPool1d(2)"], "self.l(x[2:])"),
        ([], "F.layer_norm(x[2:], (x.size(0) - 2, 3, 4))"),
        ([], "x[2:].sum_to_size(x[2:3].shape)"),
        ([], "torch.fft.fft(x[2:], n=3, dim=0).abs()"),
    ],
)
def test_slices_of_no_rows(inits, result, route):
    """ONNX Runtime crashes or fails where eager gives results that are empty or zeros."""
    data = Input("x", "float32", ["n", 3, 4])
    made = Program([data], inits, [], [result], [{"n": 4}, {"n": 2}, {"n": 3}])
    outcome = judged(made, route)
    assert outcome.verdict == RIGHT, outcome


@pytest.mark.parametrize("route", EVERY_ROUTE)
@pytest.mark.parametrize("dtype", ["float32", "int64", "int32", "int16", "uint8"])
def test_medians_of_no_elements(dtype, route):
    made = Program(
        *([Input("x", dtype, ["n", 4])], [], ["y = x[2:]"]),
        ["y.median()", "x[:0].median()", "torch.masked_select(x, x != x).median()"],
        [{"n": 4}, {"n": 2}, {"n": 3}],
    )
    outcome = judged(made, route)
    assert outcome.verdict == RIGHT, outcome


@pytest.mark.parametrize("route", ["fx", "pt2", "traced", "scripted"])
def test_updates_of_an_input_that_is_reshaped_in_place(route):
    """The caller sees the updated input in its new shape."""
    data = Input("x", "float32", [3, 4])
    made = Program([data], [], ["x.swapaxes_(0, 1)", "x.mul_(2)"], ["x[0]"], [{}] * 3)
    made.state = True
    outcome = judged(made, route)
    assert outcome.verdict == RIGHT, outcome


@pytest.mark.parametrize("route", ["traced", "scripted"])
def test_sizes_of_reversed_slices(route):
    """A slice has 0 or 1 rows, so a reversed one has no other number."""
    made = Program(
        *([Input("x", "float32", ["n", 4])], [], ["y = x[-2:2:2]"], ["torch.flip(y, [0])"]),
        [{"n": 4}, {"n": 3}, {"n": 2}],
    )
    outcome = judged(made, route)
    assert outcome.verdict == RIGHT, outcome


@pytest.mark.parametrize("route", ["traced", "scripted"])
def test_negative_repeats_of_no_elements(route):
    data = Input("x", "float32", ["n", 4])
    made = Program([data], [], [], ["x[:0, 0].repeat(2, x.size(1) - 5)"], SIZES)
    outcome = judged(made, route)
    assert outcome.verdict == RIGHT, outcome


@pytest.mark.parametrize("route", ["fx", "pt2", "traced", "scripted"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "bool"])
def test_complex_number_written_to_a_real_tensor(dtype, route):
    """Eager refuses numbers whose imaginary part is lost."""
    body = ["y = x.clone()", "z = torch.complex(x.sum().float(), torch.zeros(()))", "y[x != 0] = z"]
    made = Program([Input("x", dtype, ["n", 4])], [], body, ["y"], SIZES)
    outcome = judged(made, route)
    assert outcome.verdict == RIGHT, outcome


@pytest.mark.parametrize("route", ["fx", "pt2", "traced", "scripted"])
def test_complex_number_written_to_a_tensor_of_truths(route):
    inputs = [Input("x", "bool", ["n", 4]), Input("z", "complex64", [])]
    made = Program(inputs, [], ["y = x.clone()", "y[x] = z"], ["y"], SIZES)
    outcome = judged(made, route)
    assert outcome.verdict == RIGHT, outcome


def test_write_to_what_nested_branches_pass_on():
    """The second branch passes on a result of the first one, which may be the input."""
    first = "if k > 0:\n    y = x\nelse:\n    y = x + 1"
    second = "if k > 1:\n    z = y\nelse:\n    z = y * 2"
    inputs = [Input("x", "float32", ["n", 4]), Input("k", "float32", [])]
    made = Program(inputs, [], [first, second, "z[:] = 1.0"], ["x * 1"], SIZES)
    outcome = judged(made, "scripted")
    assert outcome.verdict == REFUSED, outcome


def test_nested_branch_on_the_sum_of_no_elements():
    """ONNX Runtime loses results of a branch in a branch whose condition it folds."""
    inputs = [Input("x", "float32", ["n"]), Input("none", "float32", [2, 0])]
    inner = "if none[0].sum() > 0:\n        y = x\n    else:\n        y = torch.ones(7)"
    body = [f"if x.sum() > 0:\n    {inner}\nelse:\n    y = x + 1"]
    made = Program(inputs, [], body, ["y"], SIZES)
    outcome = judged(made, "native")
    assert outcome.verdict == RIGHT, outcome
