"""Lines that wait in the spool: taken away from their writers, and put back where nothing claims them yet.

Nothing is lost by an interruption: what was taken stays beside the file it came from until it has gone elsewhere.
"""

from __future__ import annotations

import fcntl
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from kernel_velocity.harness.telemetry import Round, TelemetryError
from kernel_velocity.results.failures import Failure
from kernel_velocity.results.sessions import SessionFacts

Line = TypeVar("Line", Round, Failure, SessionFacts)
CLAIMED = ".claimed-"  # the spool file that an ingest is working on, or was when it was interrupted
_MALFORMED = ".malformed"


@contextmanager
def claimed(path: Path, decode: Callable[[str], Line], problems: list[str]) -> Iterator[list[Line]]:
    """Take a spool file away from its writers and yield its lines; at the end, what was taken is deleted.

    Writers open the file for each line: after the rename they begin a new one, and one that was about to write holds a
    lock, for which this waits. What an interrupted ingest left claimed is taken too. Malformed lines are set aside in a
    file of their own, and `problems` gets a line for each.
    """
    if path.exists():
        path.rename(path.with_name(f"{path.name}{CLAIMED}{time.time_ns()}"))
    taken = sorted(path.parent.glob(f"{path.name}{CLAIMED}*"))
    texts = [line for item in taken for line in _unlocked_text(item).split("\n") if line.strip()]
    yield decoded(path, dict.fromkeys(texts), decode, problems)
    for item in taken:
        item.unlink()


def _unlocked_text(path: Path) -> str:
    """Return what a file says once nobody is writing it any more."""
    with path.open("r+b") as stream:  # writable, which an exclusive lock wants on NFS
        fcntl.flock(stream, fcntl.LOCK_EX)
        return text_of(path)


def text_of(path: Path) -> str:
    """Return what a file of lines says; what is not UTF-8 becomes U+FFFD, which no writer of ours leaves raw."""
    return path.read_text(encoding="utf-8", errors="replace")


def line_of(text: str, decode: Callable[[str], Line]) -> Line:
    """Return what a line of `text_of` says.

    Raises:
        ValueError: it is none (TelemetryError, FailureLineError, SessionLineError), or held bytes that are no UTF-8.
    """
    if "\ufffd" in text:
        raise TelemetryError("not UTF-8")
    return decode(text)


def decoded(path: Path, texts: Iterable[str], decode: Callable[[str], Line], problems: list[str]) -> list[Line]:
    """Return what the lines of a file say; malformed ones are set aside beside it, and told in `problems`."""
    good = []
    for text in texts:
        try:
            good.append(line_of(text, decode))
        except ValueError as error:
            aside = path.with_name(path.name + _MALFORMED)
            problems.append(f"{path}: malformed line set aside in {aside.name}: {error}")
            append(aside, [text])
    return good


def append(path: Path, lines: Sequence[str]) -> None:
    """Append lines to a file; none leave no file."""
    if lines:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as stream:
            stream.writelines(f"{line}\n" for line in lines)
