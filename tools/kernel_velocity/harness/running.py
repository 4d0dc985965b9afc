"""A mark per series while a round of it runs; one that is left over says that its process died.

A crash or a hang would cost its timeout again in every round. asv cannot know: with forkserver the rounds are nobody's
children but the server's. So a round that finds the mark of an earlier round of the same run of asv gives up at once.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path


class EarlierRoundDiedError(RuntimeError):
    """An earlier round of this series, in this run of asv, ended without a word: a crash, or the timeout."""


def this_run() -> str:
    """Return the identity of the run of asv that started this process: its process number and when that began."""
    parent = os.getppid()
    try:
        stat = Path(f"/proc/{parent}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:  # no Linux: a number that is used again within one clone is the risk left
        return str(parent)
    return f"{parent}-{stat.rpartition(')')[2].split()[19]}"  # field 22, starttime: proc(5)


RUN = this_run()  # at import: in the server that forks the rounds, whose parent is asv


def mark_path(root: Path, environ: Mapping[str, str], benchmark: str, params: Sequence[str]) -> Path | None:
    """Return the mark of a series; None where asv names no commit."""
    environment, commit = environ.get("ASV_ENV_NAME"), environ.get("ASV_COMMIT")
    if not environment or not commit:
        return None
    return root / ".asv" / "cache" / "running" / environment / commit / "-".join((benchmark, *params))


def begin(mark: Path | None, run: str = RUN) -> None:
    """Leave the mark.

    Raises:
        EarlierRoundDiedError: an earlier round of the same run left it.
    """
    if mark is None:
        return
    if mark.exists() and mark.read_text(encoding="utf-8") == run:
        raise EarlierRoundDiedError(
            "an earlier round of this run crashed its process or ran past its timeout; not tried again"
        )
    mark.parent.mkdir(parents=True, exist_ok=True)
    mark.write_text(run, encoding="utf-8")


def end(mark: Path | None) -> None:
    """Take the mark away: the round ended by itself, well or not."""
    if mark is not None:
        mark.unlink(missing_ok=True)
