"""index.html: what became slower and faster, a card for each change, every series in a table, the newest commits."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from kernel_velocity import statuses, units
from kernel_velocity.findings import text
from kernel_velocity.findings.finding import OPEN, Finding, Kind, State, finding_href
from kernel_velocity.findings.store import NightRecord
from kernel_velocity.results import identity as series_identity
from kernel_velocity.results.records import name_parts
from kernel_velocity.site import outside
from kernel_velocity.site import text as pages
from kernel_velocity.site.model import Site
from kernel_velocity.site.pages import finding as finding_page
from kernel_velocity.site.pages import home_table
from kernel_velocity.site.pages.home_table import Event, SeriesTable
from kernel_velocity.site.text import Footnotes
from kernel_velocity.site.writer import INDEX, DataFile, Page
from kernel_velocity.verdict import silence, verdicts
from kernel_velocity.verdict.history import Observation, SeriesHistory
from kernel_velocity.verdict.verdicts import Word

FORMAT = 2  # of the data; raised when a key changes its meaning
RECENT = 30  # commits listed; each kernel's page lists all
CARDS = 12  # changes shown at once, each with a chart
LISTED = 200  # further changes, a line each
ROWS = 100  # rows shown at once
FEW = 5  # notes and machines shown at once
_URGENCY = (State.CONFIRMED, State.SUSPECT, State.NEW)


def build(site: Site) -> Iterator[Page | DataFile]:
    """Yield the home page, its data, and the feed of what it shows."""
    context = page(site)
    findings = [(finding, finding_line(site, finding)) for finding in site.findings]
    yield outside.build_feed(site, context["cards"] + context["more_cards"], findings)
    yield DataFile(name="home", value=_data(site, context))
    if context["more_rows"]:
        others = {"page": context, "rows": context["more_rows"]}
        yield DataFile(name="home-rows", value=others, template="home_rows.html")
    yield Page(name=INDEX, template="home.html", context={"page": context})


def page(site: Site) -> dict[str, Any]:
    """Return what the template shows."""
    tables = [table for platform in site.platforms if (table := SeriesTable(site, platform)).keys]
    newest = [sha for sha in reversed(site.measured) if sha in site.order]
    hidden = len(newest) - RECENT
    events = [event for table in tables for event in table.events]
    groups = home_table.grouped(events)
    cards = [
        home_table.card(site, group, site.commits[site.line[group[0].position]], has_chart=number < CARDS)
        for number, group in enumerate(groups)
    ]
    unlisted = len(cards) - CARDS - LISTED
    machines = dict.fromkeys(platform.machine for platform in site.platforms)
    doubts = [f"{machine}: {doubt}" for machine in machines for doubt in site.hardware_doubts(machine)]
    notes, marks = [*doubts, *site.notes], Footnotes()
    measured = _last_measured(site)
    rows = sorted(((row.rank, table, row) for table in tables for row in table.rows), key=lambda entry: entry[0])
    lines = [home_table.line(table, row, marks) for _, table, row in rows]
    commits = [_commit(site, sha, groups) for sha in newest[:RECENT]]
    spans = _spans(tables)
    for line in lines:
        line["changes"] = [line["changes"][number] for number in spans]
    return {
        "unfinished": site.unfinished and site.unfinished.text,
        "until": site.unfinished and int(site.unfinished.until),
        "until_clock": site.unfinished and time.strftime("%H:%M", time.localtime(site.unfinished.until)),
        "answer": _answer(tables),
        "nights": [_night(verdict) for verdict in site.verdicts],  # newest first
        "measured": measured[:FEW],
        "measured_more": f" and {len(measured) - FEW:,} more machines" if len(measured) > FEW else "",
        "cards": cards[:CARDS],
        "more_cards": cards[CARDS:],
        "more_changes": f"{units.count(len(cards) - CARDS, 'more change')}",
        "listed": LISTED,
        "further_changes": f"{units.count(unlisted, 'smaller change')} on the commits' pages" if unlisted > 0 else "",
        "findings": _unseen(site, groups),
        "silence": silence_of(site),
        "spans": list(spans.values()),
        "rows": lines[:ROWS],
        "more_rows": lines[ROWS:],
        "all_rows": f"show all {len(lines):,}",
        "has_shares": any(line["share"] for line in lines),
        "lacking": list(dict.fromkeys(line["lacking"] for line in lines if line["lacking"])),
        "has_speedups": any(line["speedup"] for line in lines),
        "machines": len({row["machine"] for row in lines}) > 1,
        "footnotes": marks.texts,
        "commits": commits,
        "has_changes": any(commit["largest"] for commit in commits),
        "further": f"{units.count(hidden, 'older commit')} on the kernels' pages" if hidden > 0 else "",
        "foreign": "" if lines else _foreign(site),
        "notes": notes[:FEW],
        "more_notes": notes[FEW:],
    }


def _answer(tables: Sequence[SeriesTable]) -> dict[str, Any] | None:
    """Return the headline: how many series became slower and faster, over which commits. None without any time."""
    tables = [table for table in tables if table.measured]
    rows = [row for table in tables for row in table.rows]
    if not rows:
        return None
    failed = sum(row.is_failed for row in rows)
    judged = [row.verdicts[0] for row in rows if not row.is_failed and row.verdicts and row.verdicts[0] is not None]
    counts = verdicts.named(judged)
    new = len(rows) - failed - len(judged)
    parts = [("failed", failed, "failed"), *((pages.tone(word), counts[word], word.value) for word in Word)]
    if new:
        parts.append(("same", new, "without a baseline"))
    platforms = [_where(table, tables) for table in sorted(tables, key=lambda table: -len(table.measured))]
    return {
        "parts": [(tone, f"{number:,} {words}") for tone, number, words in parts if number],
        "tone": next((tone for tone, number, _ in parts if number and tone != Word.UNDECIDED.value), "same"),
        "where": platforms[:FEW],
        "elsewhere": platforms[FEW:],
    }


def _where(table: SeriesTable, tables: Sequence[SeriesTable]) -> dict[str, Any]:
    """Return over which commits a machine's answer is, and how many of its series the newest has."""
    commits, position = table.site.commits, table.measured[-1]
    newest = commits[table.site.line[position]]
    base = table.spans[0].position
    alone = [other.platform.machine for other in tables].count(table.platform.machine) == 1
    at_newest = sum(row.entry is not None and int(row.columns.position[row.entry]) == position for row in table.rows)
    return {
        "name": table.platform.machine if alone else f"{table.platform.machine}, {table.platform.environment}",
        "anchor": table.platform.anchor,
        "newest": pages.commit_line(newest),
        "base": None if base < 0 else pages.commit_line(commits[table.site.line[base]]),
        "span": table.spans[0].name,
        "measured": f"{at_newest:,} of {len(table.rows):,} series measured",
    }


