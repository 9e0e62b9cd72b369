"""What the errors of torch.export are about."""

import sys
import traceback
from types import CodeType


def pins_a_size(error: BaseException) -> bool:
    """Whether torch.export refuses a program because it fixes a dynamic size."""
    exc = sys.modules.get("torch._dynamo.exc")
    if exc is not None and isinstance(error, exc.UserError):
        return bool(error.error_type is exc.UserErrorType.CONSTRAINT_VIOLATION)
    return isinstance(error, ValueError) and _thrower(error) is _of_ranges()


def is_of_fake_constant(error: BaseException) -> bool:
    """Whether the capture made a constant of a tensor that it traced.

    PyTorch throws a RuntimeError. Only its text tells.
    """
    return "fake tensor in the exported program constant" in str(error)


def _thrower(error: BaseException) -> CodeType | None:
    """Returns the code of the function that threw an error."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    return frames[-1].f_code if frames else None


def _of_ranges() -> CodeType:
    """Returns the code of the function that compares the user's ranges with those of the trace."""
    from torch._export.non_strict_utils import make_constraints

    return make_constraints.__code__
