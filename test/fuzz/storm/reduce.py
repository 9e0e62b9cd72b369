"""Reduces a failing program: fewer and simpler statements, fewer settings."""

from __future__ import annotations

import ast
import copy
import re
import resource
import time
from collections.abc import Callable, Iterator

import torch

from storm import program as programs
from storm.program import SETS, Input, Program

Fails = Callable[[Program], bool]


def _seconds() -> float:
    """Returns the CPU time of this process and of its finished children."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


class Reducer:
    """Delta debugging of one program.

    Attributes:
        program: The smallest failing program so far.
    """

    def __init__(
        self, program: Program, fails: Fails, seconds: float = 45, tries: int = 400
    ) -> None:
        self.program = program
        self._fails = fails
        self._deadline = _seconds() + seconds
        self._tries = tries
        self._seen: set[str] = {program.to_json()}

    def run(self) -> Program:
        """Runs the whole reduction."""
        self.shortest_prefix()
        before = ""
        while before != self.program.to_json() and not self._is_over():
            before = self.program.to_json()
            for step in (
                *(self._choices, self._results, self._drop_statements, self._lift),
                *(self._drop_inits, self._inputs, self._drop_aliases, self._simplify),
            ):
                step()
        return self.program

    def shortest_prefix(self) -> Program:
        """Finds the first failing statement by bisection and removes all later ones."""
        low, high = 0, len(self.program.body)
        best = self.program
        while low < high and not self._is_over():
            middle = (low + high) // 2
            candidate = prefix(self.program, middle)
            if candidate is not None and self._does_fail(candidate):
                best, high = candidate, middle
            else:
                low = middle + 1
        self.program = best
        return best

    def _is_over(self) -> bool:
        return self._tries <= 0 or _seconds() > self._deadline

    def _does_fail(self, candidate: Program) -> bool:
        text = candidate.to_json()
        if text in self._seen or self._is_over():
            return False
        self._seen.add(text)
        if not is_valid(candidate):
            return False
        self._tries -= 1
        return self._fails(candidate)

    def _keep(self, candidate: Program) -> bool:
        if not self._does_fail(candidate):
            return False
        self.program = candidate
        return True

    def _with(self, **changes: object) -> bool:
        candidate = self.program.copy()
        for name, value in changes.items():
            setattr(candidate, name, value)
        return self._keep(candidate)

    def _choices(self) -> None:
        plain = {"state": False, "functions": False, "packs": [], "keywords": 0, "form": "tuple"}
        for name, value in plain.items():
            if getattr(self.program, name) != value:
                self._with(**{name: value})
        for opset in (20, 23):
            if self.program.opset in (20, 23) or self._with(opset=opset):
                break
        for name in list(self.program.sizes[0]):
            self._fix_dimension(name)
        for which in range(1, SETS):
            sizes = copy.deepcopy(self.program.sizes)
            sizes[which] = dict(sizes[0])
            self._with(sizes=sizes)

    def _fix_dimension(self, name: str) -> None:
        """Makes a dynamic dimension static, with the same size in all sets."""
        candidate = self.program.copy()
        size = candidate.sizes[0][name]
        for each in candidate.inputs:
            each.dims = [size if dim == name else dim for dim in each.dims]
        for sizes in candidate.sizes:
            sizes.pop(name)
        self._keep(candidate)

    def _results(self) -> None:
        if len(self.program.results) == 1:
            return
        for result in self.program.results:
            if self._with(results=[result]):
                return
        for result in list(self.program.results):
            if len(self.program.results) > 1:
                self._with(results=[each for each in self.program.results if each != result])

    def _drop_statements(self) -> None:
        size = max(len(self.program.body) // 2, 1)
        while size:
            place = len(self.program.body) - size
            while place >= 0:
                body = self.program.body[:place] + self.program.body[place + size :]
                self._with(body=body)
                place -= size
            size //= 2

    def _lift(self) -> None:
        """Turns results of statements into inputs."""
        for place in reversed(range(len(self.program.body))):
            if place >= len(self.program.body):
                continue
            candidate = lifted(self.program, place)
            if candidate is not None:
                self._keep(candidate)

    def _drop_aliases(self) -> None:
        """Removes statements such as `b = a`."""
        for place in reversed(range(len(self.program.body))):
            found = re.fullmatch(r"(\w+) = ([a-z]+\d+)", self.program.body[place])
            if found is None:
                continue
            new, old = found.groups()
            candidate = self.program.copy()
            candidate.body.pop(place)
            later = (candidate.body, candidate.results)
            for texts in later:
                texts[:] = [re.sub(rf"\b{new}\b", old, text) for text in texts]
            self._keep(candidate)

    def _drop_inits(self) -> None:
        for place in reversed(range(len(self.program.inits))):
            self._with(inits=self.program.inits[:place] + self.program.inits[place + 1 :])

    def _inputs(self) -> None:
        for place in reversed(range(len(self.program.inputs))):
            inputs = self.program.inputs
            if len(inputs) > 1:
                self._with(inputs=inputs[:place] + inputs[place + 1 :])
        for place in range(len(self.program.inputs)):
            for dtype in ("float32", "int64"):
                if self.program.inputs[place].dtype in (dtype, "int"):
                    break
                candidate = self.program.copy()
                candidate.inputs[place].dtype = dtype
                if self._keep(candidate):
                    break
            for axis in range(len(self.program.inputs[place].dims)):
                candidate = self.program.copy()
                candidate.inputs[place].dims.pop(axis)
                if self._keep(candidate):
                    break

    def _simplify(self) -> None:
        for place in range(len(self.program.body)):
            changed = True
            while changed and not self._is_over():
                changed = False
                for text in simpler(self.program.body[place]):
                    body = list(self.program.body)
                    body[place] = text
                    if self._with(body=body):
                        changed = True
                        break


def is_valid(program: Program) -> bool:
    """Returns whether eager runs the program with all sets of inputs."""
    try:
        with torch.no_grad():
            for which in range(SETS):
                program.module(is_plain=True)(*program.arguments(which))
    except Exception:
        return False
    return True


def prefix(program: Program, count: int) -> Program | None:
    """Returns the first statements, with all their values as results."""
    candidate = program.copy()
    candidate.body = candidate.body[:count]
    names: list[str] = []
    for text in candidate.body:
        names += [name for name in sorted(programs.names_bound(text)) if name not in names]
    values = final_values(candidate, 0)
    if values is None:
        return None
    candidate.results = [
        name if isinstance(values[name], torch.Tensor) else f"torch.tensor({name})"
        for name in names
        if isinstance(values.get(name), (torch.Tensor, int, float))
    ] or [f"{candidate.inputs[0].name} * 1"]
    return candidate


def final_values(program: Program, which: int) -> dict[str, object] | None:
    """Returns the values of the program's names at its end."""
    probe = program.copy()
    probe.body = [*probe.body, "self._values = dict(locals())"]
    probe.results = ["0"]
    try:
        module = probe.module(is_plain=True)
        with torch.no_grad():
            module(*probe.arguments(which))
    except Exception:
        return None
    values: dict[str, object] = module._values  # type: ignore[assignment]
    return values


