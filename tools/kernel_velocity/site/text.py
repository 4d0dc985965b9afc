"""Results as words and table cells: rates, changes, links, commits, footnotes. Pure.

Templates do no arithmetic: what a page shows reaches them as ready text.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from math import isnan
from urllib.parse import urlencode

from kernel_velocity import units
from kernel_velocity.names import FIGURES as FIGURES_OF_CODE
from kernel_velocity.names import MIX
from kernel_velocity.past.columns import Columns
from kernel_velocity.results.git import SHORT
from kernel_velocity.results.measurement import Measurement, Outcome, SeriesKey
from kernel_velocity.results.records import Benchmark, Commit, Machine, name_parts
from kernel_velocity.verdict.ranges import CommitRange
from kernel_velocity.verdict.verdicts import Change, Verdict, Word, lasted

DASH = "–"
REASONS = {
    Outcome.NOT_APPLICABLE: "n/a: the test case was not asked for, this commit does not have the implementation, "
    "or this machine lacks what it needs",
    Outcome.FAILED: "failed: the commit did not build, or the benchmark raised, crashed, timed out or gave wrong "
    "numbers (`asv run --show-stderr` prints why)",
}
FIGURES = {  # of code: the end of a benchmark's name -> what tables call it
    "track_code_bytes": "code",
    "track_registers": "registers of a thread",
    "track_shared_bytes": "shared memory of a block",
    "track_spill_bytes": "spilled",
    "track_scalar_registers": "scalar registers of a wave",
    "track_stack_bytes": "stack of a thread",
    "track_barriers": "barriers of a block",
    "track_occupancy": "occupancy, warps of a multiprocessor",
    **{f"track_{name}": FIGURES_OF_CODE["cuda"][name] for name in MIX},
    "track_instructions": "instructions of a call",
    "track_reads": "reads of a call",
    "track_writes": "writes of a call",
    "track_l1_misses": "misses of the first-level cache",
    "track_ll_misses": "misses of the last-level cache",
}
_LEAST_MEMORY, _MOST_MEMORY = 2**26, 2**60  # bytes, of a machine
_LEAST_BYTES = 2**30  # a smaller number is of an old asv, which wrote KiB
_FILE_NAME = re.compile(r"[A-Za-z_][\w.]{0,149}", re.ASCII)
_ROUNDS = re.compile(r"\d+(?= of \d+ rounds)|(?<= of )\d+(?= rounds)|(?<= rounds, have )\d+")


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One value of a table. Empty where there is nothing to show."""

    text: str
    detail: str = ""  # interval and time
    change: str = ""
    tone: str = ""  # "faster", "slower", "unchanged", "undecided", "same" (neither), "n/a", "failed", "absent"
    marks: tuple[int, ...] = ()  # numbers of its footnotes
    href: str = ""


@dataclass(frozen=True, kw_only=True)
class CommitLine:
    """A commit in a line of a table."""

    short: str
    href: str  # empty where the commit has no page
    subject: str
    author: str
    date: str
    count: str = ""  # "one of 7 commits": `short` is their range, and no commit is named

    @property
    def words(self) -> str:
        """Return it as plain text."""
        author = f" ({self.author})" if self.author else ""
        return (
            ", ".join(filter(None, (self.count, self.short))) if self.count else f"{self.short} {self.subject}{author}"
        )


@dataclass(frozen=True)
class PageTable:
    """A table, whose first column heads the rows."""

    label: str  # for screen readers
    columns: Mapping[str, str]  # head -> CSS class
    rows: Sequence[Sequence[str | Cell | CommitLine]]
    further: str = ""  # how much is left out


@dataclass(frozen=True, kw_only=True)
class Platform:
    """A machine and one of its asv environments."""

    anchor: str
    machine: str
    environment: str
    details: tuple[tuple[str, str], ...]

    @property
    def facts(self) -> tuple[tuple[str, str], ...]:
        """What is known of it, as name and text."""
        return (("environment", self.environment), *self.details)


@dataclass
class Footnotes:
    """The footnotes of a section, numbered from 1 in order of first use.

    Texts that differ only in counts of rounds share a footnote: "contended in 3 of 8 rounds" and "in 5 of 8 rounds"
    become "contended in 3 to 5 of 8 rounds".
    """

    _texts: dict[str, list[str]] = field(default_factory=dict)  # by the text without its counts
    _marks: dict[tuple[str, ...], tuple[int, ...]] = field(default_factory=dict)  # most cells have the same remarks

    @property
    def texts(self) -> tuple[str, ...]:
        """All footnotes in order."""
        return tuple(map(_merged, self._texts.values()))

    def marks(self, texts: Sequence[str]) -> tuple[int, ...]:
        """Return the numbers of some footnotes, ascending."""
        wanted = tuple(texts)
        if wanted not in self._marks:
            self._marks[wanted] = tuple(sorted({self._number(text) for text in wanted}))
        return self._marks[wanted]

    def _number(self, text: str) -> int:
        kind = _ROUNDS.sub("\0", text)
        self._texts.setdefault(kind, []).append(text)
        return list(self._texts).index(kind) + 1


