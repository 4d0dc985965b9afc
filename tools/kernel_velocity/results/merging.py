"""Which of two measurements of one series stays. Pure: rows and lines in, rows and lines out.

A value beats none, more rounds beat fewer, and what is here stays where the other is not better: so unpacking twice
changes nothing, and nothing that was measured is lost. Rows of different versions of a benchmark cannot be mixed; the
suite's version wins as a whole.
"""

from __future__ import annotations

import enum
import itertools
import math
from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass, replace

from kernel_velocity.harness import telemetry
from kernel_velocity.harness.telemetry import Round
from kernel_velocity.results import failures
from kernel_velocity.results.asv_file import Series
from kernel_velocity.results.failures import Failure
from kernel_velocity.results.merge import Cell, Params, Row

Decode = Callable[[str], Round | Failure]
_NOT_ASKED = Cell(value=math.nan, stats=None, samples=None, evidence=0)  # as asv stores it


class Verdict(enum.Enum):
    """What became of one series of the tar."""

    TAKEN = "taken"
    SAME = "the same"  # is here already
    BETTER = "fewer rounds than here"
    EQUAL = "as many rounds as here"
    FAILED = "failed"  # in the tar; here it has a value
    METHOD = "timed by another method"  # than the values here
    VERSION = "another version"  # than the suite's, or than the one here


@dataclass(frozen=True, kw_only=True)
class MergedRow:
    """A benchmark's row after merging, and what became of each cell of the tar's."""

    row: Row
    verdicts: Mapping[Params, Verdict]
    replaced: int = 0  # values of another version that went with their row
    dropped: frozenset[Params] = frozenset()  # their places, where the new row has none

    @property
    def taken(self) -> frozenset[Params]:
        """What is the tar's now."""
        return frozenset(params for params, verdict in self.verdicts.items() if verdict is Verdict.TAKEN)


def merge_rows(here: Row | None, there: Row, current: str | None, method: str | None = None) -> MergedRow:
    """Return what stays of a benchmark's row here and the tar's.

    Args:
        here: the row here; None: there is none. there: the tar's. current: the version of the benchmark in the suite.
        method: the suite's timing method, by its hash. Values of two methods are not compared: the suite's wins, else
            what is here stays.
    """
    if here is None:
        return MergedRow(row=there, verdicts=dict.fromkeys(there.cells, Verdict.TAKEN))
    if here.version != there.version:
        return _other_version(here, there, current)
    if len(here.axes) != len(there.axes):  # nothing of the one has a place in the other
        return MergedRow(row=here, verdicts=dict.fromkeys(there.cells, Verdict.VERSION))
    verdicts = {params: _verdict(here.cells.get(params), cell, method) for params, cell in there.cells.items()}
    taken = {params: there.cells[params] for params, verdict in verdicts.items() if verdict is Verdict.TAKEN}
    return MergedRow(row=_joined(here, there, taken) if taken else here, verdicts=verdicts)


def _other_version(here: Row, there: Row, current: str | None) -> MergedRow:
    values = sum(cell.measured for cell in here.cells.values())
    has_values = any(cell.measured for cell in there.cells.values())
    if current is not None and there.version == current and (has_values or not values):
        dropped = frozenset(here.cells) - frozenset(there.cells)
        return MergedRow(
            row=there, verdicts=dict.fromkeys(there.cells, Verdict.TAKEN), replaced=values, dropped=dropped
        )
    return MergedRow(row=here, verdicts=dict.fromkeys(there.cells, Verdict.VERSION))


def _verdict(here: Cell | None, there: Cell, method: str | None) -> Verdict:
    if here is not None and here.measured and there.measured and _differ(here.method, there.method):
        return Verdict.TAKEN if there.method == method else Verdict.METHOD
    if here is None or there.rank > here.rank:
        return Verdict.TAKEN
    if here.same_as(there):
        return Verdict.SAME
    if here.measured and there.measured:
        return Verdict.EQUAL if there.rank == here.rank else Verdict.BETTER
    return Verdict.FAILED if there.failed else Verdict.SAME  # n/a, or not asked for: nothing was lost on the node


