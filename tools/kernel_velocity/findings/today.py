"""Tell where the values recorded by now no longer hold what a finding told: for its page, lists and `kv findings`."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from kernel_velocity import units
from kernel_velocity.findings.finding import Finding, Kind, State
from kernel_velocity.past import past as series_past
from kernel_velocity.past.past import Past
from kernel_velocity.results.measurement import SeriesKey
from kernel_velocity.verdict.verdicts import Change, Verdicts, Word, lasted

WAS_CONFIRMED = frozenset({State.CONFIRMED, State.EXPECTED, State.ACKNOWLEDGED, State.RESOLVED})


def of_findings(findings: Sequence[Finding], results: Path, repository: Path) -> Mapping[str, str]:
    """Return the sentences of findings by id. The past is opened only where a finding tells of a change of speed.

    Args:
        results: asv's results directory. repository: a folder of the repository.

    Raises:
        HistoryError: `repository` is no git repository with a commit.
    """
    if not any(_is_of_speed(finding) for finding in findings):
        return {}
    past = series_past.open(results, repository)
    levels = Verdicts(past, confirmed(findings, past))
    return {finding.id: of_finding(finding, past, levels) for finding in findings}


def of_finding(finding: Finding, past: Past, levels: Verdicts) -> str:
    """Return where today's verdicts (verdict/verdicts.py) no longer hold what a finding told. "" where they do.

    Of a change that is smaller than what a series would show, its values say nothing.
    """
    positions = [past.order[sha] for sha in finding.commits if sha in past.order]
    if not _is_of_speed(finding) or not positions:
        return ""
    good, bad = past.order.get(finding.anchor or "", positions[0] - 1), past.order.get(finding.bad or "", positions[-1])
    ended, gone, undecided = Counter[str](), list[float](), 0
    for series in finding.affected:
        key = past.slots.get((*series.identity.slot, series.identity.version))
        if key is None:
            continue
        columns, of_series = past.columns(key), levels[key]
        shown = [
            change
            for change in of_series.changes
            if change.point.rises is (series.effect > 0)
            and is_told_by(finding, change, past.line[columns.position[change.point.index]])
        ]
        measured = np.flatnonzero(columns.is_measured)
        around = measured[columns.position[measured] <= good][-1:], measured[columns.position[measured] >= bad][:1]
        if shown:
            ended.update(filter(None, [lasted(shown[-1], columns, past.line)]))
        elif around[0].size and around[1].size:
            verdict = of_series.between(int(around[0][0]), int(around[1][0]))
            undecided += verdict.word is Word.UNDECIDED
            gone += [verdict.within] if math.expm1(abs(series.effect)) > verdict.within else []
    notes = [(count, f"it lasted {words}") for words, count in ended.most_common()]
    if gone:
        notes.append((len(gone), f"the values recorded by now show no change there (within {units.share(max(gone))})"))
    if undecided:
        notes.append((undecided, "the values recorded by now leave it undecided"))
    return " ".join(f"In {count:,} of {len(finding.affected):,} series {words}." for count, words in notes)


def confirmed(findings: Iterable[Finding], past: Past) -> Mapping[tuple[SeriesKey, bool], frozenset[str]]:
    """Return the commits of findings that a re-measurement confirmed, by series and whether its values rose."""
    commits = defaultdict[tuple[SeriesKey, bool], set[str]](set)
    for finding in findings:
        if _is_of_speed(finding) and finding.state in WAS_CONFIRMED:
            for series in finding.affected:
                key = past.slots.get((*series.identity.slot, series.identity.version))
                is_settled = series.low is not None and series.high is not None and not series.low <= 1 <= series.high
                if key is not None and series.rounds and is_settled:
                    commits[key, series.effect > 0].update(finding.commits)
    return {key: frozenset(some) for key, some in commits.items()}


def is_told_by(finding: Finding, change: Change, shown_at: str) -> bool:
    """Return whether a finding and a change of one of its series, shown first at a commit, can have one cause."""
    return not {*change.commits.commits, shown_at}.isdisjoint(finding.commits)


def _is_of_speed(finding: Finding) -> bool:
    return finding.kind in (Kind.REGRESSION, Kind.IMPROVEMENT)
