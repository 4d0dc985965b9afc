"""``kv peaks``: measure the ceilings of this machine, and show them beside those that the OS reports.

In a script, in half a minute, bandwidths in B/s and peaks in FLOP/s:

    >>> from kernel_velocity.runner.peaks import measure_roofs
    >>> roofs = measure_roofs("cpu")
    >>> dram = roofs.levels[-1]
    >>> dram.name, dram.bandwidth > 1e8, roofs.peaks["float32"] > 1e8
    ('DRAM', True, True)

`latest_roofs(root, "cpu")` returns those of the last sessions. Both return the `Roofs` that
`kernel_velocity.roofline.model.roofline` takes.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

from kernel_velocity import documents, lock
from kernel_velocity.errors import ResultsError, UsageError
from kernel_velocity.files import replace_text
from kernel_velocity.machine import ceilings as measuring
from kernel_velocity.roofline import ceilings
from kernel_velocity.roofline.model import Roofs
from kernel_velocity.roofline.roofs import SESSIONS, roofs
from kernel_velocity.runner import asv, host
from kernel_velocity.statuses import Status
from kernel_velocity.suite import config
from kernel_velocity.terminal import screen

MODULE = "kernel_velocity.runner.peaks"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("--device", choices=("cpu", "cuda"), help="default: cuda where there is a GPU")
    parser.add_argument("--root", type=Path, default=Path(), help="the folder of asv.conf.json (default: here)")


def run(args: argparse.Namespace, out: TextIO, err: TextIO) -> int:
    """Measure, store and print the ceilings. Return the exit status.

    Raises:
        UsageError: the device is missing, or another run is measuring.
    """
    device = args.device or host.device()
    with lock.held(args.root):  # it and a run of `kv track` would disturb each other
        print(f"measuring the ceilings of {device}, about half a minute", file=err, flush=True)
        document = measure_document(device)
        ceilings.keep(args.root, document)
    sessions = ceilings.sessions(args.root, device, machine=_machine(), name=document["name"])[-SESSIONS:]
    print(ceilings.as_text(document, sessions), file=out)
    return 0


def latest_roofs(root: Path, device: str, name: str | None = None) -> Roofs | None:
    """Return the roofs of this machine's device from its last sessions, or None without a session.

    Sessions are those of `kv track`, in asv's results, and those of `kv peaks`, with KV_THREADS threads.

    Args:
        root: the folder of asv.conf.json. device: "cpu" or "cuda".
        name: of the device (`reported.name`), where there may be several. None: the one measured last.
    """
    return roofs(ceilings.sessions(root, device, machine=_machine(), name=name), device)


def measure_roofs(device: str) -> Roofs:
    """Measure the roofs of "cpu" or "cuda" in a new process, in half a minute, without storing them.

    Raises:
        UsageError: torch or the device is missing.
    """
    measured = roofs([ceilings.session_of(measure_document(device), time.time())], device)
    if measured is None:
        raise AssertionError("a session has roofs")
    return measured


def measure_document(device: str) -> dict[str, Any]:
    """Measure every ceiling of a device in a new process. Return the document (`machine.ceilings.measure`).

    Raises:
        UsageError: torch or the device is missing. ResultsError: the measuring process ended without a document.
    """
    with tempfile.TemporaryDirectory() as folder:
        path, lines = Path(folder) / "ceilings.json", ["it printed nothing"]
        status = asv.run_measuring(MODULE, [str(path), f"--device={device}"], lines.append)
        reason = next(line for line in reversed(lines) if line.strip())
        if status == UsageError.exit_code:
            raise UsageError(reason.removeprefix("error: "))
        if status != 0 or not path.exists():
            raise ResultsError(f"measuring {device} ended with status {status}: {reason}")
        try:
            return documents.read_checked(path)
        except documents.DamagedError as error:
            raise ResultsError(f"measuring {device} gave no complete result: {error}") from None


def _machine() -> str | None:
    """Return the name of this machine in asv's results that KV_MACHINE sets, or None."""
    return os.environ.get("KV_MACHINE") or None


# The process that measures --------------------------------------------------------------------------------------------


def main(argv: Sequence[str], err: TextIO) -> int:
    """Measure in this process, and write the document. Return the exit status."""
    parser = argparse.ArgumentParser(prog=f"python -m {MODULE}")
    parser.add_argument("target", type=Path)
    parser.add_argument("--device", choices=("cpu", "cuda"), required=True)
    args = parser.parse_args(argv)
    try:
        loops = config.suite(Path()).loops() if Path(config.NAME).exists() else None
        document = measuring.measure(args.device, caches=True, loops=loops)
    except NotImplementedError as error:
        print(f"error: --device {args.device}: {error}; nothing was measured", file=err)
        return UsageError.exit_code
    except KeyboardInterrupt:
        return Status.INTERRUPTED
    replace_text(args.target, documents.with_checksum(json.dumps(document)) + "\n")
    err.writelines(f"warning: {warning}\n" for warning in document["warnings"])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], screen(sys.stderr)))
