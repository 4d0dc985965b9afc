"""Files that measuring processes leave below ``.asv/``: rounds, failures, and marks of running rounds.

Lines of rounds and failures wait in the spool, ``.asv/spool/<environment>/``, until `results` moves them next to asv's
own results, by environment, commit and time.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from kernel_velocity.documents import contents_of, with_checksum
from kernel_velocity.engine.telemetry import Round, encode
from kernel_velocity.terminal import uncoloured


def location(environ: Mapping[str, str]) -> tuple[str, str] | None:
    """Return the environment and the commit under test. None where asv names none, and nothing is left."""
    environment, commit = environ.get("ASV_ENV_NAME"), environ.get("ASV_COMMIT")
    return (environment, commit) if environment and commit else None


def spool_path(root: Path, environment: str, commit: str) -> Path:
    """Return the file where the rounds of a commit wait.

    KV_SPOOL names another folder to the processes of an A/B test (ab/session.py): its rounds never become those of the
    recorded history.
    """
    return root / (os.environ.get("KV_SPOOL") or ".asv/spool") / environment / f"{commit}.jsonl"


def append(path: Path, record: Round) -> None:
    """Append a round."""
    append_line(path, encode(record))


class SpoolError(OSError):
    """What a round leaves cannot be written: a full disk, a read-only folder. It is no failure of the series."""


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Raise SpoolError, with the path, where the body cannot write."""
    try:
        yield
    except OSError as error:
        raise SpoolError(error.errno, error.strerror, error.filename or str(path)) from None


def append_line(path: Path, line: str) -> None:
    """Append a line, whole or not at all. Lines of concurrent processes do not mix.

    The lock keeps ingest, which moves the file away and then reads it, from reading before the line is written.

    Raises:
        SpoolError: it cannot be written.
    """
    with _writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        written = False
        while not written:
            # Writable, which an exclusive lock wants on NFS.
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                    raise OSError(errno.EINVAL, "a regular file is wanted", str(path))
                if _is_still(path, descriptor):
                    _write(descriptor, (line + "\n").encode())
                    written = True
            finally:
                os.close(descriptor)


def _write(descriptor: int, contents: bytes) -> None:
    """Append bytes. Where there is no room for all, as on a full disk, remove those that were written."""
    size = os.fstat(descriptor).st_size
    try:
        while contents:
            contents = contents[os.write(descriptor, contents) :]
    except OSError:
        os.ftruncate(descriptor, size)
        raise


def _is_still(path: Path, descriptor: int) -> bool:
    """Return whether an open file is the one at `path`."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def in_a_line(text: str) -> str:
    """Return a text as a failure's line has it: without line breaks and colours, and not the whole of a long one."""
    return " ".join(uncoloured(text).split())[:500]


def append_failure(path: Path, *, benchmark: str, params: Sequence[str], when: float, error: BaseException) -> None:
    """Append the text of a failed benchmark, one line of JSON: asv stores none of it.

    NotImplementedError is no failure but "does not apply here": the line has `"skipped": true`. A round that gave up
    because an earlier one died has `"died": true`.
    """
    skipped = isinstance(error, NotImplementedError)
    message = in_a_line(str(error) if skipped else f"{type(error).__name__}: {error}")
    line: dict[str, object] = {"b": benchmark, "p": list(params), "t": round(when, 3), "error": message}
    if skipped:
        line["skipped"] = True
    if isinstance(error, EarlierRoundDiedError):
        line["died"] = True
    append_line(path, with_checksum(json.dumps(line, separators=(",", ":"))))


# Marks of running rounds ----------------------------------------------------------------------------------------------


class EarlierRoundDiedError(RuntimeError):
    """An earlier round of this series, in this run of asv, ended without a word: a crash, or the timeout."""


def this_run() -> str:
    """Return the identity of the run of asv that started this process: its process number and when that began."""
    parent = os.getppid()
    try:
        status = Path(f"/proc/{parent}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:  # no Linux: a number that is used again within one clone is the risk left
        return str(parent)
    return f"{parent}-{status.rpartition(')')[2].split()[19]}"  # field 22, starttime: proc(5)


RUN = this_run()  # at import: in the server that forks the rounds, whose parent is asv


def mark_path(root: Path, environ: Mapping[str, str], benchmark: str, params: Sequence[str]) -> Path | None:
    """Return the mark of a series, a file that exists while a round of it runs. None where asv names no commit.

    A mark that is left over says that its process died. A crash or a hang would cost its timeout again in every round,
    and asv cannot know: with forkserver the rounds are children of the server alone. So a round that sees the
    mark of an earlier round of the same run of asv gives up at once.
    """
    where = location(environ)
    return where and root.joinpath(".asv", "cache", "running", *where, "-".join((benchmark, *params)))


def begin(mark: Path | None, run: str = RUN) -> None:
    """Leave the mark.

    Raises:
        EarlierRoundDiedError: an earlier round of the same run left it.
        SpoolError: it cannot be written.
    """
    if mark is None:
        return
    if mark.exists() and contents_of(mark) == run.encode():
        with _writing(mark), mark.open("r+"):  # a mark that its round could not remove says nothing
            pass
        raise EarlierRoundDiedError(
            "an earlier round of this run crashed its process or ran past its timeout; not tried again"
        )
    with _writing(mark):
        mark.parent.mkdir(parents=True, exist_ok=True)
        mark.write_text(run, encoding="utf-8")


def end(mark: Path | None) -> None:
    """Remove the mark: the round ended by itself, well or not."""
    if mark is not None:
        with _writing(mark):
            mark.unlink(missing_ok=True)
