"""Honest rounds of this repository's kernels on the CPU, none of which may be refused.

    python -m tests.tricks.honest 2000 [--seconds 600] [--seed 1]

A round is set-up, timing and checks, as asv runs them, with few samples. Each process takes many of one kernel after
the other, each on a random case and implementation. The command prints refused rounds, and ends with status 1 if there
are any.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.tricks.running import SETTINGS

KERNELS = ("add_mul_exp", "matmul", "quantize_int8")
IMPLEMENTATIONS = ("eager", "native")
LARGEST = 5_000_000  # results of a case: larger ones take seconds to set up


def main(argv: list[str]) -> int:
    """Run the campaign. Return 1 if a round was refused."""
    parser = argparse.ArgumentParser(prog="python -m tests.tricks.honest")
    parser.add_argument("rounds", type=int)
    parser.add_argument("--seconds", type=float, default=3600.0, help="at most so long")
    parser.add_argument("--seed", type=int, default=1, help="of the order of cases")
    args = parser.parse_args(argv)
    chosen, began, flags, refused = random.Random(args.seed), time.time(), Counter[str](), list[str]()
    done = Counter[str]()
    with tempfile.TemporaryDirectory(prefix="honest-") as folder:
        os.environ |= SETTINGS | {"ASV_CONF_DIR": folder, "ASV_ENV_NAME": "env", "ASV_COMMIT": "c" * 40}
        series = list(_series())
        while done.total() < args.rounds and time.time() - began < args.seconds:
            kernel, method, implementation, case, bench = chosen.choice(series)
            reason = _reason(bench, f"{kernel}.Cpu.{method}", implementation, case)
            done[f"{kernel} {implementation} {method}"] += 1
            if reason:
                refused.append(f"{kernel} {implementation} {case} {method}: {reason}")
                print(f"refused: {refused[-1]}", flush=True)
        flags = _flags(Path(folder))
    for name, count in sorted(done.items()):
        print(f"{count:6} {name}")
    counts = ", ".join(f"{name} {count}" for name, count in flags.most_common())
    print(f"{done.total()} rounds in {time.time() - began:.0f} s, {len(refused)} refused; flags: {counts or 'none'}")
    return 1 if refused else 0


def _series():
    """Yield kernel, method, implementation, case and a new benchmark for each series of the campaign."""
    import importlib
    from math import prod

    from kernel_velocity.harness.cases import dims_of

    for kernel in KERNELS:
        benchmark = importlib.import_module(f"benchmarks.{kernel}").Cpu
        for case in benchmark.params[1]:
            if prod(dims_of(case)) <= LARGEST or (kernel == "matmul" and max(dims_of(case)) <= 512):
                for implementation in IMPLEMENTATIONS:
                    yield kernel, "time_hot", implementation, case, benchmark
                    if case in benchmark.cold_params[1]:
                        yield kernel, "time_cold", implementation, case, benchmark


def _reason(benchmark, name: str, implementation: str, case: str) -> str:
    """Return why a round is refused, "" if it is not."""
    instance = benchmark()
    try:
        instance.setup(implementation, case)
        instance.measure(name, implementation, case)
    except (AssertionError, NotImplementedError, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    return ""


def _flags(folder: Path) -> Counter[str]:
    from tests.harness import measuring

    return Counter(flag for record in measuring.rounds(folder) for flag in record.flags)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
