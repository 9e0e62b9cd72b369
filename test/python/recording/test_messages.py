"""Text made of sizes: the native capture takes programs that only show it."""

from __future__ import annotations

import functools
import logging
import warnings
from typing import Any

import pytest
import torch
from models.calling import Calling
from models.recording import DYNAMIC, EXAMPLES, Function, X, assert_recorded, reason_of

logger = logging.Logger(__name__)  # without the handlers of pytest, which keep the arguments
logger.addHandler(logging.StreamHandler())


def check(condition: bool, message: str | None = None, raises: bool = True) -> bool:
    if not condition:
        if raises:
            text = "the check failed"
            if message is not None:
                text += f"\n{message}"
            raise ValueError(text)
        return False
    return True


class Checks:
    def check(self, condition: bool, message: str) -> None:
        if not condition:
            raise ValueError(message)

    @staticmethod
    def check_static(condition: bool, message: str) -> None:
        assert condition, message

    @classmethod
    def check_class(cls, condition: bool, message: str) -> None:
        if condition:
            assert cls is Checks
        else:
            raise ValueError(message)


def in_a_function(x: torch.Tensor) -> Any:
    check(x.dim() == 3, f"expected three dimensions, got {x.shape}")
    check(x.shape[1] > 0, message="expected elements, got %s of %s" % (x.shape[1], x))  # noqa: UP031
    check(x.shape[1] > 0, "expected elements, got {} and {n}".format(x.shape, n=x.shape[1]))  # noqa: UP032
    return x + 1


def with_calls(x: torch.Tensor) -> Any:
    check(x.dim() == 3, f"got {tuple(x.shape)}, {x.size()[:-1]} and {len(x.shape)}")
    check(x.dim() == 3, f"got {x.size()} of {x.mean()}: {type(x)}")
    return x + 1


def in_methods(x: torch.Tensor) -> Any:
    checks = Checks()
    checks.check(x.dim() == 3, f"expected three dimensions, got {x.shape}")
    checks.check_static(x.dim() == 3, f"expected three dimensions, got {x.shape}")
    checks.check_class(x.dim() == 3, f"expected three dimensions, got {x.shape}")
    Checks.check_static(x.dim() == 3, f"expected three dimensions, got {x.shape}")
    Checks.check_class(x.dim() == 3, f"expected three dimensions, got {x.shape}")
    return x + 1


def in_a_caught_exception(x: torch.Tensor) -> Any:
    try:
        raise ValueError(f"shape {x.shape}")
    except ValueError:
        return x + 1


def printed(x: torch.Tensor) -> Any:
    print(x.shape, x.shape[1] * 2)
    print(f"shape: {x.shape}", x)
    print("mean:", x.mean())
    return x + 1


def warned(x: torch.Tensor) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.warn(f"shape: {x.shape}", stacklevel=1)
    return x + 1


def logged(x: torch.Tensor) -> Any:
    logger.info(f"shape: {x.shape}")
    logger.warning("shape: " + f"{x.shape}")
    logger.warning("shape: %s", x.shape)
    logging.debug(f"shape: {x.shape}")
    return x + 1


def in_a_search_for_an_overload(x: torch.Tensor) -> Any:
    """PyTorch writes down why fill.Scalar does not take the tensor."""
    return torch.ops.aten.fill(x, x.sum()) + 1


@pytest.mark.parametrize(
    "function",
    [
        in_a_function,
        with_calls,
        in_methods,
        in_a_caught_exception,
        in_a_search_for_an_overload,
        printed,
        warned,
        logged,
    ],
)
def test_text_that_is_only_shown(function: Function) -> None:
    assert_recorded(Calling(function), (DYNAMIC,), *EXAMPLES)


def test_printed_sizes_are_expressions(capsys: pytest.CaptureFixture[str]) -> None:
    assert_recorded(Calling(printed), (DYNAMIC,), (X,))
    lines = capsys.readouterr().out.splitlines()
    assert "torch.Size([batch, n, 4]) 2*n" in lines


kept: list[str] = []


def keep(condition: bool, message: str) -> None:
    if not condition:
        raise ValueError(message)
    kept.append(message)


def keep_and_raise(condition: bool, message: str) -> None:
    if condition:
        kept[:] = [message]
        raise ValueError


def returned(condition: bool, message: str) -> str:
    if not condition:
        raise ValueError(message)
    return message


def returned_early(condition: bool, message: str) -> str:
    if condition:
        if len(message) > 2:
            return message
        raise ValueError
    return ""


def decorated(function: Any) -> Any:
    @functools.wraps(function)
    def call(condition: bool, message: str) -> int:
        function(condition, message)
        return len(message)

    return call


@decorated
def counted(condition: bool, message: str) -> None:
    if not condition:
        raise ValueError(message)


def starred(*messages: str) -> int:
    return len(messages[0])


def two(x: int, condition: str, message: str = "") -> int:
    if not x:
        raise ValueError(message)
    return len(condition)


def text_kept(x: torch.Tensor) -> Any:
    kept.clear()
    keep(x.dim() == 3, f"{x.shape[1]}")
    return x * int(kept[0])


def text_kept_before_an_exception(x: torch.Tensor) -> Any:
    try:
        keep_and_raise(x.dim() == 3, f"{x.shape[1]}")
    except ValueError:
        return x * int(kept[0])


def text_returned(x: torch.Tensor) -> Any:
    return x * int(returned(x.dim() == 3, f"{x.shape[1]}"))


def text_returned_early(x: torch.Tensor) -> Any:
    return x * len(returned_early(x.dim() == 3, f"{x.shape[1]} "))


def text_for_a_decorator(x: torch.Tensor) -> Any:
    return x * counted(x.dim() == 3, f"{x.shape[1]}")


def text_for_starred(x: torch.Tensor) -> Any:
    return x * starred(f"{x.shape[1]}")


def text_after_starred(x: torch.Tensor) -> Any:
    return x * two(*[1], f"{x.shape[1]}")


def text_for_another_print(x: torch.Tensor) -> Any:
    def print(text: str) -> int:
        return len(text)

    return x * print(f"{x.shape[1]}")


def text_for_another_str(x: torch.Tensor) -> Any:
    kept.clear()

    def str(size: Any) -> None:
        kept.append(f"{size}")

    check(x.dim() == 3, f"{str(x.shape[1])}")
    return x * int(kept[0])


def text_for_a_call(x: torch.Tensor) -> Any:
    kept.clear()
    check(x.dim() == 3, f"{kept.append(f'{x.shape[1]}')}")
    return x * int(kept[0])


def text_in_a_caught_exception(x: torch.Tensor) -> Any:
    try:
        raise ValueError(len(f"{x.shape[1]}"))
    except ValueError as error:
        return x * error.args[0]


def text_compared(x: torch.Tensor) -> Any:
    if f"{x.shape[1]}" == "5":
        print(f"{x.shape[1]}")
        return x * 2
    return x


@pytest.mark.parametrize(
    "function",
    [
        text_kept,
        text_kept_before_an_exception,
        text_returned,
        text_returned_early,
        text_for_a_decorator,
        text_for_starred,
        text_after_starred,
        text_for_another_print,
        text_for_another_str,
        text_for_a_call,
        text_in_a_caught_exception,
        text_compared,
    ],
)
def test_text_that_may_be_used(function: Function) -> None:
    assert "text made of a size needs the number" in reason_of(Calling(function), (X,), (DYNAMIC,))
