"""Failures of rounds, stored beside the telemetry, because asv stores that a benchmark failed, but not why.

One JSON line each in `.asv/spool/<environment>/<commit>.failures.jsonl`, written by the measuring process
before it gives up, or by `kv track` for a process that could not (crash, timeout):

    {"b": "matmul.Cpu.time_hot", "p": ["native", "float32-512x512x512"], "t": 1700000000.0, "error": "...",
    "died": true}

`died` is absent where the round raised an exception. `skipped` is true where the series does not apply (asv's n/a), for
the reason in `error`. Ingest moves the lines to
`results/<machine>/telemetry/<commit8>-<environment>.failures.jsonl`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from kernel_velocity import bounds
from kernel_velocity.harness.documents import with_checksum
from kernel_velocity.harness.spool import append_line
from kernel_velocity.harness.telemetry import Round, TelemetryError, parse

SUFFIX = ".failures.jsonl"
TIME_SLACK = 1.0  # s by which the times of asv, of failures and of rounds may differ: a process's start-up
_INTERRUPTED = "KeyboardInterrupt"


@dataclass(frozen=True, kw_only=True)
class Failure:
    """One round of one series that ended without a value."""

    benchmark: str
    params: tuple[str, ...]  # implementation, case
    time: float  # Unix time, s
    error: str
    died: bool = False  # its process crashed or timed out, without an exception
    skipped: bool = False  # no failure: the series does not apply at this commit, or on this machine

    @property
    def raised(self) -> bool:
        """Whether the code under test raised an exception. Ctrl-C is none of it."""
        return not (self.died or self.skipped or self.error.startswith(_INTERRUPTED))


def raised_since(failures: Iterable[Failure], rounds: Sequence[Round]) -> bool:
    """Return whether a round raised during the measurement of `rounds`, or later. False without any."""
    first = min((round_.time for round_ in rounds), default=math.inf) - TIME_SLACK
    return any(failure.raised and failure.time >= first for failure in failures)


def encode(failure: Failure) -> str:
    """Return the line of a failure, without newline. In ASCII, since an error may hold what UTF-8 cannot."""
    line: dict[str, object] = {"b": failure.benchmark, "p": list(failure.params), "t": round(failure.time, 3)}
    line["error"] = failure.error
    if failure.died:
        line["died"] = True
    if failure.skipped:
        line["skipped"] = True
    return with_checksum(json.dumps(line, separators=(",", ":")))


def decode(line: str) -> Failure:
    """Return the failure of a line. Unknown keys are ignored.

    Raises:
        TelemetryError: as `telemetry.parse`, or a key is absent or of the wrong type.
    """
    raw = parse(line)
    benchmark, params, time, text = (raw.get(key) for key in ("b", "p", "t", "error"))
    if not isinstance(benchmark, str) or not isinstance(text, str):
        raise TelemetryError(f"b and error: strings are wanted, got {benchmark!r} and {text!r}")
    if not isinstance(params, list) or not all(isinstance(param, str) for param in params):
        raise TelemetryError(f"p: a list of strings is wanted, got {params!r}")
    if not bounds.is_moment(time):
        raise TelemetryError(f"t: a Unix time is wanted, got {time!r}")
    return Failure(
        benchmark=benchmark,
        params=tuple(params),
        time=float(time),
        error=text,
        died=raw.get("died") is True,
        skipped=raw.get("skipped") is True,
    )


def spool_path(root: Path, environment: str, commit: str) -> Path:
    """Return where the failures of a commit wait to be ingested."""
    return root / ".asv" / "spool" / environment / f"{commit}{SUFFIX}"


def append(path: Path, failure: Failure) -> None:
    """Append a failure's line."""
    append_line(path, encode(failure))
