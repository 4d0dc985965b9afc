"""The figures of a finding's page as SVG: a re-run's rounds, how its ratio settled, a bisection. Pure.

Colours are the page's style. Shapes repeat what colours say.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
from markupsafe import Markup, escape

from kernel_velocity import units
from kernel_velocity.findings import evidence, text
from kernel_velocity.findings.evidence import Look, Path, Rerun
from kernel_velocity.results.git import SHORT
from kernel_velocity.site.charts.svg import Axis, band, element, figure, line, ticks, vertical
from kernel_velocity.stats import two_samples

WIDTH, HEIGHT = 420, 230  # a phone shows a figure almost as large
LEFT, RIGHT, TOP, BOTTOM = 58, WIDTH - 12, 12, HEIGHT - 34  # the ends of its axes
PATH_WIDTH, PATH_HEIGHT, PATH_EDGE = 840, 64, 16
_FEWEST = 2  # rounds a side that a running ratio is made from
_CALM_FROM = 4  # rounds a side from which the running ratio may stretch the axis: the first ones jump


def rounds_figure(rerun: Rerun) -> Markup:
    """Return every round of both sides in the order measured. Empty without rounds."""
    if not rerun.rounds:
        return Markup("")
    unit = units.seconds(float(np.median([*rerun.compared[0], *rerun.compared[1]]))).split(" ")[1]
    scale = units.parse(f"1 {unit}")
    sides = [[value / scale for value in side] for side in rerun.compared]
    x, y = _rounds_axis(rerun), vertical([*sides[0], *sides[1]], top=TOP, bottom=BOTTOM)
    middles = [float(np.median(side)) for side in sides]
    before, after = (units.seconds(middle * scale) for middle in middles)
    shapes = list(_axes(rerun, x, [(y(value), f"{value:,.6g} {unit}") for value in ticks(y.low, y.high)]))
    shapes += [_level(f"middle {side}", y(middle)) for side, middle in zip(("before", "after"), middles, strict=True)]
    for number, values in enumerate(sides):
        shapes += _dots(rerun, number, [(value, f"{units.significant(value)} {unit}") for value in values], x, y)
    label = f"{rerun.rounds} rounds a side; median {before} before and {after} after"
    return figure("", WIDTH, HEIGHT, label, shapes, title=False)


def _dots(rerun: Rerun, number: int, values: Sequence[tuple[float, str]], x: Axis, y: Axis) -> Iterator[Markup]:
    """Yield the rounds of a side: circles before, diamonds after. The earlier one of a pair stands at the left."""
    name, side, other = ("before", "after")[number], rerun.sides[number], rerun.sides[1 - number]
    for index, (value, words) in enumerate(values):
        cx, cy = x(index + 1 + (-0.16 if side.began[index] <= other.began[index] else 0.16)), y(value)
        flags = f" ({', '.join(side.flags[index].split())})" if side.flags[index] else ""
        css = f"{name} flagged" if flags else name
        title = element("title", escape(f"round {index + 1}, {name}: {words}{flags}"))
        if number == 0:
            yield element("circle", title, class_=css, cx=cx, cy=cy, r=4.5)
        else:
            turned = f"translate({cx} {cy}) rotate(45)"
            yield element("rect", title, class_=css, x=-4, y=-4, width=8, height=8, transform=turned)


def _rounds_axis(rerun: Rerun) -> Axis:
    return Axis(0.5, rerun.rounds + 0.5, LEFT, RIGHT)


def _axes(rerun: Rerun, x: Axis, y_ticks: Sequence[tuple[str, str]]) -> Iterator[Markup]:
    """Yield the marks of both axes: values along y, rounds along x."""
    for at, words in y_ticks:
        yield _level("grid", at)
        yield element("text", escape(words), class_="tick", x=LEFT - 6, y=at, dy=".32em", text_anchor="end")
    last = rerun.rounds
    for number in sorted({1, *(number for number in (2, 4, 8, 16, 32, 64) if number <= last), last}):
        is_near_end = number not in (1, last) and number > last * 0.9
        is_near_start = last > 8 and number in (2, 4) and number < last / 8
        if not is_near_end and not is_near_start:
            yield element("text", str(number), class_="tick", x=x(number), y=BOTTOM + 16, text_anchor="middle")
    yield element("text", "round", class_="tick", x=(LEFT + RIGHT) // 2, y=BOTTOM + 31, text_anchor="middle")


def _level(css: str, at: str) -> Markup:
    return element("line", class_=css, x1=LEFT, x2=RIGHT, y1=at, y2=at)


def ratio_figure(rerun: Rerun) -> Markup:
    """Return the ratio after each round, and what the test said at each look. Empty for too few rounds."""
    if rerun.rounds < _FEWEST:
        return Markup("")
    *earlier, (before, after) = evidence.strata(rerun.sessions)
    # change, and the interval at the test's threshold, of the first rounds; logarithms
    running = {
        count: two_samples.stratified([*earlier, (before[:count], after[:count])], 1 - rerun.level)[:3]
        for count in range(_FEWEST, rerun.rounds + 1)
    }
    floor = math.log1p(rerun.floor)
    bounds = [math.log(value) for look in rerun.looks for value in (look.least, look.most)]
    calm = [middle for count, (middle, _, _) in running.items() if count >= min(_CALM_FROM, rerun.rounds)]
    x, y = _rounds_axis(rerun), vertical([0.0, floor, -floor, *bounds, *calm], top=TOP, bottom=BOTTOM)
    finite = [(x(count), y(low), y(high)) for count, (_, low, high) in running.items() if math.isfinite(low + high)]
    shapes = [
        *_axes(rerun, x, _change_ticks(y)),
        *([band(finite)] if len(finite) > 1 else []),
        _level("zero", y(0.0)),
        *(_level("floor", y(value)) for value in (floor, -floor)),
        line(((x(count), y(middle)) for count, (middle, _, _) in running.items()), "running"),
        *(_look(look, x, y) for look in rerun.looks),
    ]
    label = "the change in time after each round"
    if rerun.looks:
        label += f"; at the end {text.change(rerun.looks[-1].ratio)}, p {rerun.looks[-1].p:.2g}"
    return figure("", WIDTH, HEIGHT, label, shapes, title=False)


def _look(look: Look, x: Axis, y: Axis) -> Markup:
    """Return the ratio at a look with its two intervals."""
    at = x(look.rounds)
    low, high, least, most = (y(math.log(value)) for value in (look.low, look.high, look.least, look.most))
    words = f"after {look.rounds} rounds a side: {text.change(look.ratio)}, p {look.p:.2g}"
    return element(
        "g",
        element("title", escape(words)),
        element("line", class_="wide", x1=at, x2=at, y1=least, y2=most),
        element("line", class_="narrow", x1=at, x2=at, y1=low, y2=high),
        element("circle", cx=at, cy=y(math.log(look.ratio)), r=4.5),
        class_="look",
    )


def _change_ticks(y: Axis) -> list[tuple[str, str]]:
    """Return ticks at round changes, %, of an axis of logarithms."""
    percents = ticks(100 * math.expm1(y.low), 100 * math.expm1(y.high))
    texts = {percent: f"{percent:+.4g}%".replace("+0%", "0%").replace("-0%", "0%") for percent in percents}
    return [(y(math.log1p(percent / 100)), words) for percent, words in texts.items() if percent > -100]


def path_figure(path: Path, commits: Sequence[str]) -> Markup:
    """Return the commits of a bisection from GOOD to BAD, oldest first: circles are fast, diamonds slow."""
    order = {step.commit: number for number, step in enumerate(path.tried, start=1)}
    verdicts = {step.commit: {True: "slow", False: "fast", None: "untold"}[step.slow] for step in path.tried}
    x = Axis(0, max(len(commits) - 1, 1), PATH_EDGE, PATH_WIDTH - PATH_EDGE)
    middle = 30
    shapes = [element("line", class_="grid", x1=PATH_EDGE, x2=PATH_WIDTH - PATH_EDGE, y1=middle, y2=middle)]
    for index, sha in enumerate(commits):
        verdict, at = "good" if sha == path.good else verdicts.get(sha, ""), x(index)
        if verdict == "slow":
            turned = f"translate({at} {middle}) rotate(45)"
            shape = element("rect", x=-7, y=-7, width=14, height=14, transform=turned)
        else:
            shape = element("circle", cx=at, cy=middle, r=7 if verdict else 3)
        children = [element("title", f"{sha[:SHORT]} {verdict}"), shape]
        if sha in order:
            children.append(element("text", str(order[sha]), class_="tick", x=at, y=56, text_anchor="middle"))
        shapes.append(element("g", *children, class_=f"step {verdict}"))
    label = "the commits from the good one to the bad one; the table below has the same"
    return figure("path", PATH_WIDTH, PATH_HEIGHT, label, shapes, title=False)
