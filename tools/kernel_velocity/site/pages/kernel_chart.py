"""What a kernel's chart on a device is made from, and the data files that its script reads beside the series' own.

`data/kernel-<kernel>-<Device>` holds, of every series, how its times become the quantities that a reader can choose,
and the events of the chart: change points, findings, tags, changes of the machine. `data/error-<16 hex>` holds the
errors of one series.

The page's script converts times: `per / time`, `times * time`, or a ratio to another series' times. Everything that is
known of the kernel's work or of the machine's roofs is in these rules, made by the code that the other pages use.

A mark is an object of the data file. It names the measured commit that it stands at: along the first-parent line, the
first one that is not before it.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from kernel_velocity import units
from kernel_velocity.findings import text as finding_text
from kernel_velocity.findings.finding import Finding, Kind, finding_href
from kernel_velocity.names import UNITS_OF_FIGURES
from kernel_velocity.past.columns import Columns
from kernel_velocity.past.past import Tracked
from kernel_velocity.results import sessions as session_facts
from kernel_velocity.results.identity import ERROR as ERROR_BENCHMARK
from kernel_velocity.results.identity import FIGURE_METHODS, Slot, environment_of
from kernel_velocity.results.measurement import OUTCOMES, IntArray, Measurement, Outcome, SeriesKey
from kernel_velocity.results.records import name_parts
from kernel_velocity.results.sessions import SessionFacts
from kernel_velocity.roofline.model import Roofs, dram_bandwidth
from kernel_velocity.roofline.roofs import Choice
from kernel_velocity.site import text
from kernel_velocity.site.model import Site, below
from kernel_velocity.site.series_data import commit_runs, last_commit
from kernel_velocity.site.text import Platform
from kernel_velocity.site.writer import DataFile, series_name
from kernel_velocity.stats.changepoints.search import MARGIN
from kernel_velocity.stats.sequential import Answer
from kernel_velocity.verdict import verdicts
from kernel_velocity.verdict.controls import MachineStep
from kernel_velocity.verdict.verdicts import Levels

FORMAT = 5  # of both files; raised when a reader of the old ones would go wrong

GFLOPS, GIGABYTES, TIME = "GFLOPS", "GB/s", "µs"
SPEED_UP, EFFICIENCY, BENEFIT, COLD_HOT, ERROR = "speed-up", "efficiency", "cache benefit", "cold / hot", "error"
# What a page offers, in this order, with the words of its axis
AXES = {
    GFLOPS: "rate",
    GIGABYTES: "bandwidth",
    TIME: "time of a call",
    SPEED_UP: "times as fast as eager",
    EFFICIENCY: "roofline efficiency, % of its limit",
    BENEFIT: "cache benefit, times as fast as memory alone",
    COLD_HOT: "time with cold caches / with hot ones",
    ERROR: "largest error, absolute or relative (the smaller)",
    **{noun: noun for noun in ("time", "memory", "value")},  # of another suite, by the unit of its values
}
BASELINE = "eager"  # of a speed-up
LABEL = 28  # letters of a label on the chart
_NOT_APPLICABLE = OUTCOMES.index(Outcome.NOT_APPLICABLE)

# How a time, s per call, becomes a value; unknown is left out. One of: `per` (value = per / time), `times` (times *
# time), `over` (time of that series / time), `under` (the inverse), `own` (values of that data file). And `least`,
# a bound of the value; `unit`, which an error lacks; `apart`, the commits that it does not hold for.
Rule = dict[str, Any]
Mark = dict[str, Any]
ErrorSlot = tuple[str, str, str, str]  # machine, environment, implementation, case
Commits = Callable[[int], str | None]  # of a position on the line: the commit that its marks stand at
Sessions = Sequence[tuple[str, SessionFacts]]  # with the commit that each measured


class MeasuredAgain(NamedTuple):
    """What a night measured of a series again, in turns."""

    before: int  # position of the older commit on the line
    after: int
    answer: Answer
    ratio: float  # of times, after / before


@dataclass(frozen=True, kw_only=True)
class Group:
    """The series of one machine, environment and cache state."""

    platform: Platform
    benchmark: str
    columns: Mapping[SeriesKey, Columns]
    shown: IntArray  # positions on the line of the commits that have more than n/a, ascending
    environment: Sequence[Mark]  # what changed on the machine, and the steps that its controls share
    shared: str  # digest of what the controls share, which is taken out of change points

    @property
    def state(self) -> str:
        """The cache state."""
        return name_parts(self.benchmark)[2]

    @property
    def anchor(self) -> str:
        """Of its part of the page."""
        return f"{self.platform.anchor}-{self.state}"

    def commits_of(self, case: str) -> int:
        """Return how many of its commits have a result of a test case."""
        positions = [columns.position for key, columns in self.columns.items() if key.case == case]
        return int(np.isin(self.shown, np.concatenate(positions)).sum())


@dataclass(frozen=True, kw_only=True)
class Chart:
    """Everything that a kernel's page on a device shows. What takes time is made when it is asked for."""

    site: Site
    kernel: str
    device: str
    columns: Mapping[SeriesKey, Columns]
    groups: tuple[Group, ...]
    series: Mapping[SeriesKey, dict[str, Any]]  # as in the data file
    errors: Mapping[str, Tracked]  # by the name of their data file
    findings: Sequence[Mark]
    reruns: Mapping[SeriesKey, Sequence[MeasuredAgain]]  # by series that a night measured again
    tags: Sequence[Mark]
    warnings: Mapping[Platform, tuple[str, ...]]  # of the roofs
    figures: Sequence[Mapping[str, Any]]  # of the compiled code

    @property
    def name(self) -> str:
        """The name of its data file."""
        return text.kernel_page(self.kernel, self.device)

    @property
    def implementations(self) -> tuple[str, ...]:
        """In the order of the axis."""
        return tuple(dict.fromkeys(key.implementation for key in self.columns))

    @cached_property
    def changes(self) -> Mapping[SeriesKey, Sequence[Mark]]:
        """The change points of each series."""
        levels = {key: self.site.levels[key] for key in self.columns}
        return {
            key: change_marks(columns, levels[key], self.site.line, self.reruns.get(key, ()))
            for key, columns in self.columns.items()
        }


