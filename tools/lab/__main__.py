"""``python -m lab STEP``: evaluate our methods. For the authors, from the root of a checkout: no wheel has it."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence
from typing import TextIO

from kernel_velocity.errors import KernelVelocityError

STEPS = {  # step -> what it does. Its module has its name, `add_arguments` and `run`
    "samplings": "count false alarms and power of three tests at several sample sizes, on recorded sessions",
    "detectors": "count false alarms and misses of change-point detectors, ours and others', and of nightly runs",
    "judges": "count right and wrong solutions that the judges of public problem sets accept, and that we do",
}


def main(argv: Sequence[str], out: TextIO, err: TextIO) -> int:
    """Run one step. Return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m lab", description="Are our methods any good?")
    steps = parser.add_subparsers(metavar="step", required=True)
    for name, text in STEPS.items():
        step = steps.add_parser(name, help=text, description=text)
        if argv[:1] == [name]:  # the others are not imported
            module = importlib.import_module(f"lab.{name}")
            module.add_arguments(step)
            step.set_defaults(run=module.run)
    args = parser.parse_args(argv)
    try:
        status: int = args.run(args, out, err)
    except KernelVelocityError as error:
        print(f"error: {error}", file=err)
        return error.exit_code
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], sys.stdout, sys.stderr))