def _differ(one: str | None, other: str | None) -> bool:
    """Return whether two methods are known to differ."""
    return one is not None and other is not None and one != other


def _joined(here: Row, there: Row, taken: Mapping[Params, Cell]) -> Row:
    """Return the row here with cells of the tar's; its axes grow where the tar has more cases or implementations."""
    axes = tuple(tuple(dict.fromkeys([*one, *other])) for one, other in zip(here.axes, there.axes, strict=True))
    cells = {params: taken.get(params) or here.cells.get(params) or _NOT_ASKED for params in itertools.product(*axes)}
    last = there if (there.started_at or 0) > (here.started_at or 0) else here
    profile = last.profile or here.profile
    return replace(here, axes=axes, cells=cells, started_at=last.started_at, duration=last.duration, profile=profile)


def merge_lines(
    here: str, there: str, taken: Container[Series], decode: Decode, gone: Container[Series] = frozenset()
) -> str:
    """Return the telemetry (or the failures) of a merged results file: each series with the lines of the side it is of.

    Args:
        here, there: the files' texts. taken: the series that are the tar's now. decode: of a line. gone: series that
            are here no more, and not in the tar.
    """
    kept = [
        (item, line)
        for item, line in _lines(here, decode)
        if item is None or not (_is_of(item, taken) or _is_of(item, gone))
    ]
    kept += [(item, line) for item, line in _lines(there, decode) if item is not None and _is_of(item, taken)]
    kept.sort(key=lambda pair: math.inf if pair[0] is None else pair[0].time)
    return "".join(f"{line}\n" for line in dict.fromkeys(line for _, line in kept))


def rounds(text: str) -> dict[Series, list[Round]]:
    """Return the rounds of each series in telemetry, oldest first; a line that stands there twice is one round."""
    found: dict[Series, list[Round]] = {}
    items = {item for item, _ in _lines(text, telemetry.decode) if isinstance(item, Round)}
    for item in sorted(items, key=lambda item: item.time):
        found.setdefault((item.benchmark, item.params), []).append(item)
    return found


def told(text: str) -> Counter[Series]:
    """Return how many lines of failures each series has."""
    found = {item for item, _ in _lines(text, failures.decode) if item is not None}
    return Counter((item.benchmark, item.params) for item in found)


def _lines(text: str, decode: Decode) -> Iterator[tuple[Round | Failure | None, str]]:
    """Yield what each line says, None where it cannot be read, and the line."""
    for line in text.split("\n"):
        if not line.strip():
            continue
        try:
            yield decode(line), line
        except ValueError:  # TelemetryError, FailureLineError
            yield None, line


def _is_of(item: Round | Failure, chosen: Container[Series]) -> bool:
    return (item.benchmark, item.params) in chosen


def merge_benchmarks(
    here: Mapping[str, object], there: Mapping[str, object], *, tar_is_current: bool
) -> dict[str, object]:
    """Return benchmarks.json with the benchmarks of both; what both have stays as it is here.

    Only where the suite of the tar is today's, its entries are taken: with an old one, the pages would hide what was
    just merged, another version or a new case.
    """
    newer = [name for name in there if tar_is_current and here.get(name) != there[name]]
    return {**there, **here, **{name: there[name] for name in newer}}


def versions(first: Mapping[str, object], second: Mapping[str, object]) -> dict[str, str]:
    """Return the version of each benchmark as the first benchmarks.json has it, else the second."""
    named = ((name, _version(entry)) for name, entry in {**second, **first}.items())
    return {name: version for name, version in named if version is not None}


def _version(entry: object) -> str | None:
    version = entry.get("version") if isinstance(entry, Mapping) else None
    return None if version is None else str(version)
