"""Findings as text: headline, table, details, and plain data for JSON. Pure."""

from __future__ import annotations

import shlex
import statistics
from collections.abc import Iterable, Sequence
from datetime import date
from typing import Any

from kernel_velocity import fields, units
from kernel_velocity.findings.finding import Affected, Finding, Kind, State
from kernel_velocity.results.identity import noun
from kernel_velocity.tables import columns, plain
from kernel_velocity.verdict.silence import Stale

_MULTIPLE_FROM = 10.0  # a ratio from here on, or under its inverse, reads better as a factor
INTERVAL = "95% interval"


def change(ratio: float) -> str:
    """Return a ratio of values, new / old, as their change: "+3.00%", "×12.5", "unchanged" only for exactly 1."""
    if ratio == 1:
        return "unchanged"
    if not 1 / _MULTIPLE_FROM < ratio < _MULTIPLE_FROM:
        return f"{units.MULTIPLE}{units.significant(ratio)}"
    return f"{'+' if ratio > 1 else '-'}{units.significant(100 * abs(ratio - 1))}%"


def effect(series: Affected) -> str:
    """Return how much a series changed: "time +3.00% (95% interval +2.41% to +3.58%)"."""
    return f"{noun(series.identity.benchmark)} {change(series.ratio)}{interval(series.low, series.high)}"


def interval(low: float | None, high: float | None) -> str:
    """Return the interval of a change in parentheses. "" for an unknown one."""
    return "" if low is None or high is None else f" ({INTERVAL} {change(low)} to {change(high)})"


def headline(finding: Finding) -> str:
    """Return the change of a finding's worst series. Of an environment: the median of all."""
    if finding.kind is Kind.VANISHED:
        return f"{units.count(len(finding.affected), 'value')} gone"  # "series" has no other plural
    if finding.kind is Kind.ENVIRONMENT and finding.affected:
        median = statistics.median(series.ratio for series in finding.affected)
        return f"{change(median)}, the median of {len(finding.affected)} series"
    return effect(finding.worst) if finding.worst else "no series known"


def title(finding: Finding) -> str:
    """Return a finding in a line whose only foreign text is its subject."""
    if finding.kind is Kind.ENVIRONMENT:
        return f"the environment of {finding.subject} changed: {headline(finding)}"
    return f"{finding.subject}: {headline(finding)}, {blamed(finding)}"


def blamed(finding: Finding) -> str:
    """Return the possible causes: the culprit, a range of commits, or the environment."""
    return "the environment" if finding.range is None else str(finding.range)


def bisection(benchmark: str, implementation: str, case: str, good: str, bad: str) -> str:
    """Return the command that measures a series at commits between two others until one is to blame."""
    series, name, of = map(shlex.quote, (benchmark, implementation, case))
    return f"kv bisect {series} {good} {bad} --implementation {name} --case {of}"


def narrowing(finding: Finding) -> str:
    """Return the command that measures the worst series of a regression again and bisects. "" where none does."""
    worst = finding.worst
    if finding.kind is not Kind.REGRESSION or worst is None or not worst.identity.is_timed:
        return ""
    if finding.range is None or finding.anchor is None:
        return ""
    of, range_ = worst.identity, finding.range
    return bisection(of.benchmark, of.implementation, of.case, range_.good, range_.bad)


def role(finding: Finding) -> str:
    """Return the role of a finding's commits."""
    if finding.kind is Kind.VANISHED:
        return "since"
    if finding.state is not State.CONFIRMED:
        return "to be looked at"
    return "culprit" if finding.culprit else f"one of {len(finding.commits)} commits"


def tested(series: Affected) -> str:
    """Return the test of a series: "p 0.00016, 8 rounds a side". "" where there was none."""
    parts = [] if series.p is None else [f"p {series.p:.2g}"]
    parts += [] if series.rounds is None else [f"{units.count(series.rounds, 'round')} a side"]
    return ", ".join(parts)


