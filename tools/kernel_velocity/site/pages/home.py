"""index.html: the verdict of the last nights, what waits for somebody, what is silent, and the grid of kernels."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Any

from kernel_velocity import units
from kernel_velocity.findings import text
from kernel_velocity.findings.finding import OPEN, Finding, Kind, State, finding_href
from kernel_velocity.findings.last_night import KeptVerdict
from kernel_velocity.results import identity as series_identity
from kernel_velocity.results import sessions as session_facts
from kernel_velocity.results.git import SHORT
from kernel_velocity.results.identity import Identity, Slot
from kernel_velocity.results.measurement import OUTCOMES, Outcome, SeriesKey
from kernel_velocity.series import silence
from kernel_velocity.series.history import Observation, SeriesHistory
from kernel_velocity.site import text as pages
from kernel_velocity.site.model import Site
from kernel_velocity.site.pages import finding as finding_page
from kernel_velocity.site.pages import home_grid
from kernel_velocity.site.writer import INDEX, DataFile, Page

FORMAT = 1  # of the data; raised when a key changes its meaning
RECENT = 30  # commits listed; each kernel's page lists all
FEW = 5  # notes shown at once
LATELY = timedelta(days=30)  # before the newest verdict or decision
LISTED = 10  # of each list of findings that wait for nobody
NAMED_COMMITS = 3  # of a finding
NAMED_SERIES = 3  # of a line about silent series
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ROW = ("device", "kernel", "state", "implementation")  # what a row of the grid can be filtered by
UNJUDGED = "No nightly run has finished yet."
FINDINGS_ALONE = "Nightly runs left findings here, but no verdict."  # by versions that kept no verdicts
DECIDED = frozenset({State.ACKNOWLEDGED, State.EXPECTED, State.METHOD})
_URGENCY = (State.CONFIRMED, State.SUSPECT, State.NEW)
_FACTS = {"cpu": "CPU", "num_cpu": "CPUs", "gpu": "GPU"}
_TONES = {0: "clean", 10: "bad", 2: "bad", 20: "bad", 21: "bad", 22: "bad"}  # of exit statuses; the others: "doubt"
_NOT_APPLICABLE = OUTCOMES.index(Outcome.NOT_APPLICABLE)


def build(site: Site) -> Iterator[Page | DataFile]:
    """Yield the home page and its data."""
    context = page(site)
    yield DataFile(name="home", value=_data(site, context))
    yield Page(name=INDEX, template="home.html", context={"page": context})


def page(site: Site) -> dict[str, Any]:
    """Return what the template shows."""
    newest = [sha for sha in reversed(site.measured) if sha in site.order]
    hidden = len(newest) - RECENT
    grids = home_grid.build(site)
    notes = [*_shared_names(site), *site.notes]
    devices = {row["device"] for grid in grids for row in grid["rows"]}
    commits = [pages.commit_line(site.commits[sha]) for sha in newest[:RECENT]]
    return {
        "nights": [_night(verdict) for verdict in site.verdicts],  # newest first
        "is_judged": bool(site.verdicts or site.findings),
        "unjudged": FINDINGS_ALONE if site.findings else UNJUDGED,
        "measured": _last_measured(site),
        "newest": commits[0] if commits else None,
        "findings": _findings(site),
        "silence": silence_of(site),
        "filters": _filters(grids),
        "grids": grids,
        "has_values": "" in devices,
        "commits": commits,
        "further": f"{units.count(hidden, 'older commit')} on the kernels' pages" if hidden > 0 else "",
        "foreign": "" if grids else _foreign(site),
        "notes": notes[:FEW],
        "more_notes": notes[FEW:],
    }


def _night(verdict: KeptVerdict) -> dict[str, Any]:
    return {
        "machine": verdict.machine,
        "when": f"{verdict.when:%Y-%m-%d %H:%M %Z}",
        "iso": verdict.when.isoformat(),
        "summary": verdict.summary,
        "tone": _TONES.get(verdict.exit_status, "doubt"),
        "measured": f"{verdict.measured:,} series measured",  # "series" has no other plural
        "failures": verdict.failures,
    }


def _filters(grids: Sequence[Mapping[str, Any]]) -> list[tuple[str, str, list[str]]]:
    """Return name, label and choices of each filter of the grid that has more than one choice."""
    choices = {"machine": dict.fromkeys(grid["place"].machine for grid in grids)}
    choices |= {name: dict.fromkeys(row[name] for grid in grids for row in grid["rows"]) for name in ROW}
    labels = {"state": "cache state" if any(choices["device"]) else "function"}
    return [(name, labels.get(name, name), list(known)) for name, known in choices.items() if len(known) > 1]


def _shared_names(site: Site) -> Iterator[str]:
    """Yield a note for each machine's name under which different hardware was measured: its trends mix the two."""
    for machine in dict.fromkeys(place.machine for place in site.places):
        sessions = [session for place in site.places if place.machine == machine for session in site.sessions(place)]
        # the two spell one CPU in two ways: only where no session tells, the results of a plain asv run do
        yield from list(_different(machine, sessions)) or _different(machine, site.hardware(machine))


