"""Tell from the controls what the machine did to its series, and take that part out of their change points.

No commit changes a control (PyTorch's implementations). What the controls of a device share, commit by commit, is the
machine's doing. It counts in full for every other series: a slope fitted within one code comes out at 0 to .7, because
the noise of rounds flattens it.

A series that does not show a step of the controls has no change point there, so nothing is taken from it.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice, pairwise
from typing import NamedTuple

import numpy as np

from kernel_velocity import units
from kernel_velocity.engine.statistics import FloatArray
from kernel_velocity.names import CONTROLS
from kernel_velocity.past.columns import Columns, Indices
from kernel_velocity.past.layout import Layout
from kernel_velocity.past.packing import NO_TEXT, Numbers
from kernel_velocity.past.past import Past
from kernel_velocity.results.measurement import OUTCOMES, IntArray, Outcome, SeriesKey
from kernel_velocity.results.records import name_parts
from kernel_velocity.stats.changepoints import search
from kernel_velocity.stats.changepoints.noise import median
from kernel_velocity.stats.changepoints.search import MARGIN, REACH, detect
from kernel_velocity.stats.changepoints.values import MIN_EFFECT, ChangePoint, Points

FEWEST_CONTROLS = 2  # with a value of a commit: one alone shares nothing
FEWEST_VALUES = 6  # of a control: fewer do not tell its level
MOST_CONTROLS = 256  # about, evenly spread over all: more only cost time
SWEEPS = 3  # of the median polish: the third moves nothing by a thousandth
SAME_FACTOR = 1 / 3  # of what the controls share: by so much one cause slows two series differently
MOST_SCATTER = 1.1  # times: what the controls share has a noise of its own
WINDOW = 2 * MARGIN + 1  # values a side of a change point: a step further away than MARGIN does not reach their median
AROUND = 32  # values a side of a step of the machine that tell whether a series shows it
_MEASURED = OUTCOMES.index(Outcome.MEASURED)


class Common(NamedTuple):
    """What controls share. All arrays have shape (commits,)."""

    position: IntArray  # of the commit on the first-parent line, ascending
    began: FloatArray  # Unix time of the first value, s; NaN: unknown
    values: FloatArray  # deviation of log times from their levels


@dataclass(frozen=True, kw_only=True)
class MachineStep:
    """A step that the controls of a machine's device share."""

    position: int  # on the first-parent line, of the first commit that was measured after it
    ratio: float  # of times, new / old

    @property
    def text(self) -> str:
        """What happened, in words."""
        return f"the machine became {units.change(1 / self.ratio)}: its controls share this step"


@dataclass(frozen=True, eq=False)
class Shared:
    """What the controls of a machine's device share."""

    by_method: Mapping[str | None, Common]  # by hash of the timing method

    @cached_property
    def steps(self) -> tuple[MachineStep, ...]:
        """Its steps, found in the order in which it was measured."""
        steps = list[MachineStep]()
        for position, began, values in self.by_method.values():
            order = np.lexsort((position, began))
            steps += [
                MachineStep(position=int(position[order[point.index]]), ratio=point.ratio)
                for point in detect(values[order])
            ]
        return tuple(steps)

    @cached_property
    def by_position(self) -> Mapping[str | None, FloatArray]:
        """Each method's deviations by position on the first-parent line, up to the last. NaN: unknown."""
        dense = {method: np.full(common.position[-1] + 1, np.nan) for method, common in self.by_method.items()}
        for method, common in self.by_method.items():
            dense[method][common.position] = common.values
        return dense

    @cached_property
    def digest(self) -> str:
        """A digest of everything that it can take out of change points."""
        parts = ((repr(method).encode(), *common) for method, common in self.by_method.items())
        return hashlib.sha256(b"".join(bytes(part) for several in parts for part in several)).hexdigest()


