"""What the pages are made of: ready strings, and the recorded data from which each page takes its own.

Pure. The templates hold no arithmetic: whatever a page shows stands in these values as text. `home_page`,
`kernel_page` and `commit_page` make one kind of page each.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from tools import units
from tools.measurements import Measurement, Outcome, SeriesKey
from tools.recorded import SERIES_NAME, Benchmark, Commit, History, Machine
from tools.trends import Change, Point, Trend

SHORT = 8  # digits of a commit's hash, as asv names its files
_DIGITS_OF_MEMORY = 18  # of a machine's, bytes; longer is no number of them
UNSURE = "≈"  # before a change that the intervals do not confirm; the pages explain it

REASONS = {
    Outcome.NOT_APPLICABLE: "n/a: the test case was not asked for, this commit does not have the implementation, "
    "or this machine lacks what it needs",
    Outcome.FAILED: "failed: the commit did not build, or the benchmark raised, crashed, timed out or gave wrong "
    "numbers (`asv run --show-stderr` prints why)",
}


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One value of a table; empty strings where there is nothing to say."""

    text: str
    detail: str = ""  # interval and time
    change: str = ""
    tone: str = ""  # "faster", "slower", "same" (not confirmed), "n/a", "failed", "absent"
    marks: tuple[int, ...] = ()  # numbers of its footnotes


@dataclass(frozen=True, kw_only=True)
class CommitLine:
    """A commit in a line of a table."""

    short: str
    href: str
    subject: str
    author: str
    date: str


@dataclass(frozen=True, kw_only=True)
class Place:
    """A machine and one of its environments; every page shows them apart."""

    anchor: str
    machine: str
    environment: str
    details: tuple[tuple[str, str], ...]


@dataclass
class Footnotes:
    """The footnotes of a section, numbered in order of first use."""

    texts: list[str] = field(default_factory=list)

    def marks(self, texts: Sequence[str]) -> tuple[int, ...]:
        """Return the numbers of these footnotes, from 1."""
        self.texts += [text for text in dict.fromkeys(texts) if text not in self.texts]
        return tuple(sorted(self.texts.index(text) + 1 for text in set(texts)))


@dataclass(frozen=True, kw_only=True)
class SiteData:
    """Everything that the pages are made from."""

    machines: tuple[Machine, ...]
    benchmarks: Mapping[str, Benchmark]
    history: History
    order: Mapping[str, int]  # commit -> place on the first-parent line, older first
    trends: Mapping[SeriesKey, Trend]
    measurements: tuple[Measurement, ...]  # of commits that the repository has
    notes: tuple[str, ...]

    @cached_property
    def places(self) -> tuple[Place, ...]:
        """The machines and environments that have measurements."""
        return places(self.machines, {(item.key.machine, item.key.environment) for item in self.measurements})

    @cached_property
    def points(self) -> Mapping[tuple[SeriesKey, str], Point]:
        """The points of all trends by series and commit."""
        return {(key, point.measurement.commit): point for key, trend in self.trends.items() for point in trend.points}


def places(machines: Sequence[Machine], pairs: Iterable[tuple[str, str]]) -> tuple[Place, ...]:
    """Return machines and environments, given as pairs of names, in the order of the pages."""
    details = {machine.name: details_of(machine) for machine in machines}
    return tuple(
        Place(
            anchor=f"place-{number}",
            machine=machine,
            environment=environment,
            details=details[machine],
        )
        for number, (machine, environment) in enumerate(sorted(pairs), start=1)
    )


def details_of(machine: Machine) -> tuple[tuple[str, str], ...]:
    """Return what asv recorded of a machine, in words and units."""
    return tuple(_detail(key, text) for key, text in machine.details)


def place_on_axes(benchmarks: Mapping[str, Benchmark], key: SeriesKey) -> tuple[tuple[int, str], tuple[int, str]]:
    """Return a sort key: a series' place on its benchmark's axes, implementation first; unknown names last."""
    known = benchmarks.get(key.benchmark)
    implementations, cases = (known.implementations, known.cases) if known else ((), ())
    return _rank(key.implementation, implementations), _rank(key.case, cases)


def _detail(key: str, text: str) -> tuple[str, str]:
    """Return what asv recorded of a machine in words and units; it writes the memory in bytes where it can."""
    if key == "ram" and text.isdecimal() and len(text) <= _DIGITS_OF_MEMORY:
        return "memory", units.memory(int(text))
    return {"ram": "memory", "num_cpu": "CPUs", "arch": "architecture"}.get(key, key), text


