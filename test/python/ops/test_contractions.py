"""Contractions of two tensors as MatMul, which runtimes quantize and fuse."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from jit.running import check
from models.calling import Calling
from models.recording import assert_equal_to_eager, exported

SIZES = {"a": 2, "b": 3, "c": 4, "d": 5}
OTHERS = {"a": 3, "b": 1, "c": 2, "d": 7}


def operator_types(program: Any) -> list[str]:
    return [node.op_type for node in program.model_proto.graph.node]


def tensor(labels: str, sizes: dict[str, int], dtype: torch.dtype) -> torch.Tensor:
    shape = [sizes[label] for label in labels]
    return torch.randn(shape, generator=torch.Generator().manual_seed(0)).mul(3).to(dtype)


def contraction(equation: str, dtype: torch.dtype = torch.float32) -> list[str]:
    """Exports torch.einsum with dynamic sizes, compares it with eager; returns its operators."""
    left, right = equation.partition("->")[0].split(",")
    module = Calling(lambda x, y: torch.einsum(equation, x, y))
    examples = [
        (tensor(left, sizes, dtype), tensor(right, sizes, dtype)) for sizes in (SIZES, OTHERS)
    ]
    program = exported(module, examples[0], ((dict(enumerate(left)), dict(enumerate(right))),))
    assert_equal_to_eager(program, module, *examples)
    return operator_types(program)


@pytest.mark.parametrize(
    ("equation", "types"),
    [
        ("ab,bc->ac", ["MatMul"]),
        ("ba,bc->ac", ["Gemm"]),
        ("ab,bc->ca", ["MatMul", "Transpose"]),
        ("ab,cb->ac", ["Gemm"]),
        ("bc,ab->ac", ["MatMul"]),
        ("abc,abd->acd", ["Transpose", "MatMul"]),
        ("abc,cd->abd", ["MatMul"]),
        ("cd,abc->abd", ["MatMul"]),
        ("abc,bcd->abd", ["Einsum"]),
    ],
)
def test_matrix_products(equation: str, types: list[str]) -> None:
    assert contraction(equation) == types


@pytest.mark.parametrize("dtype", [torch.float64, torch.int64, torch.int32, torch.float16])
def test_dtypes(dtype: torch.dtype) -> None:
    assert "MatMul" in contraction("abc,acd->abd", dtype)


@pytest.mark.parametrize("equation", ["ab,b->a", "ab,ab->", "abc,bcd->ad"])
def test_others_stay_contractions(equation: str) -> None:
    assert contraction(equation) == ["Einsum"]


@pytest.mark.parametrize("equation", ["ab,cd->abcd", "a,bcd->cabd", "ab,ba->ab", "ab,b->ba"])
def test_products_without_a_sum(equation: str) -> None:
    assert contraction(equation)[-1] == "Mul"
    assert "Einsum" not in contraction(equation)


def test_an_axis_whose_size_depends_on_data_may_be_1() -> None:
    def program(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.einsum("...i,...i->...", x, torch.unique(y))

    x, y = torch.tensor([2.0, 5.0, 3.0]), torch.tensor([1.0, 4.0, 2.0])
    traced: Any = torch.jit.trace(program, (x, y))
    check(traced, [(x, y), (x, torch.ones(3))])


def test_products_of_zeros_keep_their_signs() -> None:
    module = Calling(lambda x, y: torch.atan2(torch.einsum("i,jk", x, y), y[0, 0]))
    x, y = torch.tensor([0.0, 1.0, -2.0]), torch.tensor([[-1.0, 0.0], [-0.0, 3.0]])
    assert_equal_to_eager(exported(module, (x, y)), module, (x, y))


def test_weights_are_put_in_order_once() -> None:
    weight = torch.randn(4, 3, 5, generator=torch.Generator().manual_seed(1))
    module = Calling(lambda x: torch.einsum("abc,dbc->abd", x, weight))
    x = torch.randn(2, 3, 5)
    program = exported(module, (x,), (({0: "a"},),))
    assert_equal_to_eager(program, module, (x,), (torch.randn(4, 3, 5),))
    assert operator_types(program).count("Transpose") < 2


def test_products_of_no_elements() -> None:
    """ONNX Runtime's Einsum divides by the sizes, and ends the process where one is 0."""
    module = Calling(lambda x: torch.einsum("...ij,...kj->...ik", x[:, -1:2], x[:, -1:2]))
    x = torch.randn(1, 5, 2, 3)
    program = exported(module, (x,), (({1: "n"},),))
    assert operator_types(program)[-1] == "MatMul"
    assert_equal_to_eager(program, module, (x,), (torch.randn(1, 2, 2, 3),), (x[:, :1],))


@pytest.mark.parametrize(
    "equation",
    ["ab,cbde->eacd", "bca,cbad->adc", "ab,ab->", "ab,c->bac", "ab->b", "ab->ba", "ab,ab->ba"],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
def test_contractions_of_no_elements(equation: str, dtype: torch.dtype) -> None:
    terms = equation.partition("->")[0].split(",")
    sizes = dict(zip("acde", (2, 3, 4, 5), strict=True))

    def contracted(x: torch.Tensor) -> torch.Tensor:
        kept = (torch.arange(x.shape[0]) + x.sum())[x > 0].to(dtype)  # of the size b

        def operand(term: str) -> torch.Tensor:
            shape = [-1 if label == "b" else 1 for label in term]
            axes = [-1 if label == "b" else sizes[label] for label in term]
            return kept.reshape(shape).expand(axes) if "b" in term else kept.new_ones(axes)

        return torch.einsum(equation, *map(operand, terms))

    module = Calling(contracted)
    program = exported(module, (torch.tensor([1.0, -1.0, 2.0]),), (({0: "n"},),))
    assert_equal_to_eager(
        program, module, (torch.tensor([1.0, -1.0, 2.0]),), (torch.tensor([-1.0]),)
    )


def test_a_sum_over_an_axis_of_one_tensor_alone() -> None:
    assert contraction("abc,abd->da") == ["ReduceSum", "Einsum"]
    assert contraction("abc,db->adb") == ["ReduceSum", "Unsqueeze", "Unsqueeze", "Mul"]
