"""The evidence of a finding: what was measured again, round by round, and the path of a bisection.

A night records the rounds that its verdict rests on (nightly/confirm.py), because the folder that asv measured in is a
cache of one machine. The file is `results/findings/evidence/<finding>/<machine>.json`, a line for each re-run and
bisection, in the order of the fields here. There is a file for each finding and machine, so that the branches of two
machines merge without a conflict. Times are in seconds, to DIGITS digits. A file is checked when it is read.
"""

from __future__ import annotations

import enum
import itertools
import json
import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from kernel_velocity import fields
from kernel_velocity.documents import contents_of, with_checksum
from kernel_velocity.errors import ResultsError
from kernel_velocity.fields import PARTS, Measured, Rule
from kernel_velocity.files import replace_text
from kernel_velocity.findings import store
from kernel_velocity.findings.finding import OF_SERIES, Finding
from kernel_velocity.results.identity import Identity
from kernel_velocity.stats.sequential import Answer, Comparison, Strata
from kernel_velocity.stats.two_samples import P

# Limits of a finding's evidence on a machine. A re-run of the most rounds is 9 KB, one of the fewest 2: .3 MB at most.
MOST_RERUNS = 32
MOST_TRIED = 64  # commits of a bisection: enough for a range of any length, half of which do not build


class Purpose(enum.Enum):
    """Why two commits were measured in turns."""

    CONFIRM = "confirmation"  # the last commit before a move, and the first after it
    CULPRIT = "culprit"  # the commit that a bisection found, and the one before it


@dataclass(frozen=True, kw_only=True)
class Side:
    """The rounds of one commit, in order of time. All fields have the same length."""

    began: tuple[Measured, ...]  # Unix time, s
    seconds: tuple[Measured, ...]  # estimate, s per call
    adjusted: tuple[Measured, ...] = ()  # s per call, corrected for the machine; empty: compared as read
    flags: tuple[str, ...]  # warnings of the round, words with a space between


def _is_even(sides: tuple[Side, Side]) -> bool:
    lengths = [len(values) for side in sides for values in (side.began, side.seconds, side.flags)]
    return len({*lengths, *(len(side.adjusted or side.seconds) for side in sides)}) == 1


_EVEN = Rule("as many rounds in each of began, seconds, flags and adjusted", _is_even)


