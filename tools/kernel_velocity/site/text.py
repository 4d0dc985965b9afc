"""What the pages are made of: ready strings, and the recorded data from which each page takes its own.

Pure. The templates hold no arithmetic: whatever a page shows stands in these values as text. `home_page`,
`kernel_page` and `commit_page` make one kind of page each.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from urllib.parse import urlencode

from kernel_velocity import units
from kernel_velocity.results.git import SHORT
from kernel_velocity.results.measurement import Measurement, Outcome, SeriesKey
from kernel_velocity.results.records import SERIES_NAME, Benchmark, Commit, Machine
from kernel_velocity.series.changes import Change

_DIGITS_OF_MEMORY = 18  # of a machine's, bytes; longer is no number of them
UNSURE = "≈"  # before a change that the intervals do not confirm; the pages explain it

REASONS = {
    Outcome.NOT_APPLICABLE: "n/a: the test case was not asked for, this commit does not have the implementation, "
    "or this machine lacks what it needs",
    Outcome.FAILED: "failed: the commit did not build, or the benchmark raised, crashed, timed out or gave wrong "
    "numbers (`asv run --show-stderr` prints why)",
}


_ROUNDS = re.compile(r"\d+(?= of \d+ rounds)|(?<= of )\d+(?= rounds)|(?<= rounds, have )\d+")  # as in measurements


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
    """The footnotes of a section, numbered in order of first use; texts that differ in counts of rounds share one.

    A measurement says "contended in 3 of 8 rounds", the next one 5 of 8: that is one thing to know of a table.
    """

    _texts: dict[str, list[str]] = field(default_factory=dict)  # by what they have in common
    _numbers: dict[str, int] = field(default_factory=dict)  # likewise
    _marks: dict[tuple[str, ...], tuple[int, ...]] = field(default_factory=dict)  # most cells ask for the same

    @property
    def texts(self) -> tuple[str, ...]:
        """All of them; the first has the number 1."""
        return tuple(map(_together, self._texts.values()))

    def marks(self, texts: Sequence[str]) -> tuple[int, ...]:
        """Return the numbers of these footnotes, from 1."""
        asked = tuple(texts)
        if asked not in self._marks:
            self._marks[asked] = tuple(sorted({self._number(text) for text in asked}))
        return self._marks[asked]

    def _number(self, text: str) -> int:
        kind = _ROUNDS.sub("\0", text)
        self._texts.setdefault(kind, []).append(text)
        return self._numbers.setdefault(kind, len(self._numbers) + 1)


def _together(texts: Sequence[str]) -> str:
    """Return texts that differ in numbers of rounds as one: "contended in 3 to 5 of 8 rounds"."""
    numbers = zip(*(map(int, _ROUNDS.findall(text)) for text in texts), strict=True)
    spans = iter([(min(each), max(each)) for each in numbers])

    def span(_: re.Match[str]) -> str:
        low, high = next(spans)
        return str(low) if low == high else f"{low} to {high}"

    return _ROUNDS.sub(span, texts[0])


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


@cache
def kernel_href(kernel: str, device: str, **choice: str) -> str:
    """Return the file name of a kernel's page, and after it what the page is to show.

    Args:
        choice: state, machine, environment and case, as html_templates/static/kernel_choice.js reads them. Without, the
            page begins with its first machine, which may be another one than the link speaks of.
    """
    said = f"#{urlencode(choice, errors='replace')}" if choice else ""
    return f"kernel-{kernel}-{device}.html{said}"


def trend_href(key: SeriesKey) -> str:
    """Return where the trend of a series is shown."""
    kernel, device, state = parts(key.benchmark)
    return kernel_href(kernel, device, state=state, machine=key.machine, environment=key.environment, case=key.case)


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


def why(outcome: Outcome, reason: str | None) -> str:
    """Return why a value is n/a or failed: what the failed round said, else what it can have been."""
    return REASONS[outcome] if reason is None else f"{outcome.value}: {reason}"


def rate(item: Measurement) -> str:
    """Return the rate of a measured value; its time where the FLOPs are unknown."""
    if item.seconds is None:
        raise ValueError("a value that was not measured has no rate")
    return units.seconds(item.seconds) if item.gflops is None else units.rate(item.gflops, item.key.rate_unit)


def remarks(outcome: Outcome, reason: str | None, warnings: Sequence[str]) -> tuple[str, ...]:
    """Return what is to be known of a result: why it has no time, and its warnings."""
    return tuple(warnings) if outcome is Outcome.MEASURED else (why(outcome, reason), *warnings)


def change(found: Change | None) -> str:
    """Return a change in words: "≈ 1.2% faster"; empty where there is nothing to compare with."""
    return "" if found is None else change_text(found.ratio, found.is_distinct)


def change_text(ratio: float, is_distinct: bool) -> str:
    """Return a ratio of speeds, new over old, in words."""
    return units.change(ratio) if is_distinct or ratio == 1 else f"{UNSURE} {units.change(ratio)}"


def tone(found: Change | None) -> str:
    """Return how a change is to be coloured."""
    return "" if found is None else tone_of(found.ratio, found.is_distinct)


def tone_of(ratio: float, is_distinct: bool) -> str:
    """Return how a ratio of speeds, new over old, is to be coloured."""
    if not is_distinct or ratio == 1:
        return "same"
    return "faster" if ratio > 1 else "slower"