def _merged(texts: Sequence[str]) -> str:
    """Return texts that differ in counts of rounds as one text with ranges."""
    counts = zip(*(map(int, _ROUNDS.findall(text)) for text in texts), strict=True)
    ranges = iter([(min(column), max(column)) for column in counts])

    def span(_: re.Match[str]) -> str:
        low, high = next(ranges)
        return str(low) if low == high else f"{low} to {high}"

    return _ROUNDS.sub(span, texts[0])


def platforms(machines: Sequence[Machine], pairs: Iterable[tuple[str, str]]) -> tuple[Platform, ...]:
    """Return machines and environments, given as pairs of names, sorted."""
    details = {machine.name: details_of(machine) for machine in machines}
    return tuple(
        Platform(anchor=f"place-{number}", machine=machine, environment=environment, details=details[machine])
        for number, (machine, environment) in enumerate(sorted(pairs), start=1)
    )


def details_of(machine: Machine) -> tuple[tuple[str, str], ...]:
    """Return what asv recorded of a machine, with words for its keys. Memory in GiB where asv wrote bytes or KiB."""
    words = {"ram": "memory", "num_cpu": "CPUs", "arch": "architecture"}

    def value(key: str, text: str) -> str:
        size = memory_of(text) if key == "ram" else None
        return text if size is None else units.memory(size)

    return tuple((words.get(key, key), value(key, text)) for key, text in machine.details)


def memory_of(ram: str) -> int | None:
    """Return the bytes of memory that asv recorded of a machine, old ones in KiB. None where it is no such number."""
    number = int(ram) if ram.isdecimal() and len(ram) < len(str(_MOST_MEMORY)) else 0
    size = number * (1024 if number < _LEAST_BYTES else 1)
    return size if _LEAST_MEMORY <= size < _MOST_MEMORY else None


def position_on_axes(benchmarks: Mapping[str, Benchmark], key: SeriesKey) -> tuple[tuple[int, str], tuple[int, str]]:
    """Return a sort key: the series' position on its benchmark's axes, implementation first. Unknown names last."""

    def rank(name: str, axis: Sequence[str]) -> tuple[int, str]:
        return (axis.index(name) if name in axis else len(axis), name)

    benchmark = benchmarks.get(key.benchmark)
    implementations, cases = (benchmark.implementations, benchmark.cases) if benchmark else ((), ())
    return rank(key.implementation, implementations), rank(key.case, cases)


def commit_href(commit: Commit) -> str:
    """Return the file name of a commit's page."""
    return f"commit-{commit.short}.html"


def causes_href(commit: Commit) -> str:
    """Return the address of the part of a commit's page that lists what can have caused its changes."""
    return f"{commit_href(commit)}#causes"


@cache
def kernel_href(kernel: str, device: str, **choice: str) -> str:
    """Return the address of a kernel's page.

    Args:
        choice: state, machine, environment and case, as html_templates/static/kernel.js reads them. Without a choice
            the page begins with its first machine.
    """
    fragment = f"#{urlencode(choice, errors='replace')}" if choice else ""
    return f"{kernel_page(kernel, device)}.html{fragment}"


def kernel_page(kernel: str, device: str) -> str:
    """Return the name of a kernel's page and of its data."""
    return f"kernel-{in_file_name(kernel)}" + (f"-{device}" if device else "")


def in_file_name(kernel: str) -> str:
    """Return what stands for a kernel in the names of files: its name, or a digest where that is long or not ASCII."""
    if _FILE_NAME.fullmatch(kernel):
        return kernel
    return hashlib.sha256(kernel.encode("utf-8")).hexdigest()[:16]


def trend_href(key: SeriesKey) -> str:
    """Return the address of a series' trend."""
    kernel, device, state = name_parts(key.benchmark)
    return kernel_href(kernel, device, state=state, machine=key.machine, environment=key.environment, case=key.case)


def names_of(key: SeriesKey) -> dict[str, str]:
    """Return the names of a series, by the word for what each names."""
    kernel, device, state = name_parts(key.benchmark)
    names = {"kernel": kernel, "device": device, "state": state, "implementation": key.implementation}
    return names | {"case": key.case, "machine": key.machine, "environment": key.environment}


def commit_line(commit: Commit) -> CommitLine:
    """Return a commit as a line of a table shows it."""
    return CommitLine(
        short=commit.short,
        href=commit_href(commit),
        subject=commit.subject or "(no message)",
        author=commit.author,
        date=f"{commit.date:%Y-%m-%d %H:%M}",
    )


def named_commit(sha: str, commit: Commit | None, measured: Container[str]) -> CommitLine:
    """Return a commit that may be missing in the clone (None), and has a page only if it is among `measured`."""
    if commit is None:
        return CommitLine(short=sha[:SHORT], href="", subject="(not in this clone)", author="", date="")
    line = commit_line(commit)
    return line if sha in measured else replace(line, href="")