def _different(machine: str, sessions: session_facts.Sessions) -> Iterator[str]:
    for fact in session_facts.HARDWARE:
        # of a GPU, its limits follow
        texts = dict.fromkeys(session.facts.get(fact, "").partition(";")[0] for _, session in sessions)
        texts.pop("", None)
        if len(texts) > 1:
            yield (
                f"{machine}: results of {len(texts)} different machines under one name ({_FACTS[fact]}: "
                f"{', then '.join(texts)}): its trends mix them; measure under another name (`kv track --machine ...`)"
            )


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
    """Return the page as data: rates in GFLOPS, efficiencies as fractions, changes as speed ratios new / old."""
    stale, vanished, doubt = context["silence"]
    return {
        "format": FORMAT,
        "verdicts": [_as_data(verdict) for verdict in site.verdicts],
        "findings": [text.as_data(finding) for finding in site.findings],
        "stale": stale,
        "stale_doubt": doubt or None,
        "vanished": vanished,
        "grid": [
            {
                "machine": grid["place"].machine,
                "environment": grid["place"].environment,
                "spans": [{"name": span.name, "against": span.base and span.base.sha} for span in grid["spans"]],
                "rows": [{name: row[name] for name in ROW} | row["figures"] for row in grid["rows"]],
            }
            for grid in context["grids"]
        ],
        "notes": context["notes"] + context["more_notes"],
    }


def _as_data(verdict: KeptVerdict) -> dict[str, Any]:
    """Return a verdict as data, without what only the next night has to know."""
    data = asdict(verdict) | {"when": verdict.when.isoformat()}
    del data["memory"]
    return data


def _findings(site: Site) -> dict[str, Any]:
    """Return the findings: those that wait for somebody, worst first, and the newest of others, by what they are."""
    items = site.findings
    moments = [verdict.when for verdict in site.verdicts] + [_last_decided(item) for item in items]
    since = max(moments, default=EPOCH + LATELY) - LATELY

    def newest(items: Iterable[Finding]) -> tuple[list[dict[str, Any]], str]:
        ordered = sorted(items, key=lambda item: (_last_decided(item), item.id), reverse=True)
        more = len(ordered) - LISTED
        return [finding_line(site, item) for item in ordered[:LISTED]], f"{more:,} more" if more > 0 else ""

    lately = [item for item in items if _last_decided(item) >= since]
    waiting = [item for item in items if item.state in OPEN]
    worse = sorted((item for item in waiting if item.kind in (Kind.REGRESSION, Kind.VANISHED)), key=_badness)
    return {
        "open": [finding_line(site, item) for item in worse],
        "improvements": newest(item for item in waiting if item.kind is Kind.IMPROVEMENT),
        "environment": newest(item for item in lately if item.kind is Kind.ENVIRONMENT),
        "resolved": newest(item for item in lately if item.state is State.RESOLVED),
        "decided": newest(item for item in items if item.state in DECIDED),
    }


def _last_decided(item: Finding) -> datetime:
    return item.decisions[-1].when if item.decisions else item.found


def _badness(item: Finding) -> tuple[int, float, str]:
    """Return a sort key: what is sure before what is not, then the largest effect first."""
    return _URGENCY.index(item.state), -abs(item.worst.effect) if item.worst else 0.0, item.id