def polished(values: FloatArray) -> FloatArray:
    """Return the column effects of a median polish (Tukey, Exploratory Data Analysis, 1977), shape (commits,).

    Args:
        values: log times, shape (controls, commits), NaN where there is none. Each row and column has a value.
    """
    effects = np.zeros(values.shape[1])
    for _ in range(SWEEPS):
        levels = _medians(values - effects, axis=1)
        effects = _medians(values - levels, axis=0)[0]
    return effects


def _medians(values: FloatArray, axis: int) -> FloatArray:
    """Return the medians of what is no NaN, along an axis that stays, in a fifth of the time of `np.nanmedian`."""
    ordered, count = np.sort(values, axis=axis), (~np.isnan(values)).sum(axis=axis, keepdims=True)
    low, high = (np.take_along_axis(ordered, middle, axis) for middle in ((count - 1) // 2, count // 2))
    result: FloatArray = (low + high) / 2
    return result


def platform_of(key: SeriesKey) -> tuple[str, str, str]:
    """Return the platform of a series: machine, environment, device."""
    return key.machine, key.environment, name_parts(key.benchmark).device


def shared(layout: Layout, methods: Numbers[str], platform: tuple[str, str, str]) -> Shared:
    """Return what the controls of a platform (`platform_of`) share.

    Args:
        methods: the hashes that the layout's numbers of methods stand for.
    """
    numbers = [
        n for n, key in enumerate(layout.keys) if key.implementation in CONTROLS and platform_of(key) == platform
    ]
    rows: dict[int, list[tuple[IntArray, FloatArray, FloatArray]]] = {}
    for number in numbers[:: len(numbers) // MOST_CONTROLS + 1]:
        part = layout.part(number)
        at, outcome, method, began, seconds = (
            layout.columns[name][part] for name in ("position", "outcome", "method", "began", "seconds")
        )
        is_timed = (outcome == _MEASURED) & (seconds > 0)
        for used in np.unique(method[is_timed]).tolist():
            alike = is_timed & (method == used)
            if alike.sum() >= FEWEST_VALUES:
                rows.setdefault(used, []).append((at[alike], began[alike], np.log(seconds[alike])))
    by_method = {methods[number] if number != NO_TEXT else None: common(some) for number, some in rows.items()}
    return Shared({method: part for method, part in by_method.items() if part.position.size})


class SharedParts:
    """What the controls of a past share, by platform, found when it is first asked for."""

    def __init__(self, past: Past) -> None:
        self._past = past
        self._by_platform: dict[tuple[str, str, str], Shared] = {}

    def __getitem__(self, key: SeriesKey) -> Shared:
        """Return what the controls share that were measured where a series was."""
        platform = platform_of(key)
        if platform not in self._by_platform:
            self._by_platform[platform] = shared(self._past.layout, self._past.names.texts, platform)
        return self._by_platform[platform]


def common(rows: Sequence[tuple[IntArray, FloatArray, FloatArray]]) -> Common:
    """Return what some controls share.

    Args:
        rows: of each control the positions of its values, when they were measured (Unix times, s), and log times.
    """
    counts = np.bincount(np.concatenate([position for position, _, _ in rows]))
    positions = np.flatnonzero(counts >= FEWEST_CONTROLS).astype(np.int32)
    values, first = np.full((len(rows), positions.size), np.nan), np.full(positions.size, np.nan)
    for row, (position, began, logs) in enumerate(rows):
        is_common = counts[position] >= FEWEST_CONTROLS
        columns = np.searchsorted(positions, position[is_common])
        values[row, columns] = logs[is_common]
        first[columns] = np.fmin(first[columns], began[is_common])
    values = values[~np.isnan(values).all(axis=1)]
    return Common(position=positions, began=first, values=polished(values) if positions.size else first)


def fitted(columns: Sequence[Columns], shared: Callable[[SeriesKey], Shared]) -> list[Columns]:
    """Return series with the steps of the machine that their values show (`Columns.machine`).

    Args:
        shared: returns what the controls share that were measured where a series was.
    """
    result, moving = list(columns), list[int]()
    logs, machines, events = list[FloatArray](), list[FloatArray](), list[list[int]]()
    for number, part in enumerate(columns):
        if steps := (common := shared(part.key)).steps:
            moving.append(number)
            logs.append(part.logs)
            machines.append(left_in(part, common))
            events.append(np.searchsorted(part.position, sorted(step.position for step in steps)).tolist())
    for number, steps_shown in zip(moving, shown(logs, machines, events), strict=True):
        if steps_shown is not None:
            result[number] = replace(columns[number], machine=steps_shown)
    return result


def shown(
    logs: Sequence[FloatArray], machines: Sequence[FloatArray], events: Sequence[Sequence[int]]
) -> list[FloatArray | None]:
    """Return the steps of the machine that series show, as a part of their log values. None: they show none.

    A series shows a step if levels with the step in them explain the values around it better than levels without.

    Args:
        logs: values of each, NaN where there is none. machines: what the machine did to them (`left_in`). Of each
            series both have the shape (commits,).
        events: entries of each series at which its machine's controls have a step, ascending.
    """
    parts: list[FloatArray | None] = [None] * len(logs)
    for turn in range(max(map(len, events), default=0)):
        numbers, windows, lifted, added = list[int](), list[FloatArray](), list[FloatArray](), list[FloatArray]()
        for number, entries in enumerate(events):
            if turn >= len(entries) or abs(height := _height(machines[number], entries[turn])) < MIN_EFFECT:
                continue
            values = logs[number] - (0.0 if (part := parts[number]) is None else part)
            measured = np.flatnonzero(~np.isnan(values))
            at = int(np.searchsorted(measured, entries[turn]))
            near = measured[max(at - AROUND, 0) : at + AROUND]
            if min(at, measured.size - at) > 0 and near.size > 2 * FEWEST_CONTROLS:
                step = np.where(np.arange(values.size) >= entries[turn], height, 0.0)
                numbers.append(number)
                added.append(step)
                windows.append(values[near])
                lifted.append(values[near] - step[near])
        costs = iter(search.costs([*windows, *lifted], windows * 2))
        for number, step, without, with_it in zip(numbers, added, [*islice(costs, len(windows))], costs, strict=True):
            if with_it < without:
                part = parts[number]
                parts[number] = step if part is None else part + step
    return parts


def _height(machine: FloatArray, entry: int) -> float:
    """Return the step of what the machine did at an entry. 0 where its values there are unknown."""
    sides = [part[~np.isnan(part)] for part in (machine[:entry], machine[entry:])]
    if not min(map(len, sides)):
        return 0.0
    return median(sides[1][:WINDOW]) - median(sides[0][-WINDOW:])


def beyond(effect: float, common: float, least: float) -> float:
    """Return the part of a change that what the controls share does not explain. 0 where it explains all.

    Args:
        effect: of log values. common: what the controls did, of log values. A change the other way is not theirs, and
            one of less than MIN_EFFECT explains nothing.
        least: a part up to this, or up to SAME_FACTOR of `common`, is no other change.
    """
    if abs(common) < MIN_EFFECT or effect * common < 0:
        return effect
    rest = abs(effect) - abs(common)
    return 0.0 if rest <= max(least, SAME_FACTOR * abs(common)) else math.copysign(rest, effect)


def without_machine(
    logs: FloatArray, method: IntArray, machine: FloatArray, points: Sequence[ChangePoint]
) -> list[ChangePoint | None]:
    """Return the change points of a series less the machine's part. None: it explains the change point.

    Args:
        logs: log values, NaN where there is none. method: number of the timing method. machine: what the controls share
            (`left_in`). All of shape (commits,).
        points: ascending.
    """
    edges = [0, *(point.index for point in points), len(logs)]
    remaining = list[ChangePoint | None]()
    for number, point in enumerate(points):
        is_usable = ~np.isnan(machine + logs) & (method == method[point.index])
        before, after = (
            np.flatnonzero(is_usable[start:end]) + start for start, end in pairwise(edges[number : number + 3])
        )
        rest = effect = point.after - point.before
        for part in _parts(machine, logs, before, after) if before.size and after.size else ():
            doubt = math.log(point.high / point.low) / 2
            rest = min(rest, beyond(effect, part, max(MIN_EFFECT, min(doubt, abs(part)))), key=abs)
        remaining.append((point if rest == effect else _less(point, effect - rest)) if rest else None)
    return remaining


def _parts(machine: FloatArray, logs: FloatArray, before: Indices, after: Indices) -> Iterator[float]:
    """Yield what may be the machine's part of a change point: within the detector's margin, and of whole levels.

    The second is for a machine that drifts. It counts where the series scatters no more without what the controls
    share: a step of theirs that the series does not show is none of its own.

    Args:
        logs: of the series. before, after: entries of the two levels.
    """
    before, after = before[-REACH:], after[:REACH]
    yield median(machine[after[:WINDOW]]) - median(machine[before[-WINDOW:]])
    whole = median(machine[after]) - median(machine[before])
    if abs(whole) >= MIN_EFFECT:
        with_it, without_it = (
            sum(float(np.abs(values[side] - median(values[side])).sum()) for side in (before, after))
            for values in (logs, logs - machine)
        )
        if without_it <= MOST_SCATTER * with_it:
            yield whole


def left_in(columns: Columns, common: Shared) -> FloatArray:
    """Return what the machine did to each value that adjusting has left in it. NaN where the controls tell nothing."""
    machine = np.full(len(columns), np.nan)
    for number, method in ((-1, None), *enumerate(columns.methods)):
        if method in common.by_position:
            deviations = common.by_position[method]
            is_known = (columns.method == number) & (columns.position < len(deviations))
            machine[is_known] = deviations[columns.position[is_known]]
    removed = np.log(np.where(columns.seconds > 0, columns.adjusted / columns.seconds, np.nan))
    left = machine + np.where(np.isnan(removed), 0.0, removed)
    return left if columns.machine is None else left - columns.machine


def part_beside(columns: Columns, common: Shared, method: str | None, began: float) -> float:
    """Return the part of a log value beside the line that steps of the machine are, by when it was measured.

    NaN where the machine made steps and the times do not tell.

    Args:
        columns: of the value's series, as `fitted` returns them. method: hash of its timing method.
        began: Unix time, s, NaN: unknown.
    """
    if columns.machine is None:
        return 0.0
    measured = common.by_method.get(method)
    if measured is None or math.isnan(began) or np.isnan(measured.began).all():
        return math.nan
    earlier = np.where(measured.began <= began, measured.began, -np.inf)
    if np.isinf(earlier).all():
        return 0.0
    entry = int(np.searchsorted(columns.position, measured.position[earlier.argmax()]))
    return float(columns.machine[min(entry, len(columns) - 1)])


def raised(columns: Columns, points: Sequence[ChangePoint]) -> Points:
    """Return change points with the levels that the times have, steps of the machine included.

    A change where the machine made a step is one of the rest.
    """
    machine = columns.machine
    if machine is None:
        return tuple(points)
    result = list[ChangePoint]()
    for point in points:
        older, part = machine[point.index - 1], float(machine[point.index])
        notes = (_note(part - older),) if older != part else ()
        before, after = point.before + part, point.after + part
        result.append(replace(point, before=before, after=after, warnings=(*point.warnings, *notes)))
    return tuple(result)


def _less(point: ChangePoint, part: float) -> ChangePoint:
    """Return a change point less the machine's part."""
    factor = math.exp(part)
    return replace(
        point,
        before=point.before + part,
        low=point.low / factor,
        high=point.high / factor,
        warnings=(*point.warnings, _note(part)),
    )


def _note(part: float) -> str:
    return f"the machine's part is taken out: {units.change(1 / math.exp(part))} on its controls"
