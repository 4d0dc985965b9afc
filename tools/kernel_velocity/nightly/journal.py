"""Record a machine's nights, so that an interrupted one resumes: `.asv/journals/<machine>-<environment>.json`.

Values, rounds of re-runs and findings are recorded as they come. Only the journal knows when a night began and which
commits it chose, how often a commit did not build, and how often a measured commit still had a test case without any
value: where every implementation fails, the machine may have been to blame, or the case.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from kernel_velocity import fields
from kernel_velocity.errors import ResultsError
from kernel_velocity.fields import Moment
from kernel_velocity.files import replace_text
from kernel_velocity.harness import documents

FOLDER = Path(".asv", "journals")
FORMAT = 2  # the first that has a checksum


@dataclass(frozen=True, kw_only=True)
class Night:
    """A night that is not over."""

    began: Moment  # Unix time, s
    commits: tuple[str, ...]  # chosen, newest first
    heartbeat: bool  # whether they are measured although they may be already
    judged_from: Moment | None = None  # when the first night began that was given up unjudged, Unix time, s

    @property
    def since(self) -> float:
        """Unix time, s, from which on this night judges values."""
        return self.began if self.judged_from is None else self.judged_from


@dataclass(frozen=True, kw_only=True)
class Record:
    """The content of a journal."""

    night: Night | None = None
    unbuilt: Mapping[str, int] = field(default_factory=dict)  # commit -> nights on which it did not build
    incomplete: Mapping[str, int] = field(default_factory=dict)  # commit -> nights that left it so
    setting: str = ""  # identifies the series and the machine of the nights that `incomplete` counts


class Journal:
    """A machine's journal: read when it is made, written at each step of the night.

    Args:
        setting: what tonight measures, and on which machine. Another one may measure what this one could not.

    Raises:
        ResultsError: the file is no journal.
    """

    def __init__(self, path: Path, setting: str) -> None:
        self.path = path
        try:
            record = fields.read(Record, path.read_bytes(), path, range(FORMAT, FORMAT + 1))
        except FileNotFoundError:
            record = Record()
        except (OSError, ResultsError) as error:
            raise ResultsError(
                f"{path}: not the journal of a night ({error}); remove it to start a new night"
            ) from None
        self.record = record if record.setting == setting else replace(record, incomplete={}, setting=setting)

    @property
    def since(self) -> float:
        """Unix time, s, from which on values are judged. Infinity without a night."""
        return math.inf if self.record.night is None else self.record.night.since

    @property
    def again(self) -> str | None:
        """The commit that this night measures even if it has values. None without one."""
        night = self.record.night
        commits = night.commits if night is not None and night.heartbeat else ()
        return next((commit for commit in commits if commit not in self.record.unbuilt), None)

    def begin(self, night: Night) -> None:
        """Record the night that begins or resumes."""
        self._write(replace(self.record, night=night))

    def end(self, tried: Sequence[str], unbuilt: Sequence[str], incomplete: Sequence[str]) -> None:
        """Record that the night is over.

        Args:
            tried: its commits. unbuilt: those that did not build. incomplete: measured ones with values missing.
        """
        record = Record(
            unbuilt=_counted(self.record.unbuilt, tried, unbuilt),
            incomplete=_counted(self.record.incomplete, tried, incomplete),
            setting=self.record.setting,
        )
        self._write(record)

    def _write(self, record: Record) -> None:
        self.record = record
        document = {"format": FORMAT, **fields.plain(record)}
        replace_text(self.path, documents.with_checksum(json.dumps(document, indent=1)) + "\n")


def _counted(before: Mapping[str, int], tried: Sequence[str], again: Sequence[str]) -> dict[str, int]:
    rest = {commit: count for commit, count in before.items() if commit not in tried}
    return rest | {commit: before.get(commit, 0) + 1 for commit in again}


def path_of(root: Path, machine: str, environment: str) -> Path:
    """Return the journal's file."""
    return root / FOLDER / f"{machine}-{environment}.json"