def finding_line(site: Site, item: Finding) -> dict[str, Any]:
    """Return a finding in a line."""
    shown = item.commits if len(item.commits) <= NAMED_COMMITS else (item.commits[0], item.commits[-1])
    tones = {Kind.REGRESSION: "slower", Kind.IMPROVEMENT: "faster"}
    return {
        "href": finding_href(item.id),
        "subject": item.subject,
        "kind": item.kind.value,
        "state": finding_page.state(item),
        "tone": tones.get(item.kind, "") if item.state is State.CONFIRMED else "same",  # only what is sure has a colour
        "change": text.headline(item).partition(f" ({text.INTERVAL}")[0],  # the interval stands beside it
        "interval": _interval(item),
        "where": text.shown_by(item),
        "commits": [pages.named_commit(sha, site.commit(sha), site.with_page) for sha in shown],
        "further": f"first and last of {len(item.commits)} commits" if len(shown) < len(item.commits) else "",
        "found": f"{item.found:%Y-%m-%d %H:%M}",
        "iso": item.found.isoformat(),
    }


def _interval(item: Finding) -> str:
    """Return the interval of the worst series, its p and its rounds."""
    if item.worst is None or item.kind is Kind.ENVIRONMENT:
        return ""
    within = text.interval(item.worst.low, item.worst.high).strip(" ()")
    return ", ".join(filter(None, (within, text.tested(item.worst))))


def silence_of(site: Site) -> tuple[list[str], list[str], str]:
    """Return machines that went quiet, series that no longer apply, and why the first may be wrong ("": no doubt).

    The policy of a nightly run (series/silence.py). Days are counted from the newest value or verdict of any machine:
    no clock is read.
    """
    heard = _newest_values(site)
    for verdict in site.verdicts:
        heard[verdict.machine] = max(verdict.when.timestamp(), heard.get(verdict.machine, 0.0))
    histories, absent = _histories(site)
    stale = [text.stale(item) for item in silence.stale(histories, max(heard.values(), default=0.0))]
    kinds = (item for item in site.findings if item.kind is Kind.VANISHED)
    reported = {affected.identity for item in kinds for affected in item.affected}
    gone = defaultdict(list)
    for item in silence.vanished(histories, absent, site.order):
        if item.identity not in reported:
            gone[item.identity.machine, item.identity.kernel, item.commit].append(item)
    vanished = [
        f"{machine}: {kernel} has had no value of {pages.names([str(item.identity) for item in group], NAMED_SERIES)} "
        f"since {commit[:SHORT]}, the last at {group[0].last[:SHORT]}"
        for (machine, kernel, commit), group in gone.items()
    ]
    return stale, vanished, _doubt(heard) if stale else ""


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


def _last_measured(site: Site) -> list[tuple[str, str, str]]:
    """Return machine, time and ISO time of each machine's newest value, newest first. Unknown times are left out."""
    newest = sorted(_newest_values(site).items(), key=lambda pair: (-pair[1], pair[0]))
    times = [(machine, datetime.fromtimestamp(seconds, UTC)) for machine, seconds in newest]
    return [(machine, f"{at:%Y-%m-%d %H:%M} UTC", at.isoformat()) for machine, at in times]


def _histories(site: Site) -> tuple[tuple[SeriesHistory, ...], dict[Slot, list[str]]]:
    """Return the series, each with its newest value alone, and the commits at which a slot did not apply."""
    newest: dict[Identity, Observation] = {}
    absent: dict[Slot, list[str]] = defaultdict(list)
    for key in site.keys:
        series, observation = site.series(key), _newest_observation(site, key)
        identity = series_identity.of(key, observation[0] if observation else None)
        # n/a without a reason: it was not asked for
        entries = (entry for entry in series.reasons if series.outcome[entry] == _NOT_APPLICABLE)
        absent[identity.slot] += [site.line[series.place[entry]] for entry in entries]
        if observation and (identity not in newest or newest[identity].place < observation[1].place):
            newest[identity] = observation[1]
    histories = (SeriesHistory(identity=identity, observations=(item,)) for identity, item in sorted(newest.items()))
    return tuple(histories), absent


def _newest_observation(site: Site, key: SeriesKey) -> tuple[str | None, Observation] | None:
    """Return timing method and observation of a series' newest value. None without any."""
    series = site.series(key)
    measured = (series.is_measured & (series.seconds > 0)).nonzero()[0]  # another suite's values may be 0 or less
    if not len(measured):
        return None
    last = int(measured[-1])
    place, value, when = int(series.place[last]), math.log(series.seconds[last]), site.past.last_measured(key)
    observation = Observation(commit=site.line[place], place=place, value=value, measured=when)
    return series.methods[series.method[last]] if series.method[last] >= 0 else None, observation
