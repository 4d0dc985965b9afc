"""A process that calls one implementation a few times, for a profiler around it (``python -m`` and this module).

Only the calls lie between the CUDA profiler's start and stop: making the inputs and warming up do not count (Nsight
Compute's `--profile-from-start off`).
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence
from pathlib import Path

from kernel_velocity.compare.profile import WARM_UPS, require_torch
from kernel_velocity.errors import KernelVelocityError, UsageError
from kernel_velocity.harness.timers import Call

CALLS = 3  # a profiler replays each kernel many times: more calls say nothing new
DTYPE = "float32"


def command(
    what: str,
    implementation: str,
    case: str,
    *,
    device: str,
    solutions: Sequence[Path] = (),
    calls: int = CALLS,
    dtype: str = DTYPE,
) -> tuple[str, ...]:
    """Return the command of a process that makes these calls, to be run from the repository's root.

    Args:
        what: a kernel's name, or the path of a file with a Problem.
        implementation: which one is called.
        case: name of the test case.
        device: "cpu" or "cuda".
        solutions: files with solutions of a foreign problem.
        calls: how many, after the warm-up.
        dtype: of the elements, for older definitions that ask for one.
    """
    found = [sys.executable, "-m", "kernel_velocity.compare.profiled_call", what, implementation, case]
    found += ["--device", device, "--calls", str(calls), "--dtype", dtype]
    for path in solutions:
        found += ["--solution", str(path)]
    return tuple(found)


def main(argv: Sequence[str]) -> int:
    """Make the calls; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m kernel_velocity.compare.profiled_call", description="Call an implementation."
    )
    for name in ("what", "implementation", "case"):
        parser.add_argument(name)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--calls", type=int, default=CALLS)
    parser.add_argument("--dtype", default=DTYPE)
    parser.add_argument("--solution", type=Path, action="append", default=[])
    args = parser.parse_args(argv)
    try:
        make_calls(_bound(args), args.device, args.calls)
    except (KernelVelocityError, NotImplementedError, KeyError) as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201 - a program of its own
        return KernelVelocityError.exit_code
    return 0


def make_calls(call: Call, device: str, calls: int) -> None:
    """Call, warm-up aside, between the CUDA profiler's start and stop."""
    torch = require_torch(device)
    for _ in range(WARM_UPS):
        call()
    if device != "cuda":
        for _ in range(calls):
            call()
        return
    torch.cuda.synchronize()
    torch.cuda.profiler.start()
    for _ in range(calls):
        call()
    torch.cuda.synchronize()
    torch.cuda.profiler.stop()


def _bound(args: argparse.Namespace) -> Call:
    """Return the call, bound to the inputs of its test case."""
    loaded = importlib.import_module("kernel_velocity.compare.problems.load").load(
        args.what, args.device, args.solution, args.dtype
    )
    if args.implementation not in loaded.implementations:
        raise UsageError(f"{args.what} has no {args.implementation}; there are {', '.join(loaded.implementations)}")
    problem = loaded.problem
    inputs = problem.test_case(args.case)["create_inputs"]()
    call: Call = loaded.implementations[args.implementation](problem, args.case, inputs).call
    return call


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