def chart(site: Site, kernel: str, device: str, keys: Sequence[SeriesKey]) -> Chart:
    """Return what the page of a kernel on a device shows. `keys` are its series."""
    columns = {key: site.series(key) for key in keys}
    here = {(key.machine, key.environment) for key in keys}
    platforms = {
        at: platform for platform in site.platforms if (at := (platform.machine, platform.environment)) in here
    }
    choices = {
        at: site.roof_choice(platform, device) if device else Choice(roofs=None) for at, platform in platforms.items()
    }
    roofs = {platform: choices[at].roofs for at, platform in platforms.items()}
    sessions = {at: site.sessions(platform) for at, platform in platforms.items()}
    stand = measured_line(site.measured, site.order)
    slots = {(key.machine, key.environment, key.implementation, key.case) for key in keys}
    errors = errors_of(site, f"{kernel}.{device}.{ERROR_BENCHMARK}", slots)
    names = {key: series_name(key) for key, columns in columns.items() if columns.is_measured.any()}
    figures = figures_of(site.tracked.values(), kernel, device, site.line)
    benchmarks = {name_parts(key.benchmark)[2]: key.benchmark for key in keys}

    def series(key: SeriesKey) -> dict[str, Any]:
        choice = choices[key.machine, key.environment]
        least = roof(columns[key], choice.roofs)
        rules = (
            of_work(columns[key], choice, least) | ratios(key, names, benchmarks) if device else of_value(columns[key])
        )
        slot = (key.machine, key.environment, key.implementation, key.case)
        return {
            "name": series_name(key),
            "machine": key.machine,
            "environment": key.environment,
            "state": name_parts(key.benchmark)[2],
            "case": key.case,
            "implementation": key.implementation,
            "quantities": rules | ({ERROR: {"own": _error_name(errors[slot].key)}} if slot in errors else {}),
            "roof": least,
        }

    return Chart(
        site=site,
        kernel=kernel,
        device=device,
        columns=columns,
        groups=tuple(_groups(site, list(platforms.values()), columns)),
        series={key: series(key) for key in keys},
        errors={_error_name(series.key): series for series in errors.values()},
        findings=finding_marks(site.findings, keys, sessions, site.order, stand),
        reruns=reruns_of(site, keys),
        tags=tag_marks(site.tags, site.order, stand),
        figures=[figure for figure in figures if (figure["machine"], figure["environment"]) in here],
        warnings={
            platform: found_roofs.warnings
            for platform, found_roofs in roofs.items()
            if found_roofs and found_roofs.warnings
        },
    )


