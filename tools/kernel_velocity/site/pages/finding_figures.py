"""The charts of a finding's page: a re-run's rounds, how its ratio settled, a bisection. Pure.

Shapes repeat what colours say.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from markupsafe import Markup

from kernel_velocity import units
from kernel_velocity.findings import evidence, text
from kernel_velocity.findings.evidence import BisectionPath, Rerun
from kernel_velocity.results.git import SHORT
from kernel_velocity.site.charts.palette import COLOURS
from kernel_velocity.site.charts.plot import Mark, Plot, Span, around
from kernel_velocity.stats import two_samples

INK = "currentcolor"
SIDES = (("before", "circle", COLOURS["triton"]), ("after", "diamond", COLOURS["eager"]))  # name, shape, colour
# Of a bisection's commits, by Tried.slow
STEPS = {False: SIDES[0][1:], True: SIDES[1][1:], None: ("square", INK)}
CHANGE = "change in time, %"
_FEWEST = 2  # rounds a side that a running ratio is made from
_CALM_FROM = 4  # rounds a side from which the running ratio may stretch the axis: the first ones jump


def rounds_chart(rerun: Rerun) -> Markup:
    """Return every round of both sides in the order measured. Empty without rounds."""
    if not rerun.rounds:
        return Markup("")
    unit = units.seconds(float(np.median([*rerun.compared[0], *rerun.compared[1]]))).split(" ")[1]
    scale = units.parse(f"1 {unit}")
    sides = [[value / scale for value in side] for side in rerun.compared]
    middles = [float(np.median(side)) for side in sides]
    plot = Plot(_rounds(rerun), around(f"time per call, {unit}", [*sides[0], *sides[1]]))
    for number, (name, shape, colour) in enumerate(SIDES):
        side, other = rerun.sides[number], rerun.sides[1 - number]
        plot.line([(plot.x.low, middles[number]), (plot.x.high, middles[number])], colour=colour)
        for index, value in enumerate(sides[number]):
            flags = f" ({', '.join(side.flags[index].split())})" if side.flags[index] else ""
            # the earlier one of a pair stands at the left
            x = index + 1 + (-0.16 if side.began[index] <= other.began[index] else 0.16)
            title = f"round {index + 1}, {name}: {units.significant(value)} {unit}{flags}"
            plot.mark(Mark(x=x, y=value, shape=shape, colour=colour, title=title, is_hollow=bool(flags)))
    before, after = (units.seconds(middle * scale) for middle in middles)
    return plot.svg(f"{rerun.rounds} rounds a side; median {before} before and {after} after")


def _rounds(rerun: Rerun) -> Span:
    counts = tuple(count for count in (1, 2, 4, 8, 16, 32, 64) if count <= rerun.rounds < 8 * count)
    return Span(title="round", low=0.5, high=rerun.rounds + 0.5, at=counts)


def ratio_chart(rerun: Rerun) -> Markup:
    """Return the change after each round, and what the test said at each look. Empty for too few rounds."""
    if rerun.rounds < _FEWEST:
        return Markup("")
    *earlier, (before, after) = evidence.strata(rerun.sessions)
    # change, and the interval at the test's threshold, of the first rounds; logarithms
    running = {
        count: two_samples.stratified([*earlier, (before[:count], after[:count])], 1 - rerun.level)[:3]
        for count in range(_FEWEST, rerun.rounds + 1)
    }
    floors = [_percent(1 + rerun.floor), _percent(1 / (1 + rerun.floor))]
    bounds = [_percent(value) for look in rerun.looks for value in (look.least, look.most)]
    middles = [(count, 100 * math.expm1(middle)) for count, (middle, _, _) in running.items()]
    calm = [middle for count, middle in middles if count >= min(_CALM_FROM, rerun.rounds)]
    plot = Plot(_rounds(rerun), around(CHANGE, [0.0, *floors, *bounds, *calm]))
    ends = ((count, low, high) for count, (_, low, high) in running.items() if math.isfinite(low + high))
    plot.area([(count, 100 * math.expm1(low), 100 * math.expm1(high)) for count, low, high in ends], SIDES[0][2])
    plot.rule("", y=0.0)
    for floor in floors:
        plot.rule("dashed", y=floor)
    plot.line(middles, colour=SIDES[0][2])
    for look in rerun.looks:
        for low, high, css in ((look.least, look.most, ""), (look.low, look.high, "wide")):
            plot.line([(look.rounds, _percent(low)), (look.rounds, _percent(high))], css)
        words = f"after {look.rounds} rounds a side: {text.change(look.ratio)}, p {look.p:.2g}"
        plot.mark(Mark(x=look.rounds, y=_percent(look.ratio), shape="circle", colour=INK, title=words))
    label = "the change in time after each round"
    if rerun.looks:
        label += f"; at the end {text.change(rerun.looks[-1].ratio)}, p {rerun.looks[-1].p:.2g}"
    return plot.svg(label)


def _percent(ratio: float) -> float:
    return 100 * (ratio - 1)


def path_chart(path: BisectionPath, commits: Sequence[str]) -> Markup:
    """Return the changes that a bisection measured against GOOD: circles are fast, diamonds slow.

    Args:
        commits: from GOOD to BAD, oldest first.
    """
    positions = {sha: position for position, sha in enumerate(commits, start=1)}
    tried = {positions[step.commit]: step for step in path.tried if step.commit in positions and step.comparison.ratio}
    order = {position: str(number) for number, position in enumerate(tried, start=1)}
    changes = {position: _percent(step.comparison.ratio or 1.0) for position, step in tried.items()}
    x = Span(
        title="commits, numbered as measured",
        low=0.5,
        high=len(commits) + 0.5,
        at=tuple(order),
        words=lambda position: order[int(position)],
    )
    intervals = {
        position: (_percent(step.comparison.low), _percent(step.comparison.high))
        for position, step in tried.items()
        if step.comparison.low is not None and step.comparison.high is not None
    }
    ends = [end for interval in intervals.values() for end in interval if math.isfinite(end)]
    plot = Plot(x, around(CHANGE, [0.0, *changes.values(), *ends]))
    plot.rule("", y=0.0)
    for position, interval in intervals.items():
        plot.line([(position, end) for end in interval])
    looks = {1: STEPS[False]} | {position: STEPS[step.slow] for position, step in tried.items()}
    for position, (shape, colour) in looks.items():
        change = changes.get(position, 0.0)
        name = f"{commits[position - 1][:SHORT]} {text.change(1 + change / 100)}"
        plot.mark(Mark(x=position, y=change, shape=shape, colour=colour, title=name))
    return plot.svg("the commits from the good one to the bad one; the table below has the same")
