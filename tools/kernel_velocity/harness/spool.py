"""The spool: where measuring processes leave the lines of their rounds and failures, ``.asv/spool/<environment>/``.

The analysis half moves them next to asv's results, joined by environment, commit and estimate (asv stores the sample
untruncated).
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Sequence
from pathlib import Path

from kernel_velocity.harness.running import EarlierRoundDiedError
from kernel_velocity.harness.telemetry import Round, encode


def spool_path(root: Path, environment: str, commit: str) -> Path:
    """Return where the rounds of a commit wait to be ingested.

    The processes of an A/B test (ab/session.py) are told another folder, by KV_SPOOL: its rounds are evidence of
    their own, and never become those of the recorded history.
    """
    return root / (os.environ.get("KV_SPOOL") or ".asv/spool") / environment / f"{commit}.jsonl"


def append(path: Path, record: Round) -> None:
    """Append a round."""
    append_line(path, encode(record))


def append_line(path: Path, line: str) -> None:
    """Append in one write of one short line, so that lines of concurrent processes do not mix.

    The lock keeps ingest, which moves the file away and then reads it, from reading before the line is written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    written = False
    while not written:
        # Readable too: on NFS Linux makes a POSIX lock of it, which for a shared one wants that.
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH)
            if _is_still(path, descriptor):
                os.write(descriptor, (line + "\n").encode())
                written = True
        finally:
            os.close(descriptor)


def _is_still(path: Path, descriptor: int) -> bool:
    """Return whether an open file is the one at `path`."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def append_failure(path: Path, *, benchmark: str, params: Sequence[str], when: float, error: BaseException) -> None:
    """Append what a failed benchmark said, one line of JSON: asv stores none of its text.

    NotImplementedError is no failure but "does not apply here"; its line says so (`"skipped": true`). A round that was
    given up because an earlier one died says `"died": true`.
    """
    skipped = isinstance(error, NotImplementedError)
    message = " ".join((str(error) if skipped else f"{type(error).__name__}: {error}").split())[:500]
    line: dict[str, object] = {"b": benchmark, "p": list(params), "t": round(when, 3), "error": message}
    if skipped:
        line["skipped"] = True
    if isinstance(error, EarlierRoundDiedError):
        line["died"] = True
    append_line(path, json.dumps(line, separators=(",", ":")))