def _groups(site: Site, platforms: Sequence[Platform], columns: Mapping[SeriesKey, Columns]) -> Iterator[Group]:
    for platform in platforms:
        facts = environment_marks(site.sessions(platform), site.order)
        for benchmark in dict.fromkeys(key.benchmark for key in columns):
            here = (platform.machine, platform.environment, benchmark)
            group = {k: part for k, part in columns.items() if (k.machine, k.environment, k.benchmark) == here}
            shown = applicable(group.values())
            if shown.size:
                shared = site.levels.shared[next(iter(group))]
                environment = [*facts, *machine_marks(shared.steps, site.line)]
                yield Group(
                    platform=platform,
                    benchmark=benchmark,
                    columns=group,
                    shown=shown,
                    environment=sorted(environment, key=lambda mark: site.order[mark["commit"]]),
                    shared=shared.digest,
                )


def applicable(series: Iterable[Columns]) -> IntArray:
    """Return the positions on the line at which any of some series was more than n/a, ascending."""
    positions = [columns.position[columns.outcome != _NOT_APPLICABLE] for columns in series]
    counts = np.bincount(np.concatenate([np.array([], np.int32), *positions]))
    return np.flatnonzero(counts).astype(np.int32)


def errors_of(site: Site, benchmark: str, slots: Container[ErrorSlot]) -> dict[ErrorSlot, Tracked]:
    """Return the newest version's errors of some slots."""
    newest: dict[ErrorSlot, Tracked] = {}
    for key, errors in site.tracked.items():
        slot = (key.machine, key.environment, key.implementation, key.case)
        is_wanted = key.benchmark == benchmark and slot in slots
        if is_wanted and (slot not in newest or errors.position[-1] > newest[slot].position[-1]):
            newest[slot] = errors
    return newest


def _error_name(key: SeriesKey) -> str:
    return series_name(key).replace("series-", "error-", 1)


def inputs(chart: Chart) -> str:
    """Return a text that changes whenever a chart or the tables behind it would."""
    groups = [(group.platform, group.benchmark, group.environment, group.shared) for group in chart.groups]
    verdicts = chart.site.levels
    series = [
        (
            key,
            chart.site.digest(key),
            chart.site.older(key),
            series,
            levels.points,
            levels.ranges,
            levels.doubt,
            levels.within,
            levels.visits,
        )
        for key, series in chart.series.items()
        for levels in [verdicts[key]]
    ]
    warnings = sorted(chart.warnings.items(), key=repr)
    return repr((groups, series, chart.findings, chart.reruns, chart.tags, warnings, chart.figures))


def files(chart: Chart, inputs: str) -> Iterator[DataFile]:
    """Yield the data files of a chart. Its own is made again only for other inputs."""
    yield DataFile(name=chart.name, value=partial(as_data, chart), inputs=inputs)
    measured = [chart.site.order[sha] for sha in chart.site.along]
    for name, series in chart.errors.items():
        numbers = np.searchsorted(measured, series.position).astype(np.int32)
        commits = {"last": last_commit(numbers, chart.site.along), "commit": commit_runs(numbers)}
        yield DataFile(name=name, value={"format": FORMAT, **commits, "value": series.value.tolist()})


def as_data(chart: Chart) -> dict[str, Any]:
    """Return the data file of a chart."""
    groups = [
        {
            "anchor": group.anchor,
            "machine": group.platform.machine,
            "environment": group.platform.environment,
            "state": group.state,
        }
        for group in chart.groups
    ]
    return {
        "format": FORMAT,
        "kernel": chart.kernel,
        "device": chart.device,
        "groups": groups,
        "series": list(chart.series.values()),
        "marks": list(_marks(chart)),
        "figures": chart.figures,
    }


def _marks(chart: Chart) -> Iterator[Mark]:
    """Yield what the chart marks. A mark without a `group` and without `series` is on every chart."""
    for mark in chart.findings:
        yield mark | {"kind": "finding", "what": mark["kind"], "label": f"{mark['kind']}, {mark['state']}"}
    for key, marks in chart.changes.items():
        for mark in marks:
            detail = "; ".join(filter(None, (mark["cause"], mark["detail"])))
            words = f"change point, {key.implementation or 'value'}: {mark['text']} ({detail})"
            yield mark | {"kind": "change", "series": [series_name(key)], "label": mark["text"], "text": words}
    yield from chart.tags
    for group in chart.groups:
        yield from (mark | {"group": group.anchor} for mark in group.environment)