def compared(sides: tuple[Side, Side]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the values of a session that a test compares, s per call, before and after."""
    before, after = sides
    return (before.adjusted, after.adjusted) if before.adjusted and after.adjusted else (before.seconds, after.seconds)


def strata(sessions: Iterable[tuple[Side, Side]]) -> Strata:
    """Return the values that a test compares session by session."""
    return [(np.log(before), np.log(after)) for before, after in map(compared, sessions)]


@dataclass(frozen=True, kw_only=True)
class Look:
    """The sequential test's answer after so many rounds. Ratios are of times, after / before."""

    rounds: int  # a side
    ratio: Measured
    low: Measured  # 95% interval
    high: Measured
    least: Measured  # the interval at the test's own threshold: 1 lies outside where p is below it
    most: Measured
    p: float
    answer: Answer


@dataclass(frozen=True, kw_only=True)
class Rerun:
    """One series of two commits, measured in turns."""

    identity: Identity = field(metadata=OF_SERIES)
    purpose: Purpose
    before: str  # full SHA
    after: str
    commits: tuple[str, ...]  # the possible causes once this was known, oldest first
    answer: Answer
    reason: str
    floor: float  # relative change that counts
    code: tuple[str | None, str | None] = (None, None)  # hashes of what the series ran before and after
    looks: tuple[Look, ...]
    sides: Annotated[tuple[Side, Side], _EVEN]
    level: float = P  # p below which a difference is no chance
    earlier: tuple[Annotated[tuple[Side, Side], _EVEN], ...] = ()  # of nights that did not settle it; they count, too

    @property
    def sessions(self) -> tuple[tuple[Side, Side], ...]:
        """The rounds of all nights that the answer rests on."""
        return (*self.earlier, self.sides) if self.rounds else self.earlier

    @property
    def rounds(self) -> int:
        """Rounds a side."""
        return len(self.sides[0].seconds)

    @property
    def is_adjusted(self) -> bool:
        """Whether the test compared adjusted values."""
        return all(side.adjusted for side in self.sides)

    @property
    def compared(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """The values that the test compared, s per call, before and after."""
        return compared(self.sides)

    @property
    def effect(self) -> float | None:
        """The change of the logarithm at the last look. None where there was none."""
        return math.log(self.looks[-1].ratio) if self.looks else None


@dataclass(frozen=True, kw_only=True)
class Tried:
    """A commit that a bisection tried."""

    commit: str
    slow: bool | None  # whether it has the step; None: not settled
    # With the good commit; the file has no floor, adjustment and obstacle of it
    comparison: Comparison = field(metadata={PARTS: ("answer", "reason", "rounds", "ratio", "low", "high", "p")})


@dataclass(frozen=True, kw_only=True)
class BisectionPath:
    """A bisection of one series."""

    identity: Identity = field(metadata=OF_SERIES)
    good: str
    bad: str
    tried: tuple[Tried, ...]  # in the order they were tried, the bad one first
    left: tuple[str, ...]  # the commits, oldest first, of which one is the culprit
    reason: str


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What one machine has of one finding."""

    left_out: int = 0  # re-runs beyond MOST_RERUNS, at least
    reruns: tuple[Rerun, ...] = ()
    paths: tuple[BisectionPath, ...] = ()

    def __bool__(self) -> bool:
        """Return whether there is any."""
        return bool(self.reruns or self.paths)


def of(finding: Finding, night: Evidence) -> Evidence:
    """Return the part of a night's evidence that concerns a finding: its series, and a commit that may be the cause.

    A re-run that confirmed the opposite of the finding's effect belongs to another finding.
    """
    effects = {series.identity: series.effect for series in finding.affected}
    commits = set(finding.commits)

    def is_opposite(rerun: Rerun) -> bool:
        return rerun.answer is Answer.DIFFERENT and (rerun.effect or 0.0) * effects[rerun.identity] < 0

    return Evidence(
        reruns=tuple(
            rerun
            for rerun in night.reruns
            if rerun.identity in effects and commits & set(rerun.commits) and not is_opposite(rerun)
        ),
        paths=tuple(path for path in night.paths if path.identity in effects and commits & set(path.left)),
    )


def joined(recorded: Evidence, new: Evidence) -> Evidence:
    """Return both. The newer of two re-runs of the same commits counts, and the MOST_RERUNS largest effects stay."""
    paths = {(path.identity, path.good, path.bad): path for path in (*recorded.paths, *new.paths)}
    reruns = {
        (rerun.identity, rerun.before, rerun.after, rerun.purpose.value): rerun
        for rerun in (*recorded.reruns, *new.reruns)
    }
    largest = sorted(reruns, key=lambda key: -abs(reruns[key].effect or 0.0))[:MOST_RERUNS]
    return Evidence(
        reruns=tuple(reruns[key] for key in sorted(largest)),
        paths=tuple(replace(paths[key], tried=paths[key].tried[:MOST_TRIED]) for key in sorted(paths)[:MOST_RERUNS]),
        left_out=max(recorded.left_out, new.left_out, len(reruns) - len(largest)),
    )


# Of the files; raised when a key is added, or a reader of the old ones would go wrong. From 2 on they have a checksum.
FORMAT = 3
EVIDENCE = "evidence"  # in the folder of the findings
DIGITS = 7  # of a time: a hundredth of what the quietest series scatters by
MOST_TEXT = 400  # characters of a reason


def path_of(results: Path, finding: str, machine: str) -> Path:
    """Return the file of a machine's evidence of a finding (its id)."""
    return results / store.FOLDER / EVIDENCE / finding / f"{machine}.json"


def add(results: Path, finding: str, machine: str, new: Evidence) -> Path:
    """Add evidence to the recorded one of a finding, and return the file.

    Raises:
        ResultsError: the recorded evidence cannot be read. It is not replaced.
    """
    path = path_of(results, finding, machine)
    text = as_text(joined(_read_file(path) if path.exists() else Evidence(), new))
    if not path.exists() or contents_of(path) != text.encode():
        replace_text(path, text)
    return path


def read(results: Path, finding: str) -> tuple[dict[str, Evidence], tuple[str, ...]]:
    """Return the recorded evidence of a finding, by machine, and a line for each file that cannot be read."""
    by_machine, problems = {}, []
    folder = results / store.FOLDER / EVIDENCE / finding
    for path in sorted(folder.glob("*.json")) if folder.is_dir() else []:
        try:
            by_machine[path.stem] = _read_file(path)
        except ResultsError as error:
            problems.append(str(error))
    return by_machine, tuple(problems)


def _read_file(path: Path) -> Evidence:
    try:
        return fields.read(Evidence, contents_of(path), path, range(1, FORMAT + 1), unchecked=1)
    except OSError as error:
        raise ResultsError(f"{path}: {error.strerror}: the finding stands without it") from None
    except ResultsError as error:
        raise ResultsError(f"{error}; restore the file, or remove it: the finding stands without it") from None


def as_text(record: Evidence) -> str:
    """Return the file of evidence."""
    data = {"format": FORMAT, **as_data(record)}
    return with_checksum("{" + ",\n".join(f'"{key}": {_lines(value)}' for key, value in data.items()) + "}") + "\n"


def as_data(record: Evidence) -> dict[str, Any]:
    """Return evidence as plain data, with as many digits as the file has."""
    data: dict[str, Any] = fields.plain(record)
    for rerun in data["reruns"]:
        for side in itertools.chain(rerun["sides"], *rerun["earlier"]):
            side["began"] = [round(time, 2) for time in side["began"]]
            for name in ("seconds", "adjusted"):
                side[name] = [float(f"{value:.{DIGITS}g}") for value in side[name]]
    for entry in (*data["reruns"], *data["paths"], *(step for path in data["paths"] for step in path["tried"])):
        entry["reason"] = entry["reason"][:MOST_TEXT]
    return data


def _lines(value: Any) -> str:
    """Return JSON with a line for each entry of a list."""
    if not isinstance(value, list) or not value:
        return json.dumps(value)
    return "[\n" + ",\n".join(json.dumps(entry, allow_nan=False) for entry in value) + "\n]"
