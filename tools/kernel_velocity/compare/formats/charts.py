"""The charts of a comparison's page: the samples of one implementation on one test case, each as a Bokeh document.

Axes carry their unit; what a chart shows in numbers stands in its caption, as text. No foreign text reaches Bokeh.
Neutral lines are of a grey that keeps a contrast of 3:1 on white and on near-black; axes are painted by the page.

The roofline plot of a comparison: FLOP/s over arithmetic intensity, both logarithmic, under the measured roofs.

Where no roofs are handed over, DRAM's slope and the peaks follow from what the rows' rooflines say of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from bokeh.embed import json_item
from bokeh.models import ColumnDataSource, HoverTool, Span
from bokeh.plotting import figure

from kernel_velocity import units
from kernel_velocity.compare.formats import figures
from kernel_velocity.compare.formats.figures import Row
from kernel_velocity.compare.result import Timed
from kernel_velocity.harness import statistics
from kernel_velocity.harness.statistics import FloatArray, Slope
from kernel_velocity.roofline.model import Level, Roofline, Roofs
from kernel_velocity.site.charts import roofline as roofline_plot
from kernel_velocity.site.charts.palette import NEUTRAL
from kernel_velocity.site.charts.roofline import GIGA
from kernel_velocity.stats.sample_shape import batches, correlogram

HEIGHT = 210  # px
POINTS = 1500  # drawn of a series at most: evenly spaced ones of a longer one
FEWEST = 8  # samples that a distribution is drawn of
BEYOND = 99.5  # percentile where histogram and density end: one outlier would squeeze all others into a bin
BINS = 50
GRID = 160  # points of a density
DENSITY_SAMPLES = 5000  # a density of more takes seconds and looks the same
POWER = "Power over time"

MARKS = ("circle", "square", "triangle", "diamond", "inverted_triangle", "star")  # one per problem, then from the start
DRAM = "DRAM"


@dataclass(frozen=True, kw_only=True)
class Chart:
    """A chart as the page embeds it; without a document the caption says why there is none."""

    title: str
    caption: str
    document: dict[str, Any] | None = None  # what Bokeh.embed.embed_item takes


def charts(timed: Timed, colour: str) -> tuple[Chart, ...]:
    """Return every chart of a row's samples; power over time only where there is any."""
    return tuple(chart(timed, title, colour) for title in TITLES if title != POWER or timed.power)


def chart(timed: Timed, title: str, colour: str) -> Chart:
    """Return one chart of a row's samples; `title` is one of TITLES.

    Raises:
        ValueError: power over time of a row that has none.
    """
    if title == POWER:
        return _power(timed, colour)
    return _CHARTS[title](_Samples.of(timed), colour)


@dataclass(frozen=True, kw_only=True)
class _Samples:
    """The samples in the unit they are drawn in, in the order taken."""

    rounds: tuple[FloatArray, ...]
    values: FloatArray
    estimates: tuple[float, ...]
    unit: str
    scale: float  # s

    @classmethod
    def of(cls, timed: Timed) -> _Samples:
        seconds = [np.asarray(one, dtype=np.float64) for one in timed.rounds if one]
        values = np.concatenate(seconds) if seconds else np.empty(0)
        unit = units.seconds(float(np.median(values))).split()[1] if values.size else "s"
        scale = units.parse(f"1 {unit}")
        return cls(
            rounds=tuple(one / scale for one in seconds),
            values=values / scale,
            estimates=tuple(each / scale for each in timed.estimates),
            unit=unit,
            scale=scale,
        )

    def text(self, value: float) -> str:
        return units.seconds(value * self.scale)

    @property
    def shown(self) -> FloatArray:
        """The samples up to BEYOND percent of them."""
        return self.values[self.values <= np.percentile(self.values, BEYOND)]


def _few(title: str, samples: _Samples, wanted: int = FEWEST) -> Chart | None:
    have = samples.values.size
    return None if have >= wanted else Chart(title=title, caption=f"needs {wanted} samples, have {have}")


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


