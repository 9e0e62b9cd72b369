"""Python's own arithmetic, lists, strings and loops on a number that inputs decide.

The number is a count of elements, for which TorchScript stands in for the native capture, or a
dynamic size. Each program is right or refused.
"""

from __future__ import annotations

import pytest
from storm.program import Input, Program
from storm.routes import ASIDE, CAPTURE, REFUSED, RIGHT, ROUNDED
from storm.worker import judged

NUMBERS = {
    "count": "k = 0\nfor i in range(x.size(0)):\n    if bool(x[i] > 0):\n        k += 1",
    "size": "k = x.size(0)",
}
# Each makes `r` of the number `k` and the vector `x`.
STATEMENTS = (
    "k = k or 5; r = x * k",
    "k = k and 5; r = x * k",
    """
p = k or 3
q = p + 1
r = x[:1] * q
    """,
    "f = round(k / 2); r = x * f",
    "f = round(k + 0.5); r = x + f",
    "a = x.sum(); b = x.max(); r = x * max(a, b)",
    "r = x * min(x.sum(), x.min())",
    "l = [1, 2]; m = l; l += [k]; r = x * len(m)",
    "l = [1, 2]; m = l; l = l + [k]; r = x * len(m)",
    "l = [k, 2] * 2; r = x * l[2]",
    "l = [k, 2]; m = l; l *= 2; r = x * len(m)",
    "r = x * (k ** 2)",
    "r = x * 2.0 ** k",
    "r = x * k ** -0.5",
    "r = x * (k ** (k - 1))",
    "r = x * (k ** -1)",
    "r = x * (2 ** -k)",
    "r = x * ((k - 3) // 2)",
    "r = x * ((k - 7) % 3)",
    "r = x * ((k - 7.5) % 2)",
    "a, b = divmod(k - 7, 3); r = x * a + b",
    "r = x + int((k - 3) / 2)",
    "r = x * abs(k - 3)",
    "r = x * (1 if 0 < k < 3 else 2)",
    """
o = None if k > 2 else x
r = x if o is None else x * 2
    """,
    "l = [1, 2, 3, k]; m = l[::-1]; r = x * m[0]",
    "l = [1, 2, 3, 4]; l[1:3] = [k]; r = x * len(l)",
    "l = [1, 2, k]; del l[0]; r = x * l[1]",
    "l = [1, 2]; l.insert(0, k); r = x * l[0]",
    "l = [1, 2]; l.insert(-1, k); r = x * l[1]",
    "l = [1, 2, k]; a = l.pop(-2); r = x * a * len(l)",
    "l = [1, k]; l.extend(l); r = x * len(l)",
    "l = [1, k, 7]; r = x * l.index(7)",
    "l = [1, k, 1]; r = x * l.count(1)",
    "l = [1, 2, 3]; l[-1] = k; r = x * l[2]",
    "l = [[1], [2]]; m = l[0]; m.append(k); r = x * len(l[0])",
    "l = [1]; m = list(l); m.append(k); r = x * len(l)",
    "d = {'a': 1}; d['b'] = k; r = x * d.get('b', 0) + d.get('c', 5)",
    """
d = {'b': 1, 'a': k}
t = 0
for i, v in enumerate(d.values()):
    t = t * 10 + v
r = x * t
    """,
    "d = {'b': 1}; d.update({'b': k}); r = x * d['b']",
    "r = x * (2 if (k, 1) < (2, 5) else 3)",
    "s = 'a' if k > 2 else 'b'; r = x * (2 if s < 'aa' else 3)",
    "s = f'{k}'; r = x * len(s)",
    "s = '{:3d}'.format(k); r = x * len(s)",
    "s = '%d' % k; r = x * len(s)",
    "s = 'ab' * k; r = x * len(s)",
    "s = ','.join(['a', 'b']); r = x * (len(s) + k)",
    "r = x * (len('a b  c'.split()) + k)",
    "r = x * ('abc'.find('c') + k)",
    "r = x * len('abcdef'[k:])",
    "r = x * int(str(k))",
    "r = x * (2 if k == 2.0 else 3)",
    "b = k > 2; r = x * (b + 1)",
    "r = x * sum([k > 2, k > 3])",
    "r = x * sum([k, 2])",
    "r = x * min([k, 2]) + max([k, 2])",
    "r = x * min(k, 2, 7)",
    "r = x * (1 + int(any([k > 2, False])) + int(all([k > 1, True])))",
    "r = x * sorted([3, k, 1])[0]",
    """
t = 0
for v in [k, 2, 3][::-1]:
    t = t * 10 + v
r = x * t
    """,
    """
t = 0
for v in reversed([k, 2, 3]):
    t = t * 10 + v
r = x * t
    """,
    """
t = 0
for a, b in zip([1, k], [3, 4, 5]):
    t += a * b
r = x * t
    """,
    """
t = 0
for i, b in enumerate([k, 4], 1):
    t += i * b
r = x * t
    """,
    """
t = 0
for i in range(k, 0, -1):
    t = t * 2 + i
r = x * t
    """,
    """
t = 0
for i in range(0, k + 3, 2):
    t = t + i
r = x * t
    """,
    """
t = 0
for i in range(3):
    i = i + k
    t += i
r = x * t + i
    """,
    """
n = 3
t = 0
for i in range(n):
    n = n + k
    t += 1
r = x * t
    """,
    """
n = k
t = 0
while n > 0:
    n //= 2
    t += 1
r = x * t
    """,
    """
l = [1, 2]
for v in l:
    if len(l) < 5:
        l.append(v + k)
r = x * len(l)
    """,
    "y = x.clone(); z = y; y += k; r = z * 1",
    "y = x.clone(); z = y; y = y + k; r = z * 1",
    "y = x.clone(); z = y; y -= k; y /= 2; r = z * 1",
    "y = torch.ones(2, 2) * k; z = y; y @= y; r = z",
    "y = x.clone(); y[1:] += k; y[0] *= 2; r = y",
    "y = x.clone(); y[1:] **= 2; r = y + k",
    "r = (x[:, None].T + k)",
    "r = x * (2 if x.shape == (4,) else 3) + k",
    "s = tuple(x.shape); r = x * len(s) + k",
    "r = torch.full((2,), k) + x[:2].long()",
    "r = torch.tensor([k, 2]) / 4",
    "r = torch.tensor([k > 2, True])",
    "r = torch.tensor([1, 2.5]) * k",
    "r = torch.arange(0, 1, 0.25) * k",
    "r = torch.arange(k) * 2",
    "r = torch.as_tensor(k) / 2",
    "r = torch.ones(3, dtype=torch.bool) & (x[:3] > k)",
    "r = x.long() / 2 + k",
    "r = torch.div(x.long(), 2, rounding_mode='floor') + k",
    "r = x // 2 + k",
    "r = x % 3 + k",
    "r = (x.long() - 9) % 4 + k",
    "r = k - x",
    "r = k / (x + 10)",
    "r = k ** x",
    "r = k // (x + 10)",
    "r = 7 % (x + 10) + k",
    "r = -x + (-k)",
    "r = ~(x > 0) & (x > k)",
    "r = x.long() << k",
    "r = x * (2 if 0 < x.sum() < 100 else 3) + k",
    """
r = x if x.sum() > 0 else x * 2
r = r + k
    """,
    "r = x * (2 if not (x.sum() > 0) else 3) + k",
    "r = x * (2 if k in [1, 2, 3] else 3)",
    "r = x * (2 if k not in [1, 2, 3] else 3)",
    "r = x * (2 if k in (1, 2) else 3)",
    "a, *b = [k, 2, 3]; r = x * a + len(b)",
    "a, b = k, 2; a, b = b, a; r = x * a - b",
    "f = lambda v: v * 2; r = x * f(k)",
    "l = [i * k for i in range(3)]; r = x * l[2]",
    "l = [i for i in [1, 2, 3] if i > k]; r = x * len(l)",
    "d = {str(i): i * k for i in range(3)}; r = x * d['2']",
    "l = [i * j for i in range(2) for j in range(2)]; r = x * len(l) + k",
    "r = x * (q := k + 1) + q",
    "import math; r = x * math.ceil(k / 2) + math.floor(-k / 2)",
    "r = x * (k ** 0.5)",
    "r = x * len(str(k / 2))",
    "r = x * ((k & 3) | 4)",
    "r = x * (1 + int((k > 2) ^ (k > 3)))",
    "v = x.max().item(); r = x * int(v)",
    "v = x.max().item(); r = x * round(v)",
    "v = x[0].item(); r = x * (v // 2) + (v % 2)",
    "r = x * int(x[0])",
    "r = x * int(x[0] > 0) + k",
    "r = x * len(x) + k",
    """
t = x[0] * 0
for v in x:
    t = t * 2 + v
r = t + k
    """,
    "a, b, c, d = x[:4]; r = a * b + c - d + k",
    """
m = float('inf')
for i in range(3):
    m = min(m, float(k) - i)
r = x * m
    """,
)


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("statements", STATEMENTS, ids=lambda text: text.strip().splitlines()[-1])
def test_statements(statements: str, number: str) -> None:
    body = [NUMBERS[number], statements.strip()]
    sizes = [{"n": n} for n in (4, 6, 1, 3)]
    made = Program([Input("x", "float32", ["n"])], [], body, ["r"], sizes)
    outcome = judged(made, "native")
    if outcome.verdict == ASIDE:
        outcome = judged(made, "fx")
    assert outcome.verdict in (RIGHT, ROUNDED, REFUSED, CAPTURE), outcome
