"""The charts of a comparison's page: the samples of each implementation, and the roofline plot of all.

Axes carry their unit. A caption says in text what a chart shows in numbers.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy.stats
from markupsafe import Markup
from scipy.stats import gaussian_kde

from kernel_velocity import units
from kernel_velocity.compare import text
from kernel_velocity.compare.result import Row, Timed
from kernel_velocity.harness.statistics import FloatArray
from kernel_velocity.roofline.model import Roofline, Roofs
from kernel_velocity.site.charts import roofline as roofline_plot
from kernel_velocity.site.charts.plot import MARKS, Mark, Plot, Span, around
from kernel_velocity.site.charts.roofline import GIGA
from kernel_velocity.stats.sample_shape import batches, correlogram

POINTS = 1500  # at most drawn of a series: evenly spaced ones of a longer one
FEWEST = 8  # samples that a distribution is drawn of
BEYOND = 99.5  # percentile where histogram and density end: one outlier would squeeze all others into a bin
BINS = 50
GRID = 160  # points of a density
DENSITY_SAMPLES = 5000  # a density of more takes seconds and looks the same

Drawn = tuple[str, Plot | None]  # the caption; without a plot it says why there is none


@dataclass(frozen=True)
class Chart:
    """A chart as the page shows it. Without a figure the caption says why there is none."""

    title: str
    caption: str
    figure: Markup | None


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


def _chart(title: str, caption: str, plot: Plot | None) -> Chart:
    return Chart(title, caption, None if plot is None else plot.svg(f"{title}: {caption}"))


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

    def centres(self, plot: Plot) -> str:
        """Draw mean (dashed) and median where they are on the axis, and return a caption with both."""
        mean, median = float(self.values.mean()), float(np.median(self.values))
        for value, css in ((mean, "dashed"), (median, "")):
            if value <= plot.x.high:
                plot.rule(css, x=value)
        return f"median {self.text(median)} (line), mean {self.text(mean)} (dashed)"


def _thinned(xs: FloatArray, ys: FloatArray) -> list[tuple[float, float]]:
    """Return at most POINTS evenly spaced points."""
    step = max(1, -(-xs.size // POINTS))
    return list(zip(xs[::step].tolist(), ys[::step].tolist(), strict=True))


def _histogram(samples: _Samples) -> Drawn:
    values, rest = samples.without_outliers()
    edges = np.histogram_bin_edges(values, bins="fd")
    heights, edges = np.histogram(values, bins=min(BINS, max(8, edges.size - 1)))
    x = around(f"time per call, {samples.unit}", edges.tolist())
    plot = Plot(x, around("samples", heights.tolist(), low=0))
    plot.bars(zip(edges[:-1].tolist(), edges[1:].tolist(), heights.tolist(), strict=True), samples.colour)
    return samples.centres(plot) + rest, plot


def _density(samples: _Samples) -> Drawn:
    values, rest = samples.without_outliers()
    if np.ptp(values) <= 1e-9 * abs(float(values.mean())):
        return "all samples are equal: the clock is too coarse for a density", None
    grid = np.linspace(float(values.min()), float(values.max()), GRID)
    density = gaussian_kde(values[:: -(-values.size // DENSITY_SAMPLES)])(grid)
    points = list(zip(grid.tolist(), density.tolist(), strict=True))
    x = around(f"time per call, {samples.unit}", grid.tolist())
    plot = Plot(x, around(f"share per {samples.unit}", density.tolist(), low=0))
    plot.area(points, samples.colour)
    plot.line(points, colour=samples.colour)
    return f"Gaussian kernels of Scott's width; {samples.centres(plot)}{rest}", plot


def _series(samples: _Samples) -> Drawn:
    count = samples.values.size
    x = Span(title="sample, in the order taken", low=0.5, high=count + 0.5)
    plot = Plot(x, around(f"time per call, {samples.unit}", samples.values.tolist()))
    plot.dots(_thinned(np.arange(1.0, count + 1), samples.values), samples.colour)
    end = 0
    for values, estimate in zip(samples.rounds, samples.estimates, strict=False):
        begin, end = end, end + values.size
        plot.line([(begin + 0.5, estimate), (end + 0.5, estimate)], "wide")
    counts = f"{units.count(count, 'sample')} of {units.count(len(samples.rounds), 'round')}"
    return f"{counts}; grey: the estimate of each round", plot


def _lag(samples: _Samples) -> Drawn:
    pairs = [np.stack([values[:-1], values[1:]]) for values in samples.rounds if values.size > 1]
    if not pairs:
        return "needs 2 samples in a round", None
    before, after = np.concatenate(pairs, axis=1)
    x = around(f"a sample, {samples.unit}", before.tolist())
    plot = Plot(x, around(f"the next, {samples.unit}", after.tolist()))
    plot.dots(_thinned(before, after), samples.colour)
    return "each sample against the one before it in its round: no shape, no memory", plot


def _autocorrelation(samples: _Samples) -> Drawn:
    lags, means = correlogram(samples.rounds)
    if not lags:
        return "needs rounds of at least 16 samples that are not all equal", None
    band = 1.96 / float(np.sqrt(samples.values.size))
    x = Span(title="lag, samples", low=0.5, high=max(lags) + 0.5)
    plot = Plot(x, around("autocorrelation", [-band, band, 0.0, *means]))
    plot.bars([(lag - 0.3, lag + 0.3, mean) for lag, mean in zip(lags, means, strict=True)], samples.colour)
    for bound in (-band, band):
        plot.rule("dashed", y=bound)
    first = f"mean over rounds; {means[0]:.2f} at lag 1"
    return f"{first}; dashed: 95% of independent samples within ±{band:.2f}", plot


def _lorenz(samples: _Samples) -> Drawn:
    held = np.concatenate([[0.0], np.cumsum(np.sort(samples.values))]) / samples.values.sum()
    gini = max(0.0, 1 - float((held[1:] + held[:-1]).mean()))  # equal samples: 0, however it was rounded
    population = np.linspace(0, 1, 101)
    share = np.interp(population, np.linspace(0, 1, held.size), held)
    x = Span(title="share of the samples, fastest first", low=0, high=1)
    plot = Plot(x, Span(title="share of the time", low=0, high=1))
    plot.line([(0, 0), (1, 1)], "dashed")
    plot.line(zip(population.tolist(), share.tolist(), strict=True), colour=samples.colour)
    return f"Gini coefficient {gini:.4f}; dashed: all samples equal", plot


def _least_squares(samples: _Samples) -> Drawn:
    counts, seconds = batches(samples.values)
    if len(set(counts)) < 3:
        return "needs 6 samples: batches of 1, 2 and 3", None
    fit = scipy.stats.linregress(counts, seconds)
    fitted = [(x, float(fit.intercept + fit.slope * x)) for x in (0.0, float(max(counts)))]
    y = around(f"time of the batch, {samples.unit}", [*seconds, *(value for _, value in fitted)])
    plot = Plot(around("samples in the batch", [0.0, max(counts)]), y)
    plot.line(fitted)
    plot.dots(zip(counts, seconds, strict=True), samples.colour, "large")
    slope = f"slope {samples.text(fit.slope)} ± {samples.text(fit.stderr)} per call, R² {fit.rvalue**2:.5f}"
    return f"{slope}, over {len(counts)} batches of {counts[0]} to {counts[-1]} samples in a row", plot


def _power(timed: Timed, colour: str) -> Drawn:
    times, watts = (list(column) for column in zip(*timed.power, strict=True))
    plot = Plot(around("time since the start, s", times), around("power, W", watts, low=0))
    plot.line(timed.power, colour=colour)
    plot.dots(timed.power, colour, "large")
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
    marks = dict(zip(dict.fromkeys(row.compared.problem for row, _ in placed), itertools.cycle(MARKS), strict=False))
    dots = [
        Mark(
            x=roofline.intensity,
            y=roofline.achieved / GIGA,
            shape=marks[row.compared.problem],
            colour=colours[row.timed.implementation],
            title=_title(row, roofline),
        )
        for row, roofline in placed
    ]
    plot = roofline_plot.draw(dots, replace(roofs, peaks=peaks), dtypes)
    return _chart("Roofline", _caption(roofs, peaks, marks), plot)


def _title(row: Row, roofline: Roofline) -> str:
    intensity = units.intensity(roofline.intensity, row.compared.dtype)
    figures = (text.rate(row), text.bandwidth(row), intensity, text.efficiency(row), f"bound by {text.bound(row)}")
    return f"{text.name(row)}: {', '.join(filter(None, figures))}"


def _caption(roofs: Roofs, peaks: Mapping[str, float], marks: Mapping[str, str]) -> str:
    unknown = [level.name for level in roofs.levels if level.bandwidth is None]
    parts = ["A point above DRAM's line took part of its data from a cache."]
    if len(marks) > 1:
        parts.append(f"Marks: {', '.join(f'{mark} {problem}' for problem, mark in marks.items())}.")
    if not peaks:
        parts.append("The peak rate was not measured: no level line.")
    if unknown:
        parts.append(f"Not measured: {', '.join(unknown)}.")
    return " ".join(parts)
