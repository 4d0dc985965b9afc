"""The home page: what changed last night, is it real, whose, and how far from the roof every kernel is.

The home page's findings: what waits for somebody, the worst first; what the machines did; what is better or gone.

What the home page says of series that are silent: machines that went quiet, series that no longer apply.

The same policy as a night's (`absences`), on what the pages know of a series: its newest value is enough.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta

from kernel_velocity import units
from kernel_velocity.findings import finding, text
from kernel_velocity.findings.finding import OPEN, Finding, Kind, State
from kernel_velocity.findings.last_night import KeptVerdict
from kernel_velocity.findings.text import as_data
from kernel_velocity.results import identity as series_identity
from kernel_velocity.results import sessions as session_facts
from kernel_velocity.results.git import SHORT
from kernel_velocity.results.identity import Identity, Slot
from kernel_velocity.results.measurement import OUTCOMES, Outcome, SeriesKey
from kernel_velocity.results.records import Commit
from kernel_velocity.series import silence as absences
from kernel_velocity.series.history import Observation, SeriesHistory
from kernel_velocity.series.silence import Vanished
from kernel_velocity.site import text as pages
from kernel_velocity.site.model import Site
from kernel_velocity.site.outputs import DataFile, Page
from kernel_velocity.site.pages import home_grid
from kernel_velocity.site.pages.home_grid import Grid
from kernel_velocity.site.text import CommitLine

NAME, DATA = "index.html", "home"
FORMAT = 1  # of the data; raised when a key changes its meaning
RECENT = 30  # commits listed; each kernel's page lists all
FEW = 5  # notes shown at once
FILTERS = ("machine", "device", "kernel", "state", "implementation")  # the last four are names of a row's
UNJUDGED = "No night has judged anything here yet."
FINDINGS_ALONE = "Nights left findings here, and no verdict of the last one."  # one of before verdicts were kept
_FACTS = {"cpu": "CPU", "num_cpu": "CPUs", "gpu": "GPU"}
_TONES = {0: "clean", 10: "bad", 2: "bad", 20: "bad", 21: "bad", 22: "bad"}  # the other statuses are doubts

LATELY = timedelta(days=30)  # before the newest thing that is known
LISTED = 10  # of each of the lists that wait for nobody
NAMED = 3  # commits and authors of a finding that blames several
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
DECIDED = frozenset({State.ACKNOWLEDGED, State.EXPECTED, State.METHOD})
_URGENCY = (State.CONFIRMED, State.SUSPECT, State.NEW)  # the surest first

NAMED_SERIES = 3  # series of a line that are named; all are counted
_NOT_APPLICABLE = OUTCOMES.index(Outcome.NOT_APPLICABLE)


@dataclass(frozen=True, kw_only=True)
class Night:
    """What a machine's newest night said."""

    machine: str
    when: str  # "2026-11-22 03:00 UTC"
    iso: str
    summary: str
    tone: str  # "clean", "doubt", "bad"
    measured: str  # "120 series measured"
    failures: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Filter:
    """A choice that hides rows of the grid."""

    name: str
    label: str
    values: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class HomePage:
    """The home page."""

    nights: tuple[Night, ...]  # newest first
    is_judged: bool  # whether a night left a verdict or a finding: to be said even where nothing was measured
    unjudged: str  # what is to be said where no night's verdict is kept
    measured: tuple[LastMeasured, ...]  # newest first
    newest: CommitLine | None  # the newest commit of the line that was measured on any machine
    findings: Findings
    silence: Silence
    filters: tuple[Filter, ...]
    grids: tuple[Grid, ...]
    commits: tuple[CommitLine, ...]  # newest first
    further: str  # how many commits are not listed; empty for none
    foreign: str  # why nothing of what was found can be shown; empty where something can
    notes: tuple[str, ...]  # the first FEW
    more_notes: tuple[str, ...]


def build(found: Site) -> Iterator[Page | DataFile]:
    """Yield the home page and its data."""
    made = page(found)
    yield DataFile(name=DATA, value=_data(found, made))
    yield Page(name=NAME, template="home.html", context={"page": made})