def _spans(tables: Sequence[SeriesTable]) -> dict[int, str]:
    """Return the heads of the columns of changes that a machine's history reaches back for. Machines may differ."""
    heads = {}
    for number, spans in enumerate(zip(*(table.spans for table in tables if table.spans), strict=True)):
        if any(span.position >= 0 for span in spans):
            names = list(dict.fromkeys(span.name for span in spans))
            heads[number] = names[0] if len(names) == 1 else f"last {home_table.RECENT} commits"
    return heads


def _unseen(site: Site, groups: Sequence[Sequence[Event]]) -> list[dict[str, Any]]:
    """Return the open findings that no card shows, worst first."""
    shown = {event.finding.id for group in groups for event in group if event.finding is not None}
    waiting = [finding for finding in site.findings if finding.state in OPEN and finding.id not in shown]

    def badness(finding: Finding) -> tuple[int, float, str]:  # what is sure first, then the largest effect
        return _URGENCY.index(finding.state), -abs(finding.worst.effect) if finding.worst else 0.0, finding.id

    return [finding_line(site, finding) for finding in sorted(waiting, key=badness)]


def _commit(site: Site, sha: str, groups: Sequence[Sequence[Event]]) -> dict[str, Any]:
    """Return a commit with how many series it made slower and faster, and its largest change."""
    position = site.order[sha]
    events = [event for group in groups for event in group if position in (event.position, event.end)]
    begun = [event for event in events if event.position == position]
    words = verdicts.named(event.verdict for event in begun)
    # What it changed comes before what it took back
    largest = max(events, key=lambda event: (event.position == position, abs(event.verdict.effect)), default=None)
    change, cause = "", None
    if largest is not None:
        columns, is_end = site.series(largest.key), largest.position != position
        ended = pages.ended(largest.change, columns, site.line)
        change = ended if is_end else pages.verdict(largest.verdict, columns.unit)
        change = " ".join(filter(None, (name_parts(largest.key.benchmark).kernel, largest.key.case, change)))
        cause = largest.change.end_commits if is_end else largest.change.commits
    return {
        "line": pages.commit_line(site.commits[sha]),
        "day": f"{site.commits[sha].date:%Y-%m-%d}",
        "tags": site.tags_of(sha),
        "slower": words[Word.SLOWER],
        "faster": words[Word.FASTER],
        "others": words[Word.HIGHER] + words[Word.LOWER],
        "back": len(events) - len(begun),
        "largest": change,
        "cause": "" if cause is None or cause.commits == (sha,) else f"by {cause}",
        "href": "" if largest is None else pages.trend_href(largest.key),
    }


def _night(verdict: NightRecord) -> dict[str, Any]:
    return {
        "machine": verdict.machine,
        "when": f"{verdict.when:%Y-%m-%d %H:%M %Z}",
        "summary": verdict.summary,
        "tone": statuses.tone(verdict.exit_status),
        "measured": f"{verdict.measured:,} series measured",  # "series" has no other plural
        "failures": verdict.failures,
    }


def _foreign(site: Site) -> str:
    """Return why a directory that has results shows none. Empty where there are none."""
    if not site.has_results:
        return ""
    return (
        f"{site.results.name}/ has results, but none that belong here: they are of another project, of another clone, "
        "of benchmarks that are gone, or everything in them is n/a. Name the right folder with --results, the right "
        "clone with --repository; what was passed over is listed here."
    )


