"""The measurements of a results directory as objects: those of the few commits that a table or a night looks at."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from kernel_velocity.harness.telemetry import Round
from kernel_velocity.results import git, reader
from kernel_velocity.results.git import SHORT
from kernel_velocity.results.measurement import Adjusted, Measurement, Outcome, SeriesKey, round_interval
from kernel_velocity.results.records import (
    History,
    Recorded,
    ResultsFile,
    StoredValue,
    code_of,
    kept_rounds,
    left_out_notes,
    measurement,
    twice,
    unshowable,
)
from kernel_velocity.stats.adjust_series import Place, fitted

_LISTED = 5  # commits named in a note before it only counts them


def measurements(recorded: Recorded) -> tuple[tuple[Measurement, ...], tuple[str, ...]]:
    """Return the measurement of every value that can be shown, and a note for each kind that cannot."""
    found: dict[tuple[SeriesKey, str], Measurement] = {}
    rounds: dict[Place, dict[str, Sequence[Round]]] = {}
    code: dict[Place, dict[str, str]] = {}
    left_out: Counter[str] = Counter()
    for file, value in _values(recorded):
        reason = unshowable(value.benchmark, value.version, recorded.benchmarks)
        item = measurement(file, value, recorded.benchmarks or {})
        if reason is None and (item.key, item.commit) in found:
            reason = twice(item.commit, item.key.machine)
        if reason is None:
            found[item.key, item.commit] = item
            if item.outcome is Outcome.MEASURED and item.method is not None:
                kept = kept_rounds(file, value, item.method)
                rounds.setdefault((item.key, item.method), {})[item.commit] = kept
                known = code_of(file, value, kept)
                code.setdefault((item.key, item.method), {}).update({} if known is None else {file.commit: known})
        else:
            left_out[f"{value.benchmark} {reason}"] += 1
    for (key, _), series in fitted(rounds, code).items():
        for commit, estimates in series.estimates.items():
            adjusted = replace(fair(estimates), fit=series.fit)
            found[key, commit] = replace(found[key, commit], adjusted=adjusted)
    return tuple(found.values()), left_out_notes(left_out)


def fair(estimates: Sequence[float]) -> Adjusted:
    """Return the adjusted time of a commit from the adjusted estimates of its rounds, s."""
    return Adjusted(seconds=statistics.median(estimates), interval=round_interval(estimates))


def _values(recorded: Recorded) -> Iterator[tuple[ResultsFile, StoredValue]]:
    for file in recorded.files:
        for value in file.values:
            yield file, value


def read(results: Path, repository: Path) -> tuple[tuple[Measurement, ...], tuple[str, ...]]:
    """Return the measurements of the commits that a repository has, and notes on what cannot be read or shown."""
    stored = reader.read(results)
    items, notes = measurements(stored)
    past = git.read(repository, (file.commit for file in stored.files))
    gone = history_notes(past, (file.commit for file in stored.files), (item.commit for item in items))
    return tuple(item for item in items if item.commit in past.commits), (*stored.notes, *notes, *gone)


def history_notes(past: History, recorded_: Iterable[str], measured: Iterable[str]) -> Iterator[str]:
    """Yield what has to be known of commits that have no place in the history.

    Args:
        past: the history. recorded_: the commits of the results files, in their order. measured: those of measurements.
    """
    line = frozenset(past.line)
    gone = [sha for sha in dict.fromkeys(recorded_) if sha not in past.commits]
    beside = [sha for sha in dict.fromkeys(measured) if sha in past.commits and sha not in line]
    if gone:
        yield f"results of commits that the repository does not have are kept, not shown: {_names(gone)}"
    if beside:
        yield f"commits beside the first-parent line of HEAD have a page, but no place on a trend: {_names(beside)}"
    if past.shallow:
        yield "the clone is shallow, so trends may begin too late: run `git fetch --unshallow`"


def _names(shas: list[str]) -> str:
    more = len(shas) - _LISTED
    return ", ".join(sha[:SHORT] for sha in shas[:_LISTED]) + (f" and {more} more" if more > 0 else "")