def page(found: Site) -> HomePage:
    """Return what the home page shows."""
    newest = [sha for sha in reversed(found.measured) if sha in found.order]
    hidden = len(newest) - RECENT
    grids = home_grid.build(found)
    notes = (*_one_name(found), *found.notes)
    commits = tuple(pages.commit_line(found.commits[sha]) for sha in newest[:RECENT])
    return HomePage(
        nights=tuple(_night(item) for item in found.verdicts),
        is_judged=bool(found.verdicts or found.findings),
        unjudged=FINDINGS_ALONE if found.findings else UNJUDGED,
        measured=last_measured(found),
        newest=commits[0] if commits else None,
        findings=findings_of(found),
        silence=silence_of(found),
        filters=_filters(grids),
        grids=grids,
        commits=commits,
        further=f"{units.count(hidden, 'older commit')} on the kernels' pages" if hidden > 0 else "",
        foreign="" if grids else _foreign(found),
        notes=notes[:FEW],
        more_notes=notes[FEW:],
    )


def _night(item: KeptVerdict) -> Night:
    return Night(
        machine=item.machine,
        when=f"{item.when:%Y-%m-%d %H:%M %Z}",
        iso=item.when.isoformat(),
        summary=item.summary,
        tone=_TONES.get(item.exit_status, "doubt"),
        measured=f"{item.measured:,} series measured",  # "series" has no other plural
        failures=item.failures,
    )


def _filters(grids: Sequence[Grid]) -> tuple[Filter, ...]:
    """Return the choices that there are: of one value there is none."""
    rows = [row for grid in grids for row in grid.rows]
    named = {
        "machine": [grid.place.machine for grid in grids],
        **{name: [getattr(row, name) for row in rows] for name in FILTERS[1:]},
    }
    made = (
        Filter(name=name, label="cache state" if name == "state" else name, values=tuple(dict.fromkeys(values)))
        for name, values in named.items()
    )
    return tuple(item for item in made if len(item.values) > 1)


def _one_name(found: Site) -> Iterator[str]:
    """Yield a note for each machine that was measured on different hardware: its trends mix the two."""
    for machine in dict.fromkeys(place.machine for place in found.places):
        sessions = [session for place in found.places if place.machine == machine for session in found.sessions(place)]
        # the two spell one CPU in two ways: only where no session tells, the results of a plain asv run do
        yield from list(_told(machine, sessions)) or _told(machine, found.hardware(machine))


def _told(machine: str, sessions: session_facts.Sessions) -> Iterator[str]:
    for fact in session_facts.HARDWARE:
        # of a GPU, its limits follow
        texts = dict.fromkeys(session.facts.get(fact, "").partition(";")[0] for _, session in sessions)
        texts.pop("", None)
        if len(texts) > 1:
            yield (
                f"{machine}: results of {len(texts)} different machines under one name ({_FACTS[fact]}: "
                f"{', then '.join(texts)}): its trends mix them; measure under another name (`make track MACHINE=...`)"
            )


def _foreign(found: Site) -> str:
    """Return why a directory that has results shows none; empty where there are none."""
    if not found.has_results:
        return ""
    return (
        f"{found.results.name}/ has results, but none that belong here: they are of another project, of another clone, "
        "of benchmarks that are gone, or everything in them is n/a. Name the right folder with --results, the right "
        "clone with --repository; what was passed over is listed here."
    )


def _data(found: Site, made: HomePage) -> dict[str, object]:
    """Return the page as data: rates in GFLOPS, efficiencies as fractions, changes as speed ratios new / old."""
    return {
        "format": FORMAT,
        "verdicts": [asdict(item) | {"when": item.when.isoformat()} for item in found.verdicts],
        "findings": [as_data(item) for item in found.findings],
        "stale": list(made.silence.stale),
        "stale_doubt": made.silence.doubt or None,
        "vanished": list(made.silence.vanished),
        "grid": [
            {
                "machine": grid.place.machine,
                "environment": grid.place.environment,
                "spans": [{"name": span.name, "against": span.base or None} for span in grid.spans],
                "rows": [{name: getattr(row, name) for name in FILTERS[1:]} | dict(row.figures) for row in grid.rows],
            }
            for grid in made.grids
        ],
        "notes": list(made.notes + made.more_notes),
    }


@dataclass(frozen=True, kw_only=True)
class Blamed:
    """A commit that can have done it."""

    short: str
    href: str  # empty where it has no page
    subject: str
    author: str


@dataclass(frozen=True, kw_only=True)
class FindingLine:
    """A finding in a line."""

    href: str
    subject: str  # the kernel; of an environment the machine
    kind: str
    state: str
    tone: str  # "slower", "faster", "same" (not sure), ""
    change: str  # "time +3.00%"
    interval: str  # with what was tested; empty where nothing was
    where: str  # which series on which machines
    commits: tuple[Blamed, ...]
    further: str  # how many commits are not named; empty for none
    found: str  # "2026-11-22 03:00"
    iso: str  # the same, for scripts


