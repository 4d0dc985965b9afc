"""What a night has begun, kept so that the next start goes on with it: `.asv/journals/<machine>-<environment>.json`.

Values, rounds of re-runs and findings are kept by what records them, as they come. What only the night knows is when it
began and which commits it chose, and how often a commit did not build.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tools.atomic import replace_text
from tools.errors import ResultsError

FOLDER = Path(".asv", "journals")


@dataclass(frozen=True, kw_only=True)
class Night:
    """A night that is not over."""

    began: float  # Unix time, s
    commits: tuple[str, ...]  # chosen, newest first
    heartbeat: bool  # whether they are measured although they may be already


@dataclass(frozen=True, kw_only=True)
class Journal:
    """What is kept from one night to the next."""

    night: Night | None = None
    unbuilt: Mapping[str, int] = field(default_factory=dict)  # commit -> nights on which it did not build

    def after(self, tried: Sequence[str], failed: Sequence[str]) -> Journal:
        """Return what is kept once a night is over that tried to build some commits, of which some failed."""
        counts = {commit: count for commit, count in self.unbuilt.items() if commit not in tried}
        return Journal(unbuilt={**counts, **{commit: self.unbuilt.get(commit, 0) + 1 for commit in failed}})

    def during(self, night: Night) -> Journal:
        """Return what is kept while a night goes on."""
        return replace(self, night=night)


def path_of(root: Path, machine: str, environment: str) -> Path:
    """Return the journal's file."""
    return root / FOLDER / f"{machine}-{environment}.json"


def read(path: Path) -> Journal:
    """Return what is kept; of a machine's first night, nothing.

    Raises:
        ResultsError: the file says something else.
    """
    if not path.exists():
        return Journal()
    try:
        said = json.loads(path.read_text(encoding="utf-8"))
        unbuilt = {str(commit): int(count) for commit, count in said["unbuilt"].items()}
        night = said["night"]
        return Journal(unbuilt=unbuilt, night=None if night is None else _night(night))
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise ResultsError(
            f"{path}: no journal of a night ({type(error).__name__}: {error}); remove it to begin a new night"
        ) from None


def _night(said: Mapping[str, object]) -> Night:
    began, commits, heartbeat = said["began"], said["commits"], said["heartbeat"]
    if not isinstance(began, int | float) or not isinstance(commits, list) or not isinstance(heartbeat, bool):
        raise TypeError(f"began, commits and heartbeat are wanted, got {said!r}")
    return Night(began=float(began), commits=tuple(map(str, commits)), heartbeat=heartbeat)


def write(path: Path, journal: Journal) -> None:
    """Keep a journal; the file is never seen half written."""
    night = journal.night
    said = {
        "night": None
        if night is None
        else {"began": night.began, "commits": list(night.commits), "heartbeat": night.heartbeat},
        "unbuilt": dict(journal.unbuilt),
    }
    replace_text(path, json.dumps(said, indent=1) + "\n")