def of_work(columns: Columns, choice: Choice, least: Mapping[str, Any] | None) -> dict[str, Rule]:
    """Return the rules of the quantities that follow from a series' work, by quantity.

    Args:
        choice: of the device's roofs. least: what `roof` returns of them.
    """
    key, bytes_moved = columns.key, columns.bytes_moved
    # Of a call that takes a second, the rates are what a time divides
    call = Measurement(
        key=key, commit="", outcome=Outcome.MEASURED, seconds=1.0, flop=columns.flop, bytes_moved=bytes_moved
    )
    apart = {"apart": sorted(choice.apart)} if choice.apart else {}
    dram = None if choice.roofs is None else dram_bandwidth(choice.roofs)
    rules: dict[str, Rule] = {}
    if call.gflops is not None:
        rules[GFLOPS] = {"per": call.gflops, "unit": key.rate_unit}
    if call.gigabytes is not None:
        rules[GIGABYTES] = {"per": call.gigabytes, "unit": "GB/s"}
    if least is not None:
        rules[EFFICIENCY] = {"per": 100 * least["seconds"], "unit": "%", **apart}
    if dram is not None and bytes_moved is not None:
        rules[BENEFIT] = {"per": bytes_moved / dram, "least": 1, "unit": units.MULTIPLE, **apart}
    return rules | {TIME: {"times": 1, "unit": "s"}}


def of_value(columns: Columns) -> dict[str, Rule]:
    """Return the rule of the values of another suite's series, in a unit in which the median is readable."""
    seconds = columns.seconds[columns.is_measured]
    name, scale = scale_of(columns.unit, float(np.median(seconds)) if seconds.size else 0.0)
    return {quantity_of(columns.unit): {"times": 1 / scale, "unit": name}}


def scale_of(unit: str, value: float) -> tuple[str, float]:
    """Return the unit in which a value in a unit of a suite is readable, and how many of the latter it is."""
    scales = {units.SECONDS: units.TIME_UNITS, units.BYTES: units.BYTE_UNITS}.get(unit, ((unit, 1.0),))
    return next(((name, scale) for name, scale in reversed(scales) if value >= scale), scales[0])


def quantity_of(unit: str) -> str:
    """Return what a suite's values in a unit are."""
    return {units.SECONDS: "time", units.BYTES: "memory"}.get(unit, "value")


def roof(columns: Columns, roofs: Roofs | None) -> dict[str, Any] | None:
    """Return the least time of a call, s, and what binds ("DRAM", "float32 peak"). None where nothing can be said."""
    line = below(columns, 1.0, roofs)
    return None if line is None else {"seconds": line.of_limit, "text": line.limit}


def ratios(key: SeriesKey, names: Mapping[SeriesKey, str], benchmarks: Mapping[str, str]) -> dict[str, Rule]:
    """Return the rules of ratios to other series of the same machine, environment and test case, by quantity.

    Args:
        names: of the data files of all series with a time.
        benchmarks: cache state -> the benchmark of the same kernel and device.
    """
    beside = {
        (other.benchmark, other.implementation): name
        for other, name in names.items()
        if (other.machine, other.environment, other.case) == (key.machine, key.environment, key.case)
    }
    rules = {}
    eager = beside.get((key.benchmark, BASELINE))
    if eager is not None and len({name for benchmark, name in beside if benchmark == key.benchmark}) > 1:
        rules[SPEED_UP] = {"over": eager, "unit": units.MULTIPLE}
    cold, hot = (beside.get((benchmarks.get(state, ""), key.implementation)) for state in ("cold", "hot"))
    if cold is not None and hot is not None:
        beside_it = {"over": cold} if key.benchmark == benchmarks["hot"] else {"under": hot}
        rules[COLD_HOT] = {**beside_it, "unit": units.MULTIPLE}
    return rules


