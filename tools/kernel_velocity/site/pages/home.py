"""The home page: what changed last night, is it real, whose, and how far from the roof every kernel is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from kernel_velocity import units
from kernel_velocity.findings.last_night import KeptVerdict
from kernel_velocity.findings.text import as_data
from kernel_velocity.results import machines as machine_facts
from kernel_velocity.site import text as pages
from kernel_velocity.site.model import Site
from kernel_velocity.site.outputs import DataFile, Page
from kernel_velocity.site.pages import home_findings, home_grid, home_silence
from kernel_velocity.site.pages.home_findings import Findings
from kernel_velocity.site.pages.home_grid import Grid
from kernel_velocity.site.pages.home_silence import LastMeasured, Silence
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
        measured=home_silence.last_measured(found),
        newest=commits[0] if commits else None,
        findings=home_findings.build(found),
        silence=home_silence.build(found),
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


def _told(machine: str, sessions: machine_facts.Sessions) -> Iterator[str]:
    for fact in machine_facts.HARDWARE:
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