def _done(title: str, caption: str, plot: figure) -> Chart:
    return Chart(title=title, caption=caption, document=dict(json_item(plot)))


def _thinned(values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the numbers, from 1, and the values of at most POINTS evenly spaced samples."""
    chosen = np.arange(0, values.size, max(1, -(-values.size // POINTS)))
    return np.asarray(chosen + 1, dtype=np.float64), values[chosen]


def _centres(plot: figure, samples: _Samples) -> str:
    """Draw mean (dashed) and median; return what the caption says of them."""
    mean, median = float(samples.values.mean()), float(np.median(samples.values))
    plot.add_layout(Span(location=mean, dimension="height", line_color=NEUTRAL, line_dash="dashed", line_width=2))
    plot.add_layout(Span(location=median, dimension="height", line_color=NEUTRAL, line_width=2))
    return f"median {samples.text(median)} (line), mean {samples.text(mean)} (dashed)"


def _cut(samples: _Samples) -> str:
    left_out = samples.values.size - samples.shown.size
    if not left_out:
        return ""
    longest = samples.text(float(samples.values.max()))
    return f"; {units.count(left_out, 'sample')} up to {longest} not drawn"


def _histogram(samples: _Samples, colour: str) -> Chart:
    title = "Histogram"
    if few := _few(title, samples):
        return few
    edges = np.histogram_bin_edges(samples.shown, bins="fd")
    heights, edges = np.histogram(samples.shown, bins=min(BINS, max(8, edges.size - 1)))
    plot = _plot(f"time per call, {samples.unit}", "samples")
    bars = {"top": heights, "bottom": 0, "left": edges[:-1], "right": edges[1:]}
    plot.quad(**bars, fill_color=colour, fill_alpha=0.7, line_color=None)
    plot.y_range.start = 0
    return _done(title, _centres(plot, samples) + _cut(samples), plot)


def _density(samples: _Samples, colour: str) -> Chart:
    title = "Density"
    if few := _few(title, samples):
        return few
    shown = samples.shown
    if np.ptp(shown) <= 1e-9 * abs(float(shown.mean())):
        return Chart(title=title, caption="all samples are equal: the clock is too coarse for a density")
    from scipy.stats import gaussian_kde  # noqa: PLC0415 - takes half a second, and a report draws no density

    kernel = gaussian_kde(shown[:: -(-shown.size // DENSITY_SAMPLES)])
    grid = np.linspace(float(shown.min()), float(shown.max()), GRID)
    plot = _plot(f"time per call, {samples.unit}", f"share per {samples.unit}")
    plot.varea(x=grid, y1=0, y2=kernel(grid), fill_color=colour, fill_alpha=0.25)
    plot.line(grid, kernel(grid), line_color=colour, line_width=2)
    plot.y_range.start = 0
    return _done(title, f"Gaussian kernels of Scott's width; {_centres(plot, samples)}{_cut(samples)}", plot)


def _series(samples: _Samples, colour: str) -> Chart:
    title = "Time series"
    if few := _few(title, samples, 2):
        return few
    plot = _plot("sample, in the order taken", f"time per call, {samples.unit}")
    plot.scatter(*_thinned(samples.values), size=3, fill_color=colour, line_color=None, fill_alpha=0.6)
    ends = np.cumsum([one.size for one in samples.rounds])[: len(samples.estimates)]
    begins = np.concatenate([[0], ends[:-1]])
    ys = list(samples.estimates[: ends.size])
    plot.segment(x0=begins + 0.5, y0=ys, x1=ends + 0.5, y1=ys, line_color=NEUTRAL, line_width=3)
    caption = f"{units.count(samples.values.size, 'sample')} of {units.count(len(samples.rounds), 'round')}"
    return _done(title, f"{caption}; grey: the estimate of each round", plot)


def _lag(samples: _Samples, colour: str) -> Chart:
    title = "Lag plot"
    pairs = [np.stack([one[:-1], one[1:]]) for one in samples.rounds if one.size > 1]
    if not pairs:
        return Chart(title=title, caption="needs 2 samples in a round")
    before, after = np.concatenate(pairs, axis=1)
    chosen = np.arange(0, before.size, max(1, -(-before.size // POINTS)))
    plot = _plot(f"a sample, {samples.unit}", f"the next, {samples.unit}")
    plot.scatter(before[chosen], after[chosen], size=3, fill_color=colour, line_color=None, fill_alpha=0.5)
    caption = "each sample against the one before it in its round: no shape, no memory"
    return _done(title, caption, plot)


def _autocorrelation(samples: _Samples, colour: str) -> Chart:
    title = "Autocorrelation"
    lags, means = correlogram(samples.rounds)
    if not lags:
        return Chart(title=title, caption="needs rounds of at least 16 samples that are not all equal")
    band = 1.96 / np.sqrt(sum(one.size for one in samples.rounds))
    bounds = (1.15 * min(-band, *means), 1.15 * max(band, *means))
    plot = _plot("lag, samples", "autocorrelation", y_range=bounds)
    plot.vbar(x=lags, top=means, width=0.6, fill_color=colour, line_color=None)
    for location in (-band, band):
        plot.add_layout(Span(location=location, dimension="width", line_color=NEUTRAL, line_dash="dashed"))
    caption = f"mean over rounds; {means[0]:.2f} at lag 1; dashed: 95% of independent samples within ±{band:.2f}"
    return _done(title, caption, plot)


def _lorenz(samples: _Samples, colour: str) -> Chart:
    title = "Lorenz curve"
    if few := _few(title, samples, 2):
        return few
    curve, gini = statistics.lorenz_curve(samples.values), statistics.gini(samples.values)
    plot = _plot("share of the samples, fastest first", "share of the time", x_range=(0, 1), y_range=(0, 1))
    plot.line([0, 1], [0, 1], line_color=NEUTRAL, line_dash="dashed")
    plot.line(list(curve.population), list(curve.share), line_color=colour, line_width=2)
    known = "" if gini.value is None else f"Gini coefficient {gini.value:.4f}; "
    return _done(title, f"{known}dashed: all samples equal", plot)


def _least_squares(samples: _Samples, colour: str) -> Chart:
    title = "Least-squares line"
    counts, seconds = batches(np.concatenate(samples.rounds) if samples.rounds else np.empty(0))
    if len(set(counts)) < 3:
        return Chart(title=title, caption="needs 6 samples: batches of 1, 2 and 3")
    slope = statistics.seconds_per_call(counts, seconds)
    plot = _plot("samples in the batch", f"time of the batch, {samples.unit}")
    plot.scatter(counts, seconds, size=5, fill_color=colour, line_color=None)
    ends = [0.0, float(max(counts))]
    fitted = [(slope.seconds_per_batch or 0.0) + (slope.seconds_per_call or 0.0) * x for x in ends]
    plot.line(ends, fitted, line_color=NEUTRAL, line_width=2)
    lengths = f"{len(counts)} batches of {counts[0]} to {counts[-1]} samples in a row"
    return _done(title, f"{_slope_in_words(samples, slope)}, over {lengths}", plot)


def _slope_in_words(samples: _Samples, slope: Slope) -> str:
    per_call = samples.text(slope.seconds_per_call or 0.0)
    error = "" if slope.error is None else f" ± {samples.text(slope.error)}"
    fit = "" if slope.r_squared is None else f", R² {slope.r_squared:.5f}"
    return f"slope {per_call}{error} per call{fit}"


def _power(timed: Timed, colour: str) -> Chart:
    if not timed.power:
        raise ValueError(f"{timed.implementation} has no power to draw")
    times, watts = (list(column) for column in zip(*timed.power, strict=True))
    plot = _plot("time since the start, s", "power, W")
    plot.line(times, watts, line_color=colour, line_width=2)
    plot.scatter(times, watts, size=4, fill_color=colour, line_color=None)
    plot.y_range.start = 0
    mean, most = float(np.mean(watts)), max(watts)
    return _done(POWER, f"mean {mean:.1f} W, highest {most:.1f} W, as the driver reports it", plot)


_CHARTS: Mapping[str, Callable[[_Samples, str], Chart]] = {
    "Histogram": _histogram,
    "Density": _density,
    "Time series": _series,
    "Lag plot": _lag,
    "Autocorrelation": _autocorrelation,
    "Lorenz curve": _lorenz,
    "Least-squares line": _least_squares,
}
TITLES = (*_CHARTS, POWER)


def roofline_chart(found: Sequence[Row], roofs: Roofs | None, colours: Mapping[str, str]) -> Chart | None:
    """Return the plot of all rows that have a roofline; None where none has."""
    placed = [(row, row.timed.roofline) for row in found if row.figures is not None and row.timed.roofline is not None]
    if not placed:
        return None
    roofs = roofs or roofs_of({_dtype(row, roofline): roofline for row, roofline in placed})
    dtypes = list(dict.fromkeys(_dtype(row, roofline) for row, roofline in placed))
    peaks = {dtype: peak for dtype in dtypes if (peak := roofs.peaks.get(dtype)) is not None}
    intensities, rates = zip(*((roofline.intensity, roofline.achieved) for _, roofline in placed), strict=True)
    plot = roofline_plot.axes(intensities, rates, roofs, peaks, dtypes)
    roofline_plot.draw_roofs(plot, roofs, peaks, dtypes)
    problems = list(dict.fromkeys(row.compared.problem for row, _ in placed))
    for row, roofline in placed:
        mark = MARKS[problems.index(row.compared.problem) % len(MARKS)]
        _draw_point(plot, row, roofline, colours[row.timed.implementation], mark)
    plot.add_tools(HoverTool(renderers=[each for each in plot.renderers if each.name == "point"], tooltips=_TOOLTIPS))
    return Chart(title="Roofline", caption=_caption(roofs, peaks, problems), document=dict(json_item(plot)))


def _dtype(row: Row, roofline: Roofline) -> str:
    """Return the dtype whose peak a row lies below."""
    return roofline.dtype or row.compared.dtype


def roofs_of(rooflines: Mapping[str, Roofline]) -> Roofs:
    """Return DRAM's slope and the dtypes' peaks as rooflines by dtype say them.

    What is attainable is the smaller of peak and slope * intensity; at the ridge they are equal.
    """
    bandwidth: float | None = None
    peaks: dict[str, float | None] = {}
    for dtype, each in rooflines.items():
        if each.bound == "memory" and each.intensity > 0:
            slope: float | None = each.attainable / each.intensity
        else:
            slope = None if not each.ridge else each.attainable / each.ridge
        bandwidth = bandwidth or slope
        peaks[dtype] = each.attainable if each.bound == "compute" else _product(each.ridge, slope)
    return Roofs(levels=(Level(name=DRAM, size=None, bandwidth=bandwidth),), peaks=peaks)


def _product(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one * other


_TOOLTIPS = [
    ("problem", "@problem"),
    ("test case", "@case"),
    ("implementation", "@implementation"),
    ("rate", "@rate"),
    ("bandwidth", "@bandwidth"),
    ("intensity", "@intensity"),
    ("efficiency", "@efficiency"),
    ("bound", "@bound"),
    ("memory", "@memory"),
]  # plain @column, never {safe}: names are data, and Bokeh sets these as text


def _draw_point(plot: figure, row: Row, roofline: Roofline, colour: str, mark: str) -> None:
    source = ColumnDataSource(
        {
            "x": [roofline.intensity],
            "y": [roofline.achieved / GIGA],
            "problem": [row.compared.problem],
            "case": [row.compared.case],
            "implementation": [row.timed.implementation],
            "rate": [figures.rate(row)],
            "bandwidth": [units.gigabytes(roofline.bandwidth / GIGA)],
            "intensity": [units.intensity(roofline.intensity, row.compared.dtype)],
            "efficiency": [figures.efficiency(row)],
            "bound": [figures.bound(row)],
            "memory": [figures.memory(row)],
        }
    )
    style = {"fill_color": colour, "line_color": colour, "fill_alpha": 0.75}
    plot.scatter("x", "y", source=source, size=10, marker=mark, name="point", **style)


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