def _data(site: Site, context: Mapping[str, Any]) -> dict[str, Any]:
    """Return the page as data: shares as fractions, changes as ratios of times, new / old."""
    stale, doubt = context["silence"]
    return {
        "format": FORMAT,
        "verdicts": [_as_data(verdict) for verdict in site.verdicts],
        "changes": [card["data"] for card in context["cards"] + context["more_cards"]],
        "rows": [row["data"] for row in context["rows"] + context["more_rows"]],
        "findings": [text.as_data(finding) for finding in site.findings],
        "stale": stale,
        "stale_doubt": doubt or None,
        "notes": context["notes"] + context["more_notes"],
    }


def _as_data(verdict: NightRecord) -> dict[str, Any]:
    """Return a verdict as data, without what only the next night has to know."""
    data = asdict(verdict) | {"when": verdict.when.isoformat()}
    del data["memory"]
    return data


def finding_line(site: Site, finding: Finding) -> dict[str, Any]:
    """Return a finding in a line."""
    tones = {Kind.REGRESSION: "slower", Kind.IMPROVEMENT: "faster"}
    return {
        "href": finding_href(finding.id),
        "subject": finding.subject,
        "kind": finding.kind.value,
        "state": finding_page.state(finding),
        "tone": tones.get(finding.kind, "")
        if finding.state is State.CONFIRMED
        else "same",  # only what is sure has a colour
        "change": text.headline(finding).partition(f" ({text.INTERVAL}")[0],  # the interval stands beside it
        "interval": _interval(finding),
        "where": text.shown_by(finding),
        "commits": [] if finding.range is None else [site.cause(finding.range, finding_href(finding.id))],
        "found": f"{finding.found:%Y-%m-%d %H:%M}",
        "today": site.today(finding),
    }


def _interval(finding: Finding) -> str:
    """Return the interval of the worst series, its p and its rounds."""
    if finding.worst is None or finding.kind is Kind.ENVIRONMENT:
        return ""
    within = text.interval(finding.worst.low, finding.worst.high).strip(" ()")
    return ", ".join(filter(None, (within, text.tested(finding.worst))))


def silence_of(site: Site) -> tuple[list[str], str]:
    """Return machines that went quiet, and why this may be wrong ("": no doubt).

    The policy of a nightly run (verdict/silence.py). Days are counted from the newest value or verdict of any machine:
    no clock is read.
    """
    heard = _newest_values(site)
    for verdict in site.verdicts:
        heard[verdict.machine] = max(verdict.when.timestamp(), heard.get(verdict.machine, 0.0))
    stale = [text.stale(series) for series in silence.stale(_histories(site), max(heard.values(), default=0.0))]
    return stale, _doubt(heard) if stale else ""


def _newest_values(site: Site) -> dict[str, float]:
    """Return when each machine measured last, by its own clock, Unix time, s."""
    newest: dict[str, float] = {}
    for key in site.keys:
        when = site.past.last_measured(key)
        if when is not None:
            newest[key.machine] = max(when, newest.get(key.machine, when))
    return newest


def _doubt(heard: Mapping[str, float]) -> str:
    """Return whose clock alone makes all others silent. "" where another machine's is as late.

    Note: a machine of a later time that is trusted only as far as nights' verdicts go was rejected: where nights have
    stopped, silence is what has to be said.
    """
    *others, (last, machine) = sorted((when, machine) for machine, when in heard.items())
    ahead = (last - others[-1][0]) / silence.DAY if others else 0.0
    if ahead < silence.STALE_AFTER:
        return ""
    return (
        f"Days are counted up to {machine}, {units.utc(last)}: {ahead:.1f} days after any other machine was heard "
        "of. If its clock is wrong, so are they."
    )


def _last_measured(site: Site) -> list[tuple[str, str]]:
    """Return machine and time of each machine's newest value, newest first. Unknown times are left out."""
    newest = sorted(_newest_values(site).items(), key=lambda pair: (-pair[1], pair[0]))
    times = [(machine, datetime.fromtimestamp(seconds, UTC)) for machine, seconds in newest]
    return [(machine, f"{at:%Y-%m-%d %H:%M} UTC") for machine, at in times]


def _histories(site: Site) -> Iterator[SeriesHistory]:
    """Yield the series, each with its newest value alone."""
    for key in site.keys:
        series, when = site.series(key), site.past.last_measured(key)
        measured = (series.is_measured & (series.seconds > 0)).nonzero()[0]  # another suite's values may be 0 or less
        if len(measured):
            last = int(measured[-1])
            method = series.methods[series.method[last]] if series.method[last] >= 0 else None
            position, value = int(series.position[last]), math.log(series.seconds[last])
            newest = Observation(commit=site.line[position], position=position, value=value, measured=when)
            yield SeriesHistory(identity=series_identity.of(key, method), better=series.better, observations=(newest,))
