"""What a night has begun, kept so that the next start goes on with it: `.asv/journals/<machine>-<environment>.json`.

Values, rounds of re-runs and findings are kept by what records them, as they come. What only the night knows is when it
began and which commits it chose, how often a commit did not build, and how often one was measured and yet has a test
case without any value: where every implementation fails, the machine may have been to blame, or the case.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from kernel_velocity.errors import ResultsError
from kernel_velocity.files import replace_text

FOLDER = Path(".asv", "journals")


@dataclass(frozen=True, kw_only=True)
class Night:
    """A night that is not over."""

    began: float  # Unix time, s
    commits: tuple[str, ...]  # chosen, newest first
    heartbeat: bool  # whether they are measured although they may be already
    judged_from: float | None = None  # when the first night began that was given up unjudged, Unix time, s; None: none

    @property
    def since(self) -> float:
        """Unix time, s, from which on values are judged by this night."""
        return self.began if self.judged_from is None else self.judged_from


@dataclass(frozen=True, kw_only=True)
class Journal:
    """What is kept from one night to the next."""

    night: Night | None = None
    unbuilt: Mapping[str, int] = field(default_factory=dict)  # commit -> nights on which it did not build
    incomplete: Mapping[str, int] = field(default_factory=dict)  # commit -> nights that left it so
    setting: str = ""  # what identifies what the nights that `incomplete` counts asked for, and their machine

    def after(self, tried: Sequence[str], failed: Sequence[str], incomplete: Sequence[str]) -> Journal:
        """Return what is kept once a night is over that tried some commits.

        Args:
            failed: those that did not build. incomplete: those that were measured and are not measured whole.
        """
        return Journal(
            unbuilt=_counted(self.unbuilt, tried, failed),
            incomplete=_counted(self.incomplete, tried, incomplete),
            setting=self.setting,
        )

    def under(self, setting: str) -> Journal:
        """Return what counts where this is asked for, on this machine: another may measure what one could not."""
        return self if setting == self.setting else replace(self, incomplete={}, setting=setting)

    def during(self, night: Night) -> Journal:
        """Return what is kept while a night goes on."""
        return replace(self, night=night)


def _counted(before: Mapping[str, int], tried: Sequence[str], again: Sequence[str]) -> dict[str, int]:
    rest = {commit: count for commit, count in before.items() if commit not in tried}
    return {**rest, **{commit: before.get(commit, 0) + 1 for commit in again}}


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
        night = said["night"]
        return Journal(
            unbuilt=_counts(said["unbuilt"]),
            incomplete=_counts(said.get("incomplete", {})),
            setting=str(said.get("setting", "")),
            night=None if night is None else _night(night),
        )
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise ResultsError(
            f"{path}: no journal of a night ({type(error).__name__}: {error}); remove it to begin a new night"
        ) from None


def _counts(said: Mapping[str, int]) -> dict[str, int]:
    return {str(commit): int(count) for commit, count in said.items()}


def _night(said: Mapping[str, object]) -> Night:
    began, commits, heartbeat = said["began"], said["commits"], said["heartbeat"]
    judged_from = said.get("judged_from")
    if not isinstance(began, int | float) or not isinstance(commits, list) or not isinstance(heartbeat, bool):
        raise TypeError(f"began, commits and heartbeat are wanted, got {said!r}")
    if not isinstance(judged_from, int | float | None):
        raise TypeError(f"judged_from: a Unix time is wanted, got {judged_from!r}")
    return Night(began=float(began), commits=tuple(map(str, commits)), heartbeat=heartbeat, judged_from=judged_from)


def write(path: Path, journal: Journal) -> None:
    """Keep a journal; the file is never seen half written."""
    said = {
        "night": None if journal.night is None else asdict(journal.night),
        "unbuilt": dict(journal.unbuilt),
        "incomplete": dict(journal.incomplete),
        "setting": journal.setting,
    }
    replace_text(path, json.dumps(said, indent=1) + "\n")
