"""`compile` in a live comparison: what a user's own `torch.compile` of the reference does.

The tracked history loads packages instead (`aoti`), because each of its rounds is a fresh process.
"""

from __future__ import annotations

from types import FunctionType
from typing import Any

from kernel_velocity.harness import aoti
from kernel_velocity.harness.implementations import Bound, fresh
from kernel_velocity.harness.problem import Inputs, Problem


def bind(problem: Problem, _case: str, inputs: Inputs) -> Bound:
    """Return the compiled reference bound to `inputs`; its first call compiles, which takes seconds.

    Raises:
        NotImplementedError: there is no C++ compiler to compile for the CPU with.
    """
    import torch  # noqa: PLC0415

    if problem.device == "cpu":
        aoti.check_toolchain("cpu")
    reference = problem.reference_solution

    def call(*given: Any) -> Any:
        return reference(*given)

    # A code object of its own: torch counts recompilations by code object, and after eight of them, which are eight
    # test cases, it would quietly run the eager operations.
    own = FunctionType(call.__code__.replace(), call.__globals__, closure=call.__closure__)
    compiled = torch.compile(own, dynamic=False)
    return fresh(lambda: compiled(*inputs))