@dataclass(frozen=True, kw_only=True)
class FindingList:
    """Some findings, and how many of them are not listed."""

    lines: tuple[FindingLine, ...]
    further: str  # empty for none


@dataclass(frozen=True, kw_only=True)
class Findings:
    """What the home page says of findings."""

    open: tuple[FindingLine, ...]  # for the worse, worst first
    improvements: FindingList
    environment: FindingList
    resolved: FindingList
    decided: FindingList  # acknowledged, expected, ended by a change of method


def findings_of(found: Site) -> Findings:
    """Return the findings of a site as the home page shows them."""
    items, measured = found.findings, frozenset(found.measured)
    said = [item.when for item in found.verdicts] + [_last_decided(item) for item in items]
    since = max(said, default=EPOCH + LATELY) - LATELY

    def lines(chosen: Iterable[Finding]) -> FindingList:
        newest_first = sorted(chosen, key=lambda item: (_last_decided(item), item.id), reverse=True)
        more = len(newest_first) - LISTED
        return FindingList(
            lines=tuple(line(item, found, measured) for item in newest_first[:LISTED]),
            further=f"{more:,} more" if more > 0 else "",
        )

    waiting = [item for item in items if item.state in OPEN]
    worse = [item for item in waiting if item.kind in (Kind.REGRESSION, Kind.VANISHED)]
    return Findings(
        open=tuple(line(item, found, measured) for item in sorted(worse, key=_badness)),
        improvements=lines(item for item in waiting if item.kind is Kind.IMPROVEMENT),
        environment=lines(item for item in items if item.kind is Kind.ENVIRONMENT and _last_decided(item) >= since),
        resolved=lines(item for item in items if item.state is State.RESOLVED and _last_decided(item) >= since),
        decided=lines(item for item in items if item.state in DECIDED),
    )


def _last_decided(item: Finding) -> datetime:
    return item.decisions[-1].when if item.decisions else item.found


def _badness(item: Finding) -> tuple[int, float, str]:
    """Return a sort key: what is sure before what is not, then the largest effect first."""
    return _URGENCY.index(item.state), -abs(item.worst.effect) if item.worst else 0.0, item.id


def line(item: Finding, found: Site, measured: frozenset[str]) -> FindingLine:
    """Return a finding in a line; `measured` are the commits that have a page."""
    shown = item.commits if len(item.commits) <= NAMED else (item.commits[0], item.commits[-1])
    return FindingLine(
        href=finding.finding_href(item.id),
        subject=item.subject,
        kind=item.kind.value,
        state=item.state.value if item.until is None else f"{item.state.value} until {item.until}",
        tone=_tone(item),
        change=text.headline(item).partition(f" ({text.INTERVAL}")[0],  # it stands beside it
        interval=_interval(item),
        where=text.shown_by(item),
        commits=tuple(_blamed(sha, found.commit(sha), sha in measured) for sha in shown),
        further=f"first and last of {len(item.commits)} commits" if len(shown) < len(item.commits) else "",
        found=f"{item.found:%Y-%m-%d %H:%M}",
        iso=item.found.isoformat(),
    )


def _interval(item: Finding) -> str:
    """Return the interval of the worst series and its test: its interval, p, rounds."""
    if item.worst is None or item.kind is Kind.ENVIRONMENT:
        return ""
    within = text.interval(item.worst.low, item.worst.high).strip(" ()")
    return ", ".join(part for part in (within, text.tested(item.worst)) if part)


def _tone(item: Finding) -> str:
    """Return how its change is to be coloured: only what is confirmed is."""
    if item.state is not State.CONFIRMED:
        return "same"
    return {Kind.REGRESSION: "slower", Kind.IMPROVEMENT: "faster"}.get(item.kind, "")


def _blamed(sha: str, commit: Commit | None, has_page: bool) -> Blamed:
    if commit is None:
        return Blamed(short=sha[:SHORT], href="", subject="(not in this clone)", author="")
    made = pages.commit_line(commit)
    return Blamed(short=made.short, href=made.href if has_page else "", subject=made.subject, author=made.author)


@dataclass(frozen=True, kw_only=True)
class LastMeasured:
    """When a machine was measured last."""

    machine: str
    when: str  # "2026-11-22 03:00 UTC"
    iso: str  # the same, for scripts
    seconds: float  # Unix time


@dataclass(frozen=True, kw_only=True)
class Silence:
    """What is silent, a line each."""

    stale: tuple[str, ...]
    vanished: tuple[str, ...]
    doubt: str  # why the first may be wrong; "" where nothing says so