def shown_by(finding: Finding) -> str:
    """Return where a finding shows: "10 of 12 series on 2 of 2 machines (bench-1, bench-2)"."""
    machines = finding.machines
    names = f" ({', '.join(machines)})" if machines else ""
    series, hosts = (f" of {number}" for number in finding.among) if finding.among else ("", "")
    noun = "machine" if (finding.among or (0, len(machines)))[1] == 1 else "machines"
    return f"{len(finding.affected)}{series} series on {len(machines)}{hosts} {noun}{names}"


def changes(finding: Finding) -> list[str]:
    """Return what changed of an environment, a line for each fact."""
    return [f"{name}: {old} -> {new}" for name, (old, new) in (finding.changes or {}).items()]


def stale(silent: Stale) -> str:
    """Return how long a machine has been silent."""
    what = "any of its series" if silent.whole else f"{len(silent.series)} of its series"
    return f"{silent.machine}: nothing measured of {what} for {silent.days:.1f} days"


def table(findings: Sequence[Finding]) -> str:
    """Return findings as lines of a table."""
    rows = [["finding", "state", "kind", "change", "series", "commits"]]
    rows += [
        [
            finding.id,
            _state(finding),
            finding.kind.value,
            headline(finding),
            str(len(finding.affected)),
            blamed(finding),
        ]
        for finding in findings
    ]
    return columns(rows)


def _state(finding: Finding) -> str:
    return finding.state.value if finding.until is None else f"{finding.state.value} until {finding.until}"


def details(finding: Finding, most_series: int | None = None, today: str = "") -> str:
    """Return everything that is known of a finding, as lines.

    Foreign text is on one line each, behind a word of ours or blanks.

    Args:
        most_series: of its series, the most moved. None: all.
        today: what the values recorded by now no longer hold of it.
    """
    facts = {
        "state": _state(finding),
        "today": today,
        "change": headline(finding),
        "found": f"{finding.found:%Y-%m-%d %H:%M %Z}",
        "cause": blamed(finding) if finding.culprit is None else "",
        "commits": " ".join(finding.commits),
        "against": finding.anchor or "",
        "shown by": shown_by(finding),
        "evidence": finding.how,
        "narrow it": narrowing(finding) if finding.culprit is None else "",
        "ruled out": "; ".join(finding.ruled_out),
        "changed": "; ".join(changes(finding)),
    }
    lines = [finding.id, *(f"  {name + ':':<11}{plain(text)}" for name, text in facts.items() if text)]
    lines += ["  series:", *(f"    {plain(line)}" for line in _series(finding.affected)[:most_series])]
    hidden = 0 if most_series is None else len(finding.affected) - most_series
    lines += [f"    and {hidden} more"] if hidden > 0 else []
    lines += ["  decisions:"]
    for decision in finding.decisions:
        until = "" if decision.until is None else f" until {decision.until}"
        line = f"{decision.when:%Y-%m-%d %H:%M} {decision.who}: {decision.state.value}{until}: {decision.reason}"
        lines.append(f"    {plain(line)}")
    return "\n".join(lines)


def _series(affected: Iterable[Affected]) -> list[str]:
    rows = [
        [f"{series.identity} on {series.identity.machine}", effect(series), tested(series)]
        for series in sorted(affected, key=lambda series: -abs(series.effect))
    ]
    return columns(rows).split("\n") if rows else []


def as_data(finding: Finding) -> dict[str, Any]:
    """Return a finding for JSON: unknown is null, times are in ISO 8601, ratios are of values, new / old."""
    data = fields.plain(finding) | {"until": finding.until, "culprit": finding.culprit}
    data["changes"] = data["changes"] or {}
    data["series"] = [fields.plain(series) | {"worse": finding.worse(series)} for series in finding.affected]
    about = ("id", "kind", "state", "until", "subject", "found", "culprit", "commits", "anchor", "bad")
    return {key: _dated(data[key]) for key in (*about, "how", "ruled_out", "among", "changes", "series", "decisions")}


def _dated(data: Any) -> Any:
    """Return plain data with its dates as text."""
    if isinstance(data, dict):
        return {key: _dated(value) for key, value in data.items()}
    if isinstance(data, list):
        return [_dated(value) for value in data]
    return data.isoformat() if isinstance(data, date) else data
