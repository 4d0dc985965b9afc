"""Findings as text: headline, table, everything; and as plain data for JSON. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from typing import Any

from kernel_velocity import units
from kernel_velocity.findings.finding import OPEN, Affected, Finding, Kind
from kernel_velocity.results.git import SHORT
from kernel_velocity.results.identity import Identity, metric
from kernel_velocity.tables import columns

_MULTIPLE_FROM = 10.0  # a ratio from here on, or under its inverse, reads better as a factor
INTERVAL = "95% interval"


def is_open(finding: Finding) -> bool:
    """Return whether a finding waits for somebody."""
    return finding.state in OPEN


def change(ratio: float) -> str:
    """Return a ratio of values, new / old, as their change: "+3.00%", "x12.5", "unchanged" only for exactly 1."""
    if ratio == 1:
        return "unchanged"
    if not 1 / _MULTIPLE_FROM < ratio < _MULTIPLE_FROM:
        return f"x{units.significant(ratio)}"
    return f"{'+' if ratio > 1 else '-'}{units.significant(100 * abs(ratio - 1))}%"


def effect(item: Affected) -> str:
    """Return how much a series changed: "time +3.00% (95% interval +2.41% to +3.58%)"."""
    noun = metric(item.identity.benchmark).noun
    return f"{noun} {change(item.ratio)}{interval(item.low, item.high)}"


def interval(low: float | None, high: float | None) -> str:
    """Return the interval of a change in parentheses; "" for an unknown one."""
    return "" if low is None or high is None else f" ({INTERVAL} {change(low)} to {change(high)})"


def headline(finding: Finding) -> str:
    """Return a finding in a few words: how much, of the series that shows it most; of an environment, the median."""
    if finding.kind is Kind.VANISHED:
        return f"{units.count(len(finding.affected), 'value')} gone"  # "series" has no other plural
    if finding.kind is Kind.ENVIRONMENT and finding.affected:
        median = statistics.median(item.ratio for item in finding.affected)
        return f"{change(median)}, the median of {len(finding.affected)} series"
    return effect(finding.worst) if finding.worst else "no series known"


def blamed(finding: Finding) -> str:
    """Return the commits that can have done it: the culprit, a range, or the environment."""
    if not finding.commits:
        return "the environment"
    if finding.culprit:
        return finding.culprit[:SHORT]
    return f"one of {len(finding.commits)} commits, {finding.commits[0][:SHORT]} to {finding.commits[-1][:SHORT]}"


def tested(item: Affected) -> str:
    """Return what the test of a series said: "p 0.00016, 8 rounds a side"; "" where none was made."""
    said = [] if item.p is None else [f"p {item.p:.2g}"]
    said += [] if item.rounds is None else [f"{units.count(item.rounds, 'round')} a side"]
    return ", ".join(said)


def shown_by(finding: Finding) -> str:
    """Return where a finding shows: "10 series on 2 machines (bench-1, bench-2)"."""
    machines = finding.machines
    named = f" ({', '.join(machines)})" if machines else ""
    return f"{len(finding.affected)} series on {units.count(len(machines), 'machine')}{named}"


def table(findings: Sequence[Finding]) -> str:
    """Return findings as lines of a table."""
    rows = [["finding", "state", "kind", "change", "series", "commits"]]
    rows += [
        [item.id, _state(item), item.kind.value, headline(item), str(len(item.affected)), blamed(item)]
        for item in findings
    ]
    return columns(rows)


def _state(finding: Finding) -> str:
    return finding.state.value if finding.until is None else f"{finding.state.value} until {finding.until}"


def details(finding: Finding) -> str:
    """Return everything that is known of a finding, as lines."""
    facts = {
        "state": _state(finding),
        "change": headline(finding),
        "found": f"{finding.found:%Y-%m-%d %H:%M %Z}",
        "commits": " ".join(finding.commits) or blamed(finding),
        "against": finding.anchor or "",
        "evidence": finding.how,
        "ruled out": "; ".join(finding.ruled_out),
        "changed": "; ".join(f"{name}: {old} -> {new}" for name, (old, new) in (finding.changes or {}).items()),
    }
    lines = [finding.id, *(f"  {name + ':':<11}{plain(text)}" for name, text in facts.items() if text)]
    lines += ["  series:", *(f"    {plain(line)}" for line in _series(finding.affected))]
    lines += ["  decisions:"]
    for item in finding.decisions:
        until = "" if item.until is None else f" until {item.until}"
        said = f"{item.when:%Y-%m-%d %H:%M} {item.who}: {item.state.value}{until}: {item.reason}"
        lines.append(f"    {plain(said)}")
    return "\n".join(lines)


def _series(affected: Iterable[Affected]) -> list[str]:
    rows = [
        [f"{item.identity} on {item.identity.machine}", effect(item), tested(item)]
        for item in sorted(affected, key=lambda item: -abs(item.effect))
    ]
    return columns(rows).split("\n") if rows else []


def plain(text: str) -> str:
    """Return foreign text as one line: nothing that a terminal would obey, XML cannot hold, or that turns the rest."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


def as_data(finding: Finding) -> dict[str, Any]:
    """Return a finding as JSON has it: unknown is null, times in ISO 8601, ratios of values new / old."""
    return {
        "id": finding.id,
        "kind": finding.kind.value,
        "state": finding.state.value,
        "until": None if finding.until is None else finding.until.isoformat(),
        "subject": finding.subject,
        "found": finding.found.isoformat(),
        "culprit": finding.culprit,
        "commits": list(finding.commits),
        "anchor": finding.anchor,
        "how": finding.how,
        "ruled_out": list(finding.ruled_out),
        "changes": {name: list(pair) for name, pair in (finding.changes or {}).items()},
        "series": [
            series_data(item.identity)
            | {name: getattr(item, name) for name in ("ratio", "low", "high", "p", "rounds", "worse")}
            for item in finding.affected
        ],
        "decisions": [
            {
                "when": item.when.isoformat(),
                "who": item.who,
                "state": item.state.value,
                "reason": item.reason,
                "until": None if item.until is None else item.until.isoformat(),
            }
            for item in finding.decisions
        ],
    }


def series_data(identity: Identity) -> dict[str, str]:
    """Return what names a series."""
    names = ("machine", "environment", "benchmark", "implementation", "case", "version", "method")
    return {name: getattr(identity, name) for name in names}
