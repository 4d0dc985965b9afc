"""The charts of a comparison's page: the samples of each implementation, and the roofline plot of all, by Bokeh.

Axes carry their unit. A caption says in text what a chart shows in numbers. No foreign text reaches Bokeh. Neutral
lines are of a grey that keeps a contrast of 3:1 on white and on near-black. The page's script paints the axes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.stats
from bokeh.embed import json_item
from bokeh.models import ColumnDataSource, HoverTool, Span
from bokeh.plotting import figure
from scipy.stats import gaussian_kde

from kernel_velocity import units
from kernel_velocity.compare import text
from kernel_velocity.compare.result import Row, Timed
from kernel_velocity.harness.statistics import FloatArray
from kernel_velocity.roofline.model import Roofs
from kernel_velocity.site.charts import roofline as roofline_plot
from kernel_velocity.site.charts.palette import NEUTRAL
from kernel_velocity.site.charts.roofline import GIGA
from kernel_velocity.stats.sample_shape import batches, correlogram

HEIGHT = 210  # px
POINTS = 1500  # at most drawn of a series: evenly spaced ones of a longer one
FEWEST = 8  # samples that a distribution is drawn of
BEYOND = 99.5  # percentile where histogram and density end: one outlier would squeeze all others into a bin
BINS = 50
GRID = 160  # points of a density
DENSITY_SAMPLES = 5000  # a density of more takes seconds and looks the same
MARKS = ("circle", "square", "triangle", "diamond", "inverted_triangle", "star")  # one per problem, then from the start

Drawn = tuple[str, figure | None]  # the caption; without a plot it says why there is none


@dataclass(frozen=True)
class Chart:
    """A chart as the page embeds it. `document` is for Bokeh.embed.embed_item. Without one the caption says why."""

    title: str
    caption: str
    document: dict[str, Any] | None


def charts(timed: Timed, colour: str) -> list[Chart]:
    """Return every chart of the samples of an implementation, and of its power where that was recorded."""
    samples = _Samples(timed, colour)
    count = samples.values.size
    drawn = {
        title: draw(samples) if count >= fewest else (f"needs {fewest} samples, have {count}", None)
        for title, (fewest, draw) in CHARTS.items()
    }
    drawn |= {"Power over time": _power(timed, colour)} if timed.power else {}
    return [_chart(title, caption, plot) for title, (caption, plot) in drawn.items()]


def _chart(title: str, caption: str, plot: figure | None) -> Chart:
    return Chart(title, caption, None if plot is None else dict(json_item(plot)))


class _Samples:
    """The samples in the order taken, in `unit`, which is `scale` s long."""

    def __init__(self, timed: Timed, colour: str) -> None:
        self.colour = colour
        seconds = [np.asarray(samples, dtype=np.float64) for samples in timed.rounds if samples]
        values = np.concatenate(seconds) if seconds else np.empty(0)
        self.unit = units.seconds(float(np.median(values))).split()[1] if values.size else "s"
        self.scale = units.parse(f"1 {self.unit}")
        self.rounds = [samples / self.scale for samples in seconds]
        self.values = values / self.scale
        self.estimates = [estimate / self.scale for estimate in timed.estimates]

    def text(self, value: float) -> str:
        return units.seconds(value * self.scale)

    def without_outliers(self) -> tuple[FloatArray, str]:
        """Return the samples up to percentile BEYOND, and a caption that mentions the rest."""
        values = self.values[self.values <= np.percentile(self.values, BEYOND)]
        rest = self.values.size - values.size
        longest = self.text(float(self.values.max()))
        return values, f"; {units.count(rest, 'sample')} up to {longest} not drawn" if rest else ""

    def centres(self, plot: figure) -> str:
        """Draw mean (dashed) and median, and return a caption with both."""
        mean, median = float(self.values.mean()), float(np.median(self.values))
        for location, dash in ((mean, "dashed"), (median, "solid")):
            style = {"line_color": NEUTRAL, "line_dash": dash, "line_width": 2}
            plot.add_layout(Span(location=location, dimension="height", **style))
        return f"median {self.text(median)} (line), mean {self.text(mean)} (dashed)"


def _plot(x: str, y: str, **more: Any) -> figure:
    plot = figure(
        height=HEIGHT,
        sizing_mode="stretch_width",
        tools="box_zoom,reset,save",
        toolbar_location=None,
        x_axis_label=x,
        y_axis_label=y,
        background_fill_alpha=0,
        border_fill_alpha=0,
        outline_line_color=None,
        min_border=4,
        **more,
    )
    for axis in (plot.xaxis, plot.yaxis):
        axis.minor_tick_line_color = None
        axis.ticker.desired_num_ticks = 5
    plot.xgrid.visible = False
    return plot


def _every(count: int) -> npt.NDArray[np.int64]:
    """Return the indices of at most POINTS evenly spaced samples of `count`."""
    return np.arange(0, count, max(1, -(-count // POINTS)))


def _histogram(samples: _Samples) -> Drawn:
    values, rest = samples.without_outliers()
    edges = np.histogram_bin_edges(values, bins="fd")
    heights, edges = np.histogram(values, bins=min(BINS, max(8, edges.size - 1)))
    plot = _plot(f"time per call, {samples.unit}", "samples")
    style = {"fill_color": samples.colour, "fill_alpha": 0.7, "line_color": None}
    plot.quad(top=heights, bottom=0, left=edges[:-1], right=edges[1:], **style)
    plot.y_range.start = 0
    return samples.centres(plot) + rest, plot


def _density(samples: _Samples) -> Drawn:
    values, rest = samples.without_outliers()
    if np.ptp(values) <= 1e-9 * abs(float(values.mean())):
        return "all samples are equal: the clock is too coarse for a density", None
    grid = np.linspace(float(values.min()), float(values.max()), GRID)
    density = gaussian_kde(values[:: -(-values.size // DENSITY_SAMPLES)])(grid)
    plot = _plot(f"time per call, {samples.unit}", f"share per {samples.unit}")
    plot.varea(x=grid, y1=0, y2=density, fill_color=samples.colour, fill_alpha=0.25)
    plot.line(grid, density, line_color=samples.colour, line_width=2)
    plot.y_range.start = 0
    return f"Gaussian kernels of Scott's width; {samples.centres(plot)}{rest}", plot


def _series(samples: _Samples) -> Drawn:
    plot = _plot("sample, in the order taken", f"time per call, {samples.unit}")
    drawn = _every(samples.values.size)
    style = {"fill_color": samples.colour, "line_color": None, "fill_alpha": 0.6}
    plot.scatter(drawn + 1.0, samples.values[drawn], size=3, **style)
    ends = np.cumsum([values.size for values in samples.rounds])[: len(samples.estimates)]
    begins = np.concatenate([[0], ends[:-1]])
    ys = samples.estimates[: ends.size]
    plot.segment(x0=begins + 0.5, y0=ys, x1=ends + 0.5, y1=ys, line_color=NEUTRAL, line_width=3)
    counts = f"{units.count(samples.values.size, 'sample')} of {units.count(len(samples.rounds), 'round')}"
    return f"{counts}; grey: the estimate of each round", plot


def _lag(samples: _Samples) -> Drawn:
    pairs = [np.stack([values[:-1], values[1:]]) for values in samples.rounds if values.size > 1]
    if not pairs:
        return "needs 2 samples in a round", None
    before, after = np.concatenate(pairs, axis=1)
    drawn = _every(before.size)
    plot = _plot(f"a sample, {samples.unit}", f"the next, {samples.unit}")
    style = {"fill_color": samples.colour, "line_color": None, "fill_alpha": 0.5}
    plot.scatter(before[drawn], after[drawn], size=3, **style)
    return "each sample against the one before it in its round: no shape, no memory", plot


def _autocorrelation(samples: _Samples) -> Drawn:
    lags, means = correlogram(samples.rounds)
    if not lags:
        return "needs rounds of at least 16 samples that are not all equal", None
    band = 1.96 / np.sqrt(samples.values.size)
    bounds = (1.15 * min(-band, *means), 1.15 * max(band, *means))
    plot = _plot("lag, samples", "autocorrelation", y_range=bounds)
    plot.vbar(x=lags, top=means, width=0.6, fill_color=samples.colour, line_color=None)
    for location in (-band, band):
        plot.add_layout(Span(location=location, dimension="width", line_color=NEUTRAL, line_dash="dashed"))
    first = f"mean over rounds; {means[0]:.2f} at lag 1"
    return f"{first}; dashed: 95% of independent samples within ±{band:.2f}", plot


def _lorenz(samples: _Samples) -> Drawn:
    held = np.concatenate([[0.0], np.cumsum(np.sort(samples.values))]) / samples.values.sum()
    gini = max(0.0, 1 - float((held[1:] + held[:-1]).mean()))  # equal samples: 0, however it was rounded
    population = np.linspace(0, 1, 101)
    share = np.interp(population, np.linspace(0, 1, held.size), held)
    plot = _plot("share of the samples, fastest first", "share of the time", x_range=(0, 1), y_range=(0, 1))
    plot.line([0, 1], [0, 1], line_color=NEUTRAL, line_dash="dashed")
    plot.line(population.tolist(), share.tolist(), line_color=samples.colour, line_width=2)
    return f"Gini coefficient {gini:.4f}; dashed: all samples equal", plot


def _least_squares(samples: _Samples) -> Drawn:
    counts, seconds = batches(samples.values)
    if len(set(counts)) < 3:
        return "needs 6 samples: batches of 1, 2 and 3", None
    fit = scipy.stats.linregress(counts, seconds)
    plot = _plot("samples in the batch", f"time of the batch, {samples.unit}")
    plot.scatter(counts, seconds, size=5, fill_color=samples.colour, line_color=None)
    ends = [0.0, float(max(counts))]
    plot.line(ends, [float(fit.intercept + fit.slope * x) for x in ends], line_color=NEUTRAL, line_width=2)
    slope = f"slope {samples.text(fit.slope)} ± {samples.text(fit.stderr)} per call, R² {fit.rvalue**2:.5f}"
    return f"{slope}, over {len(counts)} batches of {counts[0]} to {counts[-1]} samples in a row", plot


def _power(timed: Timed, colour: str) -> Drawn:
    times, watts = (list(column) for column in zip(*timed.power, strict=True))
    plot = _plot("time since the start, s", "power, W")
    plot.line(times, watts, line_color=colour, line_width=2)
    plot.scatter(times, watts, size=4, fill_color=colour, line_color=None)
    plot.y_range.start = 0
    return f"mean {np.mean(watts):.1f} W, highest {max(watts):.1f} W, as the driver reports it", plot


# Title -> the samples that it needs, and what draws it
CHARTS: Mapping[str, tuple[int, Callable[[_Samples], Drawn]]] = {
    "Histogram": (FEWEST, _histogram),
    "Density": (FEWEST, _density),
    "Time series": (2, _series),
    "Lag plot": (0, _lag),
    "Autocorrelation": (0, _autocorrelation),
    "Lorenz curve": (2, _lorenz),
    "Least-squares line": (0, _least_squares),
}


def roofline_chart(rows: Sequence[Row], roofs: Roofs | None, colours: Mapping[str, str]) -> Chart | None:
    """Return the plot of all rows that have a roofline, under the roofs that are known. None where no row has one."""
    placed = [(row, row.roofline) for row in rows if row.roofline is not None]
    if not placed:
        return None
    roofs = roofs or Roofs(levels=(), peaks={})
    dtypes = list(dict.fromkeys(roofline.dtype or row.compared.dtype for row, roofline in placed))
    peaks = {dtype: peak for dtype in dtypes if (peak := roofs.peaks.get(dtype)) is not None}
    problems = list(dict.fromkeys(row.compared.problem for row, _ in placed))
    intensities, rates = zip(*((roofline.intensity, roofline.achieved) for _, roofline in placed), strict=True)
    plot = roofline_plot.axes(intensities, rates, roofs, peaks, dtypes)
    roofline_plot.draw_roofs(plot, roofs, peaks, dtypes)
    points = [
        {
            "x": roofline.intensity,
            "y": roofline.achieved / GIGA,
            "colour": colours[row.timed.implementation],
            "mark": MARKS[problems.index(row.compared.problem) % len(MARKS)],
            "problem": row.compared.problem,
            "test case": row.compared.case,
            "implementation": row.timed.implementation,
            "rate": text.rate(row),
            "bandwidth": text.bandwidth(row),
            "intensity": units.intensity(roofline.intensity, row.compared.dtype),
            "efficiency": text.efficiency(row),
            "bound": text.bound(row),
            "memory": row.compared.memory or "–",
        }
        for row, roofline in placed
    ]
    source = ColumnDataSource({name: [point[name] for point in points] for name in points[0]})
    style = {"fill_color": "colour", "line_color": "colour", "fill_alpha": 0.75, "marker": "mark"}
    dots = plot.scatter("x", "y", source=source, size=10, name="points", **style)
    # Plain @{column}, never its form with :safe: names are data, and Bokeh sets these as text
    plot.add_tools(HoverTool(renderers=[dots], tooltips=[(name, f"@{{{name}}}") for name in list(points[0])[4:]]))
    return _chart("Roofline", _caption(roofs, peaks, problems), plot)


def _caption(roofs: Roofs, peaks: Mapping[str, float], problems: Sequence[str]) -> str:
    unknown = [level.name for level in roofs.levels if level.bandwidth is None]
    parts = ["A point above DRAM's line took part of its data from a cache."]
    if len(problems) > 1:
        marks = (f"{MARKS[index % len(MARKS)].replace('_', ' ')} {name}" for index, name in enumerate(problems))
        parts.append(f"Marks: {', '.join(marks)}.")
    if not peaks:
        parts.append("The peak rate was not measured: no level line.")
    if unknown:
        parts.append(f"Not measured: {', '.join(unknown)}.")
    return " ".join(parts)