def figures_of(tracked: Iterable[Tracked], kernel: str, device: str, line: Sequence[str]) -> list[dict[str, Any]]:
    """Return the compilers' figures of a kernel's code: their values, and the commits from which on they had them.

    Args:
        tracked: series, also of other things. line: the first-parent line. device: of the code.
    """
    figures = []
    for series in tracked:
        owner, built_for, method = series.key.benchmark.split(".")
        if owner == kernel and method in FIGURE_METHODS and device == built_for:
            values = [
                (line[position], int(value))
                for position, value in zip(series.position.tolist(), series.value, strict=True)
            ]
            steps = [
                (None, *values[0]),
                *((before[0], *after) for before, after in pairwise(values) if before[1] != after[1]),
            ]
            figure = {
                "machine": series.key.machine,
                "environment": series.key.environment,
                "benchmark": series.key.benchmark,
                "target": series.key.case,  # "avx512", "sm_90"
                "unit": UNITS_OF_FIGURES[method.removeprefix("track_")],
                "before": [before for before, _, _ in steps],  # the commit measured before; None: the first
                "commit": [commit for _, commit, _ in steps],
                "value": [value for _, _, value in steps],
            }
            figures.append(figure)
    return figures


def measured_line(commits: Iterable[str], order: Mapping[str, int]) -> Commits:
    """Return what finds the first measured commit at or after a position on the line. None past the newest."""
    measured = sorted((sha for sha in commits if sha in order), key=order.__getitem__)
    positions = [order[sha] for sha in measured]

    def at(position: int) -> str | None:
        index = bisect_left(positions, position)
        return measured[index] if index < len(measured) else None

    return at


def change_marks(columns: Columns, levels: Levels, line: Sequence[str], reruns: Sequence[MeasuredAgain]) -> list[Mark]:
    """Return the change points of a series, as changes of speed, each at the first measured commit of its new level.

    Args:
        line: the first-parent line. reruns: of the series.
    """
    marks = []
    events = text.at_ends(levels.changes, columns, line)
    for point, commits in zip(levels.points, levels.ranges, strict=True):
        position = int(columns.position[point.index])
        near = [rerun for rerun in reruns if rerun.before - MARGIN < position <= rerun.after + MARGIN]
        ratio = next((r for _, _, answer, r in near if answer is Answer.DIFFERENT and (r > 1) == point.rises), None)
        again = "not re-measured" if ratio is None else f"re-measured: {units.change(1 / ratio, columns.unit)}"
        if ratio is None and any(rerun.answer is Answer.SAME for rerun in near):
            again = "re-measured: unchanged"
        step = verdicts.of_step(point, columns.better)
        ends = sorted((point.low, point.high), key=lambda ratio: abs(math.log(ratio)))
        bounds = " to ".join(units.change(1 / end, columns.unit) for end in ends)
        interval = () if point.has_zero else (f"95% interval {bounds}",)
        event = (events[point.index],) if point.index in events else ()
        marks.append(
            {
                "commit": line[position],
                "text": text.verdict(step, columns.unit),
                "word": (step if point.is_blamed else verdicts.UNDECIDED).word,
                "remeasured": ratio is not None,
                "cause": "" if commits.commits == (line[position],) else str(commits),
                "good": commits.good,
                "bad": commits.bad,
                "candidates": commits.commits,
                "detail": "; ".join((*event, again, *interval, *point.warnings)),
            }
        )
    return marks


def reruns_of(site: Site, keys: Iterable[SeriesKey]) -> dict[SeriesKey, list[MeasuredAgain]]:
    """Return what nights measured again of some series, from the evidence of all findings."""
    by_slot, order = _by_slot(keys), site.order
    reruns: dict[SeriesKey, list[MeasuredAgain]] = {}
    for finding in site.findings:
        if not any(affected.identity.slot in by_slot for affected in finding.affected):
            continue
        for rerun in (rerun for evidence in site.evidence[finding.id][0].values() for rerun in evidence.reruns):
            if rerun.looks and rerun.before in order and rerun.after in order:
                again = MeasuredAgain(order[rerun.before], order[rerun.after], rerun.answer, rerun.looks[-1].ratio)
                for key in by_slot.get(rerun.identity.slot, ()):
                    reruns.setdefault(key, []).append(again)
    return reruns


def _by_slot(keys: Iterable[SeriesKey]) -> dict[Slot, list[SeriesKey]]:
    by_slot: dict[Slot, list[SeriesKey]] = defaultdict(list)
    for key in keys:
        environment = environment_of(key.environment, key.implementation)
        by_slot[key.machine, environment, key.benchmark, key.implementation, key.case].append(key)
    return by_slot


