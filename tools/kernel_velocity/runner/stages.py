"""Measure the ceilings of a device (machine/ceilings.py) in a process of its own.

The allocator reads its settings when a process starts, so a command starts another one, which runs this module with the
environment that every measuring process gets.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TextIO

from kernel_velocity.documents import with_checksum
from kernel_velocity.errors import UsageError
from kernel_velocity.files import replace_text
from kernel_velocity.machine import ceilings
from kernel_velocity.runner import asv
from kernel_velocity.runner.host import measuring_variables
from kernel_velocity.statuses import Status
from kernel_velocity.suite import config

MODULE = "kernel_velocity.runner.stages"


def run(module: str, argv: Sequence[str], out: TextIO, err: TextIO) -> int:
    """Run a module as a measuring process. Return its exit status.

    Args:
        module: its name, such as MODULE.
        argv: its arguments.
        out: gets what it prints, line by line.
        err: gets its notes and the one line of an error.

    Raises:
        UsageError: KV_THREADS is not a number of threads.
    """

    def to(stream: TextIO) -> Callable[[str], None]:
        return lambda line: print(line, file=stream, flush=True)

    environ = {**os.environ, **measuring_variables(os.environ.get("KV_THREADS") or None)}
    return asv.run_child([sys.executable, "-m", module, *argv], to(out), environ=environ, on_error=to(err))


def main(argv: Sequence[str], err: TextIO) -> int:
    """Measure in this process, and write the document. Return the exit status."""
    parser = argparse.ArgumentParser(prog=f"python -m {MODULE}")
    parser.add_argument("target", type=Path)
    parser.add_argument("--caches", action="store_true")  # sweep them, too
    parser.add_argument("--device", choices=("cpu", "cuda"), required=True)
    args = parser.parse_args(argv)
    try:
        loops = config.suite(Path()).loops() if Path(config.NAME).exists() else None
        document = ceilings.measure(args.device, caches=args.caches, loops=loops)
    except NotImplementedError as error:
        print(f"error: --device {args.device}: {error}; nothing was measured", file=err)
        return UsageError.exit_code
    except KeyboardInterrupt:
        return Status.INTERRUPTED
    replace_text(args.target, with_checksum(json.dumps(document)) + "\n")
    err.writelines(f"warning: {warning}\n" for warning in document["warnings"])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], sys.stderr))
