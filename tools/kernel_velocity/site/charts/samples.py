"""The charts of the samples of a measurement: their distribution, their course, and what they remember.

Axes carry their unit. A caption says in text what a chart shows in numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from kernel_velocity import units
from kernel_velocity.harness.statistics import FloatArray
from kernel_velocity.site.charts.plot import Plot, Span, around
from kernel_velocity.stats.speedup import correlogram

POINTS = 1500  # at most drawn of a series: evenly spaced ones of a longer one
FEWEST = 8  # samples of a histogram
BEYOND = 99.5  # percentile where a histogram ends: one outlier would squeeze all others into a bin
BINS = 50

Drawn = tuple[str, Plot | None]  # the caption; without a plot it says why there is none


@dataclass(frozen=True)
class Chart:
    """A chart as the page shows it. Without a figure the caption says why there is none."""

    title: str
    caption: str
    figure: Markup | None


def charts(rounds: Sequence[Sequence[float]], estimates: Sequence[float], colour: str) -> list[Chart]:
    """Return every chart of some samples, s.

    Args:
        rounds: the samples of each, in the order taken. estimates: of the rounds, s.
    """
    samples = _Samples(rounds, estimates, colour)
    count = samples.values.size
    drawn = {
        title: draw(samples) if count >= fewest else (f"needs {fewest} samples, have {count}", None)
        for title, (fewest, draw) in CHARTS.items()
    }
    return [chart(title, caption, plot) for title, (caption, plot) in drawn.items()]


def chart(title: str, caption: str, plot: Plot | None) -> Chart:
    """Return a plot as a chart."""
    return Chart(title, caption, None if plot is None else plot.svg(f"{title}: {caption}"))


class _Samples:
    """The samples in the order taken, in `unit`, which is `scale` s long."""

    def __init__(self, rounds: Sequence[Sequence[float]], estimates: Sequence[float], colour: str) -> None:
        self.colour = colour
        seconds = [np.asarray(samples, dtype=np.float64) for samples in rounds if len(samples)]
        values = np.concatenate(seconds) if seconds else np.empty(0)
        self.unit = units.seconds(float(np.median(values))).split()[1] if values.size else "s"
        self.scale = units.parse(f"1 {self.unit}")
        self.rounds = [samples / self.scale for samples in seconds]
        self.values = values / self.scale
        self.estimates = [estimate / self.scale for estimate in estimates]

    def text(self, value: float) -> str:
        return units.seconds(value * self.scale)


def _thinned(xs: FloatArray, ys: FloatArray) -> list[tuple[float, float]]:
    """Return at most POINTS evenly spaced points."""
    step = max(1, -(-xs.size // POINTS))
    return list(zip(xs[::step].tolist(), ys[::step].tolist(), strict=True))


def _histogram(samples: _Samples) -> Drawn:
    """Return the samples up to percentile BEYOND, with mean (dashed) and median where they are on the axis."""
    values = samples.values[samples.values <= np.percentile(samples.values, BEYOND)]
    edges = np.histogram_bin_edges(values, bins="fd")
    heights, edges = np.histogram(values, bins=min(BINS, max(8, edges.size - 1)))
    x = around(f"time per call, {samples.unit}", edges.tolist())
    plot = Plot(x, around("samples", heights.tolist(), low=0))
    plot.bars(zip(edges[:-1].tolist(), edges[1:].tolist(), heights.tolist(), strict=True), samples.colour)
    mean, median = float(samples.values.mean()), float(np.median(samples.values))
    for value, css in ((mean, "dashed"), (median, "")):
        if value <= plot.x.high:
            plot.rule(css, x=value)
    left, longest = samples.values.size - values.size, samples.text(float(samples.values.max()))
    rest = f"; {units.count(left, 'sample')} up to {longest} not drawn" if left else ""
    return f"median {samples.text(median)} (line), mean {samples.text(mean)} (dashed){rest}", plot


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


# Title -> the samples that it needs, and what draws it
CHARTS: Mapping[str, tuple[int, Callable[[_Samples], Drawn]]] = {
    "Histogram": (FEWEST, _histogram),
    "Time series": (2, _series),
    "Lag plot": (0, _lag),
    "Autocorrelation": (0, _autocorrelation),
}