def silence_of(found: Site) -> Silence:
    """Return what is silent, counted from the newest value or verdict of any machine: no clock is read."""
    heard = _heard(found)
    histories, absent = _histories(found)
    stale = tuple(text.stale(item) for item in absences.stale(histories, max(heard.values(), default=0.0)))
    told = {one.identity for item in found.findings if item.kind is Kind.VANISHED for one in item.affected}
    return Silence(
        stale=stale,
        vanished=tuple(
            _gone(item for item in absences.vanished(histories, absent, found.order) if item.identity not in told)
        ),
        doubt=_doubt(heard) if stale else "",
    )


def _heard(found: Site) -> dict[str, float]:
    """Return when each machine was heard of last, by its own clock: of a value or a night's verdict, Unix time, s."""
    heard = _measured(found)
    for item in found.verdicts:
        heard[item.machine] = max(item.when.timestamp(), heard.get(item.machine, 0.0))
    return heard


def _measured(found: Site) -> dict[str, float]:
    newest: dict[str, float] = {}
    for key in found.keys:
        when = found.last_measured(key)
        if when is not None:
            newest[key.machine] = max(when, newest.get(key.machine, when))
    return newest


def _doubt(heard: Mapping[str, float]) -> str:
    """Return whose clock alone makes all the others silent; "" where one of them is as late.

    Note: a machine of a later time that is trusted only as far as nights' verdicts go was rejected: where nights have
    stopped, silence is what has to be said.
    """
    *others, (last, machine) = sorted((when, machine) for machine, when in heard.items())
    ahead = (last - others[-1][0]) / absences.DAY if others else 0.0
    if ahead < absences.STALE_AFTER:
        return ""
    return (
        f"Days are counted up to {machine}, {units.utc(last)}: {ahead:.1f} days after any other machine was heard "
        "of. If its clock is wrong, so are they."
    )


def last_measured(found: Site) -> tuple[LastMeasured, ...]:
    """Return when each machine was measured last, the newest first; machines that nobody knows it of are left out."""
    return tuple(
        LastMeasured(machine=machine, when=f"{at:%Y-%m-%d %H:%M} UTC", iso=at.isoformat(), seconds=seconds)
        for machine, seconds in sorted(_measured(found).items(), key=lambda pair: (-pair[1], pair[0]))
        for at in [datetime.fromtimestamp(seconds, UTC)]
    )


def _histories(found: Site) -> tuple[tuple[SeriesHistory, ...], dict[Slot, list[str]]]:
    """Return the series, each with its newest value alone, and the commits at which a slot did not apply."""
    newest: dict[Identity, Observation] = {}
    absent: dict[Slot, list[str]] = defaultdict(list)
    for key in found.keys:
        identity, observation, without = _looked_at(found, key)
        absent[identity.slot] += without
        known = newest.get(identity)
        if observation is not None and (known is None or known.place < observation.place):
            newest[identity] = observation
    made = (SeriesHistory(identity=identity, observations=(item,)) for identity, item in sorted(newest.items()))
    return tuple(made), absent


def _looked_at(found: Site, key: SeriesKey) -> tuple[Identity, Observation | None, list[str]]:
    """Return a series' identity, its newest value, and the commits that said that it does not apply."""
    series = found.series(key)
    without = [
        found.line[series.place[entry]] for entry in series.reasons if series.outcome[entry] == _NOT_APPLICABLE
    ]  # without a reason it was not asked for
    measured = series.is_measured.nonzero()[0]
    if not len(measured):
        return series_identity.of(key, None), None, without
    last = int(measured[-1])
    method = series.methods[series.method[last]] if series.method[last] >= 0 else None
    place = int(series.place[last])
    observation = Observation(
        commit=found.line[place],
        place=place,
        value=math.log(series.seconds[last]),
        measured=found.last_measured(key),
    )
    return series_identity.of(key, method), observation, without


def _gone(items: Iterable[Vanished]) -> list[str]:
    """Return a line for each kernel, machine and commit at which series no longer apply."""
    causes: dict[tuple[str, str, str], list[Vanished]] = defaultdict(list)
    for item in items:
        causes[item.identity.machine, item.identity.kernel, item.commit].append(item)
    return [
        f"{machine}: {kernel} has had no value of {_named([str(item.identity) for item in group])} "
        f"since {commit[:SHORT]}, the last at {group[0].last[:SHORT]}"
        for (machine, kernel, commit), group in causes.items()
    ]


def _named(names: list[str]) -> str:
    more = len(names) - NAMED_SERIES
    return ", ".join(names[:NAMED_SERIES]) + (f" and {more:,} more" if more > 0 else "")
