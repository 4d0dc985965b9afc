"""What the compilers made of a kernel over the commits: the figures of its code, and what changed them last. Pure.

Of all devices' code, whichever device a page is about: a machine without a GPU compiles for one, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from kernel_velocity.harness import cases
from kernel_velocity.results.identity import FIGURES
from kernel_velocity.results.measurement import SeriesKey
from kernel_velocity.series.tracked import Tracked
from kernel_velocity.site.text import CommitLine

_WORDS = {
    "code_bytes": "code",
    "registers": "registers of a thread",
    "shared_bytes": "shared memory of a block",
    "spill_bytes": "spilled",
}


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A figure of a kernel's code for one target, as built on one machine."""

    key: SeriesKey  # its case is the target: "avx512", "sm_90"
    name: str  # "registers"
    unit: str
    steps: tuple[tuple[str, int], ...]  # full SHA and value: of the first commit that has one, then where it changed


@dataclass(frozen=True, kw_only=True)
class FigureRow:
    """A figure as a page shows it."""

    machine: str
    environment: str
    target: str
    name: str  # "code"
    now: str
    before: str  # what it was before the commit; empty where it never was another
    commit: CommitLine  # that made it what it is


def figures(tracked: Iterable[Tracked], kernel: str, line: Sequence[str]) -> tuple[Figure, ...]:
    """Return a kernel's figures among tracked series; `line` is the first-parent line."""
    found = []
    for item in tracked:
        owner, device, method = item.key.benchmark.split(".")
        if owner != kernel or method not in FIGURES:
            continue
        values = [(line[place], int(value)) for place, value in zip(item.place.tolist(), item.value, strict=True)]
        steps = (values[0], *(after for before, after in pairwise(values) if before[1] != after[1]))
        name = method.removeprefix("track_")
        units = next(cases.FIGURES[each] for each, class_name in cases.DEVICES.items() if class_name == device)
        found.append(Figure(key=item.key, name=name, unit=units[name], steps=steps))
    return tuple(found)


def rows(found: Iterable[Figure], commit: Callable[[str], CommitLine]) -> tuple[FigureRow, ...]:
    """Return figures as a page shows them; `commit` returns the line of a full SHA."""
    return tuple(
        FigureRow(
            machine=each.key.machine,
            environment=each.key.environment,
            target=each.key.case,
            name=_WORDS[each.name],
            now=_with_unit(each, -1),
            before=_with_unit(each, -2) if len(each.steps) > 1 else "",
            commit=commit(each.steps[-1][0]),
        )
        for each in found
    )


def _with_unit(figure: Figure, step: int) -> str:
    return f"{figure.steps[step][1]:,}{' bytes' if figure.unit.startswith('bytes') else ''}"


def as_data(figure: Figure) -> dict[str, Any]:
    """Return a figure for a data file: its values, and the commits from which on it had them."""
    commits, values = zip(*figure.steps, strict=True)
    return {
        "machine": figure.key.machine,
        "environment": figure.key.environment,
        "benchmark": figure.key.benchmark,
        "target": figure.key.case,
        "unit": figure.unit,
        "commit": list(commits),
        "value": list(values),
    }