def tag_marks(named: Mapping[str, Sequence[str]], order: Mapping[str, int], at: Commits) -> list[Mark]:
    """Return the tags, oldest first, each at the first measured commit that includes it."""
    positions = sorted((order[sha], name) for sha, names in named.items() if sha in order for name in names)
    return [
        {"commit": commit, "kind": "tag", "label": shortened(name), "text": f"tag {name}"}
        for position, name in positions
        if (commit := at(position)) is not None
    ]


def shortened(words: str) -> str:
    """Return a label that is no longer than a chart has room for."""
    return words if len(words) <= LABEL else words[: LABEL - 1] + "…"


def environment_marks(sessions: Sessions, order: Mapping[str, int]) -> list[Mark]:
    """Return where recorded facts of a machine changed from one measured commit to the next along the line.

    Args:
        sessions: of one machine and environment. order: commit -> position on the first-parent line.
    """
    newest = {sha: session for sha, session in sorted(sessions, key=lambda pair: pair[1].began) if sha in order}
    marks, before = [], None
    for sha in sorted(newest, key=order.__getitem__):
        facts = newest[sha].facts
        if changed := session_facts.changes(before, facts):
            texts = [f"{name}: {old} → {new}" for name, (old, new) in changed.items()]
            name, (_, now) = next(iter(changed.items()))
            label = shortened(f"{name} {now}") + (f" +{len(texts) - 1}" if len(texts) > 1 else "")
            marks.append({"commit": sha, "kind": "environment", "label": label, "text": "; ".join(texts)})
        before = facts
    return marks


def machine_marks(steps: Iterable[MachineStep], line: Sequence[str]) -> list[Mark]:
    """Return the steps that the controls of a machine's device share. `line` is the first-parent line."""
    return [
        {
            "commit": line[step.position],
            "kind": "environment",
            "label": shortened(f"machine {units.change(1 / step.ratio)}"),
            "text": step.text,
        }
        for step in steps
    ]


def finding_marks(
    findings: Iterable[Finding],
    keys: Sequence[SeriesKey],
    sessions: Mapping[tuple[str, str], Sessions],
    order: Mapping[str, int],
    at: Commits,
) -> list[Mark]:
    """Return the findings that series of a page show, oldest position first.

    Args:
        items: all findings. keys: the page's series. sessions: by machine and environment.
        order: commit -> position on the first-parent line. at: where marks can stand.
    """
    by_slot = _by_slot(keys)
    marks = []
    for finding in findings:
        slots = dict.fromkeys(affected.identity.slot for affected in finding.affected)
        shown = [key for slot in slots for key in by_slot.get(slot, ())]
        commit = _commit_of(finding, shown, sessions, order, at) if shown else None
        if commit is not None:
            blamed = "" if finding.kind is Kind.ENVIRONMENT else f" by {finding_text.blamed(finding)}"
            marks.append(
                {
                    "commit": commit,
                    "id": finding.id,
                    "kind": finding.kind.value,
                    "state": finding.state.value,
                    "text": f"{finding.kind.value}, {finding.state.value}: {finding_text.headline(finding)}{blamed}",
                    "page": finding_href(finding.id),
                    "series": list(map(series_name, shown)),
                }
            )
    return sorted(marks, key=lambda mark: (order[mark["commit"]], mark["id"]))


def _commit_of(
    finding: Finding,
    shown: Sequence[SeriesKey],
    sessions: Mapping[tuple[str, str], Sessions],
    order: Mapping[str, int],
    at: Commits,
) -> str | None:
    """Return where a finding stands: its newest suspect. Of an environment, the oldest commit measured in it."""
    suspects = [order[sha] for sha in finding.commits if sha in order]
    if suspects:
        return at(max(suspects))
    if finding.commits:
        return None  # on another line
    here = {(key.machine, key.environment) for key in shown}
    first: dict[str, float] = {}
    for sha, session in (pair for platform in here for pair in sessions.get(platform, ())):
        if sha in order:
            first[sha] = min(session.began, first.get(sha, session.began))
    # a finding's time has whole seconds
    began = max((time for time in first.values() if time < finding.found.timestamp() + 1), default=None)
    return min((sha for sha, time in first.items() if time == began), key=order.__getitem__, default=None)