def lifted(program: Program, place: int) -> Program | None:
    """Replaces a statement by inputs for the tensors that it computes."""
    start = program.copy()
    start.body = start.body[: place + 1]
    values = [final_values(start, which) for which in range(SETS)]
    candidate = program.copy()
    text = candidate.body.pop(place)
    bound = sorted(programs.names_bound(text))
    if not bound:
        return None
    for name in bound:
        tensors = [space.get(name) if space else None for space in values]
        made = _input_like(name, tensors, program.sizes)
        if made is None:
            return None
        candidate.inputs = [each for each in candidate.inputs if each.name != name]
        candidate.inputs.append(made)
    return candidate


def _input_like(name: str, values: list[object], sizes: list[dict[str, int]]) -> Input | None:
    tensors = [value for value in values if isinstance(value, torch.Tensor)]
    if len(tensors) != SETS or len({x.dim() for x in tensors}) > 1:
        return None
    dims: list[int | str] = []
    for axis in range(tensors[0].dim()):
        shape = [x.shape[axis] for x in tensors]
        named = [dim for dim in sizes[0] if [each[dim] for each in sizes] == shape]
        if len(set(shape)) == 1:
            dims.append(shape[0])
        elif named:
            dims.append(named[0])
        else:
            return None
    if not all(bool(x.isfinite().all()) for x in tensors):
        return None
    low, high = -4, 4
    if not tensors[0].is_complex() and all(x.numel() for x in tensors):
        low = max(min(int(x.min()) for x in tensors), -100)
        high = min(max(int(x.max()) for x in tensors), 100)
    return Input(name, str(tensors[0].dtype).removeprefix("torch."), dims, low, max(low, high))


