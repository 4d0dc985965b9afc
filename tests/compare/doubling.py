"""A problem small enough to be compared in a test, and implementations of it."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

from kernel_velocity.compare.settings import TimingSettings
from kernel_velocity.engine.stopping import FixedCount
from kernel_velocity.problem.implementations import Bound
from kernel_velocity.problem.problem import Problem
from kernel_velocity.roofline.model import MemoryLevel, Roofs

ELEMENTS = 1000
QUICK = TimingSettings(rounds=2, rule=FixedCount(n=5), warmups=1)
ROOFS = Roofs(
    levels=(MemoryLevel(name="L2", size=1 << 20, bandwidth=1e15), MemoryLevel(name="DRAM", size=None, bandwidth=1e14)),
    peaks={"float32": 1e15},
)


class Doubling(Problem):
    """x (n,) float32 -> out = 2 x, refused where it is off by more than 1e-5."""

    parameters: ClassVar[Any] = (
        {"name": "x", "type": "float", "pointer": True, "const": True},
        {"name": "out", "type": "float", "pointer": True, "const": False},
        {"name": "n", "type": "size_t", "pointer": False, "const": False},
    )
    dtype = "float32"
    sizes: ClassVar[dict[str, int]] = {"small": ELEMENTS, "large": 2 * ELEMENTS}

    def __init__(self, device: str = "cpu") -> None:
        super().__init__(name="doubling")
        self.device = device
        self.made: list[str] = []  # cases whose inputs were allocated

    def generate_test_cases(self):
        return [
            {"name": f"{self.dtype}-{name}", "dims": (n,), "create_inputs": partial(self.create, name, n)}
            for name, n in self.sizes.items()
        ]

    def create(self, name, n):
        import torch

        self.made.append(name)
        return (torch.arange(n, dtype=getattr(torch, self.dtype)).remainder(50),)

    def reference_solution(self, *inputs):
        return inputs[0] * 2

    def verify_result(self, expected, actual):
        import torch

        wrong = ~torch.isclose(actual.double(), expected.double(), rtol=1e-5, atol=0, equal_nan=True)
        return not bool(wrong.any()), {"mismatches": int(wrong.sum())}

    def get_flops(self, test_case):
        return test_case["dims"][0]

    def get_bytes(self, test_case):
        return 8 * test_case["dims"][0]


class DoublingBytes(Doubling):
    """The same of int8, exact."""

    dtype = "int8"
    is_exact = True
    parameters: ClassVar[Any] = (
        {"name": "x", "type": "int8_t", "pointer": True, "const": True},
        {"name": "out", "type": "int8_t", "pointer": True, "const": False},
    )

    def verify_result(self, expected, actual):
        wrong = expected != actual
        return not bool(wrong.any()), {"mismatches": int(wrong.sum())}


def writing(spoil=lambda out: None):
    """Return what binds a kernel that writes 2 x into an output of its own, then spoils it."""

    def bind(problem, case, inputs):
        import torch

        (x,) = inputs
        out = torch.empty_like(x)

        def call():
            torch.mul(x, 2, out=out)
            spoil(out)

        return Bound(call, lambda: out, lambda: out.fill_(77))

    return bind


def doing(step):
    """Return what binds a kernel that writes 2 x, and then calls `step` with the input and the number of the call."""

    def bind(problem, case, inputs):
        bound, calls = writing()(problem, case, inputs), []

        def call():
            bound.call()
            calls.append(1)
            step(inputs[0], len(calls))

        return Bound(call, bound.output, bound.poison)

    return bind


def returning(function):
    """Return what binds a function of x that returns its output."""

    def bind(problem, case, inputs):
        last = [None]

        def call():
            last[0] = function(*inputs)

        def forget():
            last[0] = None

        return Bound(call, lambda: last[0], forget)

    return bind


EAGER = {"eager": returning(lambda x: x * 2)}
