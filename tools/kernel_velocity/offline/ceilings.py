"""`kv offline ceilings FILE.json --device D`: measure what the machine can do at most."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TextIO

from kernel_velocity.errors import UsageError
from kernel_velocity.files import replace_text
from kernel_velocity.harness import ceilings
from kernel_velocity.harness.ceilings import Ceiling
from kernel_velocity.runner import live
from kernel_velocity.units import gigabytes, rate, rate_unit, seconds


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the step's arguments."""
    parser.add_argument("file", metavar="FILE.json", type=Path, help="where the ceilings are written")
    live.add_device(parser)
    parser.add_argument("--caches", action="store_true", help="sweep the caches, too (some 10 s more)")


def run(args: argparse.Namespace, out: TextIO, err: TextIO) -> int:
    """Measure in a process of its own; return its exit status."""
    caches = ["--caches"] if args.caches else []
    return live.run("ceilings", [str(args.file), *live.given(args, ("device",)), *caches], out, err)


def measure(args: argparse.Namespace, out: TextIO, err: TextIO) -> int:
    """Measure in this process, write the file, print a line per ceiling.

    Raises:
        UsageError: torch or the device is missing.
    """
    try:
        document = ceilings.measure(args.device, caches=args.caches)
    except NotImplementedError as error:
        raise UsageError(f"--device {args.device}: {error}; nothing was measured") from None
    replace_text(args.file, json.dumps(document, indent=1) + "\n")
    out.writelines(f"{line}\n" for line in lines(document))
    err.writelines(f"warning: {warning}\n" for warning in document["warnings"])
    return 0


def lines(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line per ceiling, in the units people read."""
    for ceiling in ceilings.from_document(document):
        size = f"{ceiling.bytes / 2**20:g} MiB" if ceiling.bytes is not None else ceiling.dtype or ""
        yield f"{ceiling.what:<20} {size:>14}  {_value(ceiling)}"


def _value(ceiling: Ceiling) -> str:
    if ceiling.value is None:
        return f"n/a: {ceiling.why}"
    if ceiling.unit == "s":
        return seconds(ceiling.value)
    scaled = ceiling.value * 1e-9
    return gigabytes(scaled) if ceiling.unit == "B/s" else rate(scaled, rate_unit(ceiling.dtype or ""))
