"""Honest rounds of this repository's kernels on the CPU, none of which may be refused.

    python -m tests.tricks.honest 2000 [--seconds 600] [--seed 1]

A round is set-up, timing and checks, as asv runs them, with few samples. Each process takes BLOCK of them of one
kernel, each on a random case and implementation. The command prints refused rounds, and ends with status 1 if there are
any.
"""

from __future__ import annotations

import argparse
import importlib
import os
import random
import sys
import tempfile
import time
from collections import Counter
from math import prod
from pathlib import Path

from tests.tricks.running import SETTINGS, context

KERNELS = ("add_mul_exp", "matmul", "quantize_int8")
IMPLEMENTATIONS = ("eager", "native")
LARGEST = 5_000_000  # results of a case: larger ones take seconds to set up
LONGEST = 512  # extents of a product
BLOCK = 50


def main(argv: list[str]) -> int:
    """Run the campaign. Return 1 if a round was refused."""
    parser = argparse.ArgumentParser(prog="python -m tests.tricks.honest")
    parser.add_argument("rounds", type=int)
    parser.add_argument("--seconds", type=float, default=3600.0, help="at most so long, about")
    parser.add_argument("--seed", type=int, default=1, help="of the order of cases")
    args = parser.parse_args(argv)
    chosen, began = random.Random(args.seed), time.time()
    done, flags, refused = Counter[str](), Counter[str](), list[str]()
    with context().Pool(1, maxtasksperchild=1) as pool:
        while done.total() < args.rounds and time.time() - began < args.seconds:
            count = min(BLOCK, args.rounds - done.total())
            block = pool.apply(_block, (KERNELS[done.total() // BLOCK % len(KERNELS)], count, chosen.random()))
            done += block[0]
            flags += block[1]
            refused += block[2]
            for reason in block[2]:
                print(f"refused: {reason}", flush=True)
    for name, number in sorted(done.items()):
        print(f"{number:6} {name}")
    counts = ", ".join(f"{name} {number}" for name, number in flags.most_common())
    print(f"{done.total()} rounds in {time.time() - began:.0f} s, {len(refused)} refused; flags: {counts or 'none'}")
    return 1 if refused else 0


def _block(kernel: str, count: int, seed: float) -> tuple[Counter[str], Counter[str], list[str]]:
    """Run rounds of a kernel in this process. Return how many of what, their flags, and reasons of refused ones."""
    from tests.harness import measuring

    chosen, done, refused = random.Random(seed), Counter[str](), list[str]()
    with tempfile.TemporaryDirectory(prefix="honest-") as folder:
        os.environ |= SETTINGS | {"ASV_CONF_DIR": folder, "ASV_ENV_NAME": "env", "ASV_COMMIT": measuring.COMMIT}
        os.environ.pop("ASV_ENV_DIR", None)
        benchmark = importlib.import_module(f"benchmarks.{kernel}").Cpu
        series = list(_series(benchmark, kernel))
        for _ in range(count):
            method, implementation, case = chosen.choice(series)
            done[f"{kernel} {implementation} {method}"] += 1
            if reason := _reason(benchmark(), f"{kernel}.Cpu.{method}", implementation, case):
                refused.append(f"{kernel} {implementation} {case} {method}: {reason}")
        flags = Counter(flag for record in measuring.rounds(Path(folder)) for flag in record.flags)
    return done, flags, refused


def _series(benchmark, kernel):
    """Yield method, implementation and case of each series of the campaign."""
    from kernel_velocity.harness.cases import dims_of

    for case in benchmark.params[1]:
        dims = dims_of(case)
        if max(dims) <= LONGEST if kernel == "matmul" else prod(dims) <= LARGEST:
            for implementation in IMPLEMENTATIONS:
                yield "time_hot", implementation, case
                if case in benchmark.cold_params[1]:
                    yield "time_cold", implementation, case


def _reason(instance, name: str, implementation: str, case: str) -> str:
    """Return why a round is refused, "" if it is not."""
    try:
        instance.setup(implementation, case)
        instance.measure(name, implementation, case)
    except (AssertionError, NotImplementedError, RuntimeError, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    return ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
