"""What the suite does with the torch that this interpreter finds, in words for a test: a process of its own runs it.

python -m tests.offline_stand_in.rehearse round IMPLEMENTATION    a round of the smallest case of every kernel
python -m tests.offline_stand_in.rehearse inputs FILE.npz         inputs and what is computed of them, as arrays
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from kernel_velocity.harness.problem import Problem
from tests.suite import SUITE

# The stand-in has what these touch of PyTorch; a kernel that is added may use more.
KERNELS = ("add_mul_exp", "matmul", "quantize_int8")


def problems() -> Iterator[tuple[Problem, str]]:
    """Yield every such problem on the CPU and the name of its smallest case."""
    for problem in SUITE.problems():
        if problem.kernel not in KERNELS:
            continue
        problem.device = "cpu"
        yield problem, problem.generate_test_cases()[0]["name"]


def measure(implementation: str) -> Iterator[tuple[str, Any]]:
    """Yield a kernel and its estimate in seconds, or in words why it is n/a."""
    for problem, case in problems():
        bench = importlib.import_module(f"benchmarks.{problem.kernel}").Cpu()
        try:
            bench.setup(implementation, case)
        except NotImplementedError as error:
            yield problem.name, str(error)
        else:
            (estimate,) = bench.measure(f"{problem.name}.Cpu.time_hot", implementation, case)["samples"]
            yield problem.name, estimate


def tensors(problem: Problem, case: str) -> Iterator[tuple[str, Any]]:
    """Yield the tensors of a case by name: its inputs, and what the suite makes of them."""
    inputs = problem.test_case(case)["create_inputs"]()
    output = problem.reference_solution(*inputs)
    part, picked = problem.subset(inputs, output, 97)
    kinds = {"input": inputs, "subset": part, "expected": (problem.expected(*inputs),)}
    kinds |= {"output": (output,), "picked": (picked,), "empty": (problem.empty_output(inputs),)}
    for kind, found in kinds.items():
        for index, tensor in enumerate(found):
            if hasattr(tensor, "data_ptr"):
                yield f"{problem.name}-{kind}-{index}", tensor


def describe(tensor: Any) -> list[Any]:
    """Return what a tensor says of itself."""
    return [list(tensor.shape), str(tensor.dtype), str(tensor.device), tensor.is_contiguous(), tensor.numel()]


def main(argv: list[str]) -> int:
    """Print what was found as one line of JSON."""
    if argv[0] == "round":
        found: dict[str, Any] = dict(measure(argv[1]))
    else:
        named = {name: tensor for problem, case in problems() for name, tensor in tensors(problem, case)}
        found = {name: describe(tensor) for name, tensor in named.items()}
        np.savez(argv[1], **{name: getattr(tensor, "array", tensor) for name, tensor in named.items()})
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
