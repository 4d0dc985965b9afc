"""Reads the telemetry beside asv's results: the rounds of one commit in one environment, and its failures."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from kernel_velocity import bounds
from kernel_velocity.harness.telemetry import GAUGES, Round, TelemetryError
from kernel_velocity.harness.telemetry import decode as decode_round
from kernel_velocity.results.failures import Failure, FailureLineError
from kernel_velocity.results.failures import decode as decode_failure

Place = tuple[str, str, str]  # benchmark, implementation, case
Line = TypeVar("Line", Round, Failure)
_TIMES = ("estimate", *GAUGES)  # whose logarithms adjusting takes
LONGEST = 128  # characters; of a longer name of an environment asv takes the hash (`asv.results.get_filename`)


def stem(commit: str, environment: str) -> str:
    """Return what the names of the files begin with that asv and we keep of a commit in an environment."""
    if len(environment) >= LONGEST:
        environment = f"env-{hashlib.md5(environment.encode(), usedforsecurity=False).hexdigest()}"
    return f"{commit[:8]}-{environment}"


def read_rounds(path: Path, notes: list[str]) -> dict[Place, tuple[Round, ...]]:
    """Return the rounds by benchmark, implementation and case; empty where there is no telemetry.

    Args:
        path: `<machine>/telemetry/<commit8>-<environment>.jsonl` in the results directory.
        notes: gets one line for each line that is no round.
    """
    found: dict[Place, dict[Round, None]] = {}
    for place, item in _read(path, decode_round, notes):
        # A dict, because a line moved twice by an ingestion that was cut short is still one round
        found.setdefault(place, {})[item] = None
    return {place: tuple(rounds) for place, rounds in found.items()}


def read_failures(path: Path, notes: list[str]) -> dict[Place, tuple[Failure, ...]]:
    """Return the failed rounds, oldest first, by benchmark, implementation and case.

    Args:
        path: `<machine>/telemetry/<commit8>-<environment>.failures.jsonl` in the results directory.
        notes: gets one line for each line that is no failure.
    """
    found: dict[Place, dict[Failure, None]] = {}
    for place, item in _read(path, decode_failure, notes):
        found.setdefault(place, {})[item] = None
    return {place: tuple(sorted(items, key=lambda item: item.time)) for place, items in found.items()}


def _read(path: Path, decode: Callable[[str], Line], notes: list[str]) -> Iterator[tuple[Place, Line]]:
    if not path.exists():
        return
    for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").split("\n"), start=1):
        if not line:
            continue
        try:
            item = decode(line)
            yield _place(item), item
        except (TelemetryError, FailureLineError) as error:
            notes.append(f"{path.parent.parent.name}/telemetry/{path.name}:{number}: {error}; it is left out")


def _place(item: Round | Failure) -> Place:
    if len(item.params) != 2:
        raise TelemetryError(f"params: implementation and case are wanted, got {item.params!r}")
    if not bounds.is_moment(item.time):
        raise TelemetryError(f"time: a Unix time is wanted, got {item.time!r}")
    for name in _TIMES if isinstance(item, Round) else ():
        value = getattr(item, name)
        if value is not None and not bounds.is_time(value):
            wanted = f"a time from {bounds.LEAST:g} to {bounds.MOST:g} s"
            raise TelemetryError(f"{name}: {wanted} is wanted, got {value!r}")
    return item.benchmark, item.params[0], item.params[1]