def _rank(name: str, axis: Sequence[str]) -> tuple[int, str]:
    return (axis.index(name) if name in axis else len(axis), name)


def parts(benchmark: str) -> tuple[str, str, str]:
    """Return kernel, device and cache state of a series name: "matmul.Cpu.time_hot" -> ("matmul", "Cpu", "hot")."""
    found = SERIES_NAME.fullmatch(benchmark)
    if found is None:
        raise ValueError(f"{benchmark!r} is no series name; recorded.measurements lets none through")
    return found[1], found[2], found[3]


def commit_href(sha: str) -> str:
    """Return the file name of a commit's page."""
    return f"commit-{sha[:SHORT]}.html"


def kernel_href(kernel: str, device: str) -> str:
    """Return the file name of a kernel's page."""
    return f"kernel-{kernel}-{device}.html"


def finding_href(finding: str) -> str:
    """Return the file name of the page of a finding (its id)."""
    return f"finding-{finding}.html"


def commit_line(commit: Commit) -> CommitLine:
    """Return a commit as a line of a table shows it."""
    return CommitLine(
        short=commit.sha[:SHORT],
        href=commit_href(commit.sha),
        subject=commit.subject or "(no message)",
        author=commit.author,
        date=f"{commit.date:%Y-%m-%d %H:%M}",
    )


def absent() -> Cell:
    """Return the cell of a value that was never measured."""
    return Cell(text="–", tone="absent")


def cell(point: Point, notes: Footnotes, *, more: Sequence[str] = (), with_time: bool = True) -> Cell:
    """Return a point as a table shows it: rate with interval, time, change; n/a and failed with their reason.

    Args:
        point: what to show.
        notes: the footnotes of the section; the measurement's warnings are added to them.
        more: further footnotes.
        with_time: whether the time stands beside the interval, for tables without a column of it.
    """
    item = point.measurement
    if item.outcome is not Outcome.MEASURED:
        marks = notes.marks((why(item), *item.warnings, *more))
        return Cell(text=item.outcome.value, tone=item.outcome.value, marks=marks)
    return Cell(
        text=rate(item),
        detail=" · ".join(text for text in (interval(item), time(item) if with_time else "") if text),
        change=change(point.change),
        tone=tone(point.change),
        marks=notes.marks((*item.warnings, *more)),
    )


def why(item: Measurement) -> str:
    """Return why a value is n/a or failed: what the failed round said, else what it can have been."""
    return REASONS[item.outcome] if item.reason is None else f"{item.outcome.value}: {item.reason}"


def rate(item: Measurement) -> str:
    """Return the GFLOPS of a measured value; its time where the FLOPs are unknown."""
    if item.seconds is None:
        raise ValueError("a value that was not measured has no rate")
    return units.seconds(item.seconds) if item.gflops is None else units.gflops(item.gflops)


def adjusted(item: Measurement) -> str:
    """Return the adjusted rate, or time, of a measured value; empty where it was not adjusted."""
    if item.adjusted is None:
        return ""
    if item.flop is None:
        return units.seconds(item.adjusted.seconds)
    return units.gflops(item.flop / item.adjusted.seconds / 1e9)


def interval(item: Measurement) -> str:
    """Return the interval of a measured value: "11.9 to 12.4 GFLOPS"; empty where it is unknown."""
    bounds = item.gflops_bounds
    if bounds is not None:
        return f"{units.significant(bounds[0])} to {units.gflops(bounds[1])}"
    if item.gflops is None and item.interval is not None:
        return f"{units.seconds(item.interval.low)} to {units.seconds(item.interval.high)}"
    return ""


def time(item: Measurement) -> str:
    """Return the time beside a rate: "1.02 ms"; empty where the time is what is shown already."""
    return "" if item.seconds is None or item.gflops is None else units.seconds(item.seconds)


def change(found: Change | None) -> str:
    """Return a change in words: "≈ 1.2% faster"; empty where there is nothing to compare with."""
    if found is None:
        return ""
    return (
        units.change(found.ratio) if found.is_distinct or found.ratio == 1 else f"{UNSURE} {units.change(found.ratio)}"
    )


def tone(found: Change | None) -> str:
    """Return how a change is to be coloured."""
    if found is None:
        return ""
    if not found.is_distinct or found.ratio == 1:
        return "same"
    return "faster" if found.ratio > 1 else "slower"
