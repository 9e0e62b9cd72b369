"""Finds out whether Python asks for a truth value because of an ``assert``.

``assert mask[0].all()`` branches on the elements of a tensor, but only one branch goes on. The
model does what the program does where its assertions hold.
"""

from __future__ import annotations

import dis
import functools
import itertools
from types import CodeType, FrameType


def expected(frame: FrameType | None) -> bool | None:
    """Returns the truth value that lets the assertion pass whose condition a frame evaluates.

    None if it does not evaluate the condition of an assertion.
    """
    return _answers(frame.f_code).get(frame.f_lasti) if frame else None


@functools.lru_cache(maxsize=256)
def _answers(code: CodeType) -> dict[int, bool]:
    """Maps each conditional jump to or past the raising of an AssertionError to the answer to give.

    Also maps the comparison before it, which asks for the truth of the elements of two lists.
    """
    instructions = [each for each in dis.get_instructions(code) if each.opname != "CACHE"]
    fails = {each.offset for each in instructions if each.opname == "LOAD_ASSERTION_ERROR"}
    answers: dict[int, bool] = {}
    for i, (jump, after) in enumerate(itertools.pairwise(instructions)):
        jumps_if_true = jump.opname.endswith("IF_TRUE")
        if not jumps_if_true and not jump.opname.endswith("IF_FALSE"):
            continue
        if after.offset in fails:
            answer = jumps_if_true
        elif jump.argval in fails:
            answer = not jumps_if_true
        else:
            continue
        answers[jump.offset] = answer
        before = instructions[max(i - 2, 0) : i]
        if before and before[-1].opname == "TO_BOOL":  # from Python 3.13 on
            answers[before.pop().offset] = answer
        if answer and before and before[-1].opname == "COMPARE_OP" and "==" in before[-1].argrepr:
            answers[before[-1].offset] = True
    return answers