def simpler(text: str) -> Iterator[str]:
    """Yields statements with one expression replaced by a part of it or removed."""
    tree = ast.parse(text)
    places = [node for node in ast.walk(tree) if isinstance(node, ast.expr)]
    for index, node in enumerate(places):
        if isinstance(getattr(node, "ctx", None), ast.Store):
            continue
        for part in _parts(node):
            yield _replaced(text, index, part)
    if len(tree.body) > 1:
        for index in range(len(tree.body)):
            yield ast.unparse(ast.Module(tree.body[:index] + tree.body[index + 1 :], []))
    first = tree.body[0]
    if isinstance(first, (ast.If, ast.For, ast.While)):
        yield ast.unparse(ast.Module(first.body, []))


def _parts(node: ast.expr) -> Iterator[ast.expr]:
    """Yields possible replacements of an expression."""
    if isinstance(node, ast.Call):
        if isinstance(node.func, ast.Attribute) and not _is_module(node.func.value):
            yield node.func.value
        yield from (each for each in node.args if not isinstance(each, ast.Starred))
        for index in range(len(node.keywords)):
            rest = node.keywords[:index] + node.keywords[index + 1 :]
            yield ast.Call(node.func, node.args, rest)
        if len(node.args) > 1:
            yield ast.Call(node.func, node.args[:-1], node.keywords)
    elif isinstance(node, ast.BinOp):
        yield from (node.left, node.right)
    elif isinstance(node, ast.UnaryOp) and not isinstance(node.operand, ast.Constant):
        yield node.operand
    elif isinstance(node, ast.Compare):
        yield node.left
    elif isinstance(node, ast.Subscript):
        yield node.value
        if isinstance(node.slice, ast.Tuple) and len(node.slice.elts) > 1:
            for index in range(len(node.slice.elts)):
                rest_of = node.slice.elts[:index] + node.slice.elts[index + 1 :]
                index_of = rest_of[0] if len(rest_of) == 1 else ast.Tuple(rest_of, ast.Load())
                yield ast.Subscript(node.value, index_of, node.ctx)
    elif isinstance(node, ast.Slice):
        yield ast.Slice(node.lower, node.upper, None)
        yield ast.Slice(None, node.upper, node.step)
        yield ast.Slice(node.lower, None, node.step)
    elif isinstance(node, (ast.List, ast.Tuple)) and len(node.elts) > 1:
        for index in range(len(node.elts)):
            yield type(node)(node.elts[:index] + node.elts[index + 1 :], node.ctx)
    elif isinstance(node, (ast.List, ast.Tuple)):
        yield from node.elts


def _is_module(node: ast.expr) -> bool:
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name) and node.id in ("torch", "F", "nn", "self", "math")


def _replaced(text: str, index: int, part: ast.expr) -> str:
    """Returns the text with one expression replaced; `index` follows the order of `ast.walk`."""
    tree = ast.parse(text)
    target = [node for node in ast.walk(tree) if isinstance(node, ast.expr)][index]

    class Replacing(ast.NodeTransformer):
        """Replaces the target by the part."""

        def visit(self, node: ast.AST) -> ast.AST:
            return part if node is target else self.generic_visit(node)

    try:
        return ast.unparse(ast.fix_missing_locations(Replacing().visit(tree)))
    except (ValueError, TypeError, AttributeError):
        return text
