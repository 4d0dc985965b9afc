"""``kv peaks``: what this machine can do at most, measured; beside it what others say of it.

In a script of your own, in half a minute, bandwidths in B/s and peaks in FLOP/s:

    >>> from kernel_velocity.runner.peaks import measure_roofs
    >>> roofs = measure_roofs("cpu")
    >>> dram = roofs.levels[-1]
    >>> dram.name, dram.bandwidth > 1e8, roofs.peaks["float32"] > 1e8
    ('DRAM', True, True)

`latest_roofs(root, "cpu")` returns what the last sessions measured; both return the `Roofs` that
`kernel_velocity.roofline.model.roofline` takes.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TextIO

from kernel_velocity import lock
from kernel_velocity.errors import ResultsError, UsageError
from kernel_velocity.harness import reported
from kernel_velocity.harness.device_figures import ID, device_id
from kernel_velocity.roofline import ceilings, table
from kernel_velocity.roofline.model import Roofs
from kernel_velocity.roofline.roofs import SESSIONS, CeilingSession, roofs
from kernel_velocity.roofline.table import Shown
from kernel_velocity.runner import host, live

JSON_FORMAT = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("--device", choices=("cpu", "cuda"), help="what to measure (default: cuda where there is one)")
    parser.add_argument("--read", action="store_true", help="show what was measured last, measure nothing")
    parser.add_argument("--json", action="store_true", help="print it as JSON, in base units")
    parser.add_argument("--root", type=Path, default=Path(), help="the folder of asv.conf.json (default: here)")


def run(args: argparse.Namespace, out: TextIO, err: TextIO) -> int:
    """Measure, keep, print; return the exit status.

    Raises:
        UsageError: the device is missing, another run measures in this clone, or with --read nothing was measured yet.
    """
    device = args.device or host.device()
    if not args.read:
        with lock.held(args.root):  # beside a run of `make track` each would disturb the other
            print(f"measuring what {device} can do at most, about half a minute", file=err, flush=True)
            ceilings.keep(args.root, measure_document(device))
    known = ceilings.sessions(args.root, device, machine=_machine())[-SESSIONS:]
    if not known:
        raise UsageError(f"--read: no ceilings of {device} are kept here yet; `kv peaks` measures them")
    shown = _newest(args.root, device, known)
    print(_json(shown, known) if args.json else table.text(shown, known), file=out)
    return 0


def _newest(root: Path, device: str, known: Sequence[CeilingSession]) -> Shown:
    """Return the newest measurement: a whole document where `peaks` made it, else what asv recorded of it."""
    began, document = ceilings.newest_document(root, device) or (None, None)
    if document is not None and began == known[-1].began:
        return table.of_document(document)
    ours = document is not None and known[-1].figures.get(ID) in (None, device_id(document["name"]))
    name = document["name"] if document and ours else reported.name("cpu") if device == "cpu" else ""
    return table.of_session(known[-1], device, name)


def latest_roofs(root: Path, device: str, name: str | None = None) -> Roofs | None:
    """Return the roofs of this machine's device as its last sessions measured them; None where none has.

    Sessions are those of `make track`, in asv's results, and those of `kv peaks`, with as many threads as
    KV_THREADS says.

    Args:
        root: the folder of asv.conf.json. device: "cpu" or "cuda".
        name: of the device (`reported.name`), where there may be several; None: the one measured last.
    """
    return roofs(ceilings.sessions(root, device, machine=_machine(), name=name), device)


def measure_roofs(device: str) -> Roofs:
    """Measure the roofs of "cpu" or "cuda" now, in a process of its own; half a minute. Nothing is kept.

    Raises:
        UsageError: torch or the device is missing.
    """
    found = roofs([ceilings.session_of(measure_document(device), time.time())], device)
    if found is None:
        raise AssertionError("there is a session, so there are roofs")
    return found


def measure_document(device: str) -> dict[str, Any]:
    """Measure every ceiling of a device in a process of its own; return the document (`ceilings.measure`).

    Raises:
        UsageError: torch or the device is missing. ResultsError: the measuring process ended without a document.
    """
    with tempfile.TemporaryDirectory() as folder:
        path, said = Path(folder) / "ceilings.json", io.StringIO()
        status = live.run("ceilings", [str(path), f"--device={device}", "--caches"], io.StringIO(), said)
        if status == UsageError.exit_code:
            raise UsageError(_last(said).removeprefix("error: "))
        if status != 0 or not path.exists():
            raise ResultsError(f"measuring {device} ended with status {status}: {_last(said)}")
        document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return document


def _last(said: io.StringIO) -> str:
    return next((line for line in reversed(said.getvalue().splitlines()) if line.strip()), "it said nothing")


def _machine() -> str | None:
    """Return the name of this machine in asv's results, where KV_MACHINE gives it one."""
    return os.environ.get("KV_MACHINE") or None


def _json(shown: Shown, known: Sequence[CeilingSession]) -> str:
    found = {
        "format": JSON_FORMAT,
        "device": shown.device,
        "name": shown.name,
        "sessions": len(known),
        "ceilings": [asdict(row) for row in table.rows(shown, known)],
        "warnings": list(shown.warnings),
    }
    return json.dumps(found, indent=1)