def cause(commits: CommitRange, commit: Commit | None, listed: str, measured: Container[str]) -> CommitLine:
    """Return what a page names as the cause of a change: a commit only where it is the only possible one.

    Args:
        commit: the only possible one, if there is one and the clone has it. listed: where a page lists the range.
        measured: the commits that have a page.
    """
    if commits.culprit is None:
        ends = (commits.ends, listed) if commits.commits else ("", "")
        return CommitLine(short=ends[0], href=ends[1], subject="", author="", date="", count=commits.count)
    line = named_commit(commits.culprit, commit, measured)
    return line if line.href else replace(line, href=listed)


def absent() -> Cell:
    """Return the cell of a value that was never measured."""
    return Cell(text=DASH, tone="absent")


def rate(measurement: Measurement) -> str:
    """Return the rate of a measured value. Its time where the FLOPs are unknown."""
    if measurement.seconds is None:
        raise ValueError("a value that was not measured has no rate")
    return (
        units.value(measurement.seconds, measurement.unit)
        if measurement.gflops is None
        else units.rate(measurement.gflops, measurement.key.rate_unit)
    )


def unit_of(series: Columns | Measurement) -> str:
    """Return the unit that a series' values are shown in: that of its rate, else that of its values."""
    return series.unit if series.flop is None else series.key.rate_unit


def why(outcome: Outcome, reason: str | None) -> str:
    """Return why a value is n/a or failed: the recorded reason, else the possible ones."""
    return REASONS[outcome] if reason is None else f"{outcome.value}: {reason}"


def remarks(outcome: Outcome, reason: str | None, warnings: Sequence[str]) -> tuple[str, ...]:
    """Return the footnotes of a result: why it has no time, and its warnings."""
    return tuple(warnings) if outcome is Outcome.MEASURED else (why(outcome, reason), *warnings)


def verdict(value: Verdict, unit: str = units.SECONDS) -> str:
    """Return a verdict in words: "8.0% slower", "unchanged". `unit`: of the values."""
    if value.ends is not None:
        return " to ".join("0" if end == 0 else units.value(end, unit) for end in value.ends)
    return units.change(1 / value.ratio, unit) if value.is_change else value.word


def ended(change: Change, columns: Columns, line: Sequence[str]) -> str:
    """Return what the end of a change is: it takes the change back, or goes on to another level."""
    began = line[columns.position[change.point.index]][:SHORT]
    return f"{'takes back' if change.is_back else 'ends'} the change since {began}"


def at_ends(changes: Iterable[Change], columns: Columns, line: Sequence[str]) -> dict[int, str]:
    """Return what is to be said of the ends of a series' changes, by entry."""
    words: dict[int, list[str]] = {}
    for change in changes:
        if change.end is not None:
            words.setdefault(change.point.index, []).append(lasted(change, columns, line))
            words.setdefault(change.end.index, []).append(ended(change, columns, line))
    return {entry: "; ".join(several) for entry, several in words.items()}


def verdict_detail(value: Verdict, unit: str = units.SECONDS) -> str:
    """Return how sure a verdict is: "±0.9%" of a change, "within 1.4%" of what is unchanged. "" where nothing tells.

    It is in the unit of `verdict`: of a percentage, percentage points, of a multiple, a share of it.
    """
    if value.is_change:
        half = (value.high - value.low) / 2 / (value.ratio if units.is_multiple(1 / value.ratio, unit) else 1)
        return "" if isnan(half) else f"±{units.share(half)}"
    return "" if isnan(value.within) else f"within {units.share(value.within)}"


def tone(word: Word) -> str:
    """Return the colour class of a word. Where neither direction is better, a change has no colour."""
    return "same" if word in (Word.HIGHER, Word.LOWER) else word.value


def verdict_cell(value: Verdict | None, unit: str) -> Cell:
    """Return the cell of a verdict on values in a unit. None: there is nothing to compare."""
    if value is None:
        return absent()
    return Cell(text=verdict(value, unit), detail=verdict_detail(value, unit), tone=tone(value.word))


def cell(
    outcome: Outcome, seconds: float, low: float, high: float, *, flop: float | None, unit: str
) -> tuple[str, str, str]:
    """Return text, detail and tone of a `Cell`: rate with interval and time, value with interval without FLOPs.

    Args:
        seconds, low, high: per call, and its interval, NaN where unknown. flop: of a call. unit: of `unit_of`.
    """
    if outcome is not Outcome.MEASURED:
        return outcome.value, "", outcome.value
    has_interval = not (isnan(low) or isnan(high))
    if flop is None:
        interval = f"{units.value(low, unit)} to {units.value(high, unit)}" if has_interval else ""
        return units.value(seconds, unit), interval, ""
    interval = units.rates(flop / high / 1e9, flop / low / 1e9, unit) if has_interval else ""
    detail = " · ".join(filter(None, (interval, units.seconds(seconds))))
    return units.rate(flop / seconds / 1e9, unit), detail, ""
