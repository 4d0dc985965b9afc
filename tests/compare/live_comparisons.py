"""A problem small enough to be compared in a test, and comparisons as the live command prints them."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

from kernel_velocity.compare.result import Accuracy, Timed
from kernel_velocity.harness.implementations import Bound
from kernel_velocity.harness.problem import Problem
from kernel_velocity.roofline.model import Roofline
from tests.compare import comparisons

ELEMENTS = 1000


class Doubling(Problem):
    """x (n,) float32 -> out = 2 x; refuses what is off by more than 1e-5."""

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


def roofline(**given):
    return Roofline(
        **{
            "intensity": 0.25,
            "ridge": 4.8,
            "bound": "memory",
            "attainable": 3.0e9,
            "achieved": 2.79e9,
            "bandwidth": 11.2e9,
            "efficiency": 0.93,
            "roof_ratio": 0.93,
            "cache_benefit": 1.0,
            "level": "DRAM",
            "level_ratio": 0.93,
            "impossible": False,
            "label": "excellent",
        }
        | given
    )


def right(output="out", **details):
    figures = {
        "max_absolute_error": 3.05e-5,
        "mean_absolute_error": 1.2e-7,
        "total_error": 0.12,
        "max_relative_error": 1.78e-7,
        "max_error": 1.78e-7,
        "max_ulp_error": 1.49,
        "passes_1e5": True,
    }
    return Accuracy(output=output, right=True, details=figures | details)


def timed(name, seconds, rounds=3, **given):
    """Return a timing whose rounds are `seconds` and what lies up to 2% around it, 40 samples each."""
    estimates = tuple(seconds * (1 + 0.01 * (number - (rounds - 1) / 2)) for number in range(rounds))
    samples = tuple((*(each * (1 + 0.002 * (k % 7)) for k in range(39)), 1.5 * each) for each in estimates)
    fields = {
        "rounds": samples,
        "estimates": estimates,
        "stops": ("converged",) * rounds,
        "accuracy": (right(),),
        "roofline": roofline(),
    }
    return Timed(implementation=name, **fields | given)


def case(name, elements, *timings, problem="add_mul_exp", memory="DRAM", flops=3, moved=12, dtype="float32"):
    """Return a case of a problem, with `flops` and `moved` bytes per element."""
    return comparisons.case(
        problem,
        elements,
        case=name,
        dtype=dtype,
        flops=None if flops is None else flops * elements,
        bytes=None if moved is None else moved * elements,
        memory=memory,
        timed=timings,
    )


def comparison(*compared, **given):
    fields = {
        "environment": {
            "device": "A processor of 2 cores",
            "caches": "L1 32.0 KiB, L2 1.00 MiB, L3 32.0 MiB",
            "clocks": "2.60 GHz",
            "free memory": "7.10 GiB",
            "load": "0.310",
            "cores": "2",
            "threads": "1",
            "python": "3.11.9",
            "torch": "2.13.0",
            "system": "Linux 6.1",
            "allocator": "keeps freed memory",
            "KV_THREADS": "1",
            "OMP_NUM_THREADS": "1",
        },
        "settings": {
            "rule": "adaptive",
            "parameters": "eps 0.003, t_max 0.3",
            "rounds": "3",
            "warm-up": "by time, 50 ms or more",
            "sample": "a batch of calls that the clock resolves",
            "tolerance": "the problem's own",
            "threads": "1",
            "reference": "eager",
        },
        "took": 12.3,
        "warnings": (),
    }
    return comparisons.comparison(**fields | {"compared": compared} | given)


def whole():
    """Return a comparison with all that a table can show."""
    in_cache = {"efficiency": 1.0, "roof_ratio": 2.4, "cache_benefit": 2.4, "level": "L3", "label": "100%"}
    impossible = {"efficiency": 1.0, "roof_ratio": 1.3, "impossible": True, "label": "100%"}
    wrong = Accuracy(
        output="out",
        right=False,
        details={"max_absolute_error": 2.0, "mean_absolute_error": 2e-7, "total_error": 2.0, "off_by_one": None},
    )
    return comparison(
        case(
            "float32-1M",
            1_000_000,
            timed("eager", 720e-6, function=720e-6, roofline=roofline(efficiency=0.41, roof_ratio=0.41, label="room")),
            timed("compile", 364e-6, function=364e-6, roofline=roofline(**in_cache)),
            timed("native", 361.2e-6, function=363.5e-6, roofline=roofline(**in_cache), flags=("contended",)),
            Timed(implementation="triton", missing="Triton needs a CUDA device"),
            memory="L3",
        ),
        case(
            "float32-50M",
            50_000_000,
            timed("eager", 98.1e-3, function=98.1e-3),
            timed("compile", 61.4e-3, function=61.4e-3, roofline=roofline(**impossible, warnings=("above the roof",))),
            Timed(implementation="native", accuracy=(wrong,), failed="out is wrong: 1 of 50000000 elements wrong"),
            Timed(implementation="triton", missing="Triton needs a CUDA device"),
        ),
        case(
            "float32-1M",
            1_000_000,
            timed("eager", 1.9e-3, rounds=1, roofline=None, accuracy=(right(max_relative_error=0.0, max_error=0.0),)),
            timed("native", 171e-6, rounds=1, roofline=None, accuracy=(right(off_by_one=0, max_ulp_error=None),)),
            problem="quantize_int8",
            memory=None,
            flops=None,
            moved=None,
        ),
        warnings=("rounds share one process",),
    )
